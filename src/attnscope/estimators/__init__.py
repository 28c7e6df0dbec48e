"""The model on real bags of embeddings, as scikit-learn estimators.

In reading order: `parameters`, `sets` (what is promised), `per_token`, `base` (what both share),
`regressor`, `class_weights`, `classifier`, `partial_fit`, `plot_attention`, `diagnose`, `verdict`,
`cards`, `both_readings`, `written`, `saved`, `saved_members`, `saved_first`, `guard`,
`bag_transformers` (steps before them in a pipeline), `intrinsic_dimension`; `bags/` (what bags may
be), `fit/` (the numerical work), `tiles/` (attention maps on grids), `linear_attention/` (the
optimum over all heads; no bags). Imports `dynamics` and below; imported by the command line,
reports and the explorer.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
