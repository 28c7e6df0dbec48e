"""The model on real bags of embeddings, as scikit-learn estimators.

In reading order: `parameters`, `sets` (intervals, and sets of classes and tokens), `per_token`,
`base` (common to both estimators), `regressor`, `class_weights`, `classifier`, `partial_fit`,
`plot_attention`, `diagnose`, `verdict`, `html_repr`, `compare_readings`, `finite_fit`,
`bag_transformers` (pipeline steps before the estimators), `intrinsic_dimension`; `model_file/`
(saved models), `bags/` (input forms), `fit/` (the numerical work), `tiles/` (attention maps on
grids), `linear_attention/` (the optimum over all heads; no bags). Imports `dynamics` and below;
imported by the command line, reports and the explorer.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
