"""The model on real bags of embeddings, as scikit-learn estimators.

In reading order: `face` (what both share), `regressor`, `classifier`, `bags`, `table_columns`,
`tables`, `table_output`, `dask_bags`, `streaming` (what bags may be), `diagnose`, `written`, `saved`, `guard`,
and `fit/` (the numerical work). Imports `dynamics` and below; imported by the command line, reports
and the explorer.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
