"""Integrals, each with an error of its own.

In reading order: `quadrature`, `interpolation`, `piecewise` (rules on panels), `refined_panels` (a
user's function, refined until it is resolved, with `sigma_panels`); the integrals of the theory
`bayes_integral` with `log_sums`, `mellin` with `saddle_exponent`, `lognormal_sum`, `max_integral`,
`wishart`, `location_channel` with `location_table`, `random_code`, `code_posterior`; sampled means
that see rare events `one_token`, `tilted`, `log_mixture`.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
