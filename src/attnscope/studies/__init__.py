"""Study files: `study` (TOML to sweep), `study_figure` (what it draws) and `functions` (what a
study may repeat).

Imports `dynamics`, `theory` and `sweeps`; imported by the command line.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
