"""Attention as an operator on (query, keys, values).

In reading order: `context_attention` (softmax, conditional mean embedding, linear), `kernels` and
`kernel_systems` (what the second rests on), `decisions` (the action of least cost), `query_groups`
(queries that share a context), `memory_attention` (delta rule, gated linear, least squares that
forgets), `local_linear`.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
