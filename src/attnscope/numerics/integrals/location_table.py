"""The table behind location_channel.py: P(x) = 1 - E exp(-e^{x + s g}) and its slope, anywhere.

notation: s the scale of the score, g standard normal, p(z) = 1 - exp(-e^z).

P and its first three derivatives are averages of those of p over g, known in closed form. x runs
over a lattice of step h and s g over every few steps of the same lattice, so the table is a
convolution: p is evaluated once a lattice point. Between nodes P is the quintic through values,
slopes and curvatures of both ends, whose error is h^6 |P|/46080: 1e-10 at h = 0.08; P' is
interpolated in the same way. Where s is small a few Gauss-Hermite nodes are exact to rounding
instead.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from attnscope.numerics.compiled.numba_flags import STRICT_FLAGS

__all__ = [
    "COARSE_RULE",
    "FINE_RULE",
    "TABLE_REACH_SIGMAS",
    "TABLE_TOP",
    "Rule",
    "hermite",
    "narrow_means",
    "quintic_table",
    "rows",
]

TABLE_REACH_SIGMAS = 8.5  # standard deviations kept: the probability beyond is 2e-17
TABLE_TOP = 4.0  # largest argument of the kernel: exp(-e^4) = 2e-24
TABLE_DEPTH_NATS = 36.0  # nats below 1 where the table begins: e^-36 = 2e-16
SMALL_SCALE = 0.4  # of s, below which Gauss-Hermite nodes resolve p(x + s g)


class Rule(NamedTuple):
    """Steps of the quadratures: table, lattice steps in t, step of s g and of g, step of e over its
    standard deviation and in itself, step of y over its own; nodes over a narrow law.
    """

    table: float
    stride: int
    score: float
    label: tuple[float, float]
    output: float
    narrow: int


# errors: module docstring; the second rule has every step shorter by a third or more
COARSE_RULE = Rule(0.08, 4, 0.36, (0.7, 0.25), 0.22, 12)
FINE_RULE = Rule(0.05, 4, 0.24, (0.5, 0.16), 0.15, 16)


@lru_cache
def hermite(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of N(0, 1)."""
    x, w = np.polynomial.hermite_e.hermegauss(n)
    return x, w / w.sum()


def quintic_table(s: float, log_length: float, rule: Rule) -> tuple[float, np.ndarray]:
    """(first x, cells (n, 2, 6)): quintics for P and P' between x_i and x_{i+1}, in (x - x_i)/step.

    Below the first x both count as 0, beyond the last one P as 1 and P' as 0.
    """
    first = -min(s * s / 2, TABLE_REACH_SIGMAS * s) - TABLE_DEPTH_NATS - log_length
    last = TABLE_TOP + TABLE_REACH_SIGMAS * s
    x = first + rule.table * np.arange(math.ceil((last - first) / rule.table) + 1)
    if s <= SMALL_SCALE:
        g, weight = hermite(rule.narrow)
        nodes = np.zeros((x.size, 4))
        for z, w in zip(s * g, weight):
            nodes += w * _kernel(x + z)
    else:
        each = int(min(rule.score, rule.score * s) / rule.table)
        h = each * rule.table / s
        below = math.ceil(TABLE_REACH_SIGMAS / h)
        above = math.ceil((TABLE_REACH_SIGMAS + s) / h)
        g = h * np.arange(-below, above + 1)
        weight = h * np.exp(-0.5 * g * g) / math.sqrt(2 * math.pi)
        lattice = x[0] + rule.table * np.arange(-below * each, x.size + above * each)
        nodes = _strided_convolution(_kernel(lattice), weight, each, x.size)
    return first, _quintic_coefficients(nodes, rule.table)


@njit(**STRICT_FLAGS)
def _kernel(z: np.ndarray) -> np.ndarray:
    """1 - exp(-e^z) and its first three derivatives, (n, 4)."""
    out = np.zeros((z.size, 4))
    for i in range(z.size):
        if z[i] > 6.5:  # exp(-e^6.5) is 0 in float64
            out[i, 0] = 1.0
            continue
        E = math.exp(z[i])
        slope = E * math.exp(-E)
        out[i, 0] = -math.expm1(-E)
        out[i, 1] = slope
        out[i, 2] = slope * (1 - E)
        out[i, 3] = slope * (1 - 3 * E + E * E)
    return out


@njit(cache=True, error_model="numpy", nogil=True, fastmath={"contract", "nsz", "reassoc"})
def _strided_convolution(
    kernel: np.ndarray, weight: np.ndarray, each: int, n: int
) -> np.ndarray:
    """sum_j weight_j kernel[i + j each], (n, 4)."""
    out = np.zeros((n, 4))
    for j in range(weight.size):
        w = weight[j]
        for i in range(n):
            for k in range(4):
                out[i, k] += w * kernel[i + j * each, k]
    return out


@njit(**STRICT_FLAGS)
def _quintic_coefficients(nodes: np.ndarray, h: float) -> np.ndarray:
    """Coefficients of the quintics through value, slope and curvature at both ends of each cell."""
    n = nodes.shape[0] - 1
    cells = np.empty((n, 2, 6))
    for i in range(n):
        for f in range(2):
            c0 = nodes[i, f]
            c1 = h * nodes[i, f + 1]
            c2 = 0.5 * h * h * nodes[i, f + 2]
            gap = nodes[i + 1, f] - c0 - c1 - c2
            slope = h * nodes[i + 1, f + 1] - c1 - 2 * c2
            bend = h * h * nodes[i + 1, f + 2] - 2 * c2
            cells[i, f, 0] = c0
            cells[i, f, 1] = c1
            cells[i, f, 2] = c2
            cells[i, f, 3] = 10 * gap - 4 * slope + 0.5 * bend
            cells[i, f, 4] = -15 * gap + 7 * slope - bend
            cells[i, f, 5] = 6 * gap - 3 * slope + 0.5 * bend
    return cells


@njit(**STRICT_FLAGS)
def rows(
    t: np.ndarray, fall: np.ndarray, cells: np.ndarray, first: float, h: float
) -> np.ndarray:
    """P and P' at t - fall, (2, t, fall)."""
    out = np.zeros((2, t.size, fall.size))
    n = cells.shape[0]
    for i in range(t.size):
        for j in range(fall.size):
            x = (t[i] - fall[j] - first) / h
            if x < 0:
                break  # fall increases: nothing further along
            cell = int(x)
            if cell >= n:
                out[0, i, j] = 1.0
                continue
            u = x - cell
            for f in range(2):
                c = cells[cell, f]
                out[f, i, j] = c[0] + u * (
                    c[1] + u * (c[2] + u * (c[3] + u * (c[4] + u * c[5])))
                )
    return out


@njit(**STRICT_FLAGS)
def narrow_means(
    t: np.ndarray,
    mean: np.ndarray,
    off: np.ndarray,
    weight: np.ndarray,
    cells: np.ndarray,
    first: float,
    h: float,
    P: np.ndarray,
    K: np.ndarray,
    Kee: np.ndarray,
) -> None:
    """The three means by nodes mean + off."""
    n = cells.shape[0]
    P[:] = 0.0
    K[:] = 0.0
    Kee[:] = 0.0
    for y in range(mean.size):
        for j in range(off.size):
            e = mean[y] + off[j]
            square = e * e
            for i in range(t.size):
                x = (t[i] - 0.5 * square - first) / h
                if x < 0:
                    continue
                cell = int(x)
                if cell >= n:
                    P[i, y] += weight[j]
                    continue
                u = x - cell
                c = cells[cell, 0]
                P[i, y] += weight[j] * (
                    c[0] + u * (c[1] + u * (c[2] + u * (c[3] + u * (c[4] + u * c[5]))))
                )
                c = cells[cell, 1]
                slope = weight[j] * (
                    c[0] + u * (c[1] + u * (c[2] + u * (c[3] + u * (c[4] + u * c[5]))))
                )
                K[i, y] += slope
                Kee[i, y] += slope * square
