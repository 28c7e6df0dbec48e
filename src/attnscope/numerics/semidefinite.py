"""A square root of a positive semidefinite matrix that may be singular, and of a random one.

    G = A A^T,   A = Q diag(sqrt(max(w, 0))),   G = Q diag(w) Q^T

Without the columns of vanishing w, A (n, q) holds the coordinates of the n vectors behind G in a
frame of their span.
Cholesky's method fails for matrices of deficient rank, such as at k = v*; this root does not. It is
exact up to rounding of the eigenvalues, so A A^T equals G to about 1e-15 |G|.

Lower triangular factors come from Cholesky's method, which reproduces G to a few roundings as long as
no pivot is as small as a rounding. Two nearly parallel vectors at distance t leave a pivot t^2 that is known to 2e-16 only,
while the component of other vectors along the direction between them, G_ij - sum_l A_il A_jl, is of order t: leaving the
column out loses up to t, and dividing by the rounded pivot loses more. So A A^T is compared with G,
and where it fails A is turned from the root above, R^T with A^T = Q R, which reproduces G to
rounding whatever its rank.

Bartlett: Z Z^T with Z (m, f) standard normal has the law of T T^T, T lower triangular with
independent entries, standard normal below the diagonal and T_jj^2 chi-square with f - j degrees of
freedom (j from 0).
"""

from __future__ import annotations

import numpy as np

__all__ = ["bartlett", "frame_of", "lower_factor", "missed", "semidefinite_root"]

# share of the largest eigenvalue below which an eigenvector is treated as an artefact of rounding
# linearly dependent vectors: 50 roundings; inner products are reproduced to the same accuracy
DEPENDENT_EIGENVALUE_SHARE = 1e-14
# relative squared distance to the span of the earlier vectors below which Cholesky's method leaves a
# column empty: 500 roundings, so that no column consists of rounding noise
EMPTY_COLUMN_PIVOT = 1e-13
# relative rounding of A A^T per dimension: half a rounding per product and per sum, and the same for G
GRAM_ROUNDING_PER_DIM = 4 * float(np.finfo(np.float64).eps)


def semidefinite_root(matrix: np.ndarray) -> np.ndarray:
    """A (..., n, n) with A A^T = matrix; eigenvalues below 0 are rounding and count as 0.

    >>> A = semidefinite_root(np.ones((2, 2)))
    >>> bool(np.allclose(A @ A.T, 1))
    True
    """
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]


def lower_factor(matrix: np.ndarray) -> np.ndarray:
    """Lower triangular A (R, n, n), A A^T = matrix to rounding, of semidefinite ones (R, n, n).

    >>> near = np.array([[[1, 1 - 1e-15, 0.5], [1 - 1e-15, 1, 0.5 + 3e-8], [0.5, 0.5 + 3e-8, 1]]])
    >>> A = lower_factor(near)
    >>> bool(np.abs(A @ A.swapaxes(1, 2) - near).max() < 2e-15)
    True
    """
    out = _cholesky(matrix)
    failed = missed(out, matrix) > GRAM_ROUNDING_PER_DIM * matrix.shape[1]
    if failed.any():
        out[failed] = _turned_root(matrix[failed])
    return out


def missed(factor: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """(R,) largest |A A^T - matrix|_ij / sqrt(matrix_ii matrix_jj)."""
    away = np.abs(factor @ factor.swapaxes(1, 2) - matrix)
    size = _vector_lengths(matrix)
    return (away / (size[:, :, None] * size[:, None, :])).max(axis=(1, 2), initial=0.0)


def _vector_lengths(matrix: np.ndarray) -> np.ndarray:
    """(R, n) lengths of the vectors; 1 for the zero vector, whose row is 0."""
    size = np.sqrt(np.maximum(np.diagonal(matrix, axis1=1, axis2=2), 0.0))
    return np.where(size > 0, size, 1.0)


def _cholesky(matrix: np.ndarray) -> np.ndarray:
    rest = matrix.copy()
    out = np.zeros_like(matrix)
    for j in range(matrix.shape[1]):
        pivot = rest[:, j, j]
        ok = pivot > EMPTY_COLUMN_PIVOT * matrix[:, j, j]
        root = np.sqrt(np.where(ok, pivot, 1.0))
        out[:, j:, j] = np.where(ok[:, None], rest[:, j:, j] / root[:, None], 0.0)
        rest = rest - out[:, :, j, None] * out[:, None, :, j]
    return out


def _turned_root(matrix: np.ndarray) -> np.ndarray:
    """R^T of the root of the unit vectors' Gram matrix, rows back at their lengths."""
    size = _vector_lengths(matrix)
    root = semidefinite_root(matrix / (size[:, :, None] * size[:, None, :]))
    upper = np.asarray(np.linalg.qr(root.swapaxes(1, 2), mode="r"))
    sign = np.where(np.diagonal(upper, axis1=1, axis2=2) < 0, -1.0, 1.0)
    return (upper * sign[:, :, None]).swapaxes(1, 2) * size[:, :, None]


def frame_of(gram: np.ndarray) -> np.ndarray:
    """(n, q) coordinates of n vectors with this Gram matrix in an orthonormal frame of their span.

    >>> frame_of(np.ones((2, 2))).shape
    (2, 1)
    """
    values, vectors = np.linalg.eigh(gram)
    kept = values > DEPENDENT_EIGENVALUE_SHARE * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


def bartlett(m: int, freedom: int, rng: np.random.Generator) -> np.ndarray:
    """Lower (m, m) factor T of T T^T ~ Wishart_m(I, freedom);
    columns from `freedom` on are empty.
    """
    T = np.tril(rng.standard_normal((m, m)), -1)
    left = np.maximum(freedom - np.arange(m), 0)
    T[np.diag_indices(m)] = [np.sqrt(rng.chisquare(f)) if f else 0.0 for f in left]
    return T * (left > 0)
