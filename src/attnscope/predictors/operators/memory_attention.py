"""Memories as attention: the delta rule, gated linear attention, least squares that forgets.

notation: q query, k_t and v_t the L keys and values in the order of time, S (d_v, d_k) the memory,
g_t = decay (what is kept), e_t = step (how much is learnt), lam = ridge.

    gated_linear_attention    S_t = g_t S_{t-1} + scale v_t k_t^T
    delta_attention           S_t = g_t S_{t-1} + e_t (v_t - g_t S_{t-1} k_t) k_t^T
    recursive_least_squares   argmin_S sum_t g^(L-t) |v_t - S k_t|^2 + lam |S|^2

from S_0 = 0; the answer is S_L q. Test-time regression: each is an online regression of values on
keys. The delta rule is one gradient step of size e_t on |v_t - S k_t|^2 after forgetting, so its
new value corrects the old one at that key; linear attention adds without looking. Least squares
keeps the whole Gram matrix of the keys; with g = 1 and lam = noise^2/prior variance it is the
posterior mean of LinearMap.

The delta rule is stable where the maps I - e_t k_t k_t^T do not stretch: e_t |k_t|^2 <= 2. Now and
then a longer key does no harm. What is refused is growth: a memory that stretches some vector
MOST_GROWTH times over the context has lost the digits of its answer, and usually everything.

Cost: a few queries of a context are answered backwards in time by their weights on the tokens,
(2 d_k + d_v) multiplications a token and query; many, and queries after each token (`causal`), by
carrying S along, 2 d_k d_v or 3. Entries are read once: NaN and infinity are found in the answer,
which they always reach.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array
from attnscope.numerics.border.whole_values import array_of
from attnscope.predictors.operators.query_groups import (
    gathered,
    grouped_queries,
    score_blocks,
)

__all__ = ["delta_attention", "gated_linear_attention", "recursive_least_squares"]

Gate = Any  # a number, or an array (..., L): one for each token
# by then 6 of 16 digits are gone; stable memories stay below 100
MOST_GROWTH = 1e6
SINGULAR_SHARE = (
    1e-10  # singular values below this share of the largest are rounding: 6 digits are left
)


def delta_attention(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    step: Gate = 1.0,
    decay: Gate = 1.0,
    causal: bool = False,
) -> np.ndarray:
    """The (gated) delta rule: (..., d_v), the memory read after the last token.

    Args:
        query: (..., d_k).
        keys, values: (..., L, d_k) and (..., L, d_v), in the order of time.
        step: e >= 0, a number or one for each token, (..., L); unit keys: at most 2.
        decay: g in [0, 1], in the same form; 1 is the plain delta rule.
        causal: query is (..., L, d_k), and the answer (..., L, d_v) is read after each token.

    `best_gates` has the best step and decay for a map that drifts.

    >>> keys, values = np.eye(2)[[0, 1, 0]], np.array([[1.0], [2.0], [5.0]])
    >>> delta_attention(np.array([1.0, 1.0]), keys, values)                # 5 replaces 1
    array([7.])
    >>> delta_attention(keys, keys, values, step=0.5, causal=True)
    array([[0.5 ],
           [1.  ],
           [2.75]])
    """
    return _read_memory(query, keys, values, step, decay, causal, 1.0, "delta_attention")


def gated_linear_attention(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    decay: Gate = 1.0,
    scale: Gate = 1.0,
    causal: bool = False,
) -> np.ndarray:
    """sum_t scale_t (product of the later decays) (q.k_t) v_t: (..., d_v).

    Args:
        query: (..., d_k).
        keys, values: (..., L, d_k) and (..., L, d_v), in the order of time.
        decay: g in [0, 1], a number or one for each token, (..., L); 1 is linear attention.
        scale: a number or one for each token, (..., L).
        causal: query is (..., L, d_k), and the answer (..., L, d_v) is read after each token.

    >>> keys, values = np.eye(2)[[0, 1, 0]], np.array([[1.0], [2.0], [5.0]])
    >>> gated_linear_attention(np.array([1.0, 1.0]), keys, values, decay=0.5)
    array([6.25])
    """
    of = "gated_linear_attention"
    return _read_memory(query, keys, values, scale, decay, causal, 0.0, of)


def recursive_least_squares(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    decay: float = 1.0,
    ridge: float = 0.25,
) -> np.ndarray:
    """S q of the S that minimises sum_t decay^(L-t) |v_t - S k_t|^2 + ridge |S|^2: (..., d_v).

    Args:
        query: (..., d_k).
        keys, values: (..., L, d_k) and (..., L, d_v), in the order of time.
        decay: g in [0, 1]; a token of age n counts g^n.
        ridge: lam >= 0; with 0 the keys that still count must span the space.

    Solved anew from the singular values of the weighted keys: the recursion that gave it its name
    computes the same and loses digits on the way.

    >>> keys, values = np.eye(2)[[0, 1, 0]], np.array([[1.0], [2.0], [5.0]])
    >>> recursive_least_squares(np.array([1.0, 0.0]), keys, values, decay=0.5, ridge=0.0)
    array([4.2])
    """
    of = "recursive_least_squares"
    g = check.real(decay, "decay", of, 0, 1, hint="decay=0.97")
    lam = check.real(ridge, "ridge", of, 0)
    c = grouped_queries(query, keys, values, of)
    contexts, length, d = c.keys.shape
    out = np.zeros((*c.query.shape[:2], c.values.shape[2]))
    root = (g ** np.arange(length - 1, -1, -1.0))[:, None] ** 0.5
    for i, _ in score_blocks(contexts, d, length) if length and d else ():
        U, S, axes = np.linalg.svd(root * c.keys[i], full_matrices=False)
        if lam == 0 and (length < d or (S[..., -1] <= SINGULAR_SHARE * S[..., 0]).any()):
            must = "> 0 where the keys that still count do not span the space"
            raise bad("ridge", of, must, ridge, "ridge=noise**2 / prior_variance")
        shrunk = (S / (S**2 + lam))[..., None] * (U.swapaxes(-1, -2) @ (root * c.values[i]))
        out[i] = c.query[i] @ (axes.swapaxes(-1, -2) @ shrunk)
    return c.restore(out)


# -- both memories ---------------------------------------------------------------------------------


def _read_memory(
    query: Any,
    keys: Any,
    values: Any,
    step: Gate,
    decay: Gate,
    causal: bool,
    erase: float,
    of: str,
) -> np.ndarray:
    name = "step" if erase else "scale"
    e = _checked_gate(step, name, of, 0.0 if erase else -check.LARGEST, check.LARGEST)
    g = _checked_gate(decay, "decay", of, 0.0, 1.0)
    k = _real_array(keys, "keys", of, 2, "an array (..., L, d_k)")
    v = _real_array(values, "values", of, 2, "an array (..., L, d_v)")
    tail = "(..., L, d_k), one for each token" if causal else "(..., d_k)"
    q = _real_array(query, "query", of, 2 if causal else 1, f"an array {tail}")
    with np.errstate(over="ignore", invalid="ignore"):
        run = _after_each if causal else _after_the_last
        out, growth = run(q, k, v, (e, g), erase, of)
    if growth > MOST_GROWTH or not np.isfinite(out).all():
        _explain_entries(q, k, v, of)
        got = f"a memory that grows {growth:.1g} times" if growth == growth else "an overflow"
        hint = "step=1 / |k|**2, or less, and unit keys" if erase else "a smaller scale"
        must = "so small that the memory is stable, step * |k|**2 <= 2 for nearly all tokens"
        raise bad(name, of, must if erase else "small", got, hint)
    return out


def _after_the_last(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, gates: Any, erase: float, of: str
) -> tuple[np.ndarray, float]:
    from attnscope.numerics.compiled.memory_scan import read_back, written

    context = _context_axes(k, v, of)
    c = gathered(q, k, v, of)
    contexts, many, d = c.query.shape
    length, columns = c.values.shape[1:]
    out = np.zeros((contexts, many, columns))
    if not out.size or not length or not d:
        return c.restore(out), 1.0
    e, g = (_per_token(x, context, length, of) for x in gates)
    tokens = (np.ascontiguousarray(c.keys), np.ascontiguousarray(c.values), e, g)
    if columns > 1 and many * (2 * d + columns) <= 2 * d * columns:
        growth = read_back(np.ascontiguousarray(c.query), *tokens, erase, out)
        return c.restore(out), float(growth)
    growth = 1.0
    nothing = np.empty((0, d))
    for i in range(contexts):
        token = tuple(x[i % len(x)] for x in tokens)
        state = np.zeros((columns, d))
        bound = written(nothing, *token, erase, state, np.empty((0, columns)))
        growth = max(growth, _context_growth(bound, token))
        out[i] = c.query[i] @ state.T
    return c.restore(out), growth


def _after_each(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, gates: Any, erase: float, of: str
) -> tuple[np.ndarray, float]:
    from attnscope.numerics.compiled.memory_scan import written

    context = _context_axes(k, v, of)
    length, d = k.shape[-2:]
    columns = v.shape[-1]
    if q.shape[-2:] != (length, d):
        got = f"shape {q.shape}"
        raise bad("query", of, f"of shape (..., {length}, {d}) where causal", got)
    lead = _broadcast_axes((q.shape[:-2], context), of)
    out = np.zeros((*lead, length, columns))
    if not out.size or not d:
        return out, 1.0
    e, g = (_per_token(x, context, length, of) for x in gates)
    gates = [
        x if len(x) == 1 else _contiguous_array(x.reshape(*context, length), (*lead, length))
        for x in (e, g)
    ]
    rows = [
        _contiguous_array(x, (*lead, *x.shape[-2:])).reshape(-1, *x.shape[-2:])
        for x in (q, k, v, out)
    ]
    growth = 1.0
    state = np.empty((columns, d))
    for i, (asked, key, value, into) in enumerate(zip(*rows)):
        step, decay = (x.reshape(-1, length)[i % (x.size // length)] for x in gates)
        bound = written(asked, key, value, step, decay, erase, state, into)
        growth = max(growth, _context_growth(bound, (key, value, step, decay)))
    return out, growth


def _context_growth(bound: float, token: Any) -> float:
    """The growth of one context: its bound where that is enough, else measured."""
    if bound <= MOST_GROWTH or bound != bound:
        return float(bound)
    from attnscope.numerics.compiled.memory_scan import growth_of

    keys, _, step, decay = token
    probe = np.random.default_rng(0).standard_normal(keys.shape[1])
    return float(growth_of(keys, step, decay, probe / np.linalg.norm(probe)))


# -- the border ------------------------------------------------------------------------------------


def _real_array(x: Any, what: str, of: str, axes: int, hint: str) -> np.ndarray:
    """A real array of at least so many axes as float64, its entries not looked at."""
    a = array_of(x, what, of, hint)
    if a.dtype.kind not in "iuf" or a.ndim < axes:
        raise bad(what, of, hint, f"dtype {a.dtype}, shape {a.shape}")
    return a.astype(np.float64, copy=False)


def _checked_gate(x: Gate, what: str, of: str, low: float, high: float) -> np.ndarray:
    """A number, or an array (..., L), with entries in [low, high]."""
    hint = f"{what}=0.99" if high == 1 else f"{what}=0.5"
    if np.ndim(x) == 0:
        return np.array(check.real(x, what, of, low, high, hint=hint))
    a = context_array(x, what, of, (None,), "a number, or an array (..., L)")
    if a.size and not low <= float(a.min()) <= float(a.max()) <= high:
        must = f"in [{low:g}, {high:g}]" if high == 1 else f">= {low:g}"
        raise bad(what, of, must, f"entries from {a.min():g} to {a.max():g}", hint)
    return a


def _context_axes(k: np.ndarray, v: np.ndarray, of: str) -> tuple[int, ...]:
    return _broadcast_axes((k.shape[:-2], v.shape[:-2]), of)


def _broadcast_axes(shapes: tuple[tuple[int, ...], ...], of: str) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        got = ", ".join(map(str, shapes))
        must = "of shapes that broadcast"
        raise bad("leading axes of query, keys and values", of, must, got) from None


def _contiguous_array(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """x broadcast to the shape, contiguous; itself where it is that already."""
    return np.ascontiguousarray(x if x.shape == shape else np.broadcast_to(x, shape))


def _per_token(
    gate: np.ndarray, context: tuple[int, ...], length: int, of: str
) -> np.ndarray:
    """One number for each token of each context, (c, L); (1, L) where all contexts share them."""
    if gate.ndim < 2:
        context = ()
    try:
        whole = _contiguous_array(gate if gate.ndim else gate[None], (*context, length))
    except ValueError:
        must = f"a number or of a shape that broadcasts to (..., {length})"
        raise bad("step or decay", of, must, f"shape {gate.shape}") from None
    return whole.reshape(-1, length)


def _explain_entries(q: np.ndarray, k: np.ndarray, v: np.ndarray, of: str) -> None:
    """The sentence about the entries, where they are why there is no answer."""
    for x, what in ((q, "query"), (k, "keys"), (v, "values")):
        context_array(x, what, of, ())
