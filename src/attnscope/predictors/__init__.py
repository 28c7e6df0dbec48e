"""Predictors: attention with one direction pair, several heads, full layers, operators on contexts, real blocks.

In reading order: `attention` (Softmax, Erf, LinearAttention, Componentwise, ...), `predictions`
(weights and outputs on tokens), `temperature` (constants and schedules), `heads`, `row_column`,
`full`; `operators`, `query_groups`, `kernels` and `kernel_systems` (softmax, linear and
conditional-mean attention on keys and values); `sequence_model`, `blocks` and `compared_models`
(trainable layers in JAX). Imports `numerics`; imported by `theory`, `dynamics` and everything
above, never by `tasks`.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
