"""Attention weights and predictions in 40 digits, straight from the definition.

notation: u_l = x_l.k, lam = inverse temperature, h(x) = e^x (softmax, softmax-1) or log(1 + e^x)
(softplus), a_l = weight of token l.

    weights     a_l = h(lam u_l)/(sink + sum_m h(lam u_m)), or sigma(lam u_l)
    row-column  weights within rows, then over the rows' pooled scores sum_j a_ij lam u_ij (plus the
    rows' entropies)
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np

__all__ = ["grid_weights", "joint_softmax", "one_head", "softmax_rows", "token_weights"]

DIGITS = 40  # scores up to 1e8 lose 8 of them

# -- weights ---------------------------------------------------------------------------------------


def token_weights(kind: str, scores: list[Any], real: list[bool]) -> list[Any]:
    """Weights of tokens with scores lam u (numbers of mpmath); masked tokens get 0. kind: softmax,
    softmax-1, softplus, erf, linear.
    """
    if kind == "erf":
        return [
            mp.erf(x) if there else mp.mpf(0) for x, there in zip(scores, real, strict=True)
        ]
    if kind == "linear":
        return [x if there else mp.mpf(0) for x, there in zip(scores, real, strict=True)]
    top = max([x for x, there in zip(scores, real, strict=True) if there] + [mp.mpf(0)])
    logs = [mp.log(mp.log1p(mp.exp(x))) if kind == "softplus" else x for x in scores]
    raw = [
        mp.exp(x - top) if there else mp.mpf(0) for x, there in zip(logs, real, strict=True)
    ]
    total = sum(raw) + (mp.exp(-top) if kind == "softmax-1" else 0)
    return [x / total for x in raw]


def one_head(
    kind: str, lam: float, key: np.ndarray, tokens: np.ndarray, real: np.ndarray
) -> np.ndarray:
    """Weights (L,) of one sequence (L, d)."""
    with mp.workdps(DIGITS):
        scores = [mp.mpf(lam) * _dot(row, key) for row in tokens]
        return np.array(
            [float(a) for a in token_weights(kind, scores, [bool(x) for x in real])]
        )


def joint_softmax(
    lam: float,
    keys: np.ndarray,
    bias: np.ndarray,
    curvature: float,
    tokens: np.ndarray,
    real: np.ndarray,
) -> np.ndarray:
    """Weights (H, L): one softmax over heads and tokens of lam x.k_h + bias_h - curvature
    |x|^2/2.
    """
    with mp.workdps(DIGITS):
        scores = []
        for key, b in zip(keys, bias, strict=True):
            for row in tokens:
                bent = mp.mpf(curvature) * _dot(row, row) / 2
                scores.append(mp.mpf(lam) * _dot(row, key) + mp.mpf(float(b)) - bent)
        there = [bool(x) for x in np.tile(real, len(keys))]
        found = token_weights("softmax", scores, there)
        return np.array([float(a) for a in found]).reshape(len(keys), len(tokens))


def grid_weights(
    kind: str, scores: np.ndarray, rows: int, columns: int, entropy: bool
) -> np.ndarray:
    """Weights (rows * columns,): attention within rows, then over rows with pooled scores."""
    with mp.workdps(DIGITS):
        grid = [[mp.mpf(float(x)) for x in row] for row in scores.reshape(rows, columns)]
        inner = [token_weights(kind, row, [True] * columns) for row in grid]
        pooled = [mp.fdot(a, s) for a, s in zip(inner, grid, strict=True)]
        if entropy:
            pooled = [
                x - sum(a * mp.log(a) for a in row if a > 0)
                for x, row in zip(pooled, inner, strict=True)
            ]
        outer = token_weights(kind, pooled, [True] * rows)
        return np.array(
            [float(b * a) for b, row in zip(outer, inner, strict=True) for a in row]
        )


def softmax_rows(
    queries: np.ndarray, keys: np.ndarray, values: np.ndarray, lam: float
) -> np.ndarray:
    """softmax(lam queries keys^T) values, (n, o), for projected tokens queries (n, p), keys (L, p),
    values (L, o).
    """
    with mp.workdps(DIGITS):
        out = []
        for q in queries:
            weights = token_weights(
                "softmax", [mp.mpf(lam) * _dot(q, k) for k in keys], [True] * len(keys)
            )
            out.append(
                [
                    float(mp.fdot(weights, [mp.mpf(float(x)) for x in column]))
                    for column in values.T
                ]
            )
        return np.array(out)


def _dot(a: np.ndarray, b: np.ndarray) -> Any:
    return mp.fdot((mp.mpf(float(x)), mp.mpf(float(y))) for x, y in zip(a, b, strict=True))
