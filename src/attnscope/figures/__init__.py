"""Figures as plain data, drawn twice: `figure` (the data), `render_matplotlib` (files),
`render_plotly` (the explorer).

Imports nothing of the project but `errors`; every room may import it.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
