"""Exact theory: risks, gradients, optima, landscapes, with an error for every number.

In reading order: `overlaps`, `law`, `routes/` and `route` (what is known of which task and
predictor), `risk`, `monte_carlo`, `reference_risks`; `risks/` (a formula or an integral for each
predictor), `optima/` (best inverse temperatures, minima, saddles), `exchangeable/` (contexts that
grow), `positional_semantic/` (positions or meanings), `samples/` (learning from n samples). Imports
`tasks` and `predictors`; imported by `dynamics` and everything above. Risks of any planted task on
fixed nodes are in `nodes/`, with `jax_weights` and `loss_values`. `task_and_predictor` builds both
from the words of the command line; `task_files` reads tasks from files, `plugin_entries` finds
those of installed packages.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
