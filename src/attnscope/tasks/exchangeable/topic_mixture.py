"""A mixture of disjoint topics: every document has its own proportions of topics, and a word
belongs to one topic alone.

notation: T topics of v words each, V = T v; alpha = concentration, A = T alpha; theta = the
document's proportions of topics; N = length, n_t = words of topic t among them; B = the block
matrix, B_wx = 1 where w and x are of one topic, else 0.

    theta ~ Dirichlet(alpha, .., alpha),   topic_l | theta ~ theta,   x_l uniform on that topic's words

A word determines its topic, so the posterior is theta | x ~ Dirichlet(alpha + n), and the law of a
held-out word is linear in the counts (Polya's urn):

    P(x_{N+1} = w | x) = (alpha + n_topic(w))/((A + N) v)
                       = [sum_l (B/v)_{w, x_l} + A * 1/V]/(N + A)

which is one attention layer: equal scores, values B/v, and one sink of logit log A with value 1/V,
the same parameter for every length (new here). Its squared error against the one-hot word: since
E[theta | x] is linear in the counts, E Var(theta_t | x) = Var(theta_t) A/(A + N), and

    excess over knowing theta = (T-1)/(T v (A+1)) * A/(A+N)
    E|y - theta_topic/v|^2    = 1 - [1 + (T-1)/(A+1)]/(T v).

The probability of a document has rising factorials in it, prod_t alpha (alpha+1) .. (alpha+n_t-1),
taken as sums of log(1 + i/alpha): no digits are lost where alpha is large. Optima of attention
trained on masked words: `topic_values` (what the values learn), `topic_scores` (what keys and
queries learn).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import token_numbers
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.tasks.exchangeable.topic_scores import (
    AttentionOptimum,
    ShownTopics,
    attention_optimum,
    attention_risk,
)
from attnscope.tasks.exchangeable.topic_values import MaskedOptimum, Masking, masked_optimum

__all__ = ["TopicLayer", "TopicMixture", "TopicMixtureBatch"]

EPS = float(np.finfo(np.float64).eps)
FORMULA_ROUNDING = 16 * EPS  # of a formula of ten products and quotients
COMPARED_TOPICS = 64  # topics up to which words are compared with all of them: faster than a search a document
MOST_WORDS = 10**7  # in the vocabulary: one prediction is 80 MB
MOST_MATRIX_WORDS = (
    4000  # words for which the layer's matrix of values is written out: 128 MB
)
LARGEST_SCORE = 300.0  # of attention_risk: weights up to e^300 and their squares are finite
# positions of attention_risk: with N^2/2 terms an optimum takes two seconds there
LONGEST_DOCUMENT = 1000


class TopicMixtureBatch(NamedTuple):
    """tokens (n, N) words, target (n, V) the held-out word one-hot, latent (n, T) proportions."""

    tokens: np.ndarray
    target: np.ndarray
    latent: np.ndarray


class TopicLayer(NamedTuple):
    """values (V, V): what a word adds to the prediction, B/v;
    sink: its logit, log A; sink_value (V,): the prior 1/V.
    """

    values: np.ndarray
    sink: float
    sink_value: np.ndarray


class TopicMixture:
    """Documents with Dirichlet proportions of disjoint topics; predict a held-out word.

    Args:
        topics: T >= 1.
        words: v >= 1, of each topic; word w is of topic w // v.
        concentration: alpha > 0 of the symmetric Dirichlet law; small: few topics a document.

    >>> task = TopicMixture(topics=2, words=2, concentration=0.5)
    >>> task.posterior(np.array([0, 1, 1]))               # Dirichlet parameters of the proportions
    array([3.5, 0.5])
    >>> task.bayes_predict(np.array([0, 1, 1]))
    array([0.4375, 0.4375, 0.0625, 0.0625])
    >>> round(task.bayes_risk(3).value, 9)
    0.65625
    """

    def __init__(self, topics: int = 4, words: int = 5, concentration: float = 0.3) -> None:
        self.topics = check.integer(topics, "topics", "TopicMixture", 1, MOST_WORDS)
        self.words = check.integer(words, "words", "TopicMixture", 1, MOST_WORDS)
        self.concentration = check.real(
            concentration, "concentration", "TopicMixture", 0, strict=True
        )
        self.vocabulary = self.topics * self.words
        if self.vocabulary > MOST_WORDS:
            must = f"such that there are at most {MOST_WORDS} words in all"
            raise bad("words", "TopicMixture", must, self.vocabulary, "fewer topics or words")

    def __repr__(self) -> str:
        return (
            f"TopicMixture(topics={self.topics}, words={self.words}, "
            f"concentration={self.concentration:g})"
        )

    @property
    def total(self) -> float:
        """A = T alpha: how many words the prior is worth."""
        return self.topics * self.concentration

    @property
    def noise(self) -> float:
        """Root of E|y - E[y | theta]|^2: what is left where the proportions are known."""
        return math.sqrt(
            1 - (1 + (self.topics - 1) / (self.total + 1)) / self.topics / self.words
        )

    # -- data --------------------------------------------------------------------------------------

    def sample(self, n: int, length: int, seed: int = 0) -> TopicMixtureBatch:
        """Draw n documents of `length` >= 0 words with a held-out word each."""
        of = "TopicMixture.sample"
        n = check.integer(n, "n", of, 1)
        N = check.integer(length, "length", of, 0)
        entries = n * (2 * N + 2 + self.topics + self.vocabulary)
        check.fits_in_memory(entries, 8, "documents", of, "fewer documents at a time")
        rng = np.random.default_rng(check.seed_value(seed, of))
        theta = self._draw_proportions(n, rng)
        ends = np.cumsum(theta, axis=1)
        u = rng.random((n, N + 1))
        topic = np.zeros((n, N + 1), dtype=np.int64)
        if self.topics <= COMPARED_TOPICS:
            for t in range(self.topics):
                topic += u >= ends[:, [t]]
        else:
            for row in range(n):
                topic[row] = np.searchsorted(ends[row], u[row], side="right")
        # roundoff of the sum must not lead beyond the last topic
        np.minimum(topic, self.topics - 1, out=topic)
        x = topic * self.words + rng.integers(self.words, size=topic.shape)
        target = np.zeros((n, self.vocabulary))
        target[np.arange(n), x[:, -1]] = 1.0
        return TopicMixtureBatch(x[:, :-1], target, theta)

    def _draw_proportions(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Dirichlet draws (n, T) by logarithms of Gamma(alpha) = Gamma(alpha + 1) U^(1/alpha),
        which do not underflow.
        """
        shape = (n, self.topics)
        logs = np.log(rng.standard_gamma(self.concentration + 1, shape))
        logs += np.log1p(-rng.random(shape)) / self.concentration
        theta = np.exp(logs - logs.max(axis=1, keepdims=True))
        return theta / theta.sum(axis=1, keepdims=True)

    def counts(self, tokens: np.ndarray) -> np.ndarray:
        """n_t, words of each topic: (..., T) from tokens (..., N)."""
        return self._topic_counts(tokens, "TopicMixture.counts")

    def _topic_counts(self, tokens: np.ndarray, of: str) -> np.ndarray:
        x = token_numbers(tokens, "tokens", of, self.vocabulary) // self.words
        rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        places = rows + self.topics * np.arange(len(rows))[:, None]
        found = np.bincount(places.ravel(), minlength=len(rows) * self.topics)
        return found.reshape(*x.shape[:-1], self.topics)

    # -- inference ---------------------------------------------------------------------------------

    def posterior(self, tokens: np.ndarray) -> np.ndarray:
        """alpha + n: parameters (..., T) of the Dirichlet law of the proportions, given tokens
        (..., N).
        """
        return self.concentration + self._topic_counts(tokens, "TopicMixture.posterior")

    def bayes_predict(self, tokens: np.ndarray) -> np.ndarray:
        """P(x_{N+1} = . | x), (..., V): the law of a held-out word."""
        parameters = self.concentration + self._topic_counts(
            tokens, "TopicMixture.bayes_predict"
        )
        mean = parameters / parameters.sum(axis=-1, keepdims=True)
        return np.repeat(mean / self.words, self.words, axis=-1)

    def log_probability(self, tokens: np.ndarray) -> np.ndarray:
        """log p(x_1 .. x_N), (...), the proportions integrated out."""
        n = self._topic_counts(tokens, "TopicMixture.log_probability")
        N = int(np.shape(tokens)[-1])
        each = _log_rising(self.concentration, N)[n].sum(axis=-1)
        return each - _log_rising(self.total, N)[N] - N * math.log(self.vocabulary)

    def posterior_attention(self) -> TopicLayer:
        """The attention layer that is `bayes_predict`: equal scores, these values, this sink."""
        if self.vocabulary > MOST_MATRIX_WORDS:
            must = f"of a vocabulary of at most {MOST_MATRIX_WORDS} words"
            of = "TopicMixture.posterior_attention"
            raise bad("values", of, must, self.vocabulary, "bayes_predict")
        block = np.full((self.words, self.words), 1 / self.words)
        values = np.kron(np.eye(self.topics), block)
        prior = np.full(self.vocabulary, 1 / self.vocabulary)
        return TopicLayer(values, math.log(self.total), prior)

    # -- exact risks -------------------------------------------------------------------------------

    def bayes_risk(self, length: int) -> Estimate:
        """E|y - P(. | x_1 .. x_N)|^2 for the one-hot held-out word y;
        excess is over knowing the proportions.
        """
        N = check.integer(length, "length", "TopicMixture.bayes_risk", 0)
        A = self.total
        excess = (self.topics - 1) / (self.vocabulary * (A + 1)) * (A / (A + N))
        return estimate(excess, FORMULA_ROUNDING * excess, "closed form", self.noise)

    def masked_optimum(
        self,
        length: int,
        mask: float = 0.15,
        keep: float = 0.1,
        random: float = 0.1,
        ridge: float = 0.0,
    ) -> MaskedOptimum:
        """The values that masked prediction with uniform attention learns (`topic_values`).

        Args:
            length: N >= 1 positions, the predicted one among them.
            mask: share of the positions that are masked; of these
            keep: show their word, random: show any word, the others show nothing (value 0).
            ridge: r >= 0 of the penalty r |W|^2.

        >>> found = TopicMixture().masked_optimum(length=20)
        >>> round(found.same_word, 6), round(found.same_topic, 6), round(found.constant, 6)
        (0.118203, 0.20112, 0.002468)
        """
        of = "TopicMixture.masked_optimum"
        N = check.integer(length, "length", of, 1)
        shares = [
            check.real(x, name, of, 0, 1)
            for x, name in ((mask, "mask"), (keep, "keep"), (random, "random"))
        ]
        if shares[1] + shares[2] > 1 + EPS:
            got = shares[1] + shares[2]
            raise bad("keep + random", of, "at most 1", got, "keep=0.1, random=0.1")
        r = check.real(ridge, "ridge", of, 0)
        law = (self.topics, self.words, self.concentration)
        return masked_optimum(law, N, Masking(*shares), r)

    def attention_risk(
        self, length: int, correct: float, same_word: float, same_topic: float
    ) -> Estimate:
        """E|e_topic - prediction|^2 of one attention layer with these scores (`topic_scores`).

        Args:
            length: N >= 1 positions, the predicted one among them.
            correct: probability that the predicted position shows its word, else any word.
            same_word, same_topic: scores of positions that show the same word as the predicted
            one, or another word of its topic; those of other topics have score 0.

        >>> round(TopicMixture().attention_risk(20, 0.5, 0.0, 0.0).value, 6)    # uniform
        0.409943
        """
        of = "TopicMixture.attention_risk"
        law = self._shown_topics(length, correct, 1, of)
        scores = [
            check.real(x, name, of, -LARGEST_SCORE, LARGEST_SCORE)
            for x, name in ((same_word, "same_word"), (same_topic, "same_topic"))
        ]
        return attention_risk(law, *scores)

    def attention_optimum(self, length: int, correct: float) -> AttentionOptimum:
        """The best such scores, what they leave, and what no predictor can beat; length and
        `correct` as in `attention_risk`.

        From three positions on: of two, the other one's score never matters where topics agree.

        >>> best = TopicMixture().attention_optimum(length=20, correct=0.5)
        >>> round(best.same_word, 4), round(best.same_topic, 4), round(best.risk.value, 6)
        (0.79, 1.6175, 0.328552)
        """
        of = "TopicMixture.attention_optimum"
        if min(self.topics, self.words) < 2:
            must = "one with at least two topics of at least two words: scores matter for no other"
            raise bad("task", of, must, repr(self), "TopicMixture(topics=4, words=5)")
        return attention_optimum(self._shown_topics(length, correct, 3, of), of)

    def _shown_topics(self, length: int, correct: float, least: int, of: str) -> ShownTopics:
        N = check.integer(length, "length", of, least, LONGEST_DOCUMENT)
        c = check.real(correct, "correct", of, 0, 1)
        return ShownTopics.of(self.topics, self.words, self.concentration, N, c)


def _log_rising(a: float, most: int) -> np.ndarray:
    """log of (1 + 0/a)(1 + 1/a)..(1 + (n-1)/a), n = 0 .. most: the rising factorial over a^n."""
    steps = np.log1p(np.arange(most) / a)
    return np.concatenate([[0.0], np.cumsum(steps)])
