"""Nodes for the averages of ridge ERM: several independent sets, so that their spread is the error.

Every set alone is unbiased; the equations use averages over all of them, and the spread between
sets estimates the error (ridge_solver.py). Two kinds:

    few dimensions   trapezoid rules for the normal law on a grid of step SHIFTED_GRID_STEP, shifted by a random
                     amount in every direction: exact to exp(-2 pi^2/SHIFTED_GRID_STEP^2) for smooth
                     integrands, and unbiased for those that jump
    more             scrambled Sobol points through the normal quantile

The nodes are functions of their seed and size: the same call gives the same numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri, ndtri

__all__ = [
    "NODE_SET_COUNT",
    "BagNodes",
    "Nodes",
    "grid_nodes",
    "linear_nodes",
    "sobol_nodes",
    "token_basis",
]

# an error from 16 independent sets is known to 18 %, and widened for that
NODE_SET_COUNT = 16
SHIFTED_GRID_STEP = 0.8  # exp(-2 pi^2/SHIFTED_GRID_STEP^2) = 4e-14
COORDINATE_REACH_SIGMAS = 6.5  # 1e-10 of the normal mass is beyond
# of the largest density: nodes below it, 1e-9 of the mass, are left out
SMALLEST_RELATIVE_DENSITY = 1e-11


class Nodes(NamedTuple):
    """Standard normal points (N, k), their weights (N,), which add up to 1 in each set, and their
    sets (N,), counted from 0.
    """

    points: np.ndarray
    weight: np.ndarray
    group: np.ndarray


class BagNodes(NamedTuple):
    """Standard normal points (N, 5) and chi-squared numbers (N, 2), set i mod NODE_SET_COUNT each."""

    points: np.ndarray
    squares: np.ndarray


@lru_cache(maxsize=8)
def grid_nodes(dimension: int, sets: int, seed: int) -> Nodes:
    """`sets` shifted grids in a few dimensions."""
    rng = np.random.default_rng([seed, dimension, 16])
    steps = np.arange(
        -math.ceil(COORDINATE_REACH_SIGMAS / SHIFTED_GRID_STEP) - 1,
        math.ceil(COORDINATE_REACH_SIGMAS / SHIFTED_GRID_STEP) + 1,
    )
    points = []
    weight = []
    for _ in range(sets):
        axes = [SHIFTED_GRID_STEP * (steps + rng.random()) for _ in range(dimension)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimension)
        density = np.exp(-0.5 * np.sum(grid**2, axis=1))
        kept = density > SMALLEST_RELATIVE_DENSITY
        points.append(grid[kept])
        weight.append(density[kept] / density.sum())
    sizes = [len(w) for w in weight]
    group = np.repeat(np.arange(sets), sizes)
    return Nodes(np.concatenate(points), np.concatenate(weight), group)


@lru_cache(maxsize=8)
def sobol_nodes(dimension: int, bits: int, sets: int, seed: int) -> Nodes:
    """`sets` scrambled nets of 2^bits points each."""
    points = ndtri(_sobol_points(dimension, bits, sets, seed))
    count = sets << bits
    return Nodes(points, np.full(count, sets / count), np.arange(count) % sets)


@lru_cache(maxsize=8)
def linear_nodes(length: int, bits: int, sets: int, seed: int) -> BagNodes:
    """Five normal numbers a bag, and for more than two tokens two chi-squared ones of
    length - 2 degrees of freedom.
    """
    uniform = _sobol_points(5 if length == 2 else 7, bits, sets, seed)
    squares = np.zeros((len(uniform), 2))
    if length > 2:
        squares = chdtri(length - 2, uniform[:, 5:])
    return BagNodes(
        ndtri(np.ascontiguousarray(uniform[:, :5])), np.ascontiguousarray(squares)
    )


def _sobol_points(dimension: int, bits: int, sets: int, seed: int) -> np.ndarray:
    """(sets 2^bits, dimension) in (0, 1), set i mod sets each."""
    from scipy.stats import qmc  # imported late: half a second

    nets = []
    for i in range(sets):
        rng = np.random.default_rng([seed, dimension, i])
        nets.append(qmc.Sobol(dimension, scramble=True, seed=rng).random_base2(bits))
    together = np.stack(nets, axis=1).reshape(-1, dimension)
    # Sobol numbers have 30 bits and may be 0: the quantile of the middle of the last cell
    return np.clip(together, 2.0**-31, 1 - 2.0**-31)


def token_basis(length: int) -> np.ndarray:
    """(L, L-1): an orthonormal basis of the vectors whose entries add up to 0."""
    basis = np.zeros((length, length - 1))
    for j in range(1, length):
        basis[:j, j - 1] = -1.0 / j
        basis[j, j - 1] = 1.0
        basis[:, j - 1] /= math.sqrt(1.0 + 1.0 / j)
    return basis
