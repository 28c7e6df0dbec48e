"""Tasks: where tokens and labels come from, what the Bayes optimum is.

In reading order: `base` (the contract: projections, teachers), `sampling` (how tasks draw),
`planted/` (a few directions decide), `exchangeable/` (a latent law of the whole context), `flat`
(tasks from what people type). Imports `numerics`; imported by `theory`, `dynamics` and everything
above, never by `predictors`.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
