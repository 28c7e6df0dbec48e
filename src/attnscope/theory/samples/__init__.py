"""What n samples buy: `cramer_rao` (the limit of every estimator), `two_steps` (two
gradient steps from zero), and learning curves at n/d fixed: `curve` (what one is),
`learning_curve` (the door to all of them), `bayes_curve` with `state_evolution`,
`thresholds` (and the inverse); ridge fits: `ridge_erm` with `ridge_setting`, `ridge_channel`,
`ridge_nodes`, `ridge_solver`, then `ridge_fixed_key` and `best_ridge`;
`compared` puts curves side by side.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
