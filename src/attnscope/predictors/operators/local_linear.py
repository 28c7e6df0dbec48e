"""Local linear attention: softmax attention one order further.

notation: q query, k_l and v_l keys and values, h = bandwidth, lam = ridge, w_l = softmax(q.k_l/h).

    argmin_{c, B} sum_l w_l |v_l - c - B (k_l - q)|^2 + lam |B|^2,      the answer is c

Softmax attention is the same with B = 0: a local constant. With kbar, vbar the weighted means and
X the rows sqrt(w_l) (k_l - kbar), R the rows sqrt(w_l) (v_l - vbar),

    c = vbar + (q - kbar)^T (X^T X + lam I)^-1 X^T R,

by the singular values of X. With lam = 0 every linear map v = A k + b is reproduced exactly, at any
bandwidth and for any keys that span the space around q; softmax reproduces constants alone. Few
keys near q leave B undetermined: that is refused, a small ridge decides it.

On unit keys q.k is a function of distance; elsewhere long keys count more, as in softmax attention.
"""

from __future__ import annotations

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.operators.query_groups import grouped_queries, score_blocks

__all__ = ["local_linear_attention"]

# singular values below this share of the largest are rounding: the answer keeps 8 digits above
ROUNDED_SINGULAR_SHARE = 1e-8


def local_linear_attention(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    bandwidth: float = 0.2,
    ridge: float = 0.0,
) -> np.ndarray:
    """The intercept at the query of a linear fit with weights softmax(q.k/bandwidth):
    (..., d_v).

    Args:
        query: (..., d_k).
        keys, values: (..., L, d_k) and (..., L, d_v).
        bandwidth: h > 0, divides the scores.
        ridge: lam >= 0, pulls the slope to 0: softmax attention as it grows.

    >>> keys = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.6, 0.8]])
    >>> local_linear_attention(np.array([0.8, 0.6]), keys, keys @ [[1.0], [2.0]]).round(9)
    array([2.])
    """
    of = "local_linear_attention"
    h = check.real(bandwidth, "bandwidth", of, 0, strict=True)
    lam = check.real(ridge, "ridge", of, 0)
    c = grouped_queries(query, keys, values, of)
    contexts, many, d = c.query.shape
    length = c.keys.shape[1]
    out = np.zeros((contexts, many, c.values.shape[2]))
    # scores of (queries, L, d) arrays: a block holds d times as many numbers
    for i, j in score_blocks(contexts, many, length * max(d, 1)) if length else ():
        out[i, j] = _local_fit(c.query[i, j], c.keys[i], c.values[i], h, lam, of)
    return c.restore(out)


def _local_fit(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, h: float, lam: float, of: str
) -> np.ndarray:
    """(c, m, d_v) of q (c, m, d), k (c, L, d), v (c, L, d_v)."""
    scores = (q / h) @ k.swapaxes(1, 2)
    w = np.exp(scores - scores.max(axis=-1, keepdims=True))
    w /= w.sum(axis=-1, keepdims=True)
    # centred twice: the first mean is rounded like |k|, the second like the spread around q
    rough = w @ k
    apart = k[:, None] - rough[:, :, None]  # (c, m, L, d)
    shift = np.einsum("cml,cmld->cmd", w, apart)
    apart -= shift[:, :, None]
    mean = w @ v
    X = np.sqrt(w)[..., None] * apart
    U, S, axes = np.linalg.svd(X, full_matrices=False)
    if lam == 0 and (
        k.shape[1] <= k.shape[2] or (S[..., -1] <= ROUNDED_SINGULAR_SHARE * S[..., 0]).any()
    ):
        must = "> 0 where the keys near the query do not span the space"
        raise bad("ridge", of, must, lam, "ridge=1e-3, a larger bandwidth or more tokens")
    rest = np.sqrt(w)[..., None] * (v[:, None] - mean[:, :, None])
    total = S**2 + lam
    shrunk = S / np.where(total > 0, total, 1.0)
    away = (axes @ ((q - rough) - shift)[..., None])[..., 0]
    return mean + ((shrunk * away)[..., None, :] @ (U.swapaxes(-1, -2) @ rest))[..., 0, :]
