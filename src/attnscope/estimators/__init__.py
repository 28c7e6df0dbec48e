"""The model on real bags of embeddings, as scikit-learn estimators.

In reading order: `parameters`, `sets` (what is promised), `per_token`, `base` (what both share),
`regressor`, `class_weights`, `classifier`, `partial_fit`, `plot_attention`, `diagnose`, `verdict`,
`html_repr`, `compare_readings`, `write`, `read`, `members`, `v1`, `finite_fit`,
`bag_transformers` (steps before them in a pipeline), `intrinsic_dimension`; `bags/` (what bags may
be), `fit/` (the numerical work), `tiles/` (attention maps on grids), `linear_attention/` (the
optimum over all heads; no bags). Imports `dynamics` and below; imported by the command line,
reports and the explorer.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
