"""Small matrices of many runs at once: row j of an array (rows, LANES) is one entry of LANES matrices.

notation: an n x n matrix takes n n rows, entry (a, b) in row a n + b; loops over lanes are innermost,
so that they vectorise. A run that is not finite stays so.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.numerics.compiled.fast_erf import FLAGS
from attnscope.numerics.compiled.fast_normal import chi_square_pair, normals
from attnscope.numerics.compiled.run_tiles import LANES

__all__ = ["cholesky", "clear", "dot", "wishart"]

Array = np.ndarray

# squared pivot, relative, below which a row counts as dependent on those above: 50 roundings; rows
# that come this close take inner products with a relative error of 1e-7 along
PIVOT = 1e-14


@njit(forceinline=True, **FLAGS)
def clear(x: Array, lanes: int) -> None:
    for j in range(x.shape[0]):
        for i in range(lanes):
            x[j, i] = 0.0


@njit(**FLAGS)
def cholesky(A: Array, G: Array, n: int, lanes: int) -> None:
    """Lower factor A of G (n n) >= 0, of which the lower triangle is read;
    a vanishing pivot leaves its column empty.
    """
    for a in range(n):
        for b in range(n):
            for i in range(lanes):
                A[a * n + b, i] = G[a * n + b, i] if b <= a else 0.0
    for b in range(n):
        for c in range(b):
            for a in range(b, n):
                for i in range(lanes):
                    A[a * n + b, i] -= A[a * n + c, i] * A[b * n + c, i]
        for i in range(lanes):
            pivot = A[b * n + b, i]
            # written so that NaN stays NaN
            gone = pivot <= PIVOT * G[b * n + b, i]
            A[b * n + b, i] = 0.0 if gone else math.sqrt(pivot)
        for a in range(b + 1, n):
            for i in range(lanes):
                pivot = A[b * n + b, i]
                A[a * n + b, i] = 0.0 if pivot == 0.0 else A[a * n + b, i] / pivot


@njit(forceinline=True, **FLAGS)
def dot(
    out: Array, to: int, x: Array, row: int, y: Array, column: int, n: int, lanes: int
) -> None:
    """Inner product of n rows of x and n rows of y."""
    for i in range(lanes):
        out[to, i] = x[row, i] * y[column, i]
    for j in range(1, n):
        for i in range(lanes):
            out[to, i] += x[row + j, i] * y[column + j, i]


@njit(**FLAGS)
def wishart(
    W: Array,
    L: Array,
    T: Array,
    z: Array,
    chi2: Array,
    g: Array,
    m: int,
    freedom: int,
    lanes: int,
) -> None:
    """W = (L T)(L T)^T, T Bartlett's lower factor of `freedom` degrees; T is overwritten."""
    for b in range(m):
        if b % 2 == 0:
            chi_square_pair(chi2, z, g, freedom - b, lanes)
        half = b % 2 * LANES
        for i in range(lanes):
            T[b * m + b, i] = math.sqrt(chi2[half + i])
        for a in range(b + 1, m):
            if (a - b) % 2 == 1:
                normals(z, g, lanes)
            half = (a - b + 1) % 2 * LANES
            for i in range(lanes):
                T[a * m + b, i] = z[half + i] if b < freedom else 0.0
    # T <- L T, from the last row on
    for a in range(m - 1, -1, -1):
        for b in range(a + 1):
            for i in range(lanes):
                T[a * m + b, i] *= L[a * m + a, i]
            for c in range(b, a):
                for i in range(lanes):
                    T[a * m + b, i] += L[a * m + c, i] * T[c * m + b, i]
    for a in range(m):
        for b in range(a + 1):
            for i in range(lanes):
                W[a * m + b, i] = 0.0
            for c in range(b + 1):
                for i in range(lanes):
                    W[a * m + b, i] += T[a * m + c, i] * T[b * m + c, i]
