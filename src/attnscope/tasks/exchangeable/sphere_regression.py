"""Regression on the sphere: keys uniform on S^{d-1}, values of a random spherical-harmonic
function.

notation: d = dim, degrees l with weights w_l, P_l the Gegenbauer polynomial with P_l(1) = 1, N_l
the number of harmonics of degree l.

    f = sum_l sqrt(w_l) <c_l, Y_l>,  c_l ~ N(0, I_{N_l}),  Y_l(q).Y_l(k) = P_l(q.k)   =>
        f is a Gaussian process with covariance sum_l w_l P_l(q.k)

    v_l = f(k_l) + noise N(0, 1),   E[v | k = q, f] = f(q),   E f(q)^2 = sum_l w_l

(degree 1 with weight 1 is f(k) = W.k, W ~ N(0, I_d)). It is the LinearMap of these features, so
posterior, prediction and probabilities are exact. Harmonics in any dimension without tables: the
zonal functions P_l(u_i.x) of enough points u_i span degree l, and with the Gram matrix G =
P_l(u_i.u_j) = E diag(e) E^T of rank N_l the features Y_l(x) = diag(e)^{-1/2} E^T P_l(u.x) satisfy
Y_l(q).Y_l(k) = P_l(q.k), because P_l is the reproducing kernel (up to the factor N_l) of their
span.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.tasks.exchangeable.linear_map import LinearMap

__all__ = ["Harmonics", "SphereRegression", "harmonic_count", "zonal"]

# of one degree: the eigenproblem behind the basis takes ten seconds there
MOST_HARMONICS = 2000
MOST_BASIS_MULTIPLICATIONS = 5e10  # multiplications for all bases, about eight seconds
RECURSION_MULTIPLICATIONS = (
    20.0  # of these a value's step of one degree costs: it is bound by memory
)
LARGEST_DEGREE = 1000  # P_l moves by l^2 eps when a key is rounded: 2e-10 there
# points per harmonic: random ones in this number give a Gram matrix with condition number around 10
# to 100
POINTS_PER_HARMONIC = 2
UNIT_KEY_TOLERANCE = 1e-6  # keys of float32 precision count as unit


def harmonic_count(dim: int, degree: int) -> int:
    """N_l, the number of independent harmonics of that degree on S^{dim-1}.

    >>> [harmonic_count(3, degree) for degree in range(4)]
    [1, 3, 5, 7]
    """
    return comb(degree + dim - 1, dim - 1) - (
        comb(degree + dim - 3, dim - 1) if degree >= 2 else 0
    )


def zonal(dim: int, degree: int, t: np.ndarray) -> np.ndarray:
    """P_l(t), normalised to P_l(1) = 1, by (l + d - 2) P_{l+1} = (2l + d - 2) t P_l - l P_{l-1}."""
    before = np.ones_like(t)
    now = np.asarray(t, dtype=np.float64)
    if degree == 0:
        return before
    for l in range(1, degree):
        before, now = now, ((2 * l + dim - 2) * t * now - l * before) / (l + dim - 2)
    return now


def _basis_work(count: int, degree: int) -> float:
    """Multiplications for the basis of one degree:
    the recursion of P_l on all pairs of points, and an eigenproblem.
    """
    points = float(POINTS_PER_HARMONIC * count + 4)
    return points**2 * (points + RECURSION_MULTIPLICATIONS * degree)


class Harmonics:
    """The feature map x (..., d) -> (..., sum_l N_l) with inner product sum_l w_l P_l(x.y)
    for unit x, y.
    """

    def __init__(self, dim: int, degrees: Sequence[int], weights: Sequence[float]) -> None:
        self.dim, self.degrees = dim, tuple(degrees)
        self._parts = [
            self._degree_basis(degree, weight)
            for degree, weight in zip(self.degrees, weights)
        ]
        # multiplications for the features of one key
        self.work = sum(
            u.shape[0] * (M.shape[1] + RECURSION_MULTIPLICATIONS * l)
            for l, (u, M) in zip(self.degrees, self._parts)
        )

    def _degree_basis(self, degree: int, weight: float) -> tuple[np.ndarray, np.ndarray]:
        """(points u (M, d), matrix (M, N_l)) of one degree."""
        N = harmonic_count(self.dim, degree)
        # one fixed basis
        u = np.random.default_rng([self.dim, degree]).standard_normal(
            (POINTS_PER_HARMONIC * N + 4, self.dim)
        )
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        e, E = np.linalg.eigh(zonal(self.dim, degree, np.clip(u @ u.T, -1, 1)))
        return u, weight**0.5 * E[:, -N:] / np.sqrt(e[-N:])

    def __call__(self, x: np.ndarray) -> np.ndarray:
        parts = [
            zonal(self.dim, degree, x @ u.T) @ M
            for degree, (u, M) in zip(self.degrees, self._parts)
        ]
        return np.concatenate(parts, axis=-1)


class SphereRegression(LinearMap):
    """Noisy values of a random function of chosen harmonic degrees at uniform points of the sphere.

    Args:
        dim: d >= 2; keys lie on S^{d-1}.
        noise: standard deviation of a value around f(k), > 0.
        degrees: harmonic degrees of f, distinct integers >= 0.
        weights: w_l > 0, variance of each degree's part of f; all 1 if None.
        dim_value: number of independent functions, the coordinates of a value.

    >>> task = SphereRegression(dim=3, noise=0.5, degrees=(1, 2))
    >>> batch = task.sample(2, length=6, seed=0)
    >>> batch.keys.shape, batch.values.shape, task.dim_features
    ((2, 6, 3), (2, 6, 1), 8)
    """

    def __init__(
        self,
        dim: int = 3,
        noise: float = 0.5,
        degrees: Sequence[int] = (1,),
        weights: Sequence[float] | None = None,
        dim_value: int = 1,
    ) -> None:
        name = "SphereRegression"
        self.dim = check.integer(dim, "dim", name, 2)
        self.degrees = self._checked_degrees(degrees)
        given = np.ones(len(self.degrees)) if weights is None else weights
        self.weights = tuple(
            check.float_array(given, "weights", name, (len(self.degrees),)).tolist()
        )
        if min(self.weights) <= 0:
            raise bad(
                "weights",
                name,
                "positive, one per degree",
                min(self.weights),
                "leaving the degree out",
            )
        super().__init__(
            self.dim,
            dim_value,
            1.0,
            noise,
            Harmonics(self.dim, self.degrees, self.weights),
            "sphere",
        )

    def _checked_degrees(self, degrees: Sequence[int]) -> tuple[int, ...]:
        name = "SphereRegression"
        try:
            out = tuple(
                check.integer(l, "a degree", name, 0, LARGEST_DEGREE) for l in degrees
            )
        except TypeError:
            raise bad(
                "degrees", name, "a sequence of integers >= 0", degrees, "degrees=(1, 2)"
            ) from None
        if not out or len(set(out)) < len(out):
            raise bad("degrees", name, "distinct and at least one", degrees, "degrees=(1, 2)")
        count = max(harmonic_count(self.dim, l) for l in out)
        if count > MOST_HARMONICS:
            raise bad(
                "degrees",
                name,
                f"of at most {MOST_HARMONICS} harmonics each",
                count,
                "a lower degree or dim",
            )
        work = sum(_basis_work(harmonic_count(self.dim, l), l) for l in out)
        if work > MOST_BASIS_MULTIPLICATIONS:
            got = f"{work:.3g} for degrees up to {max(out)} with up to {count} harmonics"
            must = f"such that their bases take at most {MOST_BASIS_MULTIPLICATIONS:g} multiplications"
            raise bad("degrees", name, must, got, "a lower degree or dim")
        return out

    def covariance(self, query: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """E f(q) f(k) = sum_l w_l P_l(q.k), (..., L), of query (..., d) and keys (..., L, d):
        the kernel whose CME is Bayes.
        """
        of = "SphereRegression.covariance"
        t = (
            self._key_array(keys, "keys", of, (None,))
            @ self._key_array(query, "query", of, ())[..., None]
        )[..., 0]
        return sum(w * zonal(self.dim, l, t) for l, w in zip(self.degrees, self.weights))

    def _key_array(
        self, x: np.ndarray, what: str, of: str, axes: tuple[None, ...]
    ) -> np.ndarray:
        k = super()._key_array(x, what, of, axes)
        norms = np.linalg.norm(k, axis=-1)
        if norms.size and not (np.abs(norms - 1) <= UNIT_KEY_TOLERANCE).all():
            must = (
                "unit vectors (off the sphere these polynomials are not harmonic, and softmax "
                "attention would favour long keys)"
            )
            got = f"norms from {norms.min():.3g} to {norms.max():.3g}"
            raise bad(
                what,
                of,
                must,
                got,
                f"{what} / numpy.linalg.norm({what}, axis=-1, keepdims=True)",
            )
        return k
