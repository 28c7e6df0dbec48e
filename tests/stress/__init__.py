"""Stress tests: public functions against references written without the project, at settings drawn
over their whole range.

In reading order: `subject` (what is asked of one function), `draws` (settings and their corners),
`location_settings` (those of single-location regression with overlaps), `references/`
(mpmath, enumeration, plain sampling: may not import attnscope), `subjects/` (one file per family of
functions), `attack` (draws, calls, judges), `planted` (wrong numbers that must be caught).
`make stress` prints the result.
"""
