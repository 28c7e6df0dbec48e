"""rho by maximum likelihood: the effect of the neighbours on the scores, or on the residuals.

notation: y scores (n,), x features, W the mean over neighbours; all centred in each map.

    scores      y = rho W y + x b + e           SSE(rho) = |M (y - rho W y)|^2, M clearing x
    residuals   y = x b + u,  u = rho W u + e   SSE(rho) = |M' (I - rho W) y|^2, M' clearing (I - rho W) x

With normal e, the restricted log likelihood (each map has its own constant, which is projected out),
profiled over b and the variance, is

    -((n - maps)/2) log SSE(rho) + sum over maps of log det(F'(I - rho W) F),

F an orthonormal basis across the constant: det(F'AF) = det(A) 1'A^-1 1/n. A map of n tiles, k of
them without neighbours, has 1'(I - rho W)^-1 1 = k + (n - k)/(1 - rho). With estimated constants
instead, rho would be too small by a few over the number of tiles of a map, for any number of maps.
The error is a fifth of the longer half of the interval in which the likelihood falls by
LIKELIHOOD_DEPTH, which corresponds to 5 standard errors of a normal estimate.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from attnscope.estimators.tiles.grid import Tiles, centred, log_determinant, neighbour_means
from attnscope.numerics.border.estimate import Estimate, estimate

__all__ = ["rho_estimates"]

COARSE_RHO_COUNT = 17  # points of rho on which the highest peak is searched
LIKELIHOOD_DEPTH = 12.5  # of log likelihood: 5 standard errors
MIN_SSE = 1e-300  # keeps the logarithm of an SSE finite


def rho_estimates(
    y: np.ndarray, own: np.ndarray, around: np.ndarray, maps: list[Tiles]
) -> tuple[Estimate, Estimate]:
    """rho of both models by maximum likelihood."""
    free = len(y) - len(maps)
    log_det, low = log_determinant(maps)
    sizes = np.array([len(tiles.counts) for tiles in maps])
    alone = np.array([int((tiles.counts == 0).sum()) for tiles in maps])
    across = lambda rho: float(np.log((alone + (sizes - alone) / (1 - rho)) / sizes).sum())
    wy = centred(maps, neighbour_means(maps, y[:, None]))[:, 0]
    clear = lambda z: z - own @ (own.T @ z)
    ends = np.stack([clear(y), clear(wy)], axis=1)
    inner = ends.T @ ends
    z = np.column_stack([own, y])
    wz = np.column_stack([around, wy])
    cross = z.T @ wz + wz.T @ z
    near = z.T @ z
    far = wz.T @ wz

    def of_scores(rho: float) -> float:
        step = np.array([1.0, -rho])
        return float(step @ inner @ step)

    def of_residuals(rho: float) -> float:
        """|M (I - rho W) y|^2, M clearing (I - rho W) x: a Schur complement."""
        gram = near - rho * cross + rho**2 * far
        part = gram[:-1, -1]
        return float(gram[-1, -1] - part @ np.linalg.lstsq(gram[:-1, :-1], part)[0])

    def model(squares: Callable[[float], float]) -> Estimate:
        def value(rho: float) -> float:
            fit = -0.5 * free * float(np.log(max(squares(rho), MIN_SSE)))
            return fit + log_det(rho) + across(rho)

        return _peak_estimate(value, low)

    return model(of_scores), model(of_residuals)


def _peak_estimate(value: Callable[[float], float], low: float) -> Estimate:
    """The maximum of the log likelihood; its error is a fifth of the longer distance to a fall by
    LIKELIHOOD_DEPTH.
    """
    # denser towards 1
    u = np.linspace(0, 1, COARSE_RHO_COUNT + 2)[1:-1]
    grid = low + (1 - low) * (1 - (1 - u) ** 2)
    heights = [value(float(rho)) for rho in grid]
    i = int(np.argmax(heights))
    left = float(grid[i - 1]) if i else low
    right = float(grid[i + 1]) if i + 1 < COARSE_RHO_COUNT else 1.0
    found = minimize_scalar(
        lambda rho: -value(float(rho)), bounds=(left, right), method="bounded",
        options={"xatol": 1e-9},
    )  # fmt: skip
    rho = float(found.x)
    top = value(rho)
    drop = lambda x: value(x) - top + LIKELIHOOD_DEPTH
    sides = [rho - _crossing_point(drop, rho, low), _crossing_point(drop, rho, 1.0) - rho]
    return estimate(rho, max(sides) / 5, "maximum likelihood")


def _crossing_point(drop: Callable[[float], float], top: float, wall: float) -> float:
    """Where `drop` crosses 0 between the top and the wall."""
    step = 1e-9 * (wall - top)
    inside = top
    share = 1e-3
    while share < 1:
        outside = top + share * (wall - top)
        if drop(outside) < 0:
            return float(brentq(drop, inside, outside, xtol=abs(step), rtol=1e-4))
        inside = outside
        share *= 2
    return wall
