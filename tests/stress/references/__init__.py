"""Truth by other means: nothing in this folder imports attnscope (an import contract forbids
it).
"""
