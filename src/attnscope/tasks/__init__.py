"""Tasks: where tokens and labels come from, what the Bayes optimum is.

In reading order: `base` (the contract: projections, teachers), `sampled` (how tasks draw),
`planted` (key and value), `single_location` and its relatives `grid_location`, `random_length`,
`subset_tokens` and `multi_location` with `subset_draws` (its sampled risk), `max_location`,
`correlated_tokens` and `correlated_background`, `direction_tokens` and `multi_direction` with
`direction_moves` (its sampled risk), `spike_tokens` and `spike_mixture`, `marked_tokens` and
`sparse_tokens` (in these pairs the first has the tokens' law and posterior, the second the risks);
the exchangeable ones `gaussian_location`, `latent_map` and `linear_map`, `sphere_regression`,
`topics`, `positions`; `flat` (tasks from what people type). Imports `numerics`; imported by
`theory`, `dynamics` and everything above, never by `predictors`.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
