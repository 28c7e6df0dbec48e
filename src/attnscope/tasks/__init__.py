"""Tasks: where tokens and labels come from, what the Bayes optimum is.

In reading order: `base` (the contract: projections, teachers), `sampling` (how tasks draw),
`planted/` (a few directions decide), `exchangeable/` (a latent law of the whole context), `flat`
(tasks from what people type). Imports `numerics`; imported by `theory`, `dynamics` and everything
above, never by `predictors`.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
