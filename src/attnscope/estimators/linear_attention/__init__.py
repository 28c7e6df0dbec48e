"""Linear attention with any number of heads, fitted by one least-squares solve.

In reading order: `cubic_features` (the features of the layer), `fit` (the optimum, the certificate
and predictions), `fewest_heads` (how many heads it takes).
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
