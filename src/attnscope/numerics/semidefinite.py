"""A square root of a positive semidefinite matrix that may be singular, and of a random one.

    G = A A^T,   A = Q diag(sqrt(max(w, 0))),   G = Q diag(w) Q^T

Without the columns of vanishing w, A (n, q) holds the coordinates of the n vectors behind G in a frame of
their span.
Cholesky's factor fails at rank deficiency, as at k = v*; this one does not. Exact up to rounding of the eigenvalues, so inner products
come back to about 1e-15 |G|.

Bartlett: Z Z^T with Z (m, f) standard normal has the law of T T^T, T lower triangular with independent
entries, standard normal below the diagonal and T_jj^2 chi-square with f - j degrees of freedom (j from 0).
"""

from __future__ import annotations

import numpy as np

__all__ = ["bartlett", "frame_of", "semidefinite_root"]

# share of the largest eigenvalue below which a direction is rounding of a dependent one
DEPENDENT = 1e-12


def semidefinite_root(matrix: np.ndarray) -> np.ndarray:
    """A (..., n, n) with A A^T = matrix; eigenvalues below 0 are rounding and count as 0.

    >>> A = semidefinite_root(np.ones((2, 2)))
    >>> bool(np.allclose(A @ A.T, 1))
    True
    """
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]


def frame_of(gram: np.ndarray) -> np.ndarray:
    """(n, q) coordinates of n vectors with this Gram matrix in an orthonormal frame of their span.

    >>> frame_of(np.ones((2, 2))).shape
    (2, 1)
    """
    values, vectors = np.linalg.eigh(gram)
    kept = values > DEPENDENT * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


def bartlett(m: int, freedom: int, rng: np.random.Generator) -> np.ndarray:
    """Lower (m, m) factor T of T T^T ~ Wishart_m(I, freedom); columns from `freedom` on are empty."""
    T = np.tril(rng.standard_normal((m, m)), -1)
    left = np.maximum(freedom - np.arange(m), 0)
    T[np.diag_indices(m)] = [np.sqrt(rng.chisquare(f)) if f else 0.0 for f in left]
    return T * (left > 0)
