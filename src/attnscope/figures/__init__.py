"""Figures as plain data, drawn twice: `marks` (lines, bands, points, maps in panels), `figure` (the
data as JSON and CSV), `render_matplotlib` (files; where legends and ticks go: `layout_matplotlib`,
names beside lines: `labels_matplotlib`), `render_plotly` (the explorer), `inline_svg` (elements of
a page); `outcomes` (runs drawn by how they ended); `check` (what could mislead; labels beside
lines: `check_labels`).

Imports nothing of the project but `errors` and `files`; every package may import it.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
