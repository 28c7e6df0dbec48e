"""Study files: `study` (TOML to sweep) and `functions` (what a study may repeat).

Imports `dynamics`, `theory` and `sweeps`; imported by the command line.
"""
