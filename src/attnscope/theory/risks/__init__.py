"""Risks: a closed form or an integral for each predictor.

In reading order: `erf_risk`, `linear_risk`, `componentwise_risk` with `componentwise_gradient` (any
activation), `softmax_risk` with `softmax_integral`, `softmax_panels` and `softmax_profile` (many
points at one inverse temperature), `normalised_risk` with `normalised_gradient` (any positive
weights); other tasks `several_tokens_risk`, `correlated_risk`, `multi_head_risk` with
`distinct_heads`, `heads_quadrature`, `spiked`, `layer_norm`; classes `sign_error`.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
