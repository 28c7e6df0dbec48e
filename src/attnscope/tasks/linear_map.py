"""In-context regression: tokens are (key, value) pairs of one latent linear map of any features of the key.

notation: L = length, phi = features (p of them), Phi (L, p) = rows phi(k_l), V (L, d_v) = values, lam = prior_variance, s = noise.

    W ~ N(0, lam) entrywise, (d_v, p);   keys k_l independent of one law;   v_l = W phi(k_l) + s N(0, I);   target: the value at a new key q

    P = Phi^T Phi/s^2 + I/lam,   rows of W | context ~ N((P^-1 Phi^T V/s^2)^T, P^-1),   v | q, context ~ N(mean phi(q), s^2 + phi(q)^T P^-1 phi(q))
    log p(values | keys), per output: -1/2 [L log(2 pi s^2) + log det(lam P) + |v - Phi m|^2/s^2 + |m|^2/lam],  m the posterior mean

all exact given the context, for every L including 0, by the singular values of Phi: no system is formed that
little noise makes singular. The same numbers in dual form are CME attention with the constant ridge s^2/lam and
kernel phi.phi: claim exch-06. Masked-token prediction is the same task: hide the value of one of L + 1 tokens and ask for it at its key;
tokens are exchangeable, so which one is hidden does not matter (`masked`, `hold_out`).

Bayes risk: s^2 d_v + d_v E[phi(q)^T P^-1 phi(q)]. Normal keys with phi = identity: the mean of a Wishart resolvent, exact
(numerics.wishart). Otherwise a mean over sampled keys, exact given the keys: each of L + 1 keys in turn is the query, and with leverage
h = phi^T (P + phi phi^T/s^2)^-1 phi/s^2 the left-out value is phi^T P^-1 phi = s^2 h/(1 - h).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics import validation as check
from attnscope.numerics.contexts import context_array
from attnscope.numerics.estimate import Estimate, estimate
from attnscope.numerics.sampled_estimate import widened
from attnscope.numerics.wishart import LARGEST_SIDE, resolvent_trace

__all__ = ["ContextBatch", "LinearMap", "MapPosterior", "Predictive", "hold_out"]

KEY_LAWS = ("normal", "sphere")
BLOCK = 1 << 20  # feature entries worked on at a time: 8 MB
EPS = float(np.finfo(np.float64).eps)
WELL_CONDITIONED = 1e4  # of P: up to here 1 - h keeps 8 digits through the normal equations
ROUNDED = 1e-8  # see WELL_CONDITIONED
CLOSE = 1e-6  # 1 - h below this is computed from the other rows: 1 - sum of squares lost its digits
LOST = 1e-3  # of the noise: rounding of larger values would show in their log probability
NEVER_SEEN = 14.0  # an event of probability 14/n is missed by n draws with probability e^-14 = 8e-7
WORK = 8e9  # multiplications of one sampled risk, about 6 s: fewer contexts are drawn where they would need more
FEWEST = 16  # contexts that an error can be taken from
SIGMAS = 5.0  # standard errors within which a sampled Estimate promises to be


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
        mean, axes, left = self._solved(Phi, V)
        C = (axes.swapaxes(-1, -2) * left[..., None, :]) @ axes
        return MapPosterior(mean, (C + C.swapaxes(-1, -2)) / 2)  # symmetric to the bit

    def predictive(self, query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> Predictive:
        """Law of the value at query (..., d_k) given the context."""
        of = f"{type(self).__name__}.predictive"
        q = self.features(self._key_array(query, "query", of, ()))
        mean, axes, left = self._solved(*self._context(keys, values, of))
        # squares along the axes of P, not q^T P^-1 q: a small variance is no difference of large ones
        return Predictive(_apply(mean, q), self.noise**2 + np.sum(left * _apply(axes, q) ** 2, axis=-1))

    def _solved(self, Phi: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Posterior mean (..., d_v, p), axes (..., p, p) of P as rows, posterior variance (..., p) along each.

        From the singular values S of Phi: variances lam r/(S^2 + r), r = s^2/lam, and S/(S^2 + r) of
        the values; nothing cancels and nothing is singular however small the noise.
        """
        U, S, axes = _axes(Phi)
        ridge = self.noise**2 / self.prior_variance
        along = U.swapaxes(-1, -2) @ V  # (..., rank, d_v)
        rank = S.shape[-1]
        shrunk = (S / (S**2 + ridge))[..., None] * along
        mean = shrunk.swapaxes(-1, -2) @ axes[..., :rank, :]
        left = np.full(axes.shape[:-1], self.prior_variance)
        left[..., :rank] = self.prior_variance * (ridge / (S**2 + ridge))
        return mean, axes, left

    def bayes_predict(self, query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """E[v | q, context], (..., d_v), of query (..., d_k), keys (..., L, d_k), values (..., L, d_v)."""
        return self.predictive(query, keys, values).mean

    def log_probability(self, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """log p(values | keys), (...), the map integrated out."""
        of = f"{type(self).__name__}.log_probability"
        Phi, V = self._context(keys, values, of)
        L, p = Phi.shape[-2:]
        U, S, _ = _axes(Phi)
        s2 = self.noise**2
        spread = self.prior_variance * S**2 + s2  # variance of the values along the columns of U
        along = U.swapaxes(-1, -2) @ V
        squares = np.sum(along**2 / spread[..., None], axis=(-1, -2))
        if p < L:
            rest = V - U @ along
            lost = 8 * EPS * np.max(np.abs(V), initial=0.0) * L**0.5
            if lost > LOST * self.noise:
                must = f"above rounding of the values ({lost:.2g}), which then decides what {p} features leave"
                raise bad("noise", of, must, self.noise, "values / their size, or fewer tokens")
            squares = squares + np.sum((rest / self.noise) ** 2, axis=(-1, -2))
        constant = L * np.log(2 * np.pi * s2) + np.sum(np.log1p(S**2 * (self.prior_variance / s2)), axis=-1)
        return -(squares + self.dim_value * constant) / 2

    def bayes_risk(self, length: int, samples: int = 2000, seed: int = 0) -> Estimate:
        """E|v - E[v | q, context]|^2 over contexts of that length; where no closed form is known, at most `samples` key sets are drawn.

        Fewer are drawn where that many would take more than seconds; the error knows, and `method` says how many.
        """
        of = f"{type(self).__name__}.bayes_risk"
        length, samples = check.integer(length, "length", of, 0), check.integer(samples, "samples", of, 2)
        seed, noise = check.seed_value(seed, of), self.noise * self.dim_value**0.5
        if self._features is None and self.keys == "normal" and min(length, self.dim_key) <= LARGEST_SIDE:
            trace = resolvent_trace(length, self.dim_key, self.prior_variance / self.noise / self.noise)
            scale = self.dim_value * self.prior_variance
            excess = scale * trace.value
            error = scale * trace.error + 4 * EPS * excess  # c and the product are rounded
            return estimate(excess, error, "Wishart resolvent", noise)
        affordable = self._affordable(length, samples, of)
        blocks = [self._left_out(length, m, [seed, i]) for i, m in enumerate(self._parts(length, affordable))]
        spread = np.concatenate([block[0] for block in blocks])
        most = max(block[1] for block in blocks)
        excess = self.dim_value * spread.mean()
        error = self.dim_value * (spread.std(ddof=1) / len(spread) ** 0.5 + _unseen(spread, most))
        method = "Monte Carlo over keys"
        if affordable < samples:
            error = widened(error, affordable)
            method += f", {affordable} contexts"
        return estimate(excess, error + ROUNDED * excess, method, noise)

    def _affordable(self, length: int, samples: int, of: str) -> int:
        """How many contexts WORK lets in, at most `samples`."""
        keys, p = length + 1, self.dim_features
        # a multiplication in a product of matrices costs a quarter of one in a decomposition
        each = 0.0 if self._features is None else float(getattr(self._features, "work", None) or p)
        one = keys * p * float(min(keys, p)) + keys * each / 4
        if min(FEWEST, samples) * one > WORK:
            most = f"one that takes at most {WORK / FEWEST:.3g} multiplications a context"
            raise bad("length", of, most, f"{length}, with {p} features", "a smaller length, or fewer features")
        return max(min(samples, int(WORK / one)), min(FEWEST, samples))

    def _left_out(self, length: int, samples: int, seed: list[int]) -> tuple[np.ndarray, float]:
        """phi(q)^T P^-1 phi(q) for sampled sets of length + 1 keys, averaged over which is the query.

        (samples,), and the largest value phi(q)^T phi(q) lam that no context would leave.
        """
        keys = self.draw_keys(np.random.default_rng(seed), (samples, length + 1))
        Phi = self.features(keys)
        squares = np.sum(Phi**2, axis=-1)
        ridge = self.noise**2 / self.prior_variance
        most = self.prior_variance * float(squares.max())
        calm = ridge * WELL_CONDITIONED > float(squares.sum(axis=-1).max())
        if calm and length >= self.dim_features:  # fewer keys than features: a small decomposition is faster
            solved = np.linalg.solve(self._precision(Phi), Phi.swapaxes(-1, -2)).swapaxes(-1, -2)
            h = np.sum(solved * Phi, axis=-1) / self.noise**2  # leverages in (0, 1)
            return np.mean(self.noise**2 * h / (1 - h), axis=-1), most
        left = np.array([_left_out_one(rows, ridge) for rows in Phi])
        return np.mean(self.prior_variance * left, axis=-1), most

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


def _axes(Phi: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U (..., L, m), S (..., m) and axes (..., p, p) with Phi = U S axes[:m], m = min(L, p)."""
    *lead, L, p = Phi.shape
    if L == 0:
        eye = np.broadcast_to(np.eye(p), (*lead, p, p))
        return np.zeros((*lead, 0, 0)), np.zeros((*lead, 0)), eye
    return np.linalg.svd(Phi, full_matrices=p > L)


def _left_out_one(Phi: np.ndarray, ridge: float) -> np.ndarray:
    """phi_q^T (Psi^T Psi/ridge + I)^-1 phi_q, (n,), Psi the other rows of Phi (n, p).

    By the singular values S of Phi: with t = S^2/(S^2 + ridge) the leverages are h = U^2 t and
    1 - h = U^2 (1 - t) + what the columns of U leave of 1, without cancellation.
    """
    U, S, _ = np.linalg.svd(Phi, full_matrices=False)
    weights = U**2
    h = weights @ (S**2 / (S**2 + ridge))
    rest = weights @ (ridge / (S**2 + ridge))
    if len(Phi) > Phi.shape[1]:
        rest = rest + np.maximum(1 - weights.sum(axis=1), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = ridge * h / rest
    for q in np.flatnonzero(rest < CLOSE) if len(Phi) > Phi.shape[1] else ():
        _, S, V = np.linalg.svd(np.delete(Phi, q, axis=0))
        along = (V @ Phi[q]) ** 2
        kept = np.ones(len(along))
        kept[: len(S)] = ridge / (S**2 + ridge)
        out[q] = along @ kept
    return out


def _unseen(spread: np.ndarray, most: float) -> float:
    """What draws above all of the sample may add to its mean, over SIGMAS.

    Above the largest draw v_1 lies at most the probability NEVER_SEEN/n; it is continued to the
    largest possible value by the power law v^-alpha that the top of the sample shows (Hill's
    estimate of alpha, two of its standard errors smaller). Near L = p with little noise a context
    that misses a direction is rare and decides the mean: alpha is then 1/2.
    """
    n = len(spread)
    k = max(1, min(n - 1, round(n**0.5)))
    top = np.sort(spread)[-(k + 1) :]
    if not 0 < top[-1] < most or top[0] <= 0:
        return 0.0
    mean_log = float(np.mean(np.log(top[1:] / top[0])))
    alpha = (1 - 2 / k**0.5) / max(mean_log, 1e-12) if k > 4 else 0.0
    growth = math.log(most / top[-1])
    beyond = growth if abs(1 - alpha) < 1e-9 else math.expm1((1 - alpha) * growth) / (1 - alpha)
    return NEVER_SEEN / n * float(top[-1]) * beyond / SIGMAS


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
