"""Exact theory: risks, gradients, optima, landscapes, with an error for every number.

In reading order: `overlaps`, `law`, `route_rows`, `routes` and `route` (what is known of which
pair), `risk`, `monte_carlo`, `risk_table`, `risk_rows`, `words`; `risks/` (a formula or an integral
for each predictor), `optima/` (best temperatures, minima, saddles), `exchangeable/` (contexts that
grow), `positional_semantic/` (positions or meanings), `samples/` (what n samples buy). Imports
`tasks` and `predictors`; imported by `dynamics` and everything above. Risks of any planted task on
fixed nodes are `nodes/`, with `jax_weights` and `loss_values`; `task_files` reads tasks from files,
`packed_words` those of installed packages.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
