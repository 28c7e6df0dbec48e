"""What tests share: settings, claims that take no time, cells for other processes, places,
tolerances.
"""
