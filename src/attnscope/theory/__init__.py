"""Exact theory: risks, gradients, optima, landscapes, with an error for every number.

In reading order: `overlaps`, `law`, `route` and `routes` (what is exactly known of which pair), `risk`,
`sign_error`, `monte_carlo`; the risks `erf_risk`, `linear_risk`, `componentwise_risk`,
`componentwise_gradient`, `softmax_risk`, `softmax_integral`, `softmax_trapezoid`, `softmax_panels`,
`softmax_moments`, `normalised_risk`, `normalised_gradient`, `several_tokens_risk`,
`correlated_risk`, `heads_risk`, `heads_quadrature`; optima and geometry `optimum`, `optimal_sigma`,
`linear_optimum`, `heads_minimum`, `landscape`, `sphere_hessian`, `oracle_saddle`, `spiked`,
`layer_norm`, `reference`, `words`; the exchangeable side `chernoff`, `two_topics`,
`representation`, `spectral`, `learning_curves`, `curve_sums`, `transfer`; samples `cramer_rao`,
`two_steps`. Imports `tasks` and `predictors`; imported by `dynamics` and everything above.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
