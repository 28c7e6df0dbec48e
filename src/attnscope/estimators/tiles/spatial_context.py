"""Which neighbours matter on a map of attention scores: features, scores or residuals.

notation: y_i the score of tile i, x_i its features (p), W the mean over neighbours (grid.py).

Four least-squares regressions with a constant in each map (weights are normalised bag by bag),

    baseline    y ~ x                                      e = y - fit, its residuals
    features    y ~ x, Wx        scores   y ~ x, Wy        residuals   y ~ x, We

and three gains in R^2 over the baseline. For stationary fields on a torus the gains of an infinite
map have a closed form (claim around-09), and at the true radius the largest gain identifies the
source of the scores. A gain in R^2 measures association: Wy on the right has an effect in both
directions, so its least-squares coefficient is too large. The coefficient itself comes from the
Gaussian likelihood,

    scores      y = rho W y + x b + e         residuals   y = x b + u,  u = rho W u + e,

each profiled over b and the variance (likelihood.py).

Errors. Tiles are dependent, so influences are summed over blocks of tiles (or over maps, if there
are enough), and the variance is that of these sums. Tile i changes R^2 of model j by
psi_i = -(e_ji^2 - (SSE_j/SST) y_i^2)/SST: least-squares coefficients do not matter to first order,
except those of the baseline, which change We. To second order a fit with p_j coefficients is too
good by t_j = tr(H^-1 J), J the covariance of the block sums of its scores (Takeuchi): R^2 below is
1 - (SSE + t_j)/(SST + t_y). A gain is a squared partial correlation r^2 given the baseline. Its
error is a fifth of the longer half of the interval of 5 standard errors in Fisher's z = artanh r,
where they do not depend on r, so a gain of 0 has an error too. Blocks are at least two
neighbourhoods wide, and in large maps three times as wide as the dependence reaches,
sqrt(rho v/(2 (1 - rho))) tiles, v the mean squared step to a neighbour along an axis. The interval
of rho is that of its likelihood; on a grid without edges it does not require normal e.

R^2 and rho are exact, given the scores. The errors are approximate, for blocks wider than the
dependence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.estimators.tiles.grid import CONTIGUITY_NAMES, Tiles, centred, neighbour_means
from attnscope.estimators.tiles.likelihood import rho_estimates
from attnscope.estimators.tiles.maps import blocks_of, dependence_reach, read_maps
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.sampled_estimate import widened

__all__ = ["SpatialContext", "spatial_context"]

CONSTANT_SPREAD_SHARE = 1e-12  # smaller relative variation is rounding
# a smaller residual variance is the rounding error of a baseline that explains everything
PERFECT_RESIDUAL_SHARE = 1e-10
# a regressor with a smaller residual is a combination of the others
DEPENDENT_LENGTH_SHARE = 1e-9


class SpatialContext(NamedTuple):
    """R^2 of the features alone, three gains in R^2, two coefficients, each with its error.

    Attributes:
        baseline: R^2 of the features alone.
        features, scores, residuals: gains in R^2 by the neighbours' features, scores and residuals.
        rho, rho_residuals: coefficients of the neighbours' scores and residuals, by likelihood.
        fitted: R^2 of the four regressions as they are in the sample, without correction.
        tiles: how many.
        neighbours: how many a tile has on average.

    >>> import attnscope as at
    >>> import numpy as np
    >>> x, y = np.random.default_rng(0).standard_normal((2, 400))
    >>> found = at.spatial_context(y, x[:, None], (20, 20))
    >>> found.tiles, sorted(found.gains)
    (400, ['features', 'residuals', 'scores'])
    """

    baseline: Estimate
    features: Estimate
    scores: Estimate
    residuals: Estimate
    rho: Estimate
    rho_residuals: Estimate
    fitted: dict[str, float]
    tiles: int
    neighbours: float

    @property
    def gains(self) -> dict[str, Estimate]:
        """The three gains by name."""
        return {
            "features": self.features,
            "scores": self.scores,
            "residuals": self.residuals,
        }

    @property
    def largest(self) -> str:
        """The name of the largest gain."""
        return max(self.gains, key=lambda name: self.gains[name].value)

    def __str__(self) -> str:
        rows = [("baseline R^2", self.baseline)]
        rows += [(f"gain by neighbours' {name}", gain) for name, gain in self.gains.items()]
        rows += [("rho of scores", self.rho), ("rho of residuals", self.rho_residuals)]
        lines = [f"{name:29s} {e.value:8.4f} +- {e.error:.4f}" for name, e in rows]
        size = f"{self.tiles} tiles, {self.neighbours:.1f} neighbours each"
        return "\n".join([size, *lines])


class _Fit(NamedTuple):
    """A regression: its residuals, R^2 in the sample and corrected, influence of every tile on it,
    and the square of z that the new regressors would have by chance, each.
    """

    left: np.ndarray
    fitted: float
    corrected: float
    influence: np.ndarray
    chance: float


def spatial_context(
    scores: Any,
    features: Any,
    grid: Any,
    radius: int = 1,
    contiguity: str = "queen",
    wrap: bool = False,
) -> SpatialContext:
    """Which neighbours matter for the scores of tiles on a grid; see the module docstring.

    Args:
        scores: a number per tile (n,): attention weights, their logarithms, any map. Several maps:
            a list of such, or (maps, n).
        features: (n, p), in the same order; a list of them for several maps.
        grid: (rows, columns) of tiles listed row by row, or the position of each tile in whole
            numbers (n, 2); for several maps one (rows, columns) for all, or a list.
        radius: neighbours are tiles at most this many steps away.
        contiguity: "queen" (steps of a king) or "rook" (steps along the axes).
        wrap: the grid closes on itself at its edges.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((30, 30))
    >>> ring = sum(np.roll(x, s, (0, 1)) for s in [(0, 1), (1, 0), (0, -1), (-1, 0)]) / 4
    >>> y = x + ring + 0.3 * rng.standard_normal((30, 30))
    >>> found = spatial_context(y.ravel(), x.reshape(-1, 1), (30, 30), contiguity="rook", wrap=True)
    >>> found.largest, round(found.features.value, 2), found.features.error < 0.05
    ('features', 0.19, True)
    """
    of = "spatial_context"
    r = check.integer(radius, "radius", of, 1, 1000, hint="radius=1")
    if contiguity not in CONTIGUITY_NAMES:
        raise bad("contiguity", of, f"one of {CONTIGUITY_NAMES}", contiguity)
    if not isinstance(wrap, bool | np.bool_):
        raise bad("wrap", of, "True or False", wrap)
    y, x, maps = read_maps(scores, features, grid, r, contiguity, bool(wrap), of)
    if np.ptp(y) <= CONSTANT_SPREAD_SHARE * np.abs(y).max():
        raise bad("scores", of, "not all the same", f"{len(y)} times {y[0]:g}")
    return _measure_context(
        _scaled_columns(y[:, None], maps)[:, 0], _scaled_columns(x, maps), maps, r, of
    )


def _scaled_columns(columns: np.ndarray, maps: list[Tiles]) -> np.ndarray:
    """Columns of mean 0 in each map and largest entry 1; what is constant up to rounding is 0."""
    size = np.abs(columns).max(axis=0)
    out = centred(maps, columns)
    left = np.abs(out).max(axis=0)
    out[:, left <= CONSTANT_SPREAD_SHARE * size] = 0.0
    return out / np.where(left > 0, left, 1.0)


def _measure_context(
    y: np.ndarray, x: np.ndarray, maps: list[Tiles], r: int, of: str
) -> SpatialContext:
    n = len(y)
    blocks_of(maps, r, 0.0, of)  # a map too small is refused first
    own = _added_basis(x, np.empty((n, 0)))
    if n <= 2 * x.shape[1] + len(maps) + 1:
        must = f"of p with 2 p + maps + 1 < n: each of {n} tiles is one equation"
        hint = "their first principal components, or several maps"
        raise bad("features", of, must, f"p = {x.shape[1]}", hint)
    left = y - own @ (own.T @ y)
    if float(left @ left) <= PERFECT_RESIDUAL_SHARE * float(y @ y):
        must = "no linear function of the features: nothing is left for neighbours to explain"
        raise bad("scores", of, must, "R^2 = 1", "features without the scores")
    around = centred(maps, neighbour_means(maps, own))
    rho, rest = rho_estimates(y, own, around, maps)
    blocks = blocks_of(maps, r, dependence_reach(maps, max(rho.value, rest.value)), of)
    sizes = _map_sizes(maps, blocks)
    base = _least_squares(y, own, own, blocks, sizes)
    means = {"features": x, "scores": y[:, None], "residuals": base.left[:, None]}
    fits = {}
    for name, column in means.items():
        new = _added_basis(centred(maps, neighbour_means(maps, column)), own)
        fits[name] = _least_squares(y, np.hstack([own, new]), new, blocks, sizes)
    fits["residuals"] = _baseline_moves(fits["residuals"], base, y, own, around, maps)
    count = int(blocks.max()) + 1
    method = f"least squares on {n} tiles, error from {count} blocks"

    def gain(fit: _Fit, over: _Fit | None) -> Estimate:
        psi = fit.influence if over is None else fit.influence - over.influence
        sums = np.bincount(blocks, weights=psi)
        first = float(np.sqrt(np.sum(sums**2) * count / (count - 1)))
        value = fit.corrected - (0.0 if over is None else over.corrected)
        unexplained_share = (
            1.0 if over is None else 1 - over.fitted
        )  # what there is to explain
        r2 = min(max(1 - (1 - fit.fitted) / unexplained_share, 0.0), 1.0)
        share = _fisher_error(r2, first / unexplained_share, fit.chance, count)
        # an unexplained share that is small by chance must not make the error small
        least = (
            unexplained_share if over is None else unexplained_share + gain(over, None).error
        )
        return estimate(value, least * share, method)

    average = float(np.concatenate([tiles.counts for tiles in maps]).mean())
    sample = {"baseline": base.fitted} | {name: fit.fitted for name, fit in fits.items()}
    gains = {name: gain(fit, base) for name, fit in fits.items()}
    return SpatialContext(
        gain(base, None),
        gains["features"],
        gains["scores"],
        gains["residuals"],
        rho,
        rest,
        sample,
        n,
        average,
    )


def _fisher_error(r2: float, error: float, chance: float, count: int) -> float:
    """The error of a squared correlation r2 with standard error `error`, computed in Fisher's z."""
    r = r2**0.5
    steep = 2 * r * (1 - r2)
    z_error = max(error / steep if steep > 0 else 0.0, chance**0.5)
    reach = 5 * widened(z_error, count)
    z = float(np.arctanh(min(r, 1 - 1e-16)))
    sides = np.tanh([max(z - reach, 0.0), z + reach]) ** 2
    return float(np.max(np.abs(sides - r2))) / 5


# -- regressions -----------------------------------------------------------------------------------


def _added_basis(columns: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Orthonormal columns that span the part of these columns outside the given orthonormal ones."""
    size = np.linalg.norm(columns, axis=0)
    kept = columns[:, size > 0] / size[size > 0]
    for _ in range(2):  # twice is enough
        kept = kept - given @ (given.T @ kept)
    u, s, _ = np.linalg.svd(kept, full_matrices=False)
    u = u[:, s > DEPENDENT_LENGTH_SHARE]
    return u - given @ (given.T @ u)


def _map_sizes(maps: list[Tiles], blocks: np.ndarray) -> np.ndarray:
    """Of every block, the number of tiles of its map."""
    tiles = np.concatenate([np.full(len(m.counts), len(m.counts)) for m in maps])
    out = np.empty(int(blocks.max()) + 1)
    out[blocks] = tiles
    return out


def _least_squares(
    y: np.ndarray, basis: np.ndarray, new: np.ndarray, blocks: np.ndarray, sizes: np.ndarray
) -> _Fit:
    """Least squares of centred y on orthonormal columns, the last of them new."""
    left = y - basis @ (basis.T @ y)
    total = float(y @ y)
    rest = float(left @ left)
    sums = [np.bincount(blocks, weights=left * column) for column in basis.T]
    optimism = np.sum(np.square(sums), axis=1) if sums else np.zeros(0)
    constants = lambda z: float(np.sum(np.bincount(blocks, weights=z) ** 2 / sizes))
    too_good = float(optimism.sum()) + constants(left)
    corrected = 1 - (rest + too_good) / (total + constants(y))
    influence = -(left**2 - rest / total * y**2) / total
    p = new.shape[1]
    chance = float(optimism[-p:].sum()) / (p * rest) if p and rest > 0 else 0.0
    return _Fit(left, 1 - rest / total, corrected, influence, chance)


def _baseline_moves(
    fit: _Fit,
    base: _Fit,
    y: np.ndarray,
    own: np.ndarray,
    around: np.ndarray,
    maps: list[Tiles],
) -> _Fit:
    """The residuals' regression feels the baseline's coefficients through We:
    dSSE = 2 rho sum_i e_i (W x)_i . d beta, and tile i moves beta by own_i base_i.
    """
    lagged = centred(maps, neighbour_means(maps, base.left[:, None]))[:, 0]
    lagged = lagged - own @ (own.T @ lagged)
    own_size = float(lagged @ lagged)
    if own_size == 0:
        return fit  # the features determine the neighbours' residuals of every tile
    rho = float(lagged @ y) / own_size
    slope = 2 * rho * (fit.left @ around)
    moved = fit.influence - (own @ slope) * base.left / float(y @ y)
    return fit._replace(influence=moved)
