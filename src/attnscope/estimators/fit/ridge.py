"""Weighted ridge of numbers on tokens, its strength and the noise set by the evidence (MacKay
1992).

notation: x_c, y_c = rows centred and weighted by sqrt(weight), n = sum of weights; t_j, e_j =
eigenvalues and eigenvectors of x_c^T x_c (d, d); c = e^T x_c^T y_c; alpha = precision of V, sigma^2
= noise, lambda = alpha sigma^2.

    V = sum_j e_j c_j/(t_j + lambda),   Q = |y_c|^2 - sum_j c_j^2/(t_j + lambda) = RSS + lambda
        |V|^2,   sigma^2 = Q/(n-1);
    lambda minimises  (n-1) log Q + sum_j log(1 + t_j/lambda),  minus twice the log evidence with
    sigma^2 at its best.

Where the slope is zero, alpha = g/|V|^2 and sigma^2 = RSS/(n-1-g), g = sum_j t_j/(t_j + lambda). The
g keeps sigma from collapsing where d is near n. The search starts on a grid, because the usual
iteration of these two equations can end at an interpolation of the labels. A small part of the
labels' variance is added to sigma^2, so that data without noise have a finite lambda. The spectrum
comes from the Gram matrix of (1, x, y), which is additive over batches (`evidence_ridge`). With
fewer rows than features it comes from x_c x_c^T = u t u^T, with e_j = x_c^T u_j/sqrt t_j
(`row_ridge`), which gives the same V.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

__all__ = [
    "MIN_NOISE_SHARE",
    "Values",
    "evidence_ridge",
    "gram",
    "moments",
    "row_ridge",
    "values_from",
]

# smallest noise variance, relative to the labels': below it float64 sums of squares are rounding
# errors
MIN_NOISE_SHARE = 1e-6
# log10 of lambda over the largest eigenvalue: from no shrinkage to full shrinkage
RIDGE_GRID_DECADES = np.arange(-12, 4.25, 0.25)
# eigenvalues below this share of the largest are rounding errors
ZERO_EIGENVALUE_SHARE = 1e-12


class Values(NamedTuple):
    """V (d, m), b (m,), ridge precision alpha (on |V|^2/2 beside the negative log likelihood), and
    for numbers:

    variance that enters losses and responsibilities, variance of the noise, and the uncertainty of
    a prediction at x that comes from V and b: noise/n + |root^T (x - centre)|^2.
    """

    weights: np.ndarray
    bias: np.ndarray
    variance: float
    precision: float
    noise: float
    centre: np.ndarray
    root: np.ndarray
    bags: float

    def uncertainty(self, x: np.ndarray) -> np.ndarray:
        """Variance (N,) of the prediction at tokens x (N, d) due to V and b."""
        shifted = (x - self.centre) @ self.root
        return self.noise / self.bags + np.einsum("ij,ij->i", shifted, shifted)


def values_from(
    weights: np.ndarray, bias: np.ndarray, variance: float, precision: float
) -> Values:
    """Values before any fit: no uncertainty yet."""
    d = len(weights)
    return Values(
        weights, bias, variance, precision, variance, np.zeros(d), np.zeros((d, 0)), 1.0
    )


def moments(gram: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Weight, mean and covariance held in a Gram matrix of (1, x)."""
    weight = gram[0, 0]
    mean = gram[0, 1:] / weight
    return weight, mean, gram[1:, 1:] / weight - np.outer(mean, mean)


def gram(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """sum_l weight_l (1, x_l)(1, x_l)^T."""
    # a matrix times its own transpose takes half the work
    xw = x * np.sqrt(np.maximum(weight, 0))[:, None]
    out = np.empty((x.shape[1] + 1, x.shape[1] + 1))
    out[0, 0], out[0, 1:], out[1:, 1:] = weight.sum(), weight @ x, xw.T @ xw
    out[1:, 0] = out[0, 1:]
    return out


class Spectrum(NamedTuple):
    """Weight n, means of x (d,) and y, t > 0 (k,), e (d, k), c (k,), |y_c|^2;
    directions outside e have t = 0.
    """

    n: float
    mean: np.ndarray
    label_mean: float
    t: np.ndarray
    basis: np.ndarray
    c: np.ndarray
    total: float


def evidence_ridge(gram: np.ndarray, fixed: float | None) -> Values:
    """From the Gram matrix of (1, x, y); `fixed` is the ridge lambda = alpha sigma^2,
    None sets it by the evidence.
    """
    n, mean, covariance = moments(gram)
    t, basis = np.linalg.eigh(n * covariance[:-1, :-1])
    t, basis = _nonzero_spectrum(t, basis)
    c = basis.T @ (n * covariance[:-1, -1])
    return _solve_ridge(
        Spectrum(n, mean[:-1], mean[-1], t, basis, c, max(n * covariance[-1, -1], 0.0)), fixed
    )


def row_ridge(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray, fixed: float | None
) -> Values:
    """The same from rows x (k, d), y (k,), by whichever of the two matrices is smaller."""
    k, d = x.shape
    if k >= d:
        return evidence_ridge(gram(np.column_stack([x, y]), weight), fixed)
    n = float(weight.sum())
    mean = weight @ x / n
    label_mean = float(weight @ y) / n
    root = np.sqrt(weight)
    centred = (x - mean) * root[:, None]
    label = (y - label_mean) * root
    t, u = _nonzero_spectrum(*np.linalg.eigh(centred @ centred.T))
    basis = centred.T @ (u / np.sqrt(t))
    c = np.sqrt(t) * (label @ u)
    return _solve_ridge(
        Spectrum(n, mean, label_mean, t, basis, c, float(label @ label)), fixed
    )


def _nonzero_spectrum(t: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kept = t > ZERO_EIGENVALUE_SHARE * max(t[-1], 0.0)
    return t[kept], vectors[:, kept]


def _solve_ridge(rows: Spectrum, fixed: float | None) -> Values:
    n = rows.n
    t = rows.t
    c = rows.c
    total = rows.total
    floor = max(MIN_NOISE_SHARE * total / n, MIN_NOISE_SHARE**2)
    # one degree of freedom for the intercept; a single bag must leave more than zero
    free = max(n - 1, 0.05 * n)
    ridge = _best_ridge(t, c, total, free, floor) if fixed is None else fixed
    v = c / (t + ridge)
    rss = max(total - 2 * v @ c + v @ (t * v), 0.0)
    if fixed is None:
        variance = floor + (rss + ridge * v @ v) / free
    else:
        variance = max(rss / max(n - 1 - (t / (t + ridge)).sum(), 0.05 * n), floor)
    weights = rows.basis @ v
    bias = np.array([rows.label_mean - rows.mean @ weights])
    root = _posterior_root(
        rows.basis, t, variance, max(ridge, ZERO_EIGENVALUE_SHARE * t.max(initial=1e-288))
    )
    return Values(
        weights[:, None],
        bias,
        float(variance),
        float(ridge / variance),
        float(variance),
        rows.mean,
        root,
        float(n),
    )


def _best_ridge(
    t: np.ndarray, c: np.ndarray, total: float, free: float, floor: float
) -> float:
    """lambda of the largest evidence: over a grid, because there may be a second optimum near
    interpolation, then where the slope is zero.
    """
    if not len(t):
        return 1.0  # tokens without spread: nothing depends on it
    beyond = max(total - c @ (c / t), 0.0) + free * floor

    def misfit(ridge: np.ndarray) -> np.ndarray:
        return beyond + ridge * (c**2 / t / (t + ridge[..., None])).sum(axis=-1)

    def slope(log_ridge: float) -> float:
        ridge = np.exp(log_ridge)
        v = c / (t + ridge)
        return float(free * ridge * (v @ v) / misfit(ridge) - (t / (t + ridge)).sum())

    grid = np.log(t.max()) + np.log(10.0) * RIDGE_GRID_DECADES
    ridge = np.exp(grid)
    loss = free * np.log(misfit(ridge)) + np.log1p(t / ridge[:, None]).sum(axis=-1)
    at = int(np.argmin(loss))
    low = grid[max(at - 1, 0)]
    high = grid[min(at + 1, len(grid) - 1)]
    if not slope(low) < 0 < slope(high):  # the best is at an end of the grid
        return float(ridge[at])
    return float(np.exp(brentq(slope, low, high, xtol=1e-12)))


def _posterior_root(
    basis: np.ndarray, t: np.ndarray, variance: float, ridge: float
) -> np.ndarray:
    """R with R R^T = variance (x_c^T x_c + ridge)^-1, the posterior covariance of V."""
    d, k = basis.shape
    if k == d:
        return basis * np.sqrt(variance / (t + ridge))
    known = 1 - np.sqrt(ridge / (t + ridge))
    return np.sqrt(variance / ridge) * (np.eye(d) - (basis * known) @ basis.T)
