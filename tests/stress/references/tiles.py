"""Truths about maps of tiles: regressions and likelihoods from their definitions, and the gains of
endless maps.

Neighbours are found by comparing all pairs of tiles; W is a dense matrix; determinants are
eliminated, not read off eigenvalues. Gains of an endless map: covariances at all lags of a torus
that is larger than any correlation, from the filters' kernels, not from means over frequencies.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["coefficients", "endless_gains", "mean_matrix", "r_squared"]

LAGS = 96  # rows and columns of the torus whose lags are summed
GRID = 60  # points of rho to start from
ROUNDS = 60  # of golden sections


def mean_matrix(
    places: np.ndarray, radius: int, rook: bool, sizes: tuple[int, ...]
) -> np.ndarray:
    """The mean over neighbours, (n, n); sizes () where the grid has edges."""
    n = len(places)
    W = np.zeros((n, n))
    for i in range(n):
        away = np.abs(places - places[i])
        if sizes:
            away = np.minimum(away, np.array(sizes) - away)
        far = away.sum(axis=1) if rook else away.max(axis=1)
        near = (far <= radius) & (far > 0)
        if near.any():
            W[i, near] = 1 / near.sum()
    return W


def _rest(y: np.ndarray, columns: list[np.ndarray]) -> np.ndarray:
    design = np.column_stack([np.ones(len(y)), *columns])
    return y - design @ np.linalg.lstsq(design, y, rcond=None)[0]


def r_squared(y: np.ndarray, x: np.ndarray, W: np.ndarray) -> list[float]:
    """Of the baseline, and with neighbours' features, scores and residuals."""
    y = y - y.mean()
    x = x - x.mean(axis=0)
    e = _rest(y, [x])
    left = [e, *(_rest(y, [x, W @ z]) for z in (x, y, e))]
    return [1 - float(r @ r) / float(y @ y) for r in left]


def coefficients(y: np.ndarray, x: np.ndarray, W: np.ndarray) -> list[float]:
    """rho of scores and of residuals: the highest point of each profile likelihood of F'y, F an
    orthonormal basis across the constant.
    """
    n = len(y)
    low = 1 / np.linalg.eigvals(W).real.min()
    y = y - y.mean()
    x = x - x.mean(axis=0)
    F = np.linalg.svd(np.ones((n, 1)), full_matrices=True)[0][:, 1:]

    def height(A: np.ndarray, design: np.ndarray) -> float:
        right = F.T @ (A @ y)
        columns = F.T @ design
        left = right - columns @ np.linalg.lstsq(columns, right, rcond=None)[0]
        return -(n - 1) / 2 * np.log(left @ left) + np.linalg.slogdet(F.T @ A @ F)[1]

    of_scores = lambda rho: height(np.eye(n) - rho * W, x)
    of_residuals = lambda rho: height(np.eye(n) - rho * W, (np.eye(n) - rho * W) @ x)
    return [_highest(f, low) for f in (of_scores, of_residuals)]


def _highest(f: Callable[[float], float], low: float) -> float:
    inner = np.concatenate(
        [np.linspace(low, 0.9, GRID)[1:], 1 - np.geomspace(0.1, 1e-3, GRID)]
    )
    heights = [f(float(rho)) for rho in inner]
    i = int(np.argmax(heights))
    a = float(inner[i - 1]) if i else low
    b = float(inner[i + 1]) if i + 1 < len(inner) else 1.0
    g = (5**0.5 - 1) / 2
    for _ in range(ROUNDS):
        c = b - g * (b - a)
        d = a + g * (b - a)
        if f(c) > f(d):
            b = d
        else:
            a = c
    return (a + b) / 2


def endless_gains(
    made_by: str, phi: float, c: float, radius: int
) -> tuple[float, float, float, float]:
    """R^2 of the baseline and three gains for x = (1 - phi W)^-1 white, y as in made_by with
    coefficient c; everything a field on the lags of a torus.
    """
    W = lambda f: _mean(f, radius)
    delta = np.zeros((LAGS, LAGS))
    delta[0, 0] = 1.0
    x = _spread(delta, phi, W)
    if made_by == "features":
        from_x, from_e = x + c * W(x), delta
    elif made_by == "scores":
        from_x, from_e = _spread(x, c, W), _spread(delta, c, W)
    else:
        from_x, from_e = x, _spread(delta, c, W)
    none = np.zeros_like(delta)
    dot = lambda f, g: float(np.sum(f[0] * g[0]) + np.sum(f[1] * g[1]))
    X = (x, none)
    Y = (from_x, from_e)
    beta = dot(X, Y) / dot(X, X)
    E = (from_x - beta * x, from_e)
    base = beta * dot(X, Y) / dot(Y, Y)
    found = []
    for F in (X, Y, E):
        M = (W(F[0]), W(F[1]))
        gram = np.array([[dot(X, X), dot(X, M)], [dot(X, M), dot(M, M)]])
        right = np.array([dot(X, Y), dot(M, Y)])
        found.append(float(right @ np.linalg.solve(gram, right)) / dot(Y, Y) - base)
    return base, found[0], found[1], found[2]


def _mean(f: np.ndarray, radius: int) -> np.ndarray:
    steps = range(-radius, radius + 1)
    moved = [np.roll(f, (i, j), (0, 1)) for i in steps for j in steps if (i, j) != (0, 0)]
    return sum(moved[1:], moved[0]) / len(moved)


def _spread(f: np.ndarray, c: float, W: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """(1 - c W)^-1 f by its series: |c| < 1 and W averages, so terms fall like c^k."""
    out = f
    term = f
    while np.abs(term).sum() > 1e-13:
        term = c * W(term)
        out = out + term
    return out
