"""The features of linear attention: second moments of the context times the query.

notation: Z (L, D) tokens, z (p,) query, C = Z^T Z = sum_l z_l z_l^T, o outputs; heads V_h (o, D)
and Q_h (D, p); T (o, D, D, p) the tensor of the layer, symmetric in its two middle places.

    y_a = sum_h (V_h C Q_h z)_a = sum_{ijk} T_aijk C_ij z_k,
    T_aijk = sum_h (V_h,ai Q_h,jk + V_h,aj Q_h,ik)/2

C is symmetric, so the output depends on this half of sum_h V_h (x) Q_h only. The features are

    x_(ij)k = c_ij C_ij z_k,   i <= j,   c_ii = 1, c_ij = sqrt 2:   F = p D(D+1)/2 of them,

with the weights that make |coefficients| = |T|. The query is not a token of its own context.

Coordinates are scaled to size 1 by powers of two, without rounding: a token coordinate by s_i, a
query coordinate by t_k. The rounding error of a feature is relative to c_ij sqrt(C_ii C_jj) |z_k|,
also where C_ij cancels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["EPS", "Units", "coefficients_of", "cubic_features", "tensor_of", "units_of"]

EPS = float(np.finfo(np.float64).eps)
# of a block of contexts: the moments of 2000 contexts in 8 dimensions stay in the cache
BLOCK_NUMBERS = 1 << 17
MIN_UNIT = 1e-30  # the product of three units must not underflow


class Units(NamedTuple):
    """token (D,) and query (p,): powers of two, the size of each coordinate."""

    token: np.ndarray
    query: np.ndarray

    @property
    def features(self) -> np.ndarray:
        """(F,): a feature of the data is this times the balanced one."""
        first, second = np.triu_indices(len(self.token))
        pairs = self.token[first] * self.token[second]
        return (pairs[:, None] * self.query).ravel()


def units_of(tokens: np.ndarray, query: np.ndarray) -> Units:
    """Powers of two near the root mean square of every coordinate; 1 for one that is always 0."""
    return Units(
        _power_of_two_sizes(tokens.reshape(-1, tokens.shape[-1])), _power_of_two_sizes(query)
    )


def _power_of_two_sizes(x: np.ndarray) -> np.ndarray:
    size = np.sqrt(np.einsum("ni,ni->i", x, x) / len(x))
    return np.exp2(np.round(np.log2(np.where(size > 0, np.maximum(size, MIN_UNIT), 1.0))))


def cubic_features(
    tokens: np.ndarray, query: np.ndarray, units: Units, extra: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(F + extra, n) balanced features of tokens (n, L, D) and queries (n, p), the extra rows left
    for the caller; and (F,) the sizes that their rounding is relative to: root sums over contexts
    of c_ij sqrt(C_ii C_jj) |z_k|.
    """
    n, _, D = tokens.shape
    first, second = np.triu_indices(D)
    weight = np.where(first == second, 1.0, 2**0.5)[:, None]
    z = np.ascontiguousarray((query / units.query).T)  # (p, n)
    rows = np.empty((len(first) * len(z) + extra, n))
    out = rows[: len(first) * len(z)].reshape(len(first), len(z), n)
    squares = np.zeros((len(first), len(z)))
    step = max(1, BLOCK_NUMBERS // (tokens.shape[1] * D + D * D))
    for start in range(0, n, step):
        here = slice(start, start + step)
        scaled = tokens[here] / units.token
        C = np.matmul(scaled.transpose(0, 2, 1), scaled)
        # contexts last: every product below runs along memory
        by_entry = np.ascontiguousarray(C.reshape(len(C), D * D).T)
        np.multiply(
            (weight * by_entry[first * D + second])[:, None],
            z[None, :, here],
            out=out[:, :, here],
        )
        diagonal = by_entry[:: D + 1]
        squares += (diagonal[first] * diagonal[second]) @ (z[:, here] ** 2).T
    return rows, (weight * np.sqrt(squares)).ravel()


def tensor_of(coefficients: np.ndarray, dim: int) -> np.ndarray:
    """T (o, D, D, p) of coefficients (F, o)."""
    first, second = np.triu_indices(dim)
    parts = coefficients.T.reshape(coefficients.shape[1], len(first), -1)
    share = np.where(first == second, 1.0, 2**-0.5)[:, None] * parts
    T = np.empty((len(parts), dim, dim, parts.shape[2]))
    T[:, first, second] = share
    T[:, second, first] = share
    return T


def coefficients_of(tensor: np.ndarray) -> np.ndarray:
    """(F, o) coefficients of a tensor (o, D, D, p), made symmetric, because the output does not depend on the rest."""
    o, D = tensor.shape[:2]
    first, second = np.triu_indices(D)
    both = (tensor[:, first, second] + tensor[:, second, first]) / 2
    weight = np.where(first == second, 1.0, 2**0.5)[:, None]
    return (weight * both).reshape(o, -1).T
