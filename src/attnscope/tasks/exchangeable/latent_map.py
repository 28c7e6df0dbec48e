"""Contexts of (key, value) pairs of one latent linear map: how they are drawn, and the exact
posterior of the map.

notation and formulas: linear_map. By the singular values of the features Phi: nothing is formed
that little noise makes singular.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array
from attnscope.numerics.border.whole_values import whole_numbers

__all__ = [
    "EPS",
    "ContextBatch",
    "LatentMap",
    "MapPosterior",
    "Predictive",
    "hold_out",
    "matrix_times_vector",
]

MAP_KEY_LAWS = ("normal", "sphere")
EPS = float(np.finfo(np.float64).eps)
LOST_SHARE_OF_NOISE = (
    1e-3  # of the noise: rounding of larger values would show in their log probability
)


class ContextBatch(NamedTuple):
    """keys (n, L, d_k), values (n, L, d_v); query (n, d_k) and its target (n, d_v);
    latent W (n, d_v, p).
    """

    keys: np.ndarray
    values: np.ndarray
    query: np.ndarray
    target: np.ndarray
    latent: np.ndarray

    @property
    def tokens(self) -> np.ndarray:
        """The pairs as vectors (n, L, d_k + d_v)."""
        return np.concatenate([self.keys, self.values], axis=-1)


class MapPosterior(NamedTuple):
    """mean (..., d_v, p) of the latent map and the covariance (..., p, p) of each of its rows."""

    mean: np.ndarray
    covariance: np.ndarray


class Predictive(NamedTuple):
    """mean (..., d_v) and variance (...) of each coordinate of the value at a query,
    the token noise included.
    """

    mean: np.ndarray
    variance: np.ndarray


class MapLaw:
    """What maps from keys to noisy values share: their sizes, scales and law of the keys."""

    KEY_LAWS: ClassVar[tuple[str, ...]]

    def __init__(
        self, dim_key: int, dim_value: int, prior_variance: float, noise: float, keys: str
    ) -> None:
        name = type(self).__name__
        if keys not in self.KEY_LAWS:
            raise bad("keys", name, f"one of {self.KEY_LAWS}", keys)
        self.dim_key = check.integer(dim_key, "dim_key", name, 1)
        self.dim_value = check.integer(dim_value, "dim_value", name, 1)
        self.prior_variance = check.real(
            prior_variance, "prior_variance", name, 0, strict=True
        )
        self.noise = check.real(
            noise, "noise", name, 0, strict=True, hint="a small noise such as 1e-3"
        )
        self.keys = keys

    def draw_keys(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Keys (*shape, d_k) of the task's law."""
        if self.keys == "one-hot":
            return np.eye(self.dim_key)[rng.integers(self.dim_key, size=shape)]
        k = rng.standard_normal((*shape, self.dim_key))
        return k / np.linalg.norm(k, axis=-1, keepdims=True) if self.keys == "sphere" else k

    def predictive(
        self, query: np.ndarray, keys: np.ndarray, values: np.ndarray
    ) -> Predictive:
        """Law of the noisy value at the query given the context."""
        raise NotImplementedError

    def bayes_predict(
        self, query: np.ndarray, keys: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """The Bayes prediction E[v | k, X] = M phi(k), (..., d_v)."""
        return self.predictive(query, keys, values).mean


class LatentMap(MapLaw):
    """Law of the pairs, posterior of the map, prediction at a new key."""

    KEY_LAWS = ("normal", "sphere")

    def __init__(
        self,
        dim_key: int = 3,
        dim_value: int = 1,
        prior_variance: float = 1.0,
        noise: float = 0.5,
        features: Callable[[np.ndarray], np.ndarray] | None = None,
        keys: str = "normal",
    ) -> None:
        name = type(self).__name__
        super().__init__(dim_key, dim_value, prior_variance, noise, keys)
        if features is not None and not callable(features):
            raise bad(
                "features",
                name,
                "a function of keys (..., d_k) or None",
                features,
                "features=None",
            )
        self._features = features
        self.dim_features = self.features(
            np.ones((1, self.dim_key)) / self.dim_key**0.5
        ).shape[-1]

    def __repr__(self) -> str:
        sizes = (
            f"dim_key={self.dim_key}, dim_value={self.dim_value}, "
            f"prior_variance={self.prior_variance:g}"
        )
        return (
            f"{type(self).__name__}({sizes}, noise={self.noise:g}, "
            f"features={self.dim_features}, keys={self.keys!r})"
        )

    def features(self, keys: np.ndarray) -> np.ndarray:
        """phi(k), (..., p), of keys (..., d_k)."""
        keys = context_array(keys, "keys", f"{type(self).__name__}.features", (None,))
        if self._features is None:
            return keys
        try:
            out = np.asarray(self._features(keys), dtype=np.float64)
        except AttnscopeError:
            raise
        except Exception as error:
            raise bad(
                "features",
                type(self).__name__,
                "a function of keys (..., d_k)",
                f"{type(error).__name__}: {error}",
            ) from error
        if (
            out.shape[:-1] != keys.shape[:-1]
            or out.ndim != keys.ndim
            or not np.isfinite(out).all()
        ):
            got = (
                f"shape {out.shape} for keys {keys.shape}"
                if out.shape[:-1] != keys.shape[:-1]
                else "NaN or infinity"
            )
            raise bad(
                "features",
                type(self).__name__,
                "a finite array (..., p) for keys (..., d_k)",
                got,
            )
        return out

    # -- data --------------------------------------------------------------------------------------

    def sample(self, n: int, length: int, seed: int = 0) -> ContextBatch:
        """Draw n contexts of `length` >= 0 tokens,
        each with a query and the noisy value there as target.
        """
        of = f"{type(self).__name__}.sample"
        n = check.integer(n, "n", of, 1)
        length = check.integer(length, "length", of, 0)
        width = self.dim_key + self.dim_value + self.dim_features
        check.fits_in_memory(
            n * (length + 1) * width, 8, "tokens", of, "fewer contexts at a time"
        )
        rng = np.random.default_rng(check.seed_value(seed, of))
        W = self.prior_variance**0.5 * rng.standard_normal(
            (n, self.dim_value, self.dim_features)
        )
        keys = self.draw_keys(rng, (n, length + 1))
        values = self.features(keys) @ W.swapaxes(-1, -2)
        values += self.noise * rng.standard_normal(values.shape)
        return ContextBatch(keys[:, :-1], values[:, :-1], keys[:, -1], values[:, -1], W)

    def masked(self, n: int, length: int, seed: int = 0) -> ContextBatch:
        """The masked-token objective: of length + 1 tokens,
        the value at a random position is hidden and is the target.
        """
        batch = self.sample(n, length, seed)
        keys = np.concatenate([batch.keys, batch.query[:, None]], axis=1)
        values = np.concatenate([batch.values, batch.target[:, None]], axis=1)
        position = np.random.default_rng([seed, 1]).integers(length + 1, size=n)
        return hold_out(keys, values, position)._replace(latent=batch.latent)

    def conditional_mean(self, latent: np.ndarray, query: np.ndarray) -> np.ndarray:
        """E[v | k = q, W] = W phi(q), (..., d_v): what no context can beat."""
        of = f"{type(self).__name__}.conditional_mean"
        W = context_array(latent, "latent", of, (self.dim_value, self.dim_features))
        return matrix_times_vector(W, self.features(self._key_array(query, "query", of, ())))

    # -- inference ---------------------------------------------------------------------------------

    def posterior(self, keys: np.ndarray, values: np.ndarray) -> MapPosterior:
        """Law of W given keys (..., L, d_k) and values (..., L, d_v)."""
        Phi, V = self._features_and_values(keys, values, f"{type(self).__name__}.posterior")
        mean, axes, left = self._posterior_factors(Phi, V)
        C = (axes.swapaxes(-1, -2) * left[..., None, :]) @ axes
        return MapPosterior(mean, (C + C.swapaxes(-1, -2)) / 2)  # symmetric to the bit

    def predictive(
        self, query: np.ndarray, keys: np.ndarray, values: np.ndarray
    ) -> Predictive:
        """Law of the value at query (..., d_k) given the context."""
        of = f"{type(self).__name__}.predictive"
        q = self.features(self._key_array(query, "query", of, ()))
        mean, axes, left = self._posterior_factors(
            *self._features_and_values(keys, values, of)
        )
        # squares along the axes of P, not q^T P^-1 q: a small variance is no difference of large
        # ones
        return Predictive(
            matrix_times_vector(mean, q),
            self.noise**2 + np.sum(left * matrix_times_vector(axes, q) ** 2, axis=-1),
        )

    def _posterior_factors(
        self, Phi: np.ndarray, V: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Posterior mean (..., d_v, p), axes (..., p, p) of P as rows, posterior variance (..., p)
        along each.

        From the singular values S of Phi: variances lam r/(S^2 + r), r = s^2/lam, and S/(S^2 + r)
        of the values; nothing cancels and nothing is singular however small the noise.
        """
        U, S, axes = _singular_axes(Phi)
        ridge = self.noise**2 / self.prior_variance
        along = U.swapaxes(-1, -2) @ V  # (..., rank, d_v)
        rank = S.shape[-1]
        shrunk = (S / (S**2 + ridge))[..., None] * along
        mean = shrunk.swapaxes(-1, -2) @ axes[..., :rank, :]
        left = np.full(axes.shape[:-1], self.prior_variance)
        left[..., :rank] = self.prior_variance * (ridge / (S**2 + ridge))
        return mean, axes, left

    def log_probability(self, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """log p(values | keys), (...), the map integrated out."""
        of = f"{type(self).__name__}.log_probability"
        Phi, V = self._features_and_values(keys, values, of)
        L, p = Phi.shape[-2:]
        U, S, _ = _singular_axes(Phi)
        s2 = self.noise**2
        # variance of the values along the columns of U
        spread = self.prior_variance * S**2 + s2
        along = U.swapaxes(-1, -2) @ V
        squares = np.sum(along**2 / spread[..., None], axis=(-1, -2))
        if p < L:
            rest = V - U @ along
            lost = 8 * EPS * np.max(np.abs(V), initial=0.0) * L**0.5
            if lost > LOST_SHARE_OF_NOISE * self.noise:
                must = (
                    f"above rounding of the values ({lost:.2g}), which then decides what {p} "
                    "features leave"
                )
                raise bad(
                    "noise", of, must, self.noise, "values / their size, or fewer tokens"
                )
            squares = squares + np.sum((rest / self.noise) ** 2, axis=(-1, -2))
        constant = L * np.log(2 * np.pi * s2) + np.sum(
            np.log1p(S**2 * (self.prior_variance / s2)), axis=-1
        )
        return -(squares + self.dim_value * constant) / 2

    def _features_and_values(
        self, keys: np.ndarray, values: np.ndarray, of: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Features (..., L, p) of the keys, and the values."""
        k = self._key_array(keys, "keys", of, (None,))
        return self.features(k), context_array(
            values, "values", of, (k.shape[-2], self.dim_value)
        )

    def _key_array(
        self, x: np.ndarray, what: str, of: str, axes: tuple[None, ...]
    ) -> np.ndarray:
        return context_array(x, what, of, (*axes, self.dim_key))


def _singular_axes(Phi: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U (..., L, m), S (..., m) and axes (..., p, p) with Phi = U S axes[:m], m = min(L, p)."""
    *lead, L, p = Phi.shape
    if L == 0:
        eye = np.broadcast_to(np.eye(p), (*lead, p, p))
        return np.zeros((*lead, 0, 0)), np.zeros((*lead, 0)), eye
    return np.linalg.svd(Phi, full_matrices=p > L)


def matrix_times_vector(M: np.ndarray, x: np.ndarray) -> np.ndarray:
    """M x for matrices (..., a, b) and vectors (..., b)."""
    return (M @ x[..., None])[..., 0]


def hold_out(keys: np.ndarray, values: np.ndarray, position: np.ndarray) -> ContextBatch:
    """Hide the value at one position of each of n sequences: the rest is context, the hidden key
    the query.

    Args:
        keys, values: (n, L + 1, .) each.
        position: (n,), 0-based.

    >>> import attnscope as at
    >>> import numpy as np
    >>> keys, values = np.arange(6.0).reshape(1, 3, 2), np.arange(3.0).reshape(1, 3, 1)
    >>> batch = at.hold_out(keys, values, np.array([1]))
    >>> batch.query.tolist(), batch.target.tolist(), batch.values.ravel().tolist()
    ([[2.0, 3.0]], [[1.0]], [0.0, 2.0])
    """
    of = "hold_out"
    k = context_array(keys, "keys", of, (None, None, None))
    v = context_array(values, "values", of, (None, None, None))
    n, total = k.shape[:2]
    if v.shape[:2] != (n, total) or total < 1:
        raise bad(
            "values",
            of,
            f"of shape ({n}, {max(total, 1)}, d_v), as many tokens as keys",
            f"shape {v.shape}",
        )
    at = whole_numbers(position, "position", of, total, (n,))
    # (n, L): all but the hidden position
    rest = np.arange(total - 1) + (np.arange(total - 1) >= at[:, None])
    rows = np.arange(n)
    latent = np.zeros((n, v.shape[2], 0))  # unknown to whoever hides a token of given data
    return ContextBatch(
        k[rows[:, None], rest], v[rows[:, None], rest], k[rows, at], v[rows, at], latent
    )
