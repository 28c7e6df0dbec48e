"""Two rules on a panel, places between their nodes, and the polynomial through the nodes of the
first.

notation: t in [0, 1] the place in a panel, s the values (panels, 20) at its Gauss-Legendre nodes.

Gauss-Lobatto: the ends and the zeros of P_12', weights 2/(13 12 P_12^2) on [-1, 1]; exact to degree
23. The polynomial of degree 19 through s has Legendre coefficients (2 j + 1) sum_i w_i P_j s_i,
which the
20-point rule gives exactly. All of this is exact up to rounding.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from attnscope.numerics.integrals.quadrature import FINE_NODES, legendre

__all__ = [
    "GOLDEN_GAP",
    "LOBATTO_POINTS",
    "explained_by",
    "first_two",
    "golden",
    "golden_interpolation",
    "lobatto",
    "through",
    "values_at",
]

# points of the Lobatto rule: the weight of an end, 1/156, is above the place of the first Legendre
# node, 1/290
LOBATTO_POINTS = 13
# largest gap of n golden-section places in [0, 1], also from one panel to the next, times n
# (tested)
GOLDEN_GAP = 1.9


@lru_cache
def lobatto() -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Lobatto nodes and weights on [0, 1]:
    the ends, and the zeros of the derivative of a Legendre polynomial.
    """
    top = np.polynomial.legendre.Legendre.basis(LOBATTO_POINTS - 1)
    x = np.concatenate([[-1.0], np.sort(top.deriv().roots().real), [1.0]])
    x = (x - x[::-1]) / 2  # symmetric
    return (x + 1) / 2, 1 / (LOBATTO_POINTS * (LOBATTO_POINTS - 1) * top(x) ** 2)


@lru_cache
def golden(n: int) -> np.ndarray:
    """n places in (0, 1), irregular and evenly spread:
    the fractional parts of multiples of the golden section.
    """
    return np.sort(np.arange(1, n + 1) * ((math.sqrt(5) - 1) / 2) % 1.0)


def through(s: np.ndarray, places: np.ndarray) -> np.ndarray:
    """(panels, places): I at the given parts of every panel."""
    return explained_by(s, values_at(places).T)


def explained_by(s: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The same with the matrix `values_at(places).T`.

    A constant is taken off, so that its rounding is not multiplied.
    """
    middle = s[:, FINE_NODES // 2, None]
    out = (s - middle) @ matrix
    out += middle
    return out


@lru_cache(maxsize=32)
def golden_interpolation(n: int) -> np.ndarray:
    """(20, n): values at the golden places by those at the nodes."""
    return np.ascontiguousarray(values_at(golden(n)).T)


def values_at(t: np.ndarray) -> np.ndarray:
    """The same for any t in [0, 1], by Legendre coefficients,
    which the 20-point rule gives exactly.
    """
    x, w = legendre(FINE_NODES)
    to_coefficients = (2 * np.arange(FINE_NODES) + 1)[:, None] * (
        np.polynomial.legendre.legvander(2 * x - 1, FINE_NODES - 1).T * w
    )
    return np.polynomial.legendre.legvander(2 * t - 1, FINE_NODES - 1) @ to_coefficients


def first_two(g: np.ndarray, s: np.ndarray, ds: Any) -> tuple[np.ndarray, Any]:
    """The integrands s and s^2, with what an error ds of s does to them."""
    values = np.stack([s, s * s])
    return values, None if ds is None else np.stack([ds, (2 * np.abs(s) + ds) * ds])
