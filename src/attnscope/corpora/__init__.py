"""Data from installed packages and from the machine itself; nothing is fetched at run time.

In reading order: `digits` (bags of digit images), `mil` (classical multiple-instance sets),
`sentences`, `text` (sentences whose label one word decides), `minilm` (token states of a small
language model), `rated_text` (tweets and sentences that people rated), `stored` (a few of them,
kept), `installed` (what is there, in a sentence). Imports `numerics`; imported by `claims`, the
explorer and the examples.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
