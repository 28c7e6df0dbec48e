"""Training as an exact low-dimensional process.

In reading order: `train` (the entry point), `setup`, `loop`, `outcome_table`, `trajectory_base`, `overlap_runs`,
`trajectory`, `heads` (several heads), `starts`, `schedule`, `diagnose`, `rates`, `saved`,
`experiments`, `gradient_flow`, `positional_sgd`, `message_passing` (from bags to key and value);
`engines/` (how a state advances), `networks/` (whole layers and blocks). Imports `theory`; imported
by `estimators` and above.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
