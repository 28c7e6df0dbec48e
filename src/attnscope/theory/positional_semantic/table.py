"""The table behind the loss: E[t s] as a power series in m^2 with coefficients in e.

notation: t(u, v) = S(u (u - v)); the student's s = t(a + e, b - e); (u, a) and (v, b) independent
pairs of standard normals of correlation m; h_i the Hermite polynomials with E h_i h_j = delta_ij.

    T_ij = E t h_i(u) h_j(v),   S_ij(e) = E t(a + e, b - e) h_i(a) h_j(b)
    E[t s](e, m) = sum_n c_n(e) m^n,   c_n(e) = sum_{i+j=n} T_ij S_ij(e)          (Mehler)

t is even, so only even n count; turning all signs shows that c_n is even in e. As a function of
e, S_ij is a Gaussian smoothing of t, hence entire: a Chebyshev series in 2 (e/P)^2 - 1 ends at
rounding after BASE_COLUMNS + COLUMNS_PER_P P terms. What is stored is the matrix C with

    c_2n(e) = sum_k C_nk T_k(2 (e/P)^2 - 1),

and two rows more, E s and E s^2. It serves every (w, c, e, m) of one P. Derivatives are those of
the polynomials.

Exact up to: the trapezoidal sums in two dimensions (spacing 1/10; halved, nothing moves by more
than 5e-16, P <= 4); rounding; and the end of the series at degree SERIES_DEGREE, which is bounded:
sum_{n > N} |c_n m^n| <= |m|^(N+2) (tail_T tail_S)^(1/2) by Cauchy-Schwarz, with
tail_T = E t^2 - sum_{i+j <= N} T_ij^2 (Parseval) and the same for the even part of s.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import expit

__all__ = [
    "Partials",
    "Table",
    "coefficients",
    "partials",
    "semantic_table",
    "slopes",
    "values",
]

# of the series in m: at m = 1 its tail is 1e-13, that of second derivatives 1e-9
SERIES_DEGREE = 240
TABLE_SPACING = 0.1  # of the trapezoidal sums (module docstring)
# h_i(x) phi(x) is a Hermite function times phi^(1/2), which is 1e-16 at 12; the functions
# themselves are below 1/i^(1/4): beyond this nothing is left
TABLE_REACH = 13.0
BASE_COLUMNS = 16  # at P = 1 the Chebyshev series reaches 1e-16 after 16 terms
COLUMNS_PER_P = 12  # at P = 4 it does so after 60
SQUARE_SUM_RESOLUTION = 1e-15  # rounding of a difference of sums of squares near 1
POINTS_PER_BLOCK = 4096  # 121 coefficients of each and two derivatives: 12 MB
LAST_QUARTER_ROW = (3 * SERIES_DEGREE) // 8  # from here on: the last quarter of the degrees


class Partials(NamedTuple):
    """f = E[t s], g = E s, h = E s^2 at points (...), with their derivatives.

    Each is a stack: f (6, ...) = f, f_e, f_m, f_ee, f_em, f_mm; g and h (3, ...) = value, first
    and second derivative in e. tail (3, ...): bounds of what the series leaves out of f, of its
    first and of its second derivatives.
    """

    f: np.ndarray
    g: np.ndarray
    h: np.ndarray
    tail: np.ndarray


@dataclass(frozen=True, eq=False)
class Table:
    """position P; rows (columns, SERIES_DEGREE/2 + 3): Chebyshev coefficients of c_0, c_2, ..., E s
    and E
    s^2; derived: of their derivatives in 2 (e/P)^2 - 1; mean E t, square E t^2; rest: (tail_T
    tail_S)^(1/2), the largest over e.
    """

    position: float
    rows: np.ndarray
    derived: tuple[np.ndarray, np.ndarray]
    mean: float
    square: float
    rest: float


@lru_cache(maxsize=8)  # 60 kB each
def semantic_table(position: float) -> Table:
    """The table of one P; about a second for P = 1, kept."""
    columns = BASE_COLUMNS + int(np.ceil(COLUMNS_PER_P * position))
    places = np.cos(np.pi * (2 * np.arange(columns) + 1) / (2 * columns))
    x, weighted = _hermite_rule()
    teacher, square, _ = _hermite_moments(0.0, x, weighted)  # even already
    found = np.empty((columns, SERIES_DEGREE // 2 + 3))
    tails = []
    for row, z in zip(found, places):
        student, squared, even = _hermite_moments(
            position * np.sqrt((1 + z) / 2), x, weighted
        )
        row[:-2] = _diagonal_sums(teacher * student)
        row[-2] = student[0, 0]
        row[-1] = squared
        tails.append(max(even - _kept_square_sum(student), SQUARE_SUM_RESOLUTION))
    rest = np.sqrt(
        max(square - _kept_square_sum(teacher), SQUARE_SUM_RESOLUTION) * max(tails)
    )
    rows = chebyshev.chebfit(places, found, columns - 1)
    # twice: between the Chebyshev points the tail moves by far less than that
    return Table(
        position,
        rows,
        (chebyshev.chebder(rows), chebyshev.chebder(rows, 2)),
        float(teacher[0, 0]),
        float(square),
        2 * float(rest),
    )


def _hermite_rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes x and (SERIES_DEGREE + 1, nodes): h_i(x) phi(x) times the spacing."""
    count = int(np.ceil(TABLE_REACH / TABLE_SPACING))
    x = TABLE_SPACING * np.arange(-count, count + 1)
    weighted = np.empty((SERIES_DEGREE + 1, len(x)))
    weighted[0] = TABLE_SPACING / np.sqrt(2 * np.pi) * np.exp(-(x**2) / 2)
    weighted[1] = x * weighted[0]
    for i in range(1, SERIES_DEGREE):
        weighted[i + 1] = (x * weighted[i] - np.sqrt(i) * weighted[i - 1]) / np.sqrt(i + 1)
    return x, weighted


def _hermite_moments(
    e: float, x: np.ndarray, weighted: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """S_ij(e), E s^2 and the square of the even part of s, which has all S_ij of even i + j."""
    a = x[:, None] + e
    s = expit(a * (a - x[None, :] + e))
    even = (s + s[::-1, ::-1]) / 2
    squares = [float(weighted[0] @ part**2 @ weighted[0]) for part in (s, even)]
    return weighted @ s @ weighted.T, squares[0], squares[1]


def _diagonal_sums(products: np.ndarray) -> np.ndarray:
    """Sums over i + j = 0, 2, ..., SERIES_DEGREE."""
    turned = products[:, ::-1]
    return np.array(
        [np.trace(turned, SERIES_DEGREE - n) for n in range(0, SERIES_DEGREE + 1, 2)]
    )


def _kept_square_sum(coefficients: np.ndarray) -> float:
    """Sum of squares over i + j <= SERIES_DEGREE."""
    return float(_diagonal_sums(coefficients**2).sum())


def values(table: Table, e: np.ndarray, m: np.ndarray) -> np.ndarray:
    """(3, ...): f, g, h at e and m that broadcast; a grid costs its two sides and one product."""
    c = coefficients(table, e)[0]
    f = _power_sum(c[:-2], m**2)
    shape = f.shape
    return np.stack([f, np.broadcast_to(c[-2], shape), np.broadcast_to(c[-1], shape)])


def coefficients(table: Table, e: np.ndarray, orders: int = 0) -> list[np.ndarray]:
    """(SERIES_DEGREE/2 + 3, ...) of every order up to `orders` <= 2: c_2n(e), E s and E s^2 or
    their
    derivatives in e.
    """
    scale = table.position**2
    basis = chebyshev.chebvander(2 * e**2 / scale - 1, len(table.rows) - 1)
    basis = basis.reshape(*np.shape(e), len(table.rows))  # a number has become a row
    by_z = [table.rows, *table.derived[:orders]]
    found = [np.moveaxis(basis[..., : len(rows)] @ rows, -1, 0) for rows in by_z]
    slope = 4 * e / scale  # of z = 2 (e/P)^2 - 1
    chain = [found[0]]
    if orders > 0:
        chain.append(found[1] * slope)
    if orders > 1:
        chain.append(found[2] * slope**2 + found[1] * 4 / scale)
    return chain


def _power_sum(c: np.ndarray, q: np.ndarray) -> np.ndarray:
    """sum_n c_n q^n, by Horner's rule."""
    total = c[-1] + np.zeros_like(q)
    for row in c[-2::-1]:
        total = total * q + row
    return total


def slopes(table: Table, e: np.ndarray, m: np.ndarray) -> np.ndarray:
    """(4, n): f_e, f_m, g', h' at points (n,), for flows: a third of the work of `partials`."""
    c, c_e = coefficients(table, e, 1)
    q = m**2
    n = np.arange(1, len(c) - 2, dtype=np.float64)[:, None]
    f_m = 2 * m * _power_sum(n * c[1:-2], q)
    return np.stack([_power_sum(c_e[:-2], q), f_m, c_e[-2], c_e[-1]])


def partials(table: Table, e: np.ndarray, m: np.ndarray) -> Partials:
    """All derivatives up to the second at e and m, arrays of one shape."""
    shape = e.shape
    flat_e = e.ravel()
    flat_m = m.ravel()
    parts = [
        _loss_partials(
            table, flat_e[i : i + POINTS_PER_BLOCK], flat_m[i : i + POINTS_PER_BLOCK]
        )
        for i in range(0, flat_e.size, POINTS_PER_BLOCK)
    ]
    joined = [np.concatenate(stacks, axis=1) for stacks in zip(*parts)]
    return Partials(*(stack.reshape(len(stack), *shape) for stack in joined))


def _loss_partials(table: Table, e: np.ndarray, m: np.ndarray) -> Partials:
    c, c_e, c_ee = coefficients(table, e, 2)
    q = m**2
    n = np.arange(len(c) - 2, dtype=np.float64)[:, None]
    powers = np.cumprod(np.broadcast_to(q, (len(n), len(q))), axis=0)
    powers = np.concatenate([np.ones((1, len(q))), powers[:-1]])
    first = n[1:] * powers[:-1]
    second = (n * (n - 1))[2:] * powers[:-2]
    summed = lambda a, b: np.einsum("ij,ij->j", a, b)
    f_q = summed(first, c[1:-2])
    f_eq = summed(first, c_e[1:-2])
    f_qq = summed(second, c[2:-2])
    f = [
        summed(c[:-2], powers),
        summed(c_e[:-2], powers),
        2 * m * f_q,
        summed(c_ee[:-2], powers),
        2 * m * f_eq,
        2 * f_q + 4 * q * f_qq,
    ]
    last = slice(LAST_QUARTER_ROW, -2)
    high = powers[LAST_QUARTER_ROW - 1 : -1]  # a power less: of derivatives in m
    doubled = 2 * n[LAST_QUARTER_ROW:]
    # for derivatives the last quarter of the degrees bounds all that is left out, which is 1/50 of
    # it at m = 1, and less elsewhere
    d1 = np.maximum(
        (np.abs(c_e[last]) * powers[LAST_QUARTER_ROW:]).sum(0),
        (doubled * np.abs(c[last]) * high).sum(0),
    )
    d2 = np.max(
        [
            (np.abs(c_ee[last]) * powers[LAST_QUARTER_ROW:]).sum(0),
            (doubled * np.abs(c_e[last]) * high).sum(0),
            (doubled**2 * np.abs(c[last]) * high).sum(0),
        ],
        axis=0,
    )
    tail = [table.rest * np.abs(m) ** (SERIES_DEGREE + 2), d1, d2]
    stacks = [c[-2], c_e[-2], c_ee[-2]], [c[-1], c_e[-1], c_ee[-1]]
    return Partials(np.stack(f), np.stack(stacks[0]), np.stack(stacks[1]), np.stack(tail))
