"""Linear systems (K + ridge I) A = R of a kernel matrix K = k(x_i, x_j): dense up to DENSE_POINTS points,
iterative beyond.

notation: x (L, d) points, lam = ridge, k_q = (k(q, x_l))_l, F (L, r) a low-rank factor, E = K - F
F^T, t = trace(E).

Dense: Cholesky in place, half of K built. Beyond: F by pivoted Cholesky, so that E is positive
semidefinite and |E| <= t; then conjugate gradients preconditioned by F F^T + lam I, with K applied
block by block and never stored. If t is small enough, no product with K is needed at all: the
residual of the low-rank solution is at most its residual for F F^T plus t |A|.

Error. For a residual r = R - (K + lam I) A, Cauchy-Schwarz in the inner product of (K + lam I)^-1
and k_q^T (K + lam I)^-1 k_q <= k(q, q) give

    |k_q^T A - k_q^T (K + lam I)^-1 R| <= sqrt(k(q, q)/lam) |r|,

a bound, not an estimate, and it is computed from the answer, whichever way the answer was found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lapack

from attnscope.errors import bad
from attnscope.predictors.operators.kernels import Kernel

__all__ = ["DENSE_POINTS", "Dense", "Iterative", "Solution"]


DENSE_POINTS = 4000  # points solved densely: 128 MB and a second
BLOCK_ROWS = 256  # rows of K built at a time: they stay in cache
BLOCK_ENTRIES = 1 << 22  # entries of a kernel block: 32 MB
FACTOR_RANK = 300  # of the low-rank factor: 240 MB at L = 10^5
# of conjugate gradients; a preconditioned system that needs more has too small a ridge
GRADIENT_STEPS = 500
PATIENCE_STEPS = 40  # steps without a better residual after which rounding has been reached
# bound on the error aimed at, relative to the largest right-hand side; rounding alone can reach
# 1e-9 at L = 10^5
AIMED_ERROR = 1e-8
# eigenvalues above minus this share of the norm are those of a rounded semidefinite matrix
NEGATIVE_EIGENVALUE_SHARE = 1e-10
NEGATIVE_PIVOT_SHARE = 1e-6  # of the diagonal: 300 pivots cannot round as far below 0
EIGENVALUE_POINTS = (
    1500  # points up to which a sentence names the offending eigenvalue: a second
)
EPS = float(np.finfo(np.float64).eps)


class Solution(NamedTuple):
    """A (L, c) with (K + lam I) A = R up to a residual whose columns have norms at most `residual`
    (c,).
    """

    coefficients: np.ndarray
    residual: np.ndarray


class Dense:
    """Cholesky factor of K + lam I; refuses a matrix that is singular in float64."""

    def __init__(self, kernel: Kernel, x: np.ndarray, ridge: float) -> None:
        self.kernel = kernel
        self.x = x
        self.ridge = ridge
        K, norm = _lower_half(kernel, x)
        if kernel.function is not None:
            _check_semidefinite(K, norm, kernel)
        K[np.diag_indices(len(x))] += ridge
        # K is stored by rows with its lower half filled: its transpose is a Fortran array with the
        # upper half filled
        self._factor, info = lapack.dpotrf(K.T, lower=0, overwrite_a=1, clean=0)
        self.rcond = (
            0.0 if info else float(lapack.dpocon(self._factor, norm + ridge, uplo="U")[0])
        )
        if self.rcond < 4 * EPS:
            scale = float(kernel.diagonal(x).max()) or 1.0
            raise bad(
                "ridge",
                kernel.of,
                "large enough that K + ridge I is not singular in float64 (keys repeat or the "
                "kernel has low rank)",
                ridge,
                f"ridge={1e-8 * scale * len(x):.1e} or more",
            )

    def solve(self, R: np.ndarray) -> np.ndarray:
        """(K + lam I)^-1 R."""
        return lapack.dpotrs(self._factor, R, lower=0)[0]

    def checked_solve(self, R: np.ndarray) -> Solution:
        """The solution with its measured residual, which costs a second pass over K."""
        A = self.solve(R)
        left = R - _kernel_product(self.kernel, self.x, A) - self.ridge * A
        return Solution(
            A, np.linalg.norm(left, axis=0) + _entry_rounding(self.kernel, self.x, A)
        )

    def sensitivity(self, cross: np.ndarray, A: np.ndarray) -> np.ndarray:
        """What rounding of K does to k_q^T A, (m, c), to first order: eps |u| |K| |A|, u = (K + lam
        I)^-1 k_q.

        |K|_ij <= sqrt(K_ii K_jj). Measured errors stay below this with the factor 1
        (tests/predictors/test_operators.py).
        """
        root = np.sqrt(np.maximum(self.kernel.diagonal(self.x), 0.0))
        u = np.abs(self.solve(cross.T))
        return (
            8
            * EPS
            * ((root + self.ridge**0.5) @ u)[:, None]
            * ((root + self.ridge**0.5) @ np.abs(A))
        )

    def explained(self, cross: np.ndarray) -> np.ndarray:
        """k_q^T (K + lam I)^-1 k_q, (m,), of cross (m, L)."""
        half, info = lapack.dtrtrs(self._factor, cross.T, lower=0, trans=1)
        assert info == 0  # the factor's diagonal is positive
        return np.sum(half**2, axis=0)


class Iterative:
    """Preconditioned conjugate gradients for K + lam I, lam > 0."""

    def __init__(self, kernel: Kernel, x: np.ndarray, ridge: float) -> None:
        if ridge <= 0:
            raise bad(
                "ridge",
                kernel.of,
                f"> 0 for more than {DENSE_POINTS} tokens",
                ridge,
                "ridge=1e-6 or more",
            )
        self.kernel = kernel
        self.x = x
        self.ridge = ridge
        self.largest = float(kernel.diagonal(x).max())
        self.F, self.left = _pivoted_cholesky(kernel, x)
        try:
            self._small = cho_factor(self.F.T @ self.F + ridge * np.eye(self.F.shape[1]))
        except np.linalg.LinAlgError:
            hint = f"ridge={1e-12 * (self.largest or 1.0) * len(x):.1e} or more"
            raise bad(
                "ridge", kernel.of, "above rounding of the kernel matrix", ridge, hint
            ) from None

    def _precondition(self, R: np.ndarray) -> np.ndarray:
        """(F F^T + lam I)^-1 R by the Woodbury identity."""
        return (R - self.F @ cho_solve(self._small, self.F.T @ R)) / self.ridge

    def checked_solve(self, R: np.ndarray) -> Solution:
        """The low-rank solution where its residual is provably small,
        otherwise conjugate gradients from there.
        """
        aim = (
            AIMED_ERROR
            * max(float(np.abs(R).max()), 1e-300)
            * (self.ridge / max(self.largest, 1e-300)) ** 0.5
        )
        A = self._precondition(R)
        A += self._precondition(
            R - self.F @ (self.F.T @ A) - self.ridge * A
        )  # one refinement: Woodbury cancels for small lam
        rest = np.linalg.norm(R - self.F @ (self.F.T @ A) - self.ridge * A, axis=0)
        bound = rest + self.left * np.linalg.norm(A, axis=0)
        if (bound <= aim).all():
            return Solution(A, bound + _entry_rounding(self.kernel, self.x, A))
        return self._conjugate_gradients(R, A, aim)

    def _conjugate_gradients(self, R: np.ndarray, A: np.ndarray, aim: float) -> Solution:
        """Conjugate gradients for all columns at once;
        the residual of the answer is computed anew, not updated.
        """
        r = R - self._system_product(A)
        z = self._precondition(r)
        p = z.copy()
        rz = np.sum(r * z, axis=0)
        best = np.inf
        stale = 0
        for _ in range(GRADIENT_STEPS):
            size = float(np.linalg.norm(r, axis=0).max())
            best, stale = (size, 0) if size < best else (best, stale + 1)
            if size <= aim or stale > PATIENCE_STEPS or not (rz > 0).any():
                break
            Kp = self._system_product(p)
            curvature = np.sum(p * Kp, axis=0)
            if self.kernel.function is not None and (curvature < 0).any():
                raise self.kernel.indefinite("a direction of negative curvature")
            step = np.where(curvature > 0, rz / np.where(curvature > 0, curvature, 1), 0)
            A = A + step * p
            r = r - step * Kp
            z = self._precondition(r)
            rz, before = np.sum(r * z, axis=0), rz
            p = z + np.where(before > 0, rz / np.where(before > 0, before, 1), 0) * p
        left = np.linalg.norm(R - self._system_product(A), axis=0)
        return Solution(A, left + _entry_rounding(self.kernel, self.x, A))

    def _system_product(self, A: np.ndarray) -> np.ndarray:
        return _kernel_product(self.kernel, self.x, A) + self.ridge * A

    def explained(self, cross: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """k_q^T (K + lam I)^-1 k_q, (m,), of cross (m, L), and |r|/sqrt(lam):
        times sqrt(k(q, q)) a bound on its error.
        """
        A, residual = self.checked_solve(cross.T)
        return np.sum(A * cross.T, axis=0), residual / self.ridge**0.5


def _lower_half(kernel: Kernel, x: np.ndarray) -> tuple[np.ndarray, float]:
    """K (L, L) with its lower half filled, and (an upper bound within a factor 2 of) its 1-norm."""
    L = len(x)
    K = np.zeros((L, L))
    sums = np.zeros(L)
    for i in range(0, L, BLOCK_ROWS):
        part = kernel.matrix(x[i : i + BLOCK_ROWS], x[: i + BLOCK_ROWS])
        if kernel.function is not None:
            _check_symmetric(part[:, i:], kernel)
        K[i : i + BLOCK_ROWS, : i + BLOCK_ROWS] = part
        sizes = part if kernel.name in ("rbf", "exponential") else np.abs(part)
        sums[: i + BLOCK_ROWS] += sizes.sum(axis=0)
        sums[i : i + BLOCK_ROWS] += sizes[:, :i].sum(axis=1)
    return K, float(sums.max())


def _check_symmetric(block: np.ndarray, kernel: Kernel) -> None:
    gap = float(np.abs(block - block.T).max())
    # rounding of any accurate evaluation is below this
    if gap > 1e-10 * max(float(np.abs(block).max()), 1e-300):
        raise bad(
            "kernel",
            kernel.of,
            "symmetric, k(x, y) = k(y, x)",
            f"a difference of {gap:.2g}",
            "kernel='rbf'",
        )


def _check_semidefinite(K: np.ndarray, norm: float, kernel: Kernel) -> None:
    """Refuse a matrix (its lower half filled) with an eigenvalue below -NEGATIVE_EIGENVALUE_SHARE of its norm."""
    lowest = float(np.diagonal(K).min())
    if lowest < 0:
        raise kernel.indefinite(f"k(x, x) = {lowest:.3g}")
    raised = K.copy()
    raised[np.diag_indices(len(K))] += NEGATIVE_EIGENVALUE_SHARE * norm
    if norm and lapack.dpotrf(raised.T, lower=0, overwrite_a=1, clean=0)[1]:
        got = "a negative eigenvalue"
        if len(K) <= EIGENVALUE_POINTS:
            got = f"an eigenvalue of {np.linalg.eigvalsh(K)[0]:.3g} at these keys"
        raise kernel.indefinite(got)


def _entry_rounding(kernel: Kernel, x: np.ndarray, A: np.ndarray) -> np.ndarray:
    """What rounding of the entries of K does to K A, (c,):
    independent errors of 4 eps of the diagonal.
    """
    size = max(float(kernel.diagonal(x).max()), 0.0)
    return 4 * EPS * size * len(x) ** 0.5 * np.linalg.norm(A, axis=0)


def _kernel_product(kernel: Kernel, x: np.ndarray, A: np.ndarray) -> np.ndarray:
    """K A without storing K."""
    block = max(1, BLOCK_ENTRIES // max(len(x), 1))
    return np.concatenate(
        [kernel.matrix(x[i : i + block], x) @ A for i in range(0, len(x), block)]
    )


def _pivoted_cholesky(kernel: Kernel, x: np.ndarray) -> tuple[np.ndarray, float]:
    """F (L, r) with K - F F^T positive semidefinite, largest remaining diagonal entry first;
    and the trace that is left.
    """
    left = kernel.diagonal(x)
    scale = float(left.max())
    F = np.zeros((len(x), FACTOR_RANK))
    r = 0
    # below, what is left is rounding
    while r < FACTOR_RANK and left.max() > 4 * EPS * len(x) ** 0.5 * scale:
        pivot = int(np.argmax(left))
        column = kernel.matrix(x, x[pivot : pivot + 1])[:, 0] - F[:, :r] @ F[pivot, :r]
        F[:, r] = column / left[pivot] ** 0.5
        left = left - F[:, r] ** 2
        left[pivot] = 0.0
        if kernel.function is not None and left.min() < -NEGATIVE_PIVOT_SHARE * scale:
            raise kernel.indefinite("a negative minor")
        r += 1
    return F[:, :r], float(np.maximum(left, 0).sum() + EPS * len(x) * scale)
