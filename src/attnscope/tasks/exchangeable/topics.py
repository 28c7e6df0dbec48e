"""Finite topics: discrete tokens drawn from one of K distributions over a vocabulary of size V.

notation: K topics, pi = prior, B = emissions (K, V), L = length, c = counts (V,), r_z = the
target's mean in topic z.

    z ~ pi,   x_1, x_2, ... | z independent Categorical(B_z)
    P(z | x) = softmax_z(log pi_z + sum_l log B_{z, x_l})
        [softmax attention with query c, keys log B_z, values e_z]
    P(x_{L+1} = . | x) = sum_z P(z | x) B_z                         the masked (held-out) token

The target is the held-out token as a one-hot vector (r = B), or with `labels` a label of mean r_z
plus noise; E[y | x] = sum_z P(z | x) r_z.

Bayes risk. Given x the excess is the posterior variance of r_z, a sum over pairs of topics of
positive terms, and it depends on x through counts only. With p_z(c) = pi_z multinomial(c) prod_x
B_zx^{c_x} and p = sum_z p_z,

    E|r_z - E[r_z | x]|^2 = sum_{i<j} |r_i - r_j|^2 sum_c p_i(c) p_j(c)/p(c),

C(L+V-1, V-1) terms instead of V^L, summed in logarithms: exact, and with relative accuracy where it
is exponentially small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp, softmax, xlogy

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array, token_numbers
from attnscope.numerics.border.estimate import SMALLEST_ERROR, Estimate, estimate

__all__ = ["TopicBatch", "Topics", "count_vectors"]

MOST_COUNTS = 20_000_000  # count vectors in one enumeration: about a minute for three topics
BLOCK_COUNT_VECTORS = 1 << 17  # count vectors held at a time: a few MB per topic


class TopicBatch(NamedTuple):
    """tokens (n, L) integers, target (n, V) one-hot or (n,) or (n, m) labels, latent topic (n,)."""

    tokens: np.ndarray
    target: np.ndarray
    latent: np.ndarray


class Topics:
    """Sequences of discrete tokens from a latent topic; predict a held-out token, or a label of the
    topic.

    Args:
        prior: pi, (K,) probabilities.
        emissions: B, (K, V): row z is the law of a token in topic z.
        labels: r, (K,) or (K, m): mean of the target in each topic; None: the target is the
            held-out token, one-hot (V,).
        noise: standard deviation of each coordinate of the label around r_z (with labels only).

    >>> task = Topics([0.5, 0.5], [[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])
    >>> task.posterior(np.array([0, 0, 2])).round(4)
    array([0.7101, 0.2899])
    >>> task.posterior(np.array([], dtype=int))
    array([0.5, 0.5])
    >>> round(task.bayes_risk(10).excess, 6)
    0.009879
    """

    def __init__(
        self,
        prior: ArrayLike,
        emissions: ArrayLike,
        labels: ArrayLike | None = None,
        noise: float = 0.0,
    ) -> None:
        B = check.float_array(emissions, "emissions", "Topics", (None, None))
        self.emissions = np.array(
            [
                check.probabilities(row, f"row {z} of emissions", "Topics", B.shape[1])
                for z, row in enumerate(B)
            ]
        )
        self.prior = check.probabilities(prior, "prior", "Topics", len(B))
        self.topics, self.vocabulary = self.emissions.shape
        self.labels = None
        if labels is not None:
            size = np.ndim(labels)
            shape = (self.topics,) if size < 2 else (self.topics, None)
            self.labels = check.float_array(labels, "labels", "Topics", shape)
        self.noise = check.real(noise, "noise", "Topics", 0)
        if self.labels is None and self.noise:
            raise bad(
                "noise",
                "Topics",
                "0 for held-out tokens, whose noise is their own",
                noise,
                "labels=...",
            )

    def __repr__(self) -> str:
        target = "held-out token" if self.labels is None else f"labels {self.labels.shape}"
        return (
            f"Topics(topics={self.topics}, vocabulary={self.vocabulary}, target={target}, "
            f"noise={self.noise:g})"
        )

    @property
    def means(self) -> np.ndarray:
        """r, the target's mean in each topic: (K, V), (K,) or (K, m)."""
        return self.emissions if self.labels is None else self.labels

    # -- data --------------------------------------------------------------------------------------

    def sample(self, n: int, length: int, seed: int = 0) -> TopicBatch:
        """Draw n sequences of `length` >= 0 tokens with their targets."""
        of = "Topics.sample"
        n = check.integer(n, "n", of, 1)
        length = check.integer(length, "length", of, 0)
        check.fits_in_memory(
            2 * n * (length + 1), 8, "tokens", of, "fewer sequences at a time"
        )
        rng = np.random.default_rng(check.seed_value(seed, of))
        z = _draw_by_inversion(
            self.prior[None], np.zeros((n, 1), dtype=int), rng.random((n, 1))
        )[:, 0]
        x = _draw_by_inversion(
            self.emissions,
            np.broadcast_to(z[:, None], (n, length + 1)),
            rng.random((n, length + 1)),
        )
        if self.labels is None:
            return TopicBatch(x[:, :-1], np.eye(self.vocabulary)[x[:, -1]], z)
        mean = self.labels[z]
        return TopicBatch(x[:, :-1], mean + self.noise * rng.standard_normal(mean.shape), z)

    def counts(self, tokens: np.ndarray) -> np.ndarray:
        """How often each symbol occurs: (..., V) from tokens (..., L)."""
        x = token_numbers(tokens, "tokens", "Topics.counts", self.vocabulary)
        return np.stack(
            [(x == symbol).sum(axis=-1) for symbol in range(self.vocabulary)], axis=-1
        )

    # -- inference ---------------------------------------------------------------------------------

    def log_joint(self, counts: np.ndarray) -> np.ndarray:
        """log pi_z + sum_x c_x log B_zx, (..., K), of counts (..., V);
        -inf for an impossible topic.
        """
        c = context_array(counts, "counts", "Topics.log_joint", (self.vocabulary,))
        # log 0 = -inf is the right value of an impossible topic
        with np.errstate(divide="ignore"):
            return np.stack(
                [
                    np.log(self.prior[z]) + xlogy(c, self.emissions[z]).sum(-1)
                    for z in range(self.topics)
                ],
                -1,
            )

    def posterior(self, tokens: np.ndarray) -> np.ndarray:
        """P(z | x), (..., K), of tokens (..., L);
        refused for a sequence that no topic can produce.
        """
        logits = self.log_joint(self.counts(tokens))
        if not np.isfinite(logits.max(axis=-1)).all():
            raise bad(
                "tokens",
                "Topics.posterior",
                "possible under at least one topic",
                "a sequence of probability 0",
            )
        return softmax(logits, axis=-1)

    def predictive(self, tokens: np.ndarray) -> np.ndarray:
        """P(x_{L+1} = . | x), (..., V): the law of a held-out token."""
        return self.posterior(tokens) @ self.emissions

    def bayes_predict(self, tokens: np.ndarray) -> np.ndarray:
        """E[y | x]: the law (..., V) of the held-out token, or the posterior mean of the labels."""
        return self.posterior(tokens) @ self.means

    def log_probability(self, tokens: np.ndarray) -> np.ndarray:
        """log p(x_1 .. x_L), (...), the topic summed out."""
        return logsumexp(self.log_joint(self.counts(tokens)), axis=-1)

    # -- exact risks -------------------------------------------------------------------------------

    def bayes_risk(self, length: int) -> Estimate:
        """E|y - E[y | x_1 .. x_L]|^2 by enumeration of counts; excess is over knowing the topic."""
        r = self.means.reshape(self.topics, -1)
        distances = np.sum((r[:, None] - r) ** 2, axis=-1)
        noise2 = self.noise**2 * r.shape[1]
        if self.labels is None:
            noise2 = float(self.prior @ np.sum(self.emissions * (1 - self.emissions), axis=1))
        of = "Topics.bayes_risk"
        # each pair of topics occurs twice
        return self._pair_sum(length, distances / 2, noise2**0.5, of)

    def topic_error(self, length: int) -> Estimate:
        """1 - E P(z | x): the expected posterior mass on wrong topics."""
        return self._pair_sum(length, 1 - np.eye(self.topics), 0.0, "Topics.topic_error")

    def _pair_sum(self, length: int, weights: np.ndarray, noise: float, of: str) -> Estimate:
        """sum_{i,j} weights_ij sum_c p_i(c) p_j(c)/p(c), in logarithms."""
        L = check.integer(length, "length", of, 0)
        total = [-np.inf]
        with np.errstate(divide="ignore"):
            log_w = np.log(weights)
        for c in count_vectors(L, self.vocabulary, of):
            arrangements = gammaln(L + 1) - gammaln(c + 1.0).sum(axis=1)
            parts = self.log_joint(c)  # (block, K)
            possible = parts[np.isfinite(parts.max(axis=1))]
            mass = arrangements[np.isfinite(parts.max(axis=1))] - logsumexp(possible, axis=1)
            for i in range(self.topics):
                terms = mass[:, None] + possible[:, [i]] + possible + log_w[i]
                total.append(logsumexp(terms) if terms.size else -np.inf)
        log_excess = float(logsumexp(total))
        excess = math.exp(log_excess)
        smallest = self.emissions[self.emissions > 0].min()
        rarest = self.prior[self.prior > 0].min()
        # every logarithm is a sum of terms up to L log L, L |log B| and |log pi|, rounded once or
        # twice
        logs = L * (math.log(L + 1) - math.log(smallest)) - 4 * math.log(rarest)
        relative = 4 * np.finfo(float).eps * (10 + logs)
        error = relative * excess
        if math.isfinite(log_excess):
            error += SMALLEST_ERROR
        return estimate(excess, error, "enumeration of counts", noise, log_excess)


def count_vectors(length: int, vocabulary: int, of: str) -> Iterator[np.ndarray]:
    """All count vectors (., V) with sum `length`, in blocks; refused beyond MOST_COUNTS of them."""
    number = math.comb(length + vocabulary - 1, vocabulary - 1)
    if number > MOST_COUNTS:
        hint = "a shorter length, a smaller vocabulary, or a mean over sample()"
        many = (
            f"{number} of them" if number < 10**20 else f"10^{math.log10(number):.0f} of them"
        )
        raise bad(
            "length",
            of,
            f"such that at most {MOST_COUNTS} count vectors are enumerated",
            many,
            hint,
        )
    if vocabulary == 1:
        yield np.array([[length]])
        return
    for head in _compositions(length, vocabulary - 1):
        yield np.concatenate([head, length - head.sum(axis=1, keepdims=True)], axis=1)


def _compositions(most: int, size: int) -> Iterator[np.ndarray]:
    """All vectors (., size) of non-negative integers with sum <= most, in blocks of about BLOCK_COUNT_VECTORS."""
    if size == 1:
        yield np.arange(most + 1)[:, None]
        return
    held: list[np.ndarray] = []
    for head in _compositions(most, size - 1):
        for part in np.array_split(
            head, max(1, len(head) * (most + 1) // BLOCK_COUNT_VECTORS)
        ):
            choices = most - part.sum(axis=1) + 1  # values of the next entry after each head
            last = np.arange(choices.sum()) - np.repeat(np.cumsum(choices) - choices, choices)
            held.append(
                np.concatenate([np.repeat(part, choices, axis=0), last[:, None]], axis=1)
            )
            if sum(map(len, held)) >= BLOCK_COUNT_VECTORS:
                yield np.concatenate(held)
                held = []
    if held:
        yield np.concatenate(held)


def _draw_by_inversion(laws: np.ndarray, rows: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Draws by inversion: entry i has law laws[rows[i]] and uniform u[i]."""
    out = np.zeros(u.shape, dtype=np.int64)
    for z, law in enumerate(laws):
        # roundoff of the sum must not select a symbol of probability 0
        last = int(np.flatnonzero(law)[-1])
        use = rows == z
        out[use] = np.minimum(np.searchsorted(np.cumsum(law), u[use], side="right"), last)
    return out
