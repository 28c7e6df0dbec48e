"""Study files: `study` (TOML to sweep), `study_figure` (what it draws) and `functions` (what a
study may repeat).

Imports `dynamics`, `theory` and `sweeps`; imported by the command line.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
