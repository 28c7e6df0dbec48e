"""The exchangeable side: how fast a latent is found, what attention converges to.

In reading order: `chernoff` with `two_topics`, `representation`, `spectral`, `learning_curves` with
`curve_sums`, `kernel_curve` with `kernel_spectra`, `shared_layer`, `transfer`, `retrieval`,
`newsvendor` (the regret of deciding by attention), `memory` (maps that drift).
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
