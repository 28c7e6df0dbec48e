"""A square root of a positive semidefinite matrix that may be singular.

    G = A A^T,   A = Q diag(sqrt(max(w, 0))),   G = Q diag(w) Q^T

Cholesky's factor fails at rank deficiency, as at k = v*; this one does not. Exact up to rounding of the eigenvalues, so inner products
come back to about 1e-15 |G|.
"""

from __future__ import annotations

import numpy as np

__all__ = ["semidefinite_root"]


def semidefinite_root(matrix: np.ndarray) -> np.ndarray:
    """A (..., n, n) with A A^T = matrix; eigenvalues below 0 are rounding and count as 0.

    >>> A = semidefinite_root(np.ones((2, 2)))
    >>> bool(np.allclose(A @ A.T, 1))
    True
    """
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
