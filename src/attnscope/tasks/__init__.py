"""Tasks: where tokens and labels come from, what the Bayes optimum is.

In reading order: `base` (the contract: projections, teachers), `sampled` (how tasks draw),
`planted` (key and value), `single_location` and its relatives `grid_location`, `random_length`,
`multi_location`, `subset_draws` (its sampled risk), `max_location`, `correlated_background`,
`multi_direction`, `direction_moves`, `spike_mixture`, `sparse_tokens`; the exchangeable ones
`gaussian_location`, `linear_map`, `sphere_regression`, `topics`, `positions`; `flat` (tasks from
what people type). Imports `numerics`; imported by `theory`, `dynamics` and everything above, never
by `predictors`.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
