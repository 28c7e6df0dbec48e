"""Data from installed packages and local files; nothing is downloaded at run time.

In reading order: `digits` (bags of digit images), `mil` (classical multiple-instance sets),
`sentences`, `text` (sentences in which one word decides the label), `minilm` (token states of a small
language model), `rated_text` (tweets and sentences that people rated), `stored_states` (stored token
states), `installed` (files of installed packages). Imports `numerics`; imported by `claims`, the
explorer and the examples.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
