"""Tokens of which one has a spike for its mean, and the exact posterior of spike and position
together.

notation and formulas: spike_mixture. P(h, J = l | X) is a softmax over all pairs (h, l).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.tasks.base import Projections, gaussian_fields, one_hot_means
from attnscope.tasks.planted.direction_tokens import (
    BLOCK_NUMBERS,
    orthonormal_rows,
    unit_rows,
)
from attnscope.tasks.planted.pair import ORTHOGONAL_COSINE, curvature
from attnscope.tasks.sampling import Sampled

__all__ = ["SpikeBatch", "SpikeTokens"]


class SpikeBatch(NamedTuple):
    """tokens (n, L, d), target (n,), location (n,) 0-based, spike (n,) 0-based: which h."""

    tokens: np.ndarray
    target: np.ndarray
    location: np.ndarray
    spike: np.ndarray


class SpikeTokens(Sampled[SpikeBatch]):
    """Law of the tokens, posterior, mean and variance of the label given the tokens."""

    def __init__(
        self,
        dim: int,
        length: int,
        strengths: object = (10**0.5, 10**0.5),
        prior: object = None,
        gamma: float = 1.0,
        noise: float = 0.0,
        means: np.ndarray | None = None,
        outputs: np.ndarray | None = None,
        seed: int = 0,
    ) -> None:
        self.dim, self.length = (
            check.integer(dim, "dim", "SpikeMixture", 1),
            check.integer(length, "length", "SpikeMixture", 1),
        )
        self.gamma = check.real(
            gamma, "gamma", "SpikeMixture", 0, strict=True, hint="gamma=1.0"
        )
        self.noise = check.real(noise, "noise", "SpikeMixture", 0)
        self.seed = check.seed_value(seed, "SpikeMixture")
        if means is None:
            self.means = self._drawn_means(
                check.array(strengths, "strengths", "SpikeMixture", (None,))
            )
        else:
            self.means = check.float_array(means, "means", "SpikeMixture", (None, self.dim))
        self.spikes = H = len(self.means)
        self.prior = (
            np.full(H, 1 / H)
            if prior is None
            else check.probabilities(prior, "prior", "SpikeMixture", H)
        )
        if (self.prior == 0).any():
            raise bad(
                "prior", "SpikeMixture", "positive", "a probability of 0", "fewer spikes"
            )
        self.outputs = self._given_outputs(outputs)

    def _drawn_means(self, strengths: np.ndarray) -> np.ndarray:
        if (strengths < 0).any():
            raise bad(
                "strengths", "SpikeMixture", "non-negative", f"smallest {strengths.min():.6g}"
            )
        if self.dim < len(strengths):
            raise bad(
                "dim",
                "SpikeMixture",
                f"an integer >= {len(strengths)}, for orthogonal spikes",
                self.dim,
            )
        rows = np.random.default_rng([self.seed, 0]).standard_normal(
            (len(strengths), self.dim)
        )
        return strengths[:, None] * orthonormal_rows(rows, np.empty((0, self.dim)))

    def _given_outputs(self, outputs: np.ndarray | None) -> np.ndarray:
        if outputs is not None:
            rows = [outputs] * self.spikes if np.ndim(outputs) == 1 else outputs
            return unit_rows(rows, "outputs", "SpikeMixture", self.spikes, self.dim)
        if self.rank >= self.dim:
            raise bad(
                "dim",
                "SpikeMixture",
                f"> {self.rank}, for an output orthogonal to the spikes",
                self.dim,
                "outputs=...",
            )
        row = np.random.default_rng([self.seed, 1]).standard_normal((1, self.dim))
        return np.repeat(orthonormal_rows(row, self._spike_axes), self.spikes, axis=0)

    def __repr__(self) -> str:
        strengths = ", ".join(f"{np.linalg.norm(mu):.4g}" for mu in self.means)
        return (
            f"SpikeMixture({self.dim}, {self.length}, strengths=({strengths}), gamma={self.gamma:g}, "
            f"noise={self.noise:g})"
        )

    @cached_property
    def _spike_axes(self) -> np.ndarray:
        """(rank, d): orthonormal rows that span the spikes."""
        _, sizes, rows = np.linalg.svd(self.means, full_matrices=False)
        return rows[sizes > 1e-12 * max(sizes[0], 1.0)]

    @property
    def rank(self) -> int:
        """The dimension the spikes span."""
        return len(self._spike_axes)

    @cached_property
    def bias(self) -> np.ndarray:
        """b_h = log P_h - |mu_h|^2/(2 gam^2), (H,):
        what the Bayes-softmax adds to the scores of spike h.
        """
        return np.log(self.prior) - (self.means**2).sum(1) / (2 * self.gamma**2)

    @property
    def curvature(self) -> float:
        """1/gam^2 - 1: the Bayes-softmax subtracts half of this times |x|^2 from the scores of a
        token.
        """
        return curvature(self.gamma)

    # -- data --------------------------------------------------------------------------------------

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> SpikeBatch:
        rows = np.arange(n)
        location = rng.integers(self.length, size=n)
        spike = rng.choice(self.spikes, size=n, p=self.prior)
        noise = self.noise * rng.standard_normal(n)
        tokens = rng.standard_normal((n, self.length, self.dim), dtype=dtype.type)
        tokens[rows, location] = self.means[spike] + self.gamma * tokens[rows, location]
        target = np.einsum("nd,nd->n", tokens[rows, location], self.outputs[spike]) + noise
        return SpikeBatch(tokens, target, location, spike)

    @property
    def teachers(self) -> np.ndarray:
        """(2H, dim): mu_1/|mu_1|, v_1, mu_2/|mu_2|, v_2, ...;
        a spike of length 0 has the direction 0.
        """
        sizes = np.linalg.norm(self.means, axis=1, keepdims=True)
        directions = self.means / np.where(sizes > 0, sizes, 1.0)
        return np.stack([directions, self.outputs], axis=1).reshape(-1, self.dim)

    @cached_property
    def teacher_gram(self) -> np.ndarray:
        """(2H, 2H) inner products of the teachers."""
        gram = self.teachers @ self.teachers.T
        return np.where(np.abs(gram) > ORTHOGONAL_COSINE, gram, 0.0)

    def projections(self, n: int, gram: np.ndarray, rng: np.random.Generator) -> Projections:
        """n sequences as far as the vectors of `gram` see them (tasks/base.py);
        teachers as in `teacher_gram`.
        """
        rows = np.arange(n)
        location = rng.integers(self.length, size=n)
        spike = rng.choice(self.spikes, size=n, p=self.prior)
        sizes = np.linalg.norm(self.means, axis=1)
        means = one_hot_means(location, self.length, 2 * self.spikes, 2 * spike, sizes[spike])
        scales = np.ones((n, self.length))
        scales[rows, location] = self.gamma
        fields = gaussian_fields(means, scales, gram, rng)
        labels = fields[rows, location, len(gram) - 2 * self.spikes + 2 * spike + 1]
        return Projections(fields, labels, location, scales)

    # -- inference ---------------------------------------------------------------------------------

    def posterior(self, tokens: np.ndarray) -> np.ndarray:
        """P(h, J = l | X), (n, H, L), exact; sums over h give the posterior of the position."""
        return np.concatenate([p for p, _ in self._infer(tokens, "posterior")])

    def bayes_predict(self, tokens: np.ndarray) -> np.ndarray:
        """E[Y | X], (n,), exact."""
        return np.concatenate(
            [(p * w).sum((1, 2)) for p, w in self._infer(tokens, "bayes_predict")]
        )

    def posterior_variance(self, tokens: np.ndarray) -> np.ndarray:
        """Var(Y | X) without the label noise, (n,), exact."""
        return np.concatenate(
            [_posterior_variance(p, w) for p, w in self._infer(tokens, "posterior_variance")]
        )

    def _infer(
        self, tokens: np.ndarray, method: str
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Posterior and outputs x_l.v_h, both (block, H, L)."""
        x, _ = check.tokens_array(tokens, f"SpikeMixture.{method}", self.length, self.dim)
        block = max(1, BLOCK_NUMBERS // (self.length * self.dim))
        for i in range(0, len(x), block):
            part = x[i : i + block].astype(np.float64)
            squares = np.einsum("nld,nld->nl", part, part)
            scores = (
                np.einsum("nld,hd->nhl", part, self.means / self.gamma**2)
                + self.bias[:, None]
            )
            logits = scores - self.curvature / 2 * squares[:, None]
            yield softmax(logits, axis=(1, 2)), np.einsum("nld,hd->nhl", part, self.outputs)


def _posterior_variance(p: np.ndarray, w: np.ndarray) -> np.ndarray:
    mean = (p * w).sum((1, 2), keepdims=True)
    return (p * (w - mean) ** 2).sum((1, 2))
