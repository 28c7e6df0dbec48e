"""Small matrices of many runs at once: LANES matrices side by side.

notation: a matrix with c columns is a flat array, entry (a, b) the LANES numbers from (a c + b)
LANES on. Loops over lanes are innermost, each over slices of its arrays, so that they vectorise. A
run that is not finite stays so.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.numerics.compiled.fast_normal import chi_square_pair, normals
from attnscope.numerics.compiled.numba_flags import FUSED_FLAGS
from attnscope.numerics.compiled.run_tiles import LANES

__all__ = ["add_dot", "cholesky", "wishart"]

Array = np.ndarray

# relative squared pivot below which a row counts as dependent on those above: 50 roundings; rows that
# are this close have inner products with a relative error of 1e-7
DEPENDENT_ROW_PIVOT = 1e-14


@njit(forceinline=True, **FUSED_FLAGS)
def add_dot(to: Array, x: Array, y: Array, n: int, sign: float, lanes: int) -> None:
    """to + sign times the inner product of two rows of n entries: six terms at a time, for a loop
    over lanes costs as much to begin, then two, then one.
    """
    j = 0
    while n - j >= 6:
        a = x[j * LANES :]
        b = y[j * LANES :]
        for i in range(lanes):
            first = a[i] * b[i] + a[LANES + i] * b[LANES + i]
            second = a[2 * LANES + i] * b[2 * LANES + i] + a[3 * LANES + i] * b[3 * LANES + i]
            third = a[4 * LANES + i] * b[4 * LANES + i] + a[5 * LANES + i] * b[5 * LANES + i]
            to[i] += sign * (first + second + third)
        j += 6
    while n - j >= 2:
        a = x[j * LANES :]
        b = y[j * LANES :]
        for i in range(lanes):
            to[i] += sign * (a[i] * b[i] + a[LANES + i] * b[LANES + i])
        j += 2
    if n > j:
        a = x[j * LANES :]
        b = y[j * LANES :]
        for i in range(lanes):
            to[i] += sign * a[i] * b[i]


@njit(**FUSED_FLAGS)
def cholesky(A: Array, G: Array, n: int, lanes: int) -> None:
    """Lower factor A of G (n, n) >= 0, of which the lower triangle is read;
    a vanishing pivot leaves its column empty.
    """
    width = n * LANES
    for j in range(n * width):
        A[j] = 0.0
    for b in range(n):
        corner = A[b * width + b * LANES :]
        top = G[b * width + b * LANES :]
        for a in range(b, n):
            to = A[a * width + b * LANES :]
            of = G[a * width + b * LANES :]
            for i in range(lanes):
                to[i] = of[i]
            add_dot(to, A[a * width :], A[b * width :], b, -1.0, lanes)
        for i in range(lanes):
            # written so that NaN stays NaN
            gone = corner[i] <= DEPENDENT_ROW_PIVOT * top[i]
            corner[i] = 0.0 if gone else math.sqrt(corner[i])
        for a in range(b + 1, n):
            to = A[a * width + b * LANES :]
            for i in range(lanes):
                to[i] = 0.0 if corner[i] == 0.0 else to[i] / corner[i]


@njit(**FUSED_FLAGS)
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
    """Lower triangle of W = (L T)(L T)^T, T Bartlett's lower factor of `freedom` degrees; T is
    overwritten.
    """
    width = m * LANES
    for b in range(m):
        if b % 2 == 0:
            chi_square_pair(chi2, z, g, freedom - b, lanes)
        drawn = chi2[b % 2 * LANES :]
        to = T[b * width + b * LANES :]
        for i in range(lanes):
            to[i] = math.sqrt(drawn[i])
        for a in range(b + 1, m):
            if (a - b) % 2 == 1:
                normals(z, g, lanes)
            drawn = z[(a - b + 1) % 2 * LANES :]
            to = T[a * width + b * LANES :]
            for i in range(lanes):
                to[i] = drawn[i] if b < freedom else 0.0
    # T <- L T, from the last row on
    for a in range(m - 1, -1, -1):
        for b in range(a + 1):
            to = T[a * width + b * LANES :]
            own = L[a * width + a * LANES :]
            for i in range(lanes):
                to[i] *= own[i]
            for c in range(b, a):
                left = L[a * width + c * LANES :]
                right = T[c * width + b * LANES :]
                for i in range(lanes):
                    to[i] += left[i] * right[i]
    for a in range(m):
        for b in range(a + 1):
            to = W[a * width + b * LANES :]
            for i in range(lanes):
                to[i] = 0.0
            add_dot(to, T[a * width :], T[b * width :], b + 1, 1.0, lanes)
