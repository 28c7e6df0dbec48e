"""Kernels k(x, y) of CME attention: linear, Gaussian, exponential, or a function of the user's,
checked where it is called.

"linear" x.y      "rbf" exp(-|x-y|^2/(2h))      "exponential" exp(x.y/h),      h = bandwidth
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check

__all__ = ["Kernel", "kernel_of"]

KernelFunction = Callable[[np.ndarray, np.ndarray], np.ndarray]

# |x|^2/h from which |x|^2 + |y|^2 - 2 x.y costs K more than 1e-12: differences instead
CANCELLING_SQUARE = 2500.0

OVERFLOW_EXPONENT = 700.0  # exp of more is not a float64


@dataclass(frozen=True)
class Kernel:
    """k(x, y) as matrices: name "linear" x.y | "rbf" exp(-|x-y|^2/(2h)) | "exponential" exp(x.y/h)
    | "callable"; h = bandwidth.
    """

    name: str
    bandwidth: float
    function: KernelFunction | None
    of: str

    def matrix(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """(m, L) of x (m, d), y (L, d)."""
        if self.function is not None:
            return self._called_matrix(x, y)
        if self.name == "rbf":
            # distances do not move; the cancellation in |x|^2 + |y|^2 - 2 x.y shrinks
            centre = y.mean(axis=0)
            x = x - centre
            y = y - centre
            largest = max(float(np.max(np.sum(z * z, axis=1), initial=0.0)) for z in (x, y))
            if largest > CANCELLING_SQUARE * self.bandwidth:
                return np.exp(cdist(x, y, "sqeuclidean") / (-2 * self.bandwidth))
        K = x @ y.T
        if self.name == "linear":
            return K
        if self.name == "rbf":
            K -= np.sum(x * x, axis=1)[:, None] / 2
            K -= np.sum(y * y, axis=1) / 2
            np.minimum(K, 0, out=K)
        K /= self.bandwidth
        return np.exp(self._checked_exponents(K), out=K)

    def _called_matrix(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        assert self.function is not None
        must = "a function of (m, d) and (L, d) arrays with finite (m, L) values"
        try:
            K = np.array(self.function(x, y), dtype=np.float64)
        except AttnscopeError:
            raise
        except Exception as error:
            raise bad(
                "kernel", self.of, must, f"{type(error).__name__}: {error}", "kernel='rbf'"
            ) from error
        if K.shape != (len(x), len(y)) or not np.isfinite(K).all():
            got = (
                f"shape {K.shape} for {x.shape}, {y.shape}"
                if K.shape != (len(x), len(y))
                else "NaN or infinity"
            )
            raise bad("kernel", self.of, must, got, "kernel='rbf'")
        return K

    def diagonal(self, x: np.ndarray) -> np.ndarray:
        """k(x_i, x_i), (m,)."""
        if self.name == "rbf":
            return np.ones(len(x))
        if self.name == "callable":
            parts = [
                np.diagonal(self.matrix(x[i : i + 32], x[i : i + 32]))
                for i in range(0, len(x), 32)
            ]
            out = np.concatenate([np.zeros(0), *parts])
            if out.size and out.min() < 0:
                raise self.indefinite(f"k(x, x) = {out.min():.3g}")
            return out
        squares = np.sum(x * x, axis=1)
        return (
            squares
            if self.name == "linear"
            else np.exp(self._checked_exponents(squares / self.bandwidth))
        )

    def indefinite(self, got: str) -> AttnscopeError:
        """The refusal of a kernel that is not positive semidefinite."""
        must = "positive semidefinite: k(x, x) >= 0 and no negative eigenvalue of k(x_i, x_j)"
        return bad("kernel", self.of, must, got, "kernel='rbf'")

    def _checked_exponents(self, exponents: np.ndarray) -> np.ndarray:
        """The exponents, refused where exp overflows."""
        if exponents.size and exponents.max() > OVERFLOW_EXPONENT:
            must = f"large enough that q.k/bandwidth <= {OVERFLOW_EXPONENT:g}"
            got = f"{exponents.max():.3g}"
            raise bad("bandwidth", self.of, must, got, "unit keys, or kernel='rbf'")
        return exponents


def kernel_of(kernel: object, bandwidth: object, of: str) -> Kernel:
    """The checked kernel."""
    h = check.real(bandwidth, "bandwidth", of, 0, strict=True)
    if callable(kernel):
        return Kernel("callable", h, kernel, of)
    if kernel not in ("linear", "rbf", "exponential"):
        raise bad(
            "kernel",
            of,
            "'linear', 'rbf', 'exponential' or a function",
            kernel,
            "kernel='rbf'",
        )
    return Kernel(str(kernel), h, None, of)
