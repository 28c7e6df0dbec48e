"""Tasks with planted directions: tokens are Gaussian given a latent location.

In reading order: `planted` (a task from its definition) with `definition_checks` and `enumeration`
(Bayes' formula), `pair` (key and value), `single_location` and its relatives `grid_location`,
`random_length`, `max_location`, `multi_location` with `subset_tokens` (their law) and
`subset_draws` (its sampled risk), `correlated_background` with `correlated_tokens`; several
directions `multi_direction` with `direction_tokens` and `direction_moves`, `spike_mixture` with
`spike_tokens`; classes `sparse_tokens` with `marked_tokens`; two tokens and their positions
`positional_semantic`.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
