"""What n samples buy: `cramer_rao` (the limit of every estimator), `two_steps` (two
gradient steps from zero), and learning curves at n/d fixed: `curve` (what one is),
`learning_curve` (the door to all of them), `bayes_curve` with `state_evolution`,
`thresholds` (and the inverse).
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
