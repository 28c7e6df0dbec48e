"""E tr (I + c X^T X)^-1 for a matrix X of independent standard normals, exactly.

notation: X has `rows` x `columns` entries, N = min, a = |rows - columns|; x = y^2 an eigenvalue, y a singular value.

The N nonzero eigenvalues of X^T X have joint density ~ prod_{i<j} |x_i - x_j| prod_i x_i^{(a-1)/2} e^{-x_i/2}. For any functions
g_1 .. g_N that span the polynomials of degree < N times the weight, de Bruijn's identity turns the integral of
prod |x_i - x_j| prod w(x_i)(1 + eps f(x_i)) into a Pfaffian, and d/d eps log Pf = tr(A^-1 A')/2, hence

    E sum_i f(x_i) = tr(A^-1 (B - B^T))/2,   A_ij = int int sgn(y' - y) g_i(y) g_j(y'),   B_ij = the same with f(y^2) g_i(y),

bordered by int g_i and int f g_i when N is odd. The g_i are Laguerre functions, oscillating and of order one, so A is well conditioned.
Everything is analytic in y; Gauss-Legendre panels integrate it to roundoff. Agrees with Monte Carlo and with one-dimensional integrals
(N = 1: x is chi-square) in tests/test_latents.py.

Reference: N. G. de Bruijn, On some multiple integrals involving determinants, J. Indian Math. Soc. 19 (1955).
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import legendre
from scipy.special import gammaln

from attnscope.numerics import validation as check

__all__ = ["LARGEST_SIDE", "resolvent_trace"]

LARGEST_SIDE = 200  # of the smaller side: 200 functions on 10^4 nodes, a second; accuracy is still 1e-10 there
NODES = 16  # Gauss nodes per panel
REACH = 9.0  # P(largest singular value > sqrt(rows) + sqrt(columns) + 9) < e^-40


def resolvent_trace(rows: int, columns: int, c: float) -> float:
    """E tr (I + c X^T X)^-1, X of shape (rows, columns), c >= 0; min(rows, columns) <= 200.

    >>> resolvent_trace(0, 3, 1.0), round(resolvent_trace(5, 3, 1.0), 10)
    (3.0, 0.8781274156)
    """
    of = "resolvent_trace"
    rows, columns = check.integer(rows, "rows", of, 0), check.integer(columns, "columns", of, 1)
    c = check.real(c, "c", of, 0)
    N = check.integer(min(rows, columns), "the smaller of rows and columns", of, 0, LARGEST_SIDE)
    if N == 0:
        return float(columns)
    y, weight, integral = _grid(rows, columns)
    g = _laguerre_functions(N, abs(rows - columns), y)  # (N, nodes)
    f = 1 / (1 + c * y**2)
    A, B = _pairing(g, g, weight, integral), _pairing(f * g, g, weight, integral)
    moved = B - B.T
    if N % 2:
        A, moved = _bordered(A, g @ weight), _bordered(moved, (f * g) @ weight)
    return max(columns - rows, 0) + float(np.trace(np.linalg.solve(A, moved))) / 2


def _grid(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes y and weights on the range of the singular values, and the matrix of running integrals within one panel."""
    low = max(0.0, abs(rows**0.5 - columns**0.5) - REACH)
    high = rows**0.5 + columns**0.5 + REACH
    panels = int(np.ceil((high - low) * (1 + min(rows, columns) ** 0.5) / 2))  # at most 4 radians of phase in each
    x, w = legendre.leggauss(NODES)
    basis = np.linalg.inv(legendre.legvander(x, NODES - 1))  # values at the nodes -> Legendre coefficients
    running = legendre.legvander(x, NODES) @ legendre.legint(basis, lbnd=-1)
    half = (high - low) / panels / 2
    centres = low + half * (2 * np.arange(panels) + 1)
    return (centres[:, None] + half * x).ravel(), np.tile(half * w, panels), half * running


def _laguerre_functions(N: int, a: int, y: np.ndarray) -> np.ndarray:
    """g_i = 2 L_i^(a)(x) x^{a/2} e^{-x/2} sqrt(i!/Gamma(i+a+1)), x = y^2, by the normalised three-term recurrence."""
    x = y**2
    g = np.zeros((N, len(y)))
    g[0] = 2 * np.exp(a * np.log(y) - x / 2 - gammaln(a + 1) / 2)
    for i in range(N - 1):
        before = 0.0 if i == 0 else np.sqrt(i * (i + a)) * g[i - 1]
        g[i + 1] = ((2 * i + 1 + a - x) * g[i] - before) / np.sqrt((i + 1) * (i + 1 + a))
    return g


def _pairing(g: np.ndarray, h: np.ndarray, weight: np.ndarray, integral: np.ndarray) -> np.ndarray:
    """int int sgn(y' - y) g_i(y) h_j(y') dy dy'."""
    parts = g.reshape(len(g), -1, NODES)
    inside = parts @ integral.T
    totals = parts @ weight[:NODES]
    before = np.cumsum(totals, axis=1) - totals
    primitive = (inside + before[:, :, None]).reshape(g.shape)
    return (2 * primitive - totals.sum(axis=1)[:, None]) * weight @ h.T


def _bordered(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.block([[A, b[:, None]], [-b[None, :], np.zeros((1, 1))]])
