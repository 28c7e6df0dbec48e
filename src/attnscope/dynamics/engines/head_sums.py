"""What one sequence adds to the gradients of heads of softmax or erf, for 16 runs at once.

notation and mathematics: of sgd_heads.py, which draws the tokens. Scores and values of every token
and head first; then T and the factor (2/B)(T - Y), which is common to a sequence; then c times it
in their place; last the sums over tokens

    sum_l c_la x_lj   along the frame,     sum_l c_la c_lb   over background and informative tokens,

of the latter the blocks on and below the diagonal, and of these what cholesky reads.

Layout: a matrix with even sides is kept in blocks of two rows by two columns, an entry LANES
numbers long (`to_blocks`, `block`). A loop over lanes then has one base per array and constant
offsets, which the compiler can tell apart in a few comparisons: it vectorises.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.numerics.compiled.fast_erf import erf_given_exp, exp_negative
from attnscope.numerics.compiled.numba_flags import FUSED_FLAGS
from attnscope.numerics.compiled.run_tiles import LANES

__all__ = [
    "ERF",
    "SOFTMAX",
    "SOFTMAX_ONE",
    "add_sequence",
    "block",
    "from_blocks",
    "to_blocks",
]

Array = np.ndarray

# kinds of heads; a softmax with a sink has one more score of 0
SOFTMAX, SOFTMAX_ONE, ERF = range(3)
ERF_SLOPE = 2 / math.sqrt(math.pi)  # erf'(0)
# a head's three rows of sums over one sequence: of weights, of weights times w, the largest score
SUM, OUT, TOP = range(3)


@njit(forceinline=True, **FUSED_FLAGS)
def block(row: int, column: int, columns: int) -> int:
    """Where the block of these (even) row and column begins."""
    return (row // 2 * (columns // 2) + column // 2) * 4 * LANES


@njit(**FUSED_FLAGS)
def to_blocks(
    out: Array, matrix: Array, rows: int, columns: int, width: int, lanes: int
) -> None:
    """The upper left rows x columns of a matrix (.., width), block by block."""
    for a in range(rows):
        for b in range(columns):
            to = out[block(a, b, columns) + (2 * (a % 2) + b % 2) * LANES :]
            row = matrix[(a * width + b) * LANES :]
            for i in range(lanes):
                to[i] = row[i]


@njit(**FUSED_FLAGS)
def from_blocks(out: Array, blocks: Array, rows: int, columns: int, lanes: int) -> None:
    """A matrix (rows, columns) from its blocks."""
    for a in range(rows):
        for b in range(columns):
            row = blocks[block(a, b, columns) + (2 * (a % 2) + b % 2) * LANES :]
            to = out[(a * columns + b) * LANES :]
            for i in range(lanes):
                to[i] = row[i]


@njit(**FUSED_FLAGS)
def add_sequence(
    sums: Array,
    X: Array,
    R: Array,
    y: Array,
    frame: Array,
    C: Array,
    stats: Array,
    kind: int,
    m: int,
    n: int,
    length: int,
    lam: float,
    batch: int,
    lanes: int,
) -> None:
    """Add one sequence to the sums over the batch: in blocks, the gradients along the frame (m x
    n), S_0 and S_1 (m x m).

    X (length, m) coordinates of the tokens along the first m axes, informative ones first; R (F, r)
    theirs along the others; y the label, overwritten; frame (m x m) in blocks. C (length, m) and
    stats (m/2, 3) are work space. All are flat.
    """
    r = n - m
    F = r // 2
    for h in range(0, m, 2):
        s = stats[h // 2 * 3 * LANES :]
        for i in range(lanes):
            s[OUT * LANES + i] = 0.0
            s[TOP * LANES + i] = 0.0 if kind == SOFTMAX_ONE else -math.inf
        for l in range(length):
            c = C[(l * m + h) * LANES :]
            for f in range(0, h, 2):
                x = X[(l * m + f) * LANES :]
                _partial_fields(c, x, frame[block(h, f, m) :], lam, f == 0, lanes)
            x = X[(l * m + h) * LANES :]
            if kind == ERF:
                _erf_terms(c, x, frame[block(h, h, m) :], s, lam, h == 0, lanes)
            else:
                _final_scores(c, x, frame[block(h, h, m) :], s, lam, h == 0, lanes)
        if kind != ERF:
            _softmax_terms(C, s, kind, h, m, length, lanes)
    for i in range(lanes):
        y[i] = -y[i]
    for h in range(m // 2):
        for i in range(lanes):
            y[i] += stats[(3 * h + OUT) * LANES + i]
    for i in range(lanes):
        y[i] *= 2.0 / batch
    for h in range(0, m, 2):
        if kind == ERF:
            _weigh_tokens(C[h * LANES :], y, m, length, lanes)
        else:
            _weigh_softmax(C, stats[h // 2 * 3 * LANES :], y, h, m, length, lam, lanes)
    for h in range(0, m, 2):
        c = C[h * LANES :]
        for f in range(0, m, 2):
            _add_products(sums[block(h, f, n) :], c, X[f * LANES :], m, 0, length, lanes)
            at = m * n * LANES + block(h, f, m)
            if f < h:
                e = C[f * LANES :]
                _add_products(sums[at:], c, e, m, F, length, lanes)
                _add_products(sums[at + m * m * LANES :], c, e, m, 0, F, lanes)
            elif f == h:
                _add_squares(sums[at:], c, m, F, length, lanes)
                _add_squares(sums[at + m * m * LANES :], c, m, 0, F, lanes)
        for l in range(F):
            for f in range(0, r, 2):
                x = R[(l * r + f) * LANES :]
                _add_outer(sums[block(h, m + f, n) :], c[l * m * LANES :], x, lanes)


@njit(forceinline=True, **FUSED_FLAGS)
def _weigh_tokens(c: Array, y: Array, m: int, length: int, lanes: int) -> None:
    """c of every token of a head times the factor."""
    for l in range(length):
        own = c[l * m * LANES :]
        for i in range(lanes):
            own[i] *= y[i]
            own[LANES + i] *= y[i]


@njit(forceinline=True, **FUSED_FLAGS)
def _partial_fields(
    c: Array, x: Array, a: Array, lam: float, first: bool, lanes: int
) -> None:
    """Score lam u and value w of a token by two more coordinates."""
    for i in range(lanes):
        u = 0.0 if first else c[i]
        w = 0.0 if first else c[LANES + i]
        c[i] = u + lam * (a[i] * x[i] + a[LANES + i] * x[LANES + i])
        c[LANES + i] = w + a[2 * LANES + i] * x[i] + a[3 * LANES + i] * x[LANES + i]


@njit(forceinline=True, **FUSED_FLAGS)
def _final_scores(
    c: Array, x: Array, a: Array, s: Array, lam: float, first: bool, lanes: int
) -> None:
    """The same by the last two, and the largest score."""
    for i in range(lanes):
        u = 0.0 if first else c[i]
        w = 0.0 if first else c[LANES + i]
        # k_h has no coordinate beyond its own axis
        u += lam * a[i] * x[i]
        c[i] = u
        c[LANES + i] = w + a[2 * LANES + i] * x[i] + a[3 * LANES + i] * x[LANES + i]
        top = s[TOP * LANES + i]
        s[TOP * LANES + i] = u if u > top else top


@njit(forceinline=True, **FUSED_FLAGS)
def _erf_terms(
    c: Array, x: Array, a: Array, s: Array, lam: float, first: bool, lanes: int
) -> None:
    """The same, then c of the token in place of score and value, and its share of T_h."""
    for i in range(lanes):
        u = 0.0 if first else c[i]
        w = 0.0 if first else c[LANES + i]
        score = u + lam * a[i] * x[i]
        w += a[2 * LANES + i] * x[i] + a[3 * LANES + i] * x[LANES + i]
        e = exp_negative(score * score)
        sigma = erf_given_exp(score, e)
        c[i] = lam * ERF_SLOPE * e * w
        c[LANES + i] = sigma
        s[OUT * LANES + i] += sigma * w


@njit(forceinline=True, **FUSED_FLAGS)
def _softmax_terms(
    C: Array, s: Array, kind: int, h: int, m: int, length: int, lanes: int
) -> None:
    """The exponential of every token of a head in place of its score, and T_h."""
    for i in range(lanes):
        sink = exp_negative(s[TOP * LANES + i])
        s[SUM * LANES + i] = sink if kind == SOFTMAX_ONE else 0.0
    for l in range(length):
        c = C[(l * m + h) * LANES :]
        for i in range(lanes):
            e = exp_negative(s[TOP * LANES + i] - c[i])
            c[i] = e
            s[SUM * LANES + i] += e
            s[OUT * LANES + i] += e * c[LANES + i]
    for i in range(lanes):
        s[SUM * LANES + i] = 1.0 / s[SUM * LANES + i]
        s[OUT * LANES + i] *= s[SUM * LANES + i]


@njit(forceinline=True, **FUSED_FLAGS)
def _weigh_softmax(
    C: Array, s: Array, y: Array, h: int, m: int, length: int, lam: float, lanes: int
) -> None:
    """c of every token of a head times the factor, in place of exponential and value."""
    for i in range(lanes):
        s[SUM * LANES + i] *= y[i]
    for l in range(length):
        c = C[(l * m + h) * LANES :]
        for i in range(lanes):
            p = c[i] * s[SUM * LANES + i]
            c[i] = lam * p * (c[LANES + i] - s[OUT * LANES + i])
            c[LANES + i] = p


@njit(forceinline=True, **FUSED_FLAGS)
def _add_outer(to: Array, c: Array, x: Array, lanes: int) -> None:
    """Add the block c x^T."""
    for i in range(lanes):
        first = c[i]
        second = c[LANES + i]
        to[i] += first * x[i]
        to[LANES + i] += first * x[LANES + i]
        to[2 * LANES + i] += second * x[i]
        to[3 * LANES + i] += second * x[LANES + i]


@njit(forceinline=True, **FUSED_FLAGS)
def _add_products(
    to: Array, c: Array, x: Array, width: int, begin: int, end: int, lanes: int
) -> None:
    """Add the blocks c x^T of tokens begin..end-1, `width` rows apart: by fives and threes, so that
    the sums are fetched and stored once for five, and fewer loops begin.
    """
    step = width * LANES
    l = begin
    while end - l >= 5:
        c0 = c[l * step :]
        c1 = c[(l + 1) * step :]
        c2 = c[(l + 2) * step :]
        c3 = c[(l + 3) * step :]
        c4 = c[(l + 4) * step :]
        x0 = x[l * step :]
        x1 = x[(l + 1) * step :]
        x2 = x[(l + 2) * step :]
        x3 = x[(l + 3) * step :]
        x4 = x[(l + 4) * step :]
        for i in range(lanes):
            j = LANES + i
            to[i] += (
                c0[i] * x0[i] + c1[i] * x1[i] + c2[i] * x2[i] + c3[i] * x3[i] + c4[i] * x4[i]
            )
            to[j] += (
                c0[i] * x0[j] + c1[i] * x1[j] + c2[i] * x2[j] + c3[i] * x3[j] + c4[i] * x4[j]
            )
            to[LANES + j] += (
                c0[j] * x0[i] + c1[j] * x1[i] + c2[j] * x2[i] + c3[j] * x3[i] + c4[j] * x4[i]
            )
            to[2 * LANES + j] += (
                c0[j] * x0[j] + c1[j] * x1[j] + c2[j] * x2[j] + c3[j] * x3[j] + c4[j] * x4[j]
            )
        l += 5
    while end - l >= 3:
        c0 = c[l * step :]
        c1 = c[(l + 1) * step :]
        c2 = c[(l + 2) * step :]
        x0 = x[l * step :]
        x1 = x[(l + 1) * step :]
        x2 = x[(l + 2) * step :]
        for i in range(lanes):
            j = LANES + i
            to[i] += c0[i] * x0[i] + c1[i] * x1[i] + c2[i] * x2[i]
            to[j] += c0[i] * x0[j] + c1[i] * x1[j] + c2[i] * x2[j]
            to[LANES + j] += c0[j] * x0[i] + c1[j] * x1[i] + c2[j] * x2[i]
            to[2 * LANES + j] += c0[j] * x0[j] + c1[j] * x1[j] + c2[j] * x2[j]
        l += 3
    while l < end:
        _add_outer(to, c[l * step :], x[l * step :], lanes)
        l += 1


@njit(forceinline=True, **FUSED_FLAGS)
def _add_squares(to: Array, c: Array, width: int, begin: int, end: int, lanes: int) -> None:
    """The same for the blocks c c^T, of which the entry above the diagonal is left out."""
    step = width * LANES
    threes = begin + (end - begin) // 3 * 3
    for l in range(begin, threes, 3):
        c0 = c[l * step :]
        c1 = c[(l + 1) * step :]
        c2 = c[(l + 2) * step :]
        for i in range(lanes):
            j = LANES + i
            to[i] += c0[i] * c0[i] + c1[i] * c1[i] + c2[i] * c2[i]
            to[LANES + j] += c0[j] * c0[i] + c1[j] * c1[i] + c2[j] * c2[i]
            to[2 * LANES + j] += c0[j] * c0[j] + c1[j] * c1[j] + c2[j] * c2[j]
    for l in range(threes, end):
        one = c[l * step :]
        for i in range(lanes):
            j = LANES + i
            to[i] += one[i] * one[i]
            to[LANES + j] += one[j] * one[i]
            to[2 * LANES + j] += one[j] * one[j]
