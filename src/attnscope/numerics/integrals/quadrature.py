"""Panelled Gauss-Legendre rules for integrands that turn at known places on known scales.

Break points around a place c with scale w are c +- w (0, 1, 2, ..., 8, 16, 32, ...): unit panels
where the integrand turns, doubling panels where it is flat or decays. Each panel carries a 20-point
rule, exact to degree 39; the 12-point rule on the same panels gives the error estimate.
`normal_panels` serves Gaussian expectations E[f(G)] of functions such as erf(lam (m + gam G)),
which turns around G = -m/gam on the scale 1/(lam gam): the line is cut at |G| <= 38 (the standard
normal density is 1e-314 there, the edge of float64, so risks as small as 1e-300 keep their relative
accuracy) and at every integer, and refined around the places.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = [
    "EPS",
    "NORMAL_REACH_SIGMAS",
    "doubling_edges",
    "legendre",
    "normal_panels",
    "panel_nodes",
]

EPS = float(np.finfo(np.float64).eps)  # the spacing of float64 at 1
DENSITY_REACH_SIGMAS = 38.0  # the module docstring explains this number
# a standard normal exceeds 9.5 in absolute value with probability 2e-21
NORMAL_REACH_SIGMAS = 9.5
# nodes per panel of the value and of the comparison that estimates its error
FINE_NODES = 20
COARSE_NODES = 12


@lru_cache
def legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    return (x + 1) / 2, w / 2


def doubling_edges(
    places: Sequence[tuple[float, float]],
    low: float,
    high: float,
    cuts: Sequence[float] | np.ndarray = (),
) -> np.ndarray:
    """Sorted break points in [low, high]: the cuts, and the doubling pattern around every (place,
    scale).
    """
    points: list[Any] = [(low, high), cuts]
    for place, scale in places:
        stop = max(5, np.ceil(np.log2((high - low) / scale)) + 1)
        steps = scale * _doubling_distances(int(stop))
        points += [place + steps, place - steps]
    edges = np.minimum(np.maximum(np.concatenate(points), low), high)
    edges.sort()
    kept = np.ones(edges.size, dtype=bool)
    np.greater(edges[1:], edges[:-1], out=kept[1:])
    return edges[kept]


@lru_cache(maxsize=32)
def _doubling_distances(stop: int) -> np.ndarray:
    """0, 1, ..., 8, 16, 32, ..., 2^(stop - 1)."""
    return np.concatenate([np.arange(9.0), 2.0 ** np.arange(4, stop)])


def panel_nodes(edges: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """(nodes, weights) of the fine rule and of the coarse rule on the panels between the edges."""
    left = edges[:-1, None]
    width = np.diff(edges)[:, None]
    rules = (legendre(FINE_NODES), legendre(COARSE_NODES))
    # each (panels * nodes,)
    return [((left + width * x).ravel(), (width * w).ravel()) for x, w in rules]


def normal_panels(
    places: Sequence[tuple[float, float]], kinks: Sequence[float] = ()
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(g, w), fine and coarse, with E[f(G)] = sum w f(g)
    for a standard normal G and f that turns at the (place, scale) pairs.
    """
    # the integer grid resolves the others
    narrow = [(place, scale) for place, scale in places if scale < 1]
    edges = doubling_edges(
        narrow,
        -DENSITY_REACH_SIGMAS,
        DENSITY_REACH_SIGMAS,
        [*np.arange(-DENSITY_REACH_SIGMAS + 1, DENSITY_REACH_SIGMAS), *kinks],
    )
    return [(g, w * np.exp(-0.5 * g * g) / np.sqrt(2 * np.pi)) for g, w in panel_nodes(edges)]
