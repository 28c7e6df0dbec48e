"""Tokens of which a random subset is informative, their weights in the label, and the exact
posterior of the subset.

notation and formulas: multi_location. The posterior of S has the weights prod_{l in S} r_l, which
numerics.subsets sums exactly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.subsets import log_inclusion, log_subset_prior, log_weighted_inclusion
from attnscope.tasks.base import Projections, gaussian_fields
from attnscope.tasks.planted.pair import Pair

__all__ = ["BLOCK_LOG_PROBS", "MultiBatch", "SubsetTokens"]

WEIGHT_KINDS = ("equal", "sum", "dirichlet")
BLOCK_LOG_PROBS = 1 << 19  # log-probabilities of one forward table held at a time


class MultiBatch(NamedTuple):
    """Sequences of a MultiLocation.

    Attributes:
        tokens: (n, L, d).
        target: (n,).
        relevant: (n, L) bool: the informative tokens.
        weights: (n, L), D; 0 elsewhere.

    >>> import attnscope as at
    >>> batch = at.MultiLocation(20, 6, 2).sample(3, seed=0)
    >>> batch.tokens.shape, batch.relevant.sum(axis=1), batch.weights.shape
    ((3, 6, 20), array([2, 2, 2]), (3, 6))
    """

    tokens: np.ndarray
    target: np.ndarray
    relevant: np.ndarray
    weights: np.ndarray


class SubsetTokens(Pair[MultiBatch]):
    """Law of the tokens and of their weights, posterior and Bayes prediction."""

    def __init__(
        self,
        dim: int,
        length: int,
        relevant: int | float | np.ndarray = 2,
        weights: str = "equal",
        concentration: float = 1.0,
        gamma: float = 0.5**0.5,
        noise: float = 0.0,
        signal: float | None = None,
        key: np.ndarray | None = None,
        value: np.ndarray | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(dim, length, gamma, noise, signal, key, value, seed)
        self._refuse_oblique()
        if not isinstance(weights, str) or weights not in WEIGHT_KINDS:
            raise bad("weights", "MultiLocation", f"one of {WEIGHT_KINDS}", weights)
        self.weights = str(weights)
        self.concentration = check.real(
            concentration, "concentration", "MultiLocation", 1e-6, 1e6
        )
        self.relevant = relevant
        self.inclusion: float | None = None  # q, where tokens are informative independently
        self.count_probs = self._checked_count_probs(relevant)  # (L+1,)

    def _checked_count_probs(self, relevant: object) -> np.ndarray:
        from scipy.stats import binom  # imported late: half a second

        if isinstance(relevant, (float, np.floating)):
            must = "a whole number, a probability in (0, 1) or count probabilities"
            if not 0 < relevant < 1:
                raise bad(
                    "relevant", "MultiLocation", must, relevant, "relevant=2 or relevant=0.2"
                )
            self.inclusion = float(relevant)
            return binom.pmf(np.arange(self.length + 1), self.length, self.inclusion)
        if isinstance(relevant, (list, tuple, np.ndarray)):
            return check.probabilities(relevant, "relevant", "MultiLocation", self.length + 1)
        m = check.integer(
            relevant,
            "relevant",
            "MultiLocation",
            1,
            self.length,
            hint="relevant=2 or relevant=0.2",
        )
        return (np.arange(self.length + 1) == m).astype(float)

    def __repr__(self) -> str:
        numbers = (
            f"dim={self.dim}, length={self.length}, relevant={self.relevant!r}, "
            f"weights={self.weights!r}"
        )
        return (
            f"MultiLocation({numbers}, gamma={self.gamma:g}, noise={self.noise:g}, "
            f"signal={self.signal:g}, seed={self.seed})"
        )

    # -- the weights D -----------------------------------------------------------------------------

    def weight_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """(E[D_l | m], E[D_l^2 | m]) of an informative token, for m = 0 .. L (0 at m = 0)."""
        m = np.arange(self.length + 1.0)
        ones = (m > 0).astype(float)
        if self.weights == "sum":
            return ones, ones
        mean = ones / np.maximum(m, 1)
        spread = (
            mean * (1 - mean) / (m * self.concentration + 1)
            if self.weights == "dirichlet"
            else 0.0
        )
        return mean, mean**2 + spread

    def _constant_weight(self) -> float | None:
        """h where E[D | m] is the same for all possible m >= 1, else None."""
        mean = self.weight_moments()[0][np.flatnonzero(self.count_probs)]
        mean = mean[mean > 0]
        return float(mean[0]) if mean.size and np.ptp(mean) == 0 else None

    # -- data --------------------------------------------------------------------------------------

    def projections(self, n: int, gram: np.ndarray, rng: np.random.Generator) -> Projections:
        """n sequences as far as the vectors of `gram` see them (tasks/base.py)."""
        relevant = self._draw_subsets(n, rng)
        weights = self.draw_weights(relevant, rng)
        means = np.zeros((n, self.length, 2))
        means[relevant, 0] = self.signal
        scales = np.where(relevant, self.gamma, 1.0)
        fields = gaussian_fields(means, scales, gram, rng)
        return Projections(
            fields, np.sum(weights * fields[:, :, -1], axis=1), relevant, scales
        )

    def _draw_subsets(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """(n, L) bool: which tokens are informative."""
        return (
            rng.random((n, self.length)).argsort(axis=1).argsort(axis=1)
            < self.draw_sizes(n, rng)[:, None]
        )

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> MultiBatch:
        relevant = self._draw_subsets(n, rng)
        weights = self.draw_weights(relevant, rng)
        target = self.noise * rng.standard_normal(n)
        tokens = np.empty((n, self.length, self.dim), dtype)
        rng.standard_normal(out=tokens, dtype=dtype.type)
        block = max(1, (1 << 18) // (self.dim * self.length))
        for i in range(0, n, block):
            part = tokens[i : i + block]
            chosen = relevant[i : i + block]
            part[chosen] = self.signal * self.key + self.gamma * part[chosen].astype(
                np.float64
            )
            values = part.astype(np.float64) @ self.value  # of the tokens as stored
            target[i : i + block] += np.sum(weights[i : i + block] * values, axis=1)
        return MultiBatch(tokens, target, relevant, weights)

    def draw_sizes(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n draws of m, (n,)."""
        return rng.choice(
            self.length + 1, size=n, p=self.count_probs / self.count_probs.sum()
        )

    def draw_weights(self, relevant: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """D (n, L) for given informative tokens (n, L)."""
        if self.weights == "sum":
            return relevant.astype(float)
        if self.weights == "equal":
            return relevant / np.maximum(relevant.sum(axis=1, keepdims=True), 1)
        # log of a Gamma(a) variable as log Gamma(a+1) + log(U)/a: no underflow at small a
        a = self.concentration
        shape = relevant.shape
        logs = np.log(rng.standard_gamma(a + 1, shape)) + np.log1p(-rng.random(shape)) / a
        logs = np.where(relevant, logs, -np.inf)
        top = logs.max(axis=1, keepdims=True)
        scaled = np.where(relevant, np.exp(logs - np.where(np.isfinite(top), top, 0.0)), 0.0)
        return scaled / np.maximum(scaled.sum(axis=1, keepdims=True), np.finfo(float).tiny)

    # -- inference ---------------------------------------------------------------------------------

    def posterior(self, tokens: np.ndarray) -> np.ndarray:
        """P(token l is informative | X), (n, L), exact."""
        return self._infer(tokens, "posterior")[0]

    def bayes_predict(self, tokens: np.ndarray) -> np.ndarray:
        """E[Y | X], (n,), exact."""
        return self._infer(tokens, "bayes_predict")[1]

    def _infer(self, tokens: np.ndarray, method: str) -> tuple[np.ndarray, np.ndarray]:
        x, _ = check.tokens_array(tokens, f"MultiLocation.{method}", self.length, self.dim)
        inside = np.empty(x.shape[:2])
        mean = np.empty(len(x))
        for rows, scores, values in self._score_blocks(x, quadratic=True):
            for i in range(0, len(scores), self._block_rows()):
                log_ratios = self._log_constant() + scores[i : i + self._block_rows()]
                at = slice(rows.start + i, rows.start + i + len(log_ratios))
                inside[at] = self._inclusion(log_ratios)
                mean[at] = np.sum(
                    self._mean_weights(log_ratios, inside[at])
                    * values[i : i + self._block_rows()],
                    axis=1,
                )
        return inside, mean

    def _inclusion(self, log_ratios: np.ndarray) -> np.ndarray:
        """P(l in S | X), (n, L); a sigmoid of the token alone where tokens are independent,
        else by the subset recursion.
        """
        if self.inclusion is not None:
            return expit(log_ratios + logit(self.inclusion))
        return np.exp(log_inclusion(log_ratios, self._log_prior())[0])

    def _mean_weights(self, log_ratios: np.ndarray, inside: np.ndarray) -> np.ndarray:
        """E[D_l 1{l in S} | X], (n, L)."""
        h = self._constant_weight()
        if h is not None:
            return h * inside
        log_prior = self._log_prior()
        return np.exp(
            log_weighted_inclusion(
                log_ratios, log_prior, self.weight_moments()[0][: log_prior.size]
            )
        )

    def _log_constant(self) -> float:
        """The part of log r that no token changes."""
        return -self.dim * math.log(self.gamma) - self.signal**2 / (2 * self.gamma**2)

    def _log_prior(self) -> np.ndarray:
        return log_subset_prior(self.count_probs, self.length)

    def _block_rows(self) -> int:
        """Sequences per block of the subset recursion."""
        return max(
            1,
            BLOCK_LOG_PROBS
            // (self.length * (int(np.flatnonzero(self.count_probs)[-1]) + 1)),
        )
