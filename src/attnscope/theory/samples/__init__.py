"""The risk reached from n samples.

In reading order: `cramer_rao` (the limit of every estimator), `two_steps` (two gradient steps from
zero), and learning curves at n/d fixed: `curve` (the class of a curve), `learning_curve` (the
function that computes any of them), `bayes_curve` with `state_evolution`, `thresholds` (and the
inverse); ridge fits: `ridge_erm` with `ridge_setting`, `ridge_channel`, `ridge_nodes`,
`ridge_solver`, then `ridge_fixed_key` and `best_ridge`; `compared` compares curves.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
