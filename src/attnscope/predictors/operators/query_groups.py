"""Queries gathered by their context, and worked on in blocks of a few megabytes of scores.

Leading axes of queries, keys and values broadcast; a context shared by many queries is worked on
once, and `restore` undoes the gathering. notation: d_k, d_v dimensions of keys and values, L the
length of a context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border.context_arrays import context_array

__all__ = ["GroupedQueries", "gathered", "grouped_queries", "score_blocks", "score_rows"]

BLOCK_SCORES = 1 << 20  # scores held at a time: 8 MB


class GroupedQueries(NamedTuple):
    """query (c, m, d_k): m queries for each of c contexts; keys (c, L, d_k), values (c, L, d_v);
    restore undoes the grouping.
    """

    query: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    restore: Callable[[np.ndarray], np.ndarray]


def score_blocks(contexts: int, queries: int, length: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of contexts and queries with at most about BLOCK_SCORES scores each."""
    if queries * length <= BLOCK_SCORES:
        step = max(1, BLOCK_SCORES // max(queries * length, 1))
        yield from ((slice(i, i + step), slice(None)) for i in range(0, contexts, step))
    else:
        yield from (
            (slice(i, i + 1), j) for i in range(contexts) for j in score_rows(queries, length)
        )


def score_rows(queries: int, length: int) -> Iterator[slice]:
    step = max(1, BLOCK_SCORES // max(length, 1))
    return (slice(j, j + step) for j in range(0, queries, step))


def grouped_queries(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray, of: str
) -> GroupedQueries:
    """Check, broadcast the leading axes, and gather the queries of each context."""
    k = context_array(keys, "keys", of, (None, None), "an array (..., L, d_k)")
    q = context_array(query, "query", of, (None,), "an array (..., d_k)")
    v = context_array(values, "values", of, (None, None), "an array (..., L, d_v)")
    return gathered(q, k, v, of)


def gathered(q: np.ndarray, k: np.ndarray, v: np.ndarray, of: str) -> GroupedQueries:
    """The same of arrays whose entries are known to be numbers."""
    if q.shape[-1] != k.shape[-1]:
        raise bad(
            "query",
            of,
            f"of the keys' dimension {k.shape[-1]}",
            f"dimension {q.shape[-1]}",
            "projecting both to one space",
        )
    if v.shape[-2] != k.shape[-2]:
        raise bad(
            "values",
            of,
            f"one for each of the {k.shape[-2]} keys",
            f"{v.shape[-2]} values",
            "an array (..., L, d_v)",
        )
    try:
        context = np.broadcast_shapes(k.shape[:-2], v.shape[:-2])
        lead = np.broadcast_shapes(q.shape[:-1], context)
    except ValueError:
        got = f"{q.shape[:-1]}, {k.shape[:-2]}, {v.shape[:-2]}"
        raise bad(
            "leading axes of query, keys and values", of, "of shapes that broadcast", got
        ) from None
    context = (1,) * (len(lead) - len(context)) + context
    own = [i for i, size in enumerate(context) if size != 1]
    # axes with one context hold its queries: last
    order = own + [i for i, size in enumerate(context) if size == 1]
    count = int(np.prod([context[i] for i in own]))
    number = int(np.prod([lead[i] for i in order[len(own) :]]))
    grouped = (
        np.broadcast_to(q, (*lead, q.shape[-1]))
        .transpose(*order, len(lead))
        .reshape(count, number, q.shape[-1])
    )

    def flat(a: np.ndarray) -> np.ndarray:
        own_shape = a.shape[-2:]
        if (
            a.shape[:-2] != context
        ):  # else it stays writable: compiled loops tell the two apart
            a = np.broadcast_to(a, (*context, *own_shape))
        return a.reshape(count, *own_shape)

    def restore(out: np.ndarray) -> np.ndarray:
        shaped = out.reshape(*(lead[i] for i in order), out.shape[-1])
        return shaped.transpose(*np.argsort(np.array(order, dtype=int)), len(lead))

    return GroupedQueries(grouped, flat(k), flat(v), restore)
