"""The report: `build` (one page), `drawing`, `numbers`, `folder` (files), `environment`, `terminal` (the same in
text).

Imports `claims`; imported by `reproduction` and the command line.
"""
