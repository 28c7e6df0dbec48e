"""Tasks: the law of tokens and labels, and the Bayes optimum.

In reading order: `base` (the contract: projections, teachers), `sampling` (how tasks draw),
`planted/` (a few hidden directions determine the label), `exchangeable/` (a latent law of the whole context), `flat`
(tasks from flat arguments). Imports `numerics`; imported by `theory`, `dynamics` and everything
above, never by `predictors`.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
