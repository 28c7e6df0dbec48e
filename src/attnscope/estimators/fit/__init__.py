"""How the model is fitted.

In reading order: `data`, `stream` (tokens, scaled), `screen`, `starts`, `basins` (where to begin), `em`, `mixture`, `attention`, `heads`
(one fit), `tracks`, `select` (which fit), `ridge`, `pooled`, `intervals`. Used by `estimators` alone.
"""
