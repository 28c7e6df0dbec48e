"""Stationary fields on a torus: what neighbours explain, by means over frequencies.

notation: N rows and columns; w(theta) the symbol of W, the mean over neighbours: W acts on a
frequency as the number w; S_x, S_yx, S_yy spectra; phi, rho coefficients.

Features x = (1 - phi W)^-1 white noise, e white noise, and three ways to make scores y:

    features    y = x + .8 W x + e
    scores      y = (1 - .6 W)^-1 (x + e)
    residuals   y = x + (1 - .8 W)^-1 e

E (W^a f)(W^b g) = mean over theta of w^(a+b) S_fg, so every normal equation of spatial_context is
2 x 2 with such means as entries, and R^2 follows for any radius of the regression, the true one or
another. Derived for this project.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["COEFFICIENT", "MADE_BY", "Spectra", "field", "gains", "least_squares", "spectra"]

MADE_BY = ("features", "scores", "residuals")
COEFFICIENT = {"features": 0.8, "scores": 0.6, "residuals": 0.8}


class Spectra(NamedTuple):
    """S_x, S_yx and S_yy over the frequencies."""

    x: np.ndarray
    yx: np.ndarray
    y: np.ndarray


def symbol(size: int, radius: int, contiguity: str = "queen") -> np.ndarray:
    """w(theta) on size x size frequencies: the mean of cos(theta.step) over the steps."""
    theta = 2 * np.pi * np.arange(size) / size
    window = range(-radius, radius + 1)
    far = max if contiguity == "queen" else lambda a, b: a + b
    steps = [(i, j) for i in window for j in window if 0 < far(abs(i), abs(j)) <= radius]
    waves = [np.cos(i * theta[:, None] + j * theta[None, :]) for i, j in steps]
    return np.mean(waves, axis=0)


def _filters(made_by: str, phi: float, w: np.ndarray) -> tuple[np.ndarray, ...]:
    """(from white noise to x, from x to y, from e to y)."""
    c = COEFFICIENT[made_by]
    first = 1 / (1 - phi * w)
    spread = 1 / (1 - c * w)
    one = np.ones_like(w)
    table = {
        "features": (first, 1 + c * w, one),
        "scores": (first, spread, spread),
        "residuals": (first, one, spread),
    }
    return table[made_by]


def spectra(made_by: str, phi: float, w: np.ndarray) -> Spectra:
    """Of x and y, unit white noise."""
    first, of_x, of_e = _filters(made_by, phi, w)
    x = first**2
    return Spectra(x, of_x * x, of_x**2 * x + of_e**2)


def field(
    made_by: str, phi: float, w: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """One draw of (x, y), each of the shape of w."""
    first, of_x, of_e = _filters(made_by, phi, w)
    noise = np.fft.fft2(rng.standard_normal((2, *w.shape)))
    x = first * noise[0]
    y = of_x * x + of_e * noise[1]
    return np.fft.ifft2(x).real, np.fft.ifft2(y).real


def gains(s: Spectra, w: np.ndarray) -> np.ndarray:
    """Gains in R^2 over the baseline by neighbours' features, scores and residuals; w is the symbol
    of the regression's neighbourhood.
    """
    beta = s.yx.mean() / s.x.mean()
    total = s.y.mean()
    base = beta * s.yx.mean() / total
    e_with_x = s.yx - beta * s.x
    e_with_y = s.y - beta * s.yx
    e = e_with_y - beta * e_with_x
    # spectra of what is averaged: with x, with y, with itself
    means = ((s.x, s.yx, s.x), (s.yx, s.y, s.y), (e_with_x, e_with_y, e))
    fits = [_explained_share(s, w, *row) for row in means]
    return np.array(fits) / total - base


def _explained_share(
    s: Spectra, w: np.ndarray, with_x: np.ndarray, with_y: np.ndarray, own: np.ndarray
) -> float:
    """Variance that x and the mean of a field over neighbours explain together."""
    matrix, right = _equations(s, w, with_x, with_y, own)
    return float(right @ np.linalg.solve(matrix, right))


def _equations(
    s: Spectra, w: np.ndarray, with_x: np.ndarray, with_y: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    cross = np.mean(w * with_x)
    matrix = np.array([[s.x.mean(), cross], [cross, np.mean(w**2 * own)]])
    return matrix, np.array([s.yx.mean(), np.mean(w * with_y)])


def least_squares(rho: float, w: np.ndarray) -> float:
    """The limit of the least-squares coefficient of Wy beside x, for y = (1 - rho W)^-1 (x + e)."""
    spread = 1 / (1 - rho * w)
    s = Spectra(np.ones_like(w), spread, 2 * spread**2)
    matrix, right = _equations(s, w, s.yx, s.y, s.y)
    return float(np.linalg.solve(matrix, right)[1])
