"""In-context regression: tokens are (key, value) pairs of one latent linear map of any features of the key.

notation: L = length, phi = features (p of them), Phi (L, p) = rows phi(k_l), V (L, d_v) = values, lam = prior_variance, s = noise.

    W ~ N(0, lam) entrywise, (d_v, p);   keys k_l independent of one law;   v_l = W phi(k_l) + s N(0, I);   target: the value at a new key q

    P = Phi^T Phi/s^2 + I/lam,   rows of W | context ~ N((P^-1 Phi^T V/s^2)^T, P^-1),   v | q, context ~ N(mean phi(q), s^2 + phi(q)^T P^-1 phi(q))
    log p(values | keys), per output: -1/2 [L log(2 pi s^2) + log det(lam P) + |v - Phi m|^2/s^2 + |m|^2/lam],  m the posterior mean

all exact given the context, for every L including 0. The same numbers in dual form are CME attention with the constant ridge s^2/lam and
kernel phi.phi: claim exch-06. Masked-token prediction is the same task: hide the value of one of L + 1 tokens and ask for it at its key;
tokens are exchangeable, so which one is hidden does not matter (`masked`, `hold_out`).

Bayes risk: s^2 d_v + d_v E[phi(q)^T P^-1 phi(q)]. Normal keys with phi = identity: the mean of a Wishart resolvent, exact
(numerics.wishart). Otherwise a mean over sampled keys, exact given the keys: each of L + 1 keys in turn is the query, and with leverage
h = phi^T (P + phi phi^T/s^2)^-1 phi/s^2 the left-out value is phi^T P^-1 phi = s^2 h/(1 - h).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics import validation as check
from attnscope.numerics.contexts import context_array
from attnscope.numerics.estimate import Estimate, estimate
from attnscope.numerics.wishart import LARGEST_SIDE, resolvent_trace

__all__ = ["ContextBatch", "LinearMap", "MapPosterior", "Predictive", "hold_out"]

KEY_LAWS = ("normal", "sphere")
BLOCK = 1 << 20  # feature entries worked on at a time: 8 MB


class ContextBatch(NamedTuple):
    """keys (n, L, d_k), values (n, L, d_v); query (n, d_k) and its target (n, d_v); latent W (n, d_v, p)."""

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
    """mean (..., d_v) and variance (...) of each coordinate of the value at a query, the token noise included."""

    mean: np.ndarray
    variance: np.ndarray


class LinearMap:
    """Values v = W phi(k) + noise with a Gaussian latent W; predict the value at a new key.

    Args:
        dim_key, dim_value: d_k, d_v >= 1.
        prior_variance: lam > 0, of each entry of W.
        noise: s > 0, standard deviation of each coordinate of a value around W phi(k).
        features: phi, a function of keys (..., d_k) with values (..., p); None is the identity, p = d_k.
        keys: their law, "normal" (N(0, I)) or "sphere" (uniform, unit length).

    >>> task = LinearMap(dim_key=3, dim_value=1, prior_variance=1.0, noise=0.5)
    >>> batch = task.sample(4, length=8, seed=0)
    >>> task.bayes_predict(batch.query, batch.keys, batch.values).shape
    (4, 1)
    >>> [round(task.bayes_risk(length).value, 6) for length in (0, 8, 64)]
    [3.25, 0.414583, 0.262445]
    """

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
        self.dim_key = check.integer(dim_key, "dim_key", name, 1)
        self.dim_value = check.integer(dim_value, "dim_value", name, 1)
        self.prior_variance = check.real(prior_variance, "prior_variance", name, 0, strict=True)
        self.noise = check.real(noise, "noise", name, 0, strict=True, hint="a small noise such as 1e-3")
        if features is not None and not callable(features):
            raise bad("features", name, "a function of keys (..., d_k) or None", features, "features=None")
        if keys not in KEY_LAWS:
            raise bad("keys", name, f"one of {KEY_LAWS}", keys)
        self._features, self.keys = features, keys
        self.dim_features = self.features(np.ones((1, self.dim_key)) / self.dim_key**0.5).shape[-1]

    def __repr__(self) -> str:
        sizes = f"dim_key={self.dim_key}, dim_value={self.dim_value}, prior_variance={self.prior_variance:g}"
        return f"{type(self).__name__}({sizes}, noise={self.noise:g}, features={self.dim_features}, keys={self.keys!r})"

    def features(self, keys: np.ndarray) -> np.ndarray:
        """phi(k), (..., p), of keys (..., d_k)."""
        if self._features is None:
            return keys
        try:
            out = np.asarray(self._features(keys), dtype=np.float64)
        except AttnscopeError:
            raise
        except Exception as error:
            raise bad(
                "features", type(self).__name__, "a function of keys (..., d_k)", f"{type(error).__name__}: {error}"
            ) from error
        if out.shape[:-1] != keys.shape[:-1] or out.ndim != keys.ndim or not np.isfinite(out).all():
            got = f"shape {out.shape} for keys {keys.shape}" if out.shape[:-1] != keys.shape[:-1] else "NaN or infinity"
            raise bad("features", type(self).__name__, "a finite array (..., p) for keys (..., d_k)", got)
        return out

    # -- data -------------------------------------------------------------------------------------------------------

    def sample(self, n: int, length: int, seed: int = 0) -> ContextBatch:
        """Draw n contexts of `length` >= 0 tokens, each with a query and the noisy value there as target."""
        of = f"{type(self).__name__}.sample"
        n, length = check.integer(n, "n", of, 1), check.integer(length, "length", of, 0)
        width = self.dim_key + self.dim_value + self.dim_features
        check.fits_in_memory(n * (length + 1) * width, 8, "tokens", of, "fewer contexts at a time")
        rng = np.random.default_rng(check.seed_value(seed, of))
        W = self.prior_variance**0.5 * rng.standard_normal((n, self.dim_value, self.dim_features))
        keys = self.draw_keys(rng, (n, length + 1))
        values = self.features(keys) @ W.swapaxes(-1, -2)
        values += self.noise * rng.standard_normal(values.shape)
        return ContextBatch(keys[:, :-1], values[:, :-1], keys[:, -1], values[:, -1], W)

    def masked(self, n: int, length: int, seed: int = 0) -> ContextBatch:
        """The masked-token objective: of length + 1 tokens, the value at a random position is hidden and is the target."""
        batch = self.sample(n, length, seed)
        keys = np.concatenate([batch.keys, batch.query[:, None]], axis=1)
        values = np.concatenate([batch.values, batch.target[:, None]], axis=1)
        position = np.random.default_rng([seed, 1]).integers(length + 1, size=n)
        return hold_out(keys, values, position)._replace(latent=batch.latent)

    def draw_keys(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Keys (*shape, d_k) from their law."""
        k = rng.standard_normal((*shape, self.dim_key))
        return k / np.linalg.norm(k, axis=-1, keepdims=True) if self.keys == "sphere" else k

    def conditional_mean(self, latent: np.ndarray, query: np.ndarray) -> np.ndarray:
        """E[v | k = q, W] = W phi(q), (..., d_v): what no context can beat."""
        of = f"{type(self).__name__}.conditional_mean"
        W = context_array(latent, "latent", of, (self.dim_value, self.dim_features))
        return _apply(W, self.features(self._key_array(query, "query", of, ())))

    # -- inference --------------------------------------------------------------------------------------------------

    def posterior(self, keys: np.ndarray, values: np.ndarray) -> MapPosterior:
        """Law of W given keys (..., L, d_k) and values (..., L, d_v)."""
        Phi, V = self._context(keys, values, f"{type(self).__name__}.posterior")
        P = self._precision(Phi)
        mean = np.linalg.solve(P, Phi.swapaxes(-1, -2) @ V / self.noise**2).swapaxes(-1, -2)
        C = np.linalg.inv(P)
        return MapPosterior(mean, (C + C.swapaxes(-1, -2)) / 2)

    def predictive(self, query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> Predictive:
        """Law of the value at query (..., d_k) given the context."""
        q = self.features(self._key_array(query, "query", f"{type(self).__name__}.predictive", ()))
        mean, C = self.posterior(keys, values)
        return Predictive(_apply(mean, q), self.noise**2 + np.sum(_apply(C, q) * q, axis=-1))

    def bayes_predict(self, query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """E[v | q, context], (..., d_v), of query (..., d_k), keys (..., L, d_k), values (..., L, d_v)."""
        return self.predictive(query, keys, values).mean

    def log_probability(self, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """log p(values | keys), (...), the map integrated out."""
        Phi, V = self._context(keys, values, f"{type(self).__name__}.log_probability")
        P, s2, lam = self._precision(Phi), self.noise**2, self.prior_variance
        m = np.linalg.solve(P, Phi.swapaxes(-1, -2) @ V / s2)  # (..., p, d_v)
        squares = np.sum((V - Phi @ m) ** 2, axis=(-1, -2)) / s2 + np.sum(m**2, axis=(-1, -2)) / lam
        constant = V.shape[-2] * np.log(2 * np.pi * s2) + np.linalg.slogdet(lam * P)[1]
        return -(squares + self.dim_value * constant) / 2

    def bayes_risk(self, length: int, samples: int = 2000, seed: int = 0) -> Estimate:
        """E|v - E[v | q, context]|^2 over contexts of that length; `samples` key sets are drawn where no closed form is known."""
        of = f"{type(self).__name__}.bayes_risk"
        length, samples = check.integer(length, "length", of, 0), check.integer(samples, "samples", of, 2)
        seed, noise = check.seed_value(seed, of), self.noise * self.dim_value**0.5
        if self._features is None and self.keys == "normal" and min(length, self.dim_key) <= LARGEST_SIDE:
            c = self.prior_variance / self.noise**2
            excess = self.dim_value * self.prior_variance * resolvent_trace(length, self.dim_key, c)
            # quadrature to 1e-12; the weight x^a e^-x of a long context loses eps per unit of its exponent
            return estimate(excess, (1e-11 + 1e-15 * length) * excess, "Wishart resolvent", noise)
        spread = np.concatenate(
            [self._left_out(length, m, [seed, i]) for i, m in enumerate(self._parts(length, samples))]
        )
        excess, error = self.dim_value * spread.mean(), self.dim_value * spread.std(ddof=1) / len(spread) ** 0.5
        return estimate(excess, error + 1e-14 * excess, "Monte Carlo over keys", noise)

    def _left_out(self, length: int, samples: int, seed: list[int]) -> np.ndarray:
        """phi(q)^T P^-1 phi(q) for sampled sets of length + 1 keys, averaged over which of them is the query: (samples,)."""
        Phi = self.features(self.draw_keys(np.random.default_rng(seed), (samples, length + 1)))
        h = np.sum(np.linalg.solve(self._precision(Phi), Phi.swapaxes(-1, -2)).swapaxes(-1, -2) * Phi, axis=-1)
        h = h / self.noise**2  # leverages in (0, 1)
        return np.mean(self.noise**2 * h / (1 - h), axis=-1)

    def _parts(self, length: int, samples: int) -> list[int]:
        block = max(1, BLOCK // ((length + 1) * self.dim_features))
        return [min(block, samples - i) for i in range(0, samples, block)]

    def _precision(self, Phi: np.ndarray) -> np.ndarray:
        return Phi.swapaxes(-1, -2) @ Phi / self.noise**2 + np.eye(self.dim_features) / self.prior_variance

    def _context(self, keys: np.ndarray, values: np.ndarray, of: str) -> tuple[np.ndarray, np.ndarray]:
        """Features (..., L, p) of the keys, and the values."""
        k = self._key_array(keys, "keys", of, (None,))
        return self.features(k), context_array(values, "values", of, (k.shape[-2], self.dim_value))

    def _key_array(self, x: np.ndarray, what: str, of: str, axes: tuple[None, ...]) -> np.ndarray:
        return context_array(x, what, of, (*axes, self.dim_key))


def _apply(M: np.ndarray, x: np.ndarray) -> np.ndarray:
    """M x for matrices (..., a, b) and vectors (..., b)."""
    return (M @ x[..., None])[..., 0]


def hold_out(keys: np.ndarray, values: np.ndarray, position: np.ndarray) -> ContextBatch:
    """Hide the value at `position` (n,) of each of n sequences (n, L + 1, .): the rest is context, the hidden key the query."""
    of = "hold_out"
    k, v = context_array(keys, "keys", of, (None, None, None)), context_array(values, "values", of, (None, None, None))
    n, total = k.shape[:2]
    if v.shape[:2] != (n, total) or total < 1:
        raise bad("values", of, f"of shape ({n}, {max(total, 1)}, d_v), as many tokens as keys", f"shape {v.shape}")
    at = np.asarray(position)
    if at.shape != (n,) or at.dtype.kind not in "iu" or (n and not 0 <= at.min() <= at.max() < total):
        raise bad("position", of, f"integers (n,) from 0 to {total - 1}", f"shape {at.shape}, dtype {at.dtype}")
    rest = np.arange(total - 1) + (np.arange(total - 1) >= at[:, None])  # (n, L): all but the hidden position
    rows = np.arange(n)
    latent = np.zeros((n, v.shape[2], 0))  # unknown to whoever hides a token of given data
    return ContextBatch(k[rows[:, None], rest], v[rows[:, None], rest], k[rows, at], v[rows, at], latent)
