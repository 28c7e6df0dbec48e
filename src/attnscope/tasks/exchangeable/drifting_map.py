"""In-context regression on a map that drifts: tokens are (key, value) pairs, later ones count more.

notation: d = dim_key, L = length, lam = prior_variance, s = noise, a = decay; w_t one row of W_t.

    w_0 ~ N(0, lam I),   w_t = a w_{t-1} + sqrt(lam (1 - a^2)) N(0, I),   v_t = w_t.k_t + s N(0, 1),
    target: the value w_L.q + s N(0, 1) at a query q, drawn as the keys are, after the last token

for each of d_v rows; each w_t has the law of w_0. Keys are independent and isotropic, E kk^T =
kappa I, E |k|^2 kk^T = kappa2 I:

    "normal"  N(0, I)                 kappa = 1      kappa2 = d + 2
    "sphere"  uniform, unit length    kappa = 1/d    kappa2 = 1/d
    "one-hot" one of d unit vectors   kappa = 1/d    kappa2 = 1/d      (recall with overwriting)

The posterior is the Kalman filter's, exact given the context: W_L | context has rows N(m, P),

    P' = a^2 P + (1 - a^2) lam I,   u = P' k_t,   P = P' - u u^T/(k_t.u + s^2),
    m = a m + (v_t - a m.k_t) u/(k_t.u + s^2).

At a = 1 it is LinearMap's, and computed as there. With a < 1 the tokens are not exchangeable: the
order is information.

Bayes risk: s^2 d_v + d_v kappa E tr P. One-hot keys: d filters of one number, exact
(slot_filter). No drift: LinearMap's, and so is that of one token of normal keys; unit keys leave
lam (1 - lam/(d (lam + s^2))) then. Otherwise a mean over sampled keys, exact given
the keys. No memory, gated, trained or of any size, has less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.sampled_estimate import affordable
from attnscope.tasks.exchangeable.latent_map import (
    ContextBatch,
    MapLaw,
    MapPosterior,
    Predictive,
    matrix_times_vector,
)
from attnscope.tasks.exchangeable.linear_map import (
    FEWEST_CONTEXTS,
    LinearMap,
    estimate_over_keys,
    unseen,
)
from attnscope.tasks.exchangeable.slot_filter import slot_variance

__all__ = ["DriftingMap", "KeyMoments"]

DRIFTING_KEY_LAWS = ("normal", "sphere", "one-hot")
EPS = float(np.finfo(np.float64).eps)
# multiplications of one sampled risk, about 6 s
FILTER_MULTIPLICATIONS = 1.2e10
BLOCK_KEY_ENTRIES = 1 << 21  # numbers of drawn keys held at a time: 16 MB
# of an answer: what rounding of P may cost it before it is refused
LOST_SHARE_OF_ANSWER = 1e-6


class KeyMoments(NamedTuple):
    """E kk^T = kappa I and E |k|^2 kk^T = kappa2 I."""

    kappa: float
    kappa2: float


class DriftingMap(MapLaw):
    """Values v_t = W_t k_t + noise of a map W_t that drifts at a rate; predict the value at a key.

    Args:
        dim_key, dim_value: d, d_v >= 1.
        prior_variance: lam > 0, of each entry of W_t, at every t.
        noise: s > 0, standard deviation of each coordinate of a value around W_t k_t.
        decay: a in [0, 1], the correlation of an entry with itself one token later; 1: no drift.
        keys: their law, "normal", "sphere" or "one-hot".

    >>> task = DriftingMap(dim_key=8, noise=0.5, decay=0.99, keys="sphere")
    >>> batch = task.sample(4, length=30, seed=0)
    >>> task.bayes_predict(batch.query, batch.keys, batch.values).shape
    (4, 1)
    >>> best = task.bayes_risk(length=300)
    >>> round(best.excess, 2), best.error < 0.005
    (0.22, True)
    >>> recall = DriftingMap(dim_key=8, noise=0.5, decay=0.99, keys="one-hot")
    >>> round(recall.bayes_risk(length=3000).excess, 6)
    0.225783
    """

    KEY_LAWS = ("normal", "sphere", "one-hot")

    def __init__(
        self,
        dim_key: int = 8,
        dim_value: int = 1,
        prior_variance: float = 1.0,
        noise: float = 0.5,
        decay: float = 0.99,
        keys: str = "normal",
    ) -> None:
        super().__init__(dim_key, dim_value, prior_variance, noise, keys)
        self.decay = check.real(decay, "decay", "DriftingMap", 0, 1, hint="decay=0.99")

    def __repr__(self) -> str:
        sizes = f"dim_key={self.dim_key}, dim_value={self.dim_value}"
        scales = f"prior_variance={self.prior_variance:g}, noise={self.noise:g}"
        return f"DriftingMap({sizes}, {scales}, decay={self.decay:g}, keys={self.keys!r})"

    @property
    def key_moments(self) -> KeyMoments:
        """kappa and kappa2 of the law of the keys."""
        d = self.dim_key
        return KeyMoments(1.0, d + 2.0) if self.keys == "normal" else KeyMoments(1 / d, 1 / d)

    # -- data --------------------------------------------------------------------------------------

    def sample(self, n: int, length: int, seed: int = 0) -> ContextBatch:
        """Draw n contexts of `length` >= 0 tokens, each with a query and the noisy value there;
        `latent` is the map after the last token.
        """
        of = "DriftingMap.sample"
        n = check.integer(n, "n", of, 1)
        length = check.integer(length, "length", of, 0)
        width = self.dim_key + self.dim_value
        size = n * ((length + 1) * width + 2 * self.dim_key * self.dim_value)
        check.fits_in_memory(size, 8, "tokens", of, "fewer contexts at a time")
        rng = np.random.default_rng(check.seed_value(seed, of))
        shape = (n, self.dim_value, self.dim_key)
        W = self.prior_variance**0.5 * rng.standard_normal(shape)
        keys = self.draw_keys(rng, (n, length + 1))
        values = self.noise * rng.standard_normal((n, length + 1, self.dim_value))
        moved = (self.prior_variance * (1 - self.decay) * (1 + self.decay)) ** 0.5
        for t in range(length):
            if moved:
                W = self.decay * W + moved * rng.standard_normal(shape)
            values[:, t] += matrix_times_vector(W, keys[:, t])
        values[:, -1] += matrix_times_vector(W, keys[:, -1])
        return ContextBatch(keys[:, :-1], values[:, :-1], keys[:, -1], values[:, -1], W)

    def conditional_mean(self, latent: np.ndarray, query: np.ndarray) -> np.ndarray:
        """E[v | q, W_L] = W_L q, (..., d_v): what no context can beat."""
        of = "DriftingMap.conditional_mean"
        W = context_array(latent, "latent", of, (self.dim_value, self.dim_key))
        return matrix_times_vector(W, context_array(query, "query", of, (self.dim_key,)))

    # -- inference ---------------------------------------------------------------------------------

    def posterior(self, keys: np.ndarray, values: np.ndarray) -> MapPosterior:
        """Law of W_L given keys (..., L, d) and values (..., L, d_v), in the order of time."""
        mean, covariance, _ = self._filter_contexts(keys, values, "DriftingMap.posterior")
        return MapPosterior(mean, covariance)

    def predictive(
        self, query: np.ndarray, keys: np.ndarray, values: np.ndarray
    ) -> Predictive:
        """Law of the value at query (..., d) after the last token."""
        of = "DriftingMap.predictive"
        if self.decay == 1:
            return self._map_without_drift().predictive(query, keys, values)
        q = context_array(query, "query", of, (self.dim_key,))
        mean, P, _ = self._filter_contexts(keys, values, of)
        variance = np.sum(q * matrix_times_vector(P, q), axis=-1)
        return Predictive(
            matrix_times_vector(mean, q), self.noise**2 + np.maximum(variance, 0.0)
        )

    def log_probability(self, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """log p(values | keys), (...), the path of the map integrated out."""
        of = "DriftingMap.log_probability"
        if self.decay == 1:
            return self._map_without_drift().log_probability(keys, values)
        return self._filter_contexts(keys, values, of)[2]

    def bayes_risk(self, length: int, samples: int = 2000, seed: int = 0) -> Estimate:
        """E|v - E[v | q, context]|^2 after `length` tokens; where no closed form is known, at most
        `samples` key sets are drawn.

        Fewer are drawn where that many would take more than seconds; the error knows, and `method`
        says how many.
        """
        of = "DriftingMap.bayes_risk"
        length = check.integer(length, "length", of, 0)
        samples = check.integer(samples, "samples", of, 2)
        seed = check.seed_value(seed, of)
        noise = self.noise * self.dim_value**0.5
        kappa = self.key_moments.kappa
        prior = self.dim_value * kappa * self.dim_key * self.prior_variance
        if length == 0:
            return estimate(prior, 4 * EPS * prior, "the prior", noise)
        if self.keys == "one-hot":
            slot = (self.prior_variance, self.noise, self.decay, 1 / self.dim_key, length)
            value, error = slot_variance(*slot)
            scale = self.dim_value
            return estimate(scale * value, scale * error, "recursion of one slot", noise)
        if self.decay == 0 or length == 1:
            length = 1  # the last token alone, of a map with the law of the first
            if self.keys == "sphere":
                left = self.noise**2 / (self.prior_variance + self.noise**2)
                excess = prior * ((self.dim_key - 1) + left) / self.dim_key
                return estimate(excess, 8 * EPS * excess, "closed form", noise)
            return self._map_without_drift().bayes_risk(length, samples, seed)
        if self.decay == 1:
            return self._map_without_drift().bayes_risk(length, samples, seed)
        lost = self._rounding_loss(length, 4.0 * self.dim_key, of)
        each = 4.0 * length * self.dim_key**2
        contexts = affordable(samples, each, FILTER_MULTIPLICATIONS, FEWEST_CONTEXTS)
        if not contexts:
            must = f"one that takes at most {FILTER_MULTIPLICATIONS / FEWEST_CONTEXTS:.3g} multiplications a context"
            raise bad("length", of, must, f"{length}, with dim_key {self.dim_key}")
        traces = self.trace_curve(length, contexts, seed)[:, -1]
        spread = self.dim_value * kappa * traces
        error = float(spread.std(ddof=1)) / contexts**0.5 + unseen(spread, prior)
        excess = float(spread.mean())
        return estimate_over_keys(excess, error, lost * prior, contexts, samples, noise)

    def trace_curve(self, length: int, samples: int, seed: int = 0) -> np.ndarray:
        """tr P (samples, length) after each token of sampled keys: what is left to learn."""
        from attnscope.numerics.compiled.memory_scan import filtered_traces

        of = "DriftingMap.trace_curve"
        length = check.integer(length, "length", of, 1)
        samples = check.integer(samples, "samples", of, 1)
        seed = check.seed_value(seed, of)
        check.fits_in_memory(samples * length, 8, "traces", of, "fewer samples")
        out = np.empty((samples, length))
        block = max(1, BLOCK_KEY_ENTRIES // (length * self.dim_key))
        scales = (self.decay, self.prior_variance, self.noise**2)
        for number, i in enumerate(range(0, samples, block)):
            rng = np.random.default_rng([seed, number])
            rows = out[i : i + block]
            filtered_traces(self.draw_keys(rng, (len(rows), length)), *scales, rows)
        return out

    def _filter_contexts(
        self, keys: np.ndarray, values: np.ndarray, of: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """mean (..., d_v, d), P (..., d, d) and log p(values | keys) (...)."""
        k = context_array(keys, "keys", of, (None, self.dim_key))
        v = context_array(values, "values", of, (k.shape[-2], self.dim_value))
        if self.decay == 1:
            mean, covariance = self._map_without_drift().posterior(k, v)
            return mean, covariance, np.zeros(mean.shape[:-2])
        try:
            lead = np.broadcast_shapes(k.shape[:-2], v.shape[:-2])
        except ValueError:
            must = "of leading axes that broadcast with the keys'"
            raise bad("values", of, must, f"{v.shape[:-2]} and {k.shape[:-2]}") from None
        self._rounding_loss(
            k.shape[-2], float(np.max(np.sum(k**2, axis=-1), initial=0.0)), of
        )
        from attnscope.numerics.compiled.memory_scan import filtered

        k, v = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (k, v))
        mean = np.zeros((*lead, self.dim_value, self.dim_key))
        P = np.tile(self.prior_variance * np.eye(self.dim_key), (*lead, 1, 1))
        logs = np.zeros(lead)
        scales = (self.decay, self.prior_variance, self.noise**2)
        for at in np.ndindex(*lead):
            pair = (np.ascontiguousarray(k[at]), np.ascontiguousarray(v[at]))
            logs[at] = filtered(*pair, *scales, mean[at], P[at])
        return mean, (P + P.swapaxes(-1, -2)) / 2, logs

    def _rounding_loss(self, length: int, square: float, of: str) -> float:
        """What rounding of P costs, relative to the prior: P' is at least (1 - a^2) lam, and only
        as ill conditioned as that or as the noise lets it be.
        """
        drift = (1 - self.decay) * (1 + self.decay)
        floor = drift + self.noise**2 / (self.prior_variance * max(square, 1e-300))
        lost = 16 * EPS * (length + self.dim_key) / min(1.0, floor)
        if lost > LOST_SHARE_OF_ANSWER:
            must = f"0, 1, or so far from 1 that rounding does not decide ({lost:.1g} of it)"
            raise bad("decay", of, must, self.decay, "decay=1, or more noise")
        return lost

    def _map_without_drift(self) -> LinearMap:
        """The task without drift, whose posterior needs no key law."""
        law = "normal" if self.keys == "normal" else "sphere"
        sizes = (self.dim_key, self.dim_value, self.prior_variance, self.noise)
        return LinearMap(*sizes, keys=law)
