"""E tr (I + c X^T X)^-1 for a matrix X of independent standard normals, with its error.

notation: X has `rows` x `columns` entries, N = min, a = |rows - columns|; x = y^2 an eigenvalue,
          y a singular value, y = sqrt(a) + z, f(y) = 1/(1 + c y^2).

The N nonzero eigenvalues of X^T X have joint density ~ prod_{i<j} |x_i - x_j| prod_i x_i^{(a-1)/2}
e^{-x_i/2}. For any functions g_1 .. g_N that span the polynomials of degree < N times the weight,
de Bruijn's identity turns the integral of prod |x_i - x_j| prod w(x_i)(1 + eps f(x_i)) into a
Pfaffian, and d/d eps log Pf = tr(A^-1 A')/2, hence

    E sum_i f(x_i) = tr(A^-1 (B - B^T))/2,
    A_ij = int int sgn(y' - y) g_i(y) g_j(y'),   B_ij = the same with f(y) g_i(y),

bordered by int g_i and int f g_i when N is odd. The g_i are Laguerre functions, oscillating and of
order one, so A is well conditioned. f has poles at +-i/sqrt(c): where singular values reach 0 the
Gauss-Legendre panels halve towards 0 until they are shorter than that, at any c. Where a is large
the weight y^a e^{-y^2/2} is taken relative to its peak in z, so that no digits go with a.

B is of the size of the answer, however small that is, so the error is relative: what a second rule
with other panels changes, and the rounding of A and B through A^-1.

Reference: N. G. de Bruijn, On some multiple integrals involving determinants, J. Indian Math.
Soc. 19 (1955).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

from attnscope.numerics.border import validation as check
from attnscope.numerics.integrals.quadrature import EPS

__all__ = ["LARGEST_SIDE", "resolvent_trace"]

LARGEST_SIDE = 200  # of the smaller side: 200 functions on 10^4 nodes take a second
PANEL_NODES = 16  # Gauss nodes per panel
# P(largest singular value > sqrt(rows) + sqrt(columns) + 9) < e^-40, and the same for
# the smallest one
SINGULAR_VALUE_REACH = 9.0
LARGEST_C = 1e200  # prior variance <= 1e50 over noise^2 >= 1e-100, with a margin
PANEL_PHASES = (4.0, 3.1)  # radians of phase in a panel, of either rule: their edges differ


class Trace(NamedTuple):
    """value, and a bound on its error."""

    value: float
    error: float


class _Grid(NamedTuple):
    """Nodes y and z = y - sqrt(a), their weights, and the half width of each panel."""

    y: np.ndarray
    z: np.ndarray
    weight: np.ndarray
    half: np.ndarray


def resolvent_trace(rows: int, columns: int, c: float) -> Trace:
    """E tr (I + c X^T X)^-1, X of shape (rows, columns), c >= 0; min(rows, columns) <= 200.

    >>> resolvent_trace(0, 3, 1.0).value, round(resolvent_trace(5, 3, 1.0).value, 10)
    (3.0, 0.8781274156)
    """
    of = "resolvent_trace"
    rows = check.integer(rows, "rows", of, 0)
    columns = check.integer(columns, "columns", of, 1)
    c = check.real(c, "c", of, 0, LARGEST_C)
    N = check.integer(
        min(rows, columns), "the smaller of rows and columns", of, 0, LARGEST_SIDE
    )
    if N == 0:
        return Trace(float(columns), 0.0)
    fine, coarse = (_trace(rows, columns, c, phase) for phase in reversed(PANEL_PHASES))
    surplus = float(max(columns - rows, 0))
    change = abs(fine.value - coarse.value)
    return Trace(surplus + fine.value, fine.error + change + EPS * surplus)


def _trace(rows: int, columns: int, c: float, phase: float) -> Trace:
    """E sum_i f(x_i) by one rule, with the rounding of its linear algebra."""
    N = min(rows, columns)
    a = abs(rows - columns)
    grid = _singular_value_grid(rows, columns, c, phase)
    g = _laguerre_functions(N, a, grid)  # (N, nodes)
    f = 1 / (1 + (math.sqrt(c) * grid.y) ** 2)
    A = _sign_pairing(g, g, grid)
    B = _sign_pairing(f * g, g, grid)
    moved = B - B.T
    if N % 2:
        A = _bordered_matrix(A, g @ grid.weight)
        moved = _bordered_matrix(moved, (f * g) @ grid.weight)
    inverse = np.linalg.inv(A)
    value = float(np.sum(inverse.T * moved)) / 2
    # entries of A and B - B^T are sums of many terms of one size: rounded to a few eps of their
    # norm
    size = float(np.linalg.norm(inverse, 2))
    spread = float(np.linalg.norm(A, 2)) * size
    rounding = 8 * EPS * size * float(np.linalg.norm(moved)) * (1 + spread)
    return Trace(value, rounding + 8 * EPS * abs(value))


def _singular_value_grid(rows: int, columns: int, c: float, phase: float) -> _Grid:
    """Panels over the range of the singular values, halving towards 0 if they come near it."""
    peak = math.sqrt(abs(rows - columns))
    low = max(0.0, abs(rows**0.5 - columns**0.5) - SINGULAR_VALUE_REACH)
    high = rows**0.5 + columns**0.5 + SINGULAR_VALUE_REACH
    rate = 2 * (1 + min(rows, columns) ** 0.5)  # radians of phase per unit of y
    panels = math.ceil((high - low) * rate / phase)
    if low > 0:
        edges = np.linspace(low - peak, high - peak, panels + 1)  # in z: y may be large
        origin = 0.0
    else:
        edges = np.linspace(0.0, high, panels + 1)
        # down to half the distance of the poles i/sqrt(c) from 0
        halvings = max(0, math.ceil(math.log2(max(2 * edges[1] * math.sqrt(c), 1.0))))
        inner = edges[1] * 0.5 ** np.arange(halvings, 0, -1)
        edges = np.concatenate([[0.0], inner, edges[1:]])
        origin = peak
    x, w = legendre.leggauss(PANEL_NODES)
    half = np.diff(edges) / 2
    at = (edges[:-1, None] + half[:, None] * (1 + x)).ravel()  # no cancellation next to 0
    z = at - origin
    y = at if low == 0 else peak + at
    return _Grid(y, z, (half[:, None] * w).ravel(), half)


def _laguerre_functions(N: int, a: int, grid: _Grid) -> np.ndarray:
    """g_i ~ L_i^(a)(x) y^a e^{-x/2} sqrt(i!/Gamma(i+a+1)), by the normalised three-term recurrence.

    One common factor is left out: it cancels. With u = z/sqrt(a), y^a e^{-x/2} is its peak times
    exp(a (log(1 + u) - u) - z^2/2).
    """
    z = grid.z
    exponent = -(z**2) / 2
    if a:
        u = z / math.sqrt(a)
        exponent += a * _log1p_less(u, grid.y / math.sqrt(a))
    drop = 2 * math.sqrt(a) * z + z**2  # x - a
    g = np.zeros((N, len(z)))
    g[0] = np.exp(exponent)
    for i in range(N - 1):
        before = 0.0 if i == 0 else np.sqrt(i * (i + a)) * g[i - 1]
        g[i + 1] = ((2 * i + 1 - drop) * g[i] - before) / np.sqrt((i + 1) * (i + 1 + a))
    return g


def _log1p_less(u: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """log(1 + u) - u, 1 + u = ratio > 0, without cancellation at small u.

    With r = u/(2 + u): log(1 + u) = 2 atanh r and u = 2 r/(1 - r), so the difference is
    2 (r^3/3 + r^5/5 + ...) - 2 r^2/(1 - r); for |u| < 0.3, |r| < 0.18 and ten terms are 1e-17.
    """
    out = np.log(ratio) - u
    small = np.abs(u) < 0.3
    v = u[small]
    r = v / (2 + v)
    series = np.zeros_like(r)
    for power in range(21, 1, -2):
        series = series * r**2 + 1 / power
    out[small] = 2 * r**3 * series - r * v
    return out


def _sign_pairing(g: np.ndarray, h: np.ndarray, grid: _Grid) -> np.ndarray:
    """int int sgn(y' - y) g_i(y) h_j(y') dy dy'."""
    parts = g.reshape(len(g), -1, PANEL_NODES)
    inside = parts @ _running_integrals().T * grid.half[:, None]
    totals = np.sum((g * grid.weight).reshape(parts.shape), axis=2)
    before = np.cumsum(totals, axis=1) - totals
    primitive = (inside + before[:, :, None]).reshape(g.shape)
    return (2 * primitive - totals.sum(axis=1)[:, None]) * grid.weight @ h.T


def _running_integrals() -> np.ndarray:
    """Running integrals from -1 to each Gauss node, as a matrix on the values at the nodes."""
    x, _ = legendre.leggauss(PANEL_NODES)
    basis = np.linalg.inv(
        legendre.legvander(x, PANEL_NODES - 1)
    )  # values -> Legendre coefficients
    return legendre.legvander(x, PANEL_NODES) @ legendre.legint(basis, lbnd=-1)


def _bordered_matrix(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.block([[A, b[:, None]], [-b[None, :], np.zeros((1, 1))]])
