"""What one sequence adds to the gradients of heads of softmax or erf, for 16 runs at once.

notation and mathematics: of sgd_heads.py, which draws the tokens. Scores and values of every token
and head first, then c in their place, then the sums over tokens

    sum_l c_la x_lj   along the frame,     sum_l c_la c_lb   over background and informative tokens,

two rows by two columns at a time, and last the factor (2/B)(T - Y), which is common to a sequence.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.numerics.compiled.fast_erf import FLAGS, erf_given_exp, exp_negative
from attnscope.numerics.compiled.lane_algebra import clear

__all__ = ["ERF", "SOFTMAX", "SOFTMAX_ONE", "add_sequence"]

Array = np.ndarray

# kinds of heads; a softmax with a sink has one more score of 0
SOFTMAX, SOFTMAX_ONE, ERF = range(3)
ERF_SLOPE = 2 / math.sqrt(math.pi)  # erf'(0)
# a head's three rows of sums over one sequence: of weights, of weights times w, the largest score
SUM, OUT, TOP = range(3)


@njit(**FLAGS)
def add_sequence(
    inside: Array,
    S0: Array,
    S1: Array,
    X: Array,
    R: Array,
    y: Array,
    A: Array,
    C: Array,
    one: Array,
    kind: int,
    m: int,
    n: int,
    length: int,
    lam: float,
    batch: int,
    lanes: int,
) -> None:
    """Add one sequence to the sums over the batch: gradients along the frame (m n), S_0, S_1 (m m).

    X (length m): coordinates of the tokens along the first m axes, informative ones first; R (F r)
    theirs along the others; y the label. C (length m) and `one` are work space.
    """
    r = n - m
    F = r // 2
    stats = m * (n + 2 * m)
    clear(one, lanes)
    _scores(C, one, X, A, kind, m, n, length, lam, stats, lanes)
    if kind == ERF:
        _erf(C, one, m, length, lam, stats, lanes)
    else:
        _softmax(C, one, kind, m, length, lam, stats, lanes)
    for l in range(length):
        square = m * n + (m * m if l < F else 0)
        for h in range(0, m, 2):
            for f in range(0, m, 2):
                _along(one, C, X, l * m + h, l * m + f, h * n + f, n, lanes)
                if f <= h:
                    _squares(one, C, l * m + h, l * m + f, square + h * m + f, m, lanes)
            if l < F:
                for f in range(0, r, 2):
                    _along(one, C, R, l * m + h, l * r + f, h * n + m + f, n, lanes)
    for i in range(lanes):
        total = -y[0, i]
        for h in range(m // 2):
            total += one[stats + 3 * h + OUT, i]
        y[0, i] = 2.0 / batch * total
    for j in range(m * n):
        for i in range(lanes):
            inside[j, i] += y[0, i] * one[j, i]
    for j in range(m * m):
        for i in range(lanes):
            S0[j, i] += y[0, i] * y[0, i] * one[m * n + j, i]
            S1[j, i] += y[0, i] * y[0, i] * one[m * (n + m) + j, i]


@njit(forceinline=True, **FLAGS)
def _scores(
    C: Array,
    one: Array,
    X: Array,
    A: Array,
    kind: int,
    m: int,
    n: int,
    length: int,
    lam: float,
    stats: int,
    lanes: int,
) -> None:
    """Scores lam u and values w of every token and head into C, and the largest scores."""
    for h in range(0, m, 2):
        top = stats + 3 * (h // 2) + TOP
        for i in range(lanes):
            one[top, i] = -math.inf if kind != SOFTMAX_ONE else 0.0
        for l in range(length):
            to = l * m + h
            for f in range(0, h + 2, 2):
                key = h * n + f
                at = l * m + f
                for i in range(lanes):
                    u = C[to, i] if f > 0 else 0.0
                    w = C[to + 1, i] if f > 0 else 0.0
                    first = X[at, i]
                    second = X[at + 1, i]
                    C[to, i] = u + lam * (A[key, i] * first + A[key + 1, i] * second)
                    C[to + 1, i] = w + A[key + n, i] * first + A[key + n + 1, i] * second
            for i in range(lanes):
                one[top, i] = max(one[top, i], C[to, i])


@njit(forceinline=True, **FLAGS)
def _erf(
    C: Array, one: Array, m: int, length: int, lam: float, stats: int, lanes: int
) -> None:
    """c of every token and head in place of score and value, and T_h."""
    for h in range(0, m, 2):
        out = stats + 3 * (h // 2) + OUT
        for l in range(length):
            to = l * m + h
            for i in range(lanes):
                score = C[to, i]
                w = C[to + 1, i]
                e = exp_negative(score * score)
                sigma = erf_given_exp(score, e)
                C[to, i] = lam * ERF_SLOPE * e * w
                C[to + 1, i] = sigma
                one[out, i] += sigma * w


@njit(forceinline=True, **FLAGS)
def _softmax(
    C: Array,
    one: Array,
    kind: int,
    m: int,
    length: int,
    lam: float,
    stats: int,
    lanes: int,
) -> None:
    """c of every token and head in place of score and value, and T_h."""
    for h in range(0, m, 2):
        row = stats + 3 * (h // 2)
        for i in range(lanes):
            one[row + SUM, i] = (
                exp_negative(one[row + TOP, i]) if kind == SOFTMAX_ONE else 0.0
            )
        for l in range(length):
            to = l * m + h
            for i in range(lanes):
                e = exp_negative(one[row + TOP, i] - C[to, i])
                C[to, i] = e
                one[row + SUM, i] += e
                one[row + OUT, i] += e * C[to + 1, i]
        for i in range(lanes):
            one[row + SUM, i] = 1.0 / one[row + SUM, i]
            one[row + OUT, i] *= one[row + SUM, i]
        for l in range(length):
            to = l * m + h
            for i in range(lanes):
                p = C[to, i] * one[row + SUM, i]
                C[to, i] = lam * p * (C[to + 1, i] - one[row + OUT, i])
                C[to + 1, i] = p


@njit(forceinline=True, **FLAGS)
def _along(
    one: Array, C: Array, X: Array, row: int, column: int, to: int, n: int, lanes: int
) -> None:
    """Two by two entries of sum_l c_la x_lj."""
    for i in range(lanes):
        c = C[row, i]
        e = C[row + 1, i]
        first = X[column, i]
        second = X[column + 1, i]
        one[to, i] += c * first
        one[to + 1, i] += c * second
        one[to + n, i] += e * first
        one[to + n + 1, i] += e * second


@njit(forceinline=True, **FLAGS)
def _squares(
    one: Array, C: Array, row: int, column: int, to: int, m: int, lanes: int
) -> None:
    """Two by two entries of sum_l c_la c_lb."""
    for i in range(lanes):
        c = C[row, i]
        e = C[row + 1, i]
        first = C[column, i]
        second = C[column + 1, i]
        one[to, i] += c * first
        one[to + 1, i] += c * second
        one[to + m, i] += e * first
        one[to + m + 1, i] += e * second
