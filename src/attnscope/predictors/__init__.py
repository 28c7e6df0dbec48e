"""Predictors: attention with one direction pair, several heads, full layers, real blocks.

In reading order: `attention` (Softmax, Erf, LinearAttention, Componentwise, ...),
`inverse_temperature` (constants and schedules), `predictions` (what they say of tokens), `heads`,
`row_column`, `full_attention`; `operators/` (attention on queries, keys and values); `blocks/`
(trainable models in JAX). Imports `numerics`; imported by
`theory`, `dynamics` and everything above, never by `tasks`.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
