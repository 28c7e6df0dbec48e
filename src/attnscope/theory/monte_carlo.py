"""The slow second route to any population risk: sample the projections, never the vectors.

A predictor sees a token only through u = X.k and w = X.v, and the label through X_J.v*; all are Gaussian with the covariance of the
Gram matrix of (k, v, v*). So a sample costs 2 normals per background token and 3 for the informative one, whatever the dimension. The
label noise is left out: its contribution to the risk, noise^2, is known. The error reported is one standard error.
"""

from __future__ import annotations

import numpy as np

from attnscope.predictors.attention import Predictor

__all__ = ["monte_carlo_excess"]

BLOCK = 1 << 19  # scores drawn at a time: a few 4 MB arrays, whatever the number of samples


def monte_carlo_excess(
    predictor: Predictor,
    overlaps: tuple[float, ...],
    lam: float,
    *,
    gamma: float,
    signal: float,
    length: int,
    alignment: float,
    samples: int,
    seed: object,
) -> tuple[float, float]:
    """(mean, standard error) of (Y - T(X))^2 without label noise at scalar overlaps."""
    rng = np.random.default_rng(seed)  # type: ignore[arg-type]
    kap, eta, the, nu, rho = overlaps
    root = _root(np.array([[1, rho, eta], [rho, 1, nu], [eta, nu, 1.0]]))  # of the covariance of (u, w, y)
    mean = signal * np.array([kap, the, alignment])
    count, total, squares = 0, 0.0, 0.0
    while count < samples:
        n = min(samples - count, max(1, BLOCK // length))
        informative = mean + gamma * rng.standard_normal((n, 3)) @ root.T  # (n, 3): u, w, y
        u = rng.standard_normal((n, length))
        w = rho * u + np.sqrt(max(0.0, 1 - rho**2)) * rng.standard_normal((n, length))
        u[:, 0], w[:, 0] = (
            informative[:, 0],
            informative[:, 1],
        )  # the predictor does not care about the position
        loss = (informative[:, 2] - np.sum(predictor.weights(lam * u) * w, axis=1)) ** 2
        delta = loss.mean() - total  # merge block means and sums of squares (Chan et al.): no cancellation
        squares += np.sum((loss - loss.mean()) ** 2) + delta**2 * count * n / (count + n)
        total += delta * n / (count + n)
        count += n
    return float(total), float(np.sqrt(squares / (count - 1) / count))


def _root(covariance: np.ndarray) -> np.ndarray:
    """A square root of a positive semidefinite matrix (Cholesky fails at rank deficiency, e.g. k = v*)."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
