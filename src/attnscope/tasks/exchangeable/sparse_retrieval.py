"""Which coordinate do the examples read off? One of m, from n noisy examples.

notation: m = features, s = noise, L = length examples; keys x_l in R^m standard normal, J uniform
on the m coordinates, values y_l = x_{l,J} + s N(0, 1); target: the value at a new key q.

It is `LinearMap` with the prior of one-sparse maps: W = e_J. Turned on its side, coordinate j of
all keys is a column X_j in R^L, the values y are a query for columns, and the posterior is softmax
attention over coordinates whose scores know the length of the columns:

    P(J = j | context) = softmax_j((y.X_j - |X_j|^2/2)/s^2),
    E[v | q, context] = sum_j P(J = j | context) q_j

A Gaussian random code: m words of length L through a channel with noise s, whose capacity is
C = 1/2 log(1 + 1/s^2) nats an example. Since E sum_j P(J = j | .)^2 = E P(J | .) (Bayes' rule) and
the query is standard normal and independent of the context,

    bayes_risk = s^2 + 1 - E P(J | context),

an integral for any m, 10^100 included (numerics.integrals.code_posterior). Of hard choices by other
scores: theory.exchangeable.retrieval.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import softmax

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array
from attnscope.numerics.border.estimate import SMALLEST_ERROR, Estimate, estimate
from attnscope.numerics.integrals.code_posterior import wrong_mass
from attnscope.tasks.exchangeable.latent_map import ContextBatch

__all__ = ["SparseRetrieval"]

MOST_FEATURES = 10**300  # features: their number must fit in float64
LARGEST_ACCEPTED_FEATURES = 1 << 10_000  # MOST_FEATURES has a sentence of its own
NOISE_RANGE = (1e-50, 1e50)


class SparseRetrieval:
    """Values are one coordinate of the keys with noise; which one is hidden.

    Args:
        features: m >= 1, coordinates of a key; theory takes any number, draws what fits in memory.
        noise: s > 0, standard deviation of a value around the coordinate.

    >>> task = SparseRetrieval(features=16, noise=1.0)
    >>> batch = task.sample(4, length=8, seed=0)
    >>> task.posterior(batch.keys, batch.values).shape
    (4, 16)
    >>> round(task.bayes_risk(8).excess, 6)
    0.395361
    """

    def __init__(self, features: int = 16, noise: float = 1.0) -> None:
        of = "SparseRetrieval"
        self.features = check.integer(features, "features", of, 1, LARGEST_ACCEPTED_FEATURES)
        if self.features > MOST_FEATURES:
            raise bad("features", of, "an integer from 1 to 1e300", "a larger one")
        self.noise = check.real(
            noise, "noise", of, *NOISE_RANGE, hint="a small noise such as 1e-3"
        )

    def __repr__(self) -> str:
        return f"SparseRetrieval(features={self.features}, noise={self.noise:g})"

    @property
    def capacity(self) -> float:
        """C = 1/2 log(1 + 1/s^2): nats that an example can say; fewer than log(features)/C examples
        do not tell which coordinate it is.
        """
        return math.log1p(1 / self.noise / self.noise) / 2

    def sample(self, n: int, length: int, seed: int = 0) -> ContextBatch:
        """Draw n contexts of `length` >= 0 examples: keys (n, L, m), values (n, L, 1), query (n,
        m), target (n, 1), latent (n, 1, m) one-hot.
        """
        of = "SparseRetrieval.sample"
        n = check.integer(n, "n", of, 1)
        length = check.integer(length, "length", of, 0)
        m = self.features
        hint = "fewer contexts, or retrieval_probability, which draws nothing"
        check.fits_in_memory(2 * n * (length + 1) * m, 8, "keys", of, hint)
        rng = np.random.default_rng(check.seed_value(seed, of))
        latent = rng.integers(m, size=n)
        keys = rng.standard_normal((n, length + 1, m))
        values = keys[np.arange(n), :, latent] + self.noise * rng.standard_normal(
            (n, length + 1)
        )
        values = values[:, :, None]
        hot = (latent[:, None] == np.arange(m)).astype(np.float64)[:, None, :]
        return ContextBatch(keys[:, :-1], values[:, :-1], keys[:, -1], values[:, -1], hot)

    def posterior(self, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """P(J = j | context), (..., m), of keys (..., L, m) and values (..., L, 1)."""
        return self._feature_posterior(keys, values, "SparseRetrieval.posterior")

    def _feature_posterior(self, keys: np.ndarray, values: np.ndarray, of: str) -> np.ndarray:
        x = context_array(keys, "keys", of, (None, self.features))
        y = context_array(values, "values", of, (x.shape[-2], 1))
        if x.shape[:-2] != y.shape[:-2]:
            raise bad("values", of, f"of shape {(*x.shape[:-1], 1)}", f"shape {y.shape}")
        # distances, not y.x - |x|^2/2: nothing cancels
        return softmax(-np.sum(((y - x) / self.noise) ** 2, axis=-2) / 2, axis=-1)

    def bayes_predict(
        self, query: np.ndarray, keys: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """E[v | q, context], (..., 1), of query (..., m), keys (..., L, m), values (..., L, 1)."""
        of = "SparseRetrieval.bayes_predict"
        q = context_array(query, "query", of, (self.features,))
        p = self._feature_posterior(keys, values, of)
        if q.shape != p.shape:
            raise bad("query", of, f"of shape {p.shape}", f"shape {q.shape}")
        return np.sum(p * q, axis=-1, keepdims=True)

    def bayes_risk(self, length: int) -> Estimate:
        """s^2 + 1 - E P(J | context) over contexts of that length: exact, by integration.

        Refused where that would take long: from about 150 examples on at little noise, from 6 at
        noise 1000, always at noise 10000.
        """
        of = "SparseRetrieval.bayes_risk"
        length = check.integer(length, "length", of, 0)
        others = float(self.features - 1)
        if others == 0:
            return estimate(0.0, 0.0, "closed form", self.noise)
        if length == 0:
            return estimate(others / self.features, 2e-16, "closed form", self.noise)
        log_mass, relative = wrong_mass(length, others, self.noise, of)
        mass = math.exp(log_mass)
        error = relative * mass + SMALLEST_ERROR
        return estimate(mass, error, "integral over the posterior", self.noise, log_mass)
