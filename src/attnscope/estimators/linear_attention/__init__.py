"""Linear attention of any number of heads, fitted by one least-squares solve.

In reading order: `cubic_features` (what the layer is linear in), `fit` (the optimum, the
certificate and predictions), `fewest_heads` (how many heads it takes).
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
