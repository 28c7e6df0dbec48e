"""How the model is fitted.

In reading order: `data`, `em_batches` (tokens, scaled), `long_bags`, `token_sample` (long bags),
`quick_em`, `starts`, `best_start` (the start), `em`, `mixture`, `attention`, `heads` (one fit),
`folds`, `held_out`, `evidence`, `rivals`, `stages` (which fit), `subspace`, `widths`,
`widened_start` (in how many directions), `clock` (how long), `ridge`, `pooled`, `instances`,
`summaries`, `forest`, `stacking`, `intervals`; `witness_law`, `witness`, `witness_space`,
`witness_waves`, `readings` (evidence for one class only).
Only `estimators` imports it.
"""
