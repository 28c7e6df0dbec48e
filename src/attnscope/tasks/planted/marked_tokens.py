"""Tokens of which none or R are shifted, and the exact posterior of either.

notation and formulas: sparse_tokens. The likelihood ratio is e_R(r)/binom(L, R), e_R the elementary
symmetric polynomial.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln

from attnscope.numerics.border import validation as check
from attnscope.numerics.subsets import log_inclusion, log_subset_prior, log_symmetric
from attnscope.tasks.base import Projections, gaussian_fields
from attnscope.tasks.sampling import Sampled

__all__ = ["BLOCK_SCORES", "MarkedTokens", "SparseBatch"]

BLOCK_SCORES = 1 << 19  # scores or token entries worked on at a time: a few 4 MB arrays


class SparseBatch(NamedTuple):
    """Sequences of a SparseTokenClassification.

    Attributes:
        tokens: (n, L, d).
        target: (n,), in {-1, 1}.
        marked: (n, L) bool: which tokens were shifted (none where the target is -1).

    >>> import attnscope as at
    >>> task = at.SparseTokenClassification(dim=50, length=8, marked=2, strength=3.0)
    >>> batch = task.sample(4, seed=0)
    >>> batch.target, batch.marked.sum(axis=1)
    (array([ 1.,  1.,  1., -1.]), array([2, 2, 2, 0]))
    """

    tokens: np.ndarray
    target: np.ndarray
    marked: np.ndarray


class MarkedTokens(Sampled[SparseBatch]):
    """Law of the tokens, likelihood ratio and posterior."""

    def __init__(
        self,
        dim: int,
        length: int,
        strength: float,
        marked: int = 1,
        direction: np.ndarray | None = None,
        seed: int = 0,
    ) -> None:
        self.dim = check.integer(dim, "dim", "SparseTokenClassification", 1)
        self.length = check.integer(length, "length", "SparseTokenClassification", 1)
        self.strength = check.real(
            strength, "strength", "SparseTokenClassification", 0, hint="strength=5.0"
        )
        self.marked = check.integer(
            marked, "marked", "SparseTokenClassification", 1, self.length, hint="marked=1"
        )
        self.seed = check.seed_value(seed, "SparseTokenClassification")
        self._direction = (
            None
            if direction is None
            else check.unit_vector(
                direction, "direction", "SparseTokenClassification", self.dim
            )
        )

    def __repr__(self) -> str:
        numbers = (
            f"dim={self.dim}, length={self.length}, strength={self.strength:g}, "
            f"marked={self.marked}"
        )
        return f"SparseTokenClassification({numbers}, seed={self.seed})"

    @cached_property
    def direction(self) -> np.ndarray:
        """xi, a unit vector (dim,)."""
        if self._direction is not None:
            return self._direction
        check.fits_in_memory(
            self.dim,
            8,
            "direction",
            "SparseTokenClassification",
            "the errors, which need no vectors",
        )
        x = np.random.default_rng([self.seed, 0]).standard_normal(self.dim)
        return x / np.linalg.norm(x)

    # -- data --------------------------------------------------------------------------------------

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> SparseBatch:
        target = rng.choice([-1.0, 1.0], size=n)
        marked = self._draw_marks(n, rng) & (target > 0)[:, None]
        tokens = np.empty((n, self.length, self.dim), dtype)
        rng.standard_normal(out=tokens, dtype=dtype.type)
        tokens[marked] += (self.strength * self.direction).astype(dtype)
        return SparseBatch(tokens, target, marked)

    @property
    def noise(self) -> float:
        """Labels have none."""
        return 0.0

    @property
    def teachers(self) -> np.ndarray:
        """(1, dim): the direction."""
        return self.direction[None]

    @property
    def teacher_gram(self) -> np.ndarray:
        """(1, 1): the direction is the only teacher."""
        return np.ones((1, 1))

    def projections(self, n: int, gram: np.ndarray, rng: np.random.Generator) -> Projections:
        """n sequences as far as the vectors of `gram` see them (tasks/base.py);
        labels in {-1, 1}.
        """
        target = rng.choice([-1.0, 1.0], size=n)
        marked = self._draw_marks(n, rng) & (target > 0)[:, None]
        means = np.zeros((n, self.length, 1))
        means[marked] = self.strength
        scales = np.ones((n, self.length))
        return Projections(gaussian_fields(means, scales, gram, rng), target, marked, scales)

    def _draw_marks(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """(n, L) bool: a uniform R-subset in every row."""
        ranks = np.argsort(rng.random((n, self.length)), axis=1)
        marks = np.zeros((n, self.length), dtype=bool)
        np.put_along_axis(marks, ranks[:, : self.marked], True, axis=1)
        return marks

    # -- inference ---------------------------------------------------------------------------------

    def log_likelihood_ratio(self, tokens: np.ndarray) -> np.ndarray:
        """log of the likelihood of y = 1 over that of y = -1, (n,), exact:
        log e_R(r) - log binom(L, R).
        """
        return self._log_ratio(self._token_scores(tokens, "log_likelihood_ratio"))

    def posterior(self, tokens: np.ndarray) -> np.ndarray:
        """P(y = 1 | X), (n,), exact."""
        return expit(self.log_likelihood_ratio(tokens))

    def token_posterior(self, tokens: np.ndarray) -> np.ndarray:
        """P(token l is marked | X), (n, L), exact; a row sums to R P(y = 1 | X)."""
        sizes = np.zeros(self.marked + 1)
        sizes[[0, -1]] = 0.5
        scores = self._token_scores(tokens, "token_posterior")
        log_r = self.strength * scores - self.strength**2 / 2
        return np.exp(log_inclusion(log_r, log_subset_prior(sizes, self.length))[0])

    def bayes_predict(self, tokens: np.ndarray) -> np.ndarray:
        """The label of smallest error, (n,) in {-1, 1}:
        1 where the likelihood ratio is at least 1.
        """
        return np.where(self.log_likelihood_ratio(tokens) >= 0, 1.0, -1.0)

    def _token_scores(self, tokens: np.ndarray, method: str) -> np.ndarray:
        """u_l = x_l.xi, (n, L)."""
        x, _ = check.tokens_array(
            tokens, f"SparseTokenClassification.{method}", self.length, self.dim
        )
        block = max(1, BLOCK_SCORES // (self.length * self.dim))
        return np.concatenate(
            [
                x[i : i + block].astype(np.float64) @ self.direction
                for i in range(0, len(x), block)
            ]
        )

    def _log_ratio(self, u: np.ndarray, theta: float | None = None) -> np.ndarray:
        """The log-likelihood ratio from u_l = x_l.xi, (n, L),
        for shifts by theta (the task's if None).
        """
        shift = self.strength if theta is None else theta
        if shift == 0:
            return np.zeros(len(u))
        return log_symmetric(shift * u - shift**2 / 2, self.marked) - self._log_choices()

    def _log_choices(self) -> float:
        """log binom(L, R)."""
        L = self.length
        R = self.marked
        return float(gammaln(L + 1) - gammaln(R + 1) - gammaln(L - R + 1))
