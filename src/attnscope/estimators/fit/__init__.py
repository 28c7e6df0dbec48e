"""How the model is fitted.

In reading order: `data`, `em_batches`, `long_bags`, `token_sample` (tokens, scaled), `quick_em`,
`starts`, `best_start` (where to begin), `em`, `mixture`, `attention`, `heads` (one fit), `subspace` (in fewer
directions), `held_out`, `stages` (which fit), `ridge`, `pooled`, `intervals`. Used by `estimators`
alone.
"""
