"""A label's weights on few points: E[y g(x)] = sum_i W_i g(c_i) for any smooth g, found once.

notation: V, p the weights and points of the base cells (quadrature.py), c_i the N Chebyshev points
-X cos(pi i/(N-1)) of [-X, X], l_i their Lagrange polynomials, X the reach of the label.

    W_i = sum_p V_p l_i(p),        E[y g] - sum_i W_i g(c_i) = sum_p V_p (g - I g)(p),

I g the interpolant; |.| <= sum|V| max|g - I g|. The sizes of a ladder (FOLD_SIZES) are kept with
the weights. `tail` bounds max|g - I g| by the Chebyshev coefficients of g: those of an analytic g
fall like r^-n, and the last eighth of them shows how far.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from attnscope.theory.labels.quadrature import LabelWeights, lagrange_basis

__all__ = [
    "COEFFICIENT_ROUNDING",
    "FOLD_SIZES",
    "TAIL_FOLD_SIZES",
    "Folded",
    "cell_sizes",
    "coefficients",
    "fold",
    "tail",
]

FOLD_SIZES = (65, 97, 145, 217, 325, 485, 729, 1093, 1639)
# sizes tried where the tail decides: a g that 729 points do not resolve has a kink
TAIL_FOLD_SIZES = FOLD_SIZES[:7]
# of the largest value: coefficients of values that are good to rounding
COEFFICIENT_ROUNDING = 8 * 2.0**-52


class Folded(NamedTuple):
    """points, weights (N,); to_cells (b, N): from g at the points to g at the base cells."""

    points: np.ndarray
    weights: np.ndarray
    to_cells: np.ndarray


def fold(label: LabelWeights, size: int, kept: dict[int, Folded]) -> Folded:
    """The weights on `size` points; `kept` holds those found before."""
    if size not in kept:
        c = -label.reach * np.cos(np.pi * np.arange(size) / (size - 1))
        heft = (-1.0) ** np.arange(size)
        heft[[0, -1]] /= 2
        weights = label.weights.ravel() @ lagrange_basis(label.points.ravel(), c, heft)
        kept[size] = Folded(c, weights, lagrange_basis(label.centres, c, heft))
    return kept[size]


@lru_cache(maxsize=16)
def _chebyshev_transform(size: int) -> np.ndarray:
    """(N, N): from values at Chebyshev points to coefficients."""
    n = size - 1
    turns = np.outer(np.arange(size), np.arange(size)) % (2 * n)
    out = 2 / n * np.cos(np.pi * turns / n)
    out[:, [0, -1]] /= 2
    out[[0, -1]] /= 2
    return out


def coefficients(values: np.ndarray) -> np.ndarray:
    """Chebyshev coefficients from values at the points."""
    return np.asarray(_chebyshev_transform(len(values)) @ values[::-1])


def tail(values: np.ndarray, scale: float = 0.0) -> float:
    """A bound of the interpolation error from values (N,) at the points, as far as the decay of
    the coefficients shows it.

    Args:
        scale: the size of what was summed to the values, where they cancel.
    """
    size = len(values)
    sizes = np.abs(coefficients(values))
    eighth = max(4, size // 8)
    last = float(sizes[-eighth:].max())
    before = float(sizes[-2 * eighth : -eighth].max())
    largest = max(float(np.abs(values).max()), scale)
    if (
        last <= COEFFICIENT_ROUNDING * largest
    ):  # rounding of the values, which interpolation passes on
        return 8 * COEFFICIENT_ROUNDING * largest
    # decay by `last`/`before` over an eighth goes on: a geometric series, each coefficient counted
    # twice (interpolation folds what is left out back)
    ratio = min(last / before, 0.99) if before > 0 else 0.0
    return 2 * eighth * last / (1 - ratio)


def cell_sizes(found: Folded, values: np.ndarray, off: float) -> np.ndarray:
    """(b,) at least |g| on each base cell, by its value at the centre and those beside it."""
    at = np.abs(found.to_cells @ values) + off
    wide = np.concatenate([at[:1], at, at[-1:]])
    return np.asarray(np.maximum(np.maximum(wide[:-2], wide[2:]), at))
