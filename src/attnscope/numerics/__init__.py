"""The arithmetic under everything: checks at the border, numbers with errors, integrals, compiled loops.

In reading order: `validation` and `estimate` (the public border: what comes in is checked, what
goes out has an error), `x64` (float64 without global state), `quadrature`, `interpolation`, `sigma_panels`, `resolved`,
`piecewise` (one-dimensional rules), `bayes_integral`, `log_sums`, `mellin`, `saddle_exponent`,
`lognormal_sum`, `max_integral`, `wishart`, `subsets` (the integrals and sums of the theory),
`one_token`, `tilted`, `log_mixture`, `sampled_estimate` (sampled means that see rare events),
`semidefinite`, then the compiled loops `contexts`, `bag_losses`, `data_pass`, `fast_erf`,
`fast_normal`, `lanes`, `cosines`. Imports nothing of the project but `errors`; every room may
import it.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
