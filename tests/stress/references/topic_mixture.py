"""Truths of topic mixtures, from their definition in DIGITS digits.

notation: T topics of v words, alpha = concentration, N words; a document of given topics has
probability Gamma(A)/Gamma(A + N) prod_t Gamma(alpha + n_t)/Gamma(alpha) v^-N, A = T alpha.

Predictions are ratios of two such probabilities. The Bayes risk sums 1 - sum_w P(w | x)^2 over all
counts of topics. Masked prediction: the moments E yS' and E SS' are sums over one, two and three
positions and what each shows, written as V x V matrices and solved as such. Attention: sums over
all counts of topics of the other positions, the true topic, the shown one and the number of equal
words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mpmath as mp

__all__ = ["attention_risks", "bayes_excess", "log_document", "masked_values", "predictive"]

DIGITS = 60  # concentrations of 1e-8 and 1e8 leave 40 digits


def _counts(length: int, topics: int) -> Iterator[tuple[int, ...]]:
    if topics == 1:
        yield (length,)
        return
    for first in range(length + 1):
        for rest in _counts(length - first, topics - 1):
            yield (first, *rest)


def _log_topics(alpha: mp.mpf, counts: Sequence[int]) -> mp.mpf:
    """log probability of one order of topics with these counts."""
    A = len(counts) * alpha
    total = -mp.fsum(mp.log(A + i) for i in range(sum(counts)))
    return total + mp.fsum(mp.log(alpha + i) for n in counts for i in range(n))


def _arranged(counts: Sequence[int]) -> mp.mpf:
    return mp.factorial(sum(counts)) / mp.fprod(mp.factorial(n) for n in counts)


def log_document(words: int, alpha: float, counts: Sequence[int]) -> float:
    """log probability of one document with these counts of topics."""
    with mp.workdps(DIGITS):
        return float(_log_topics(mp.mpf(alpha), counts) - sum(counts) * mp.log(words))


def predictive(words: int, alpha: float, counts: Sequence[int]) -> list[float]:
    """P(next word is one given word of topic t | document), for every t."""
    with mp.workdps(DIGITS):
        a = mp.mpf(alpha)
        before = _log_topics(a, counts)
        after = [
            _log_topics(a, [n + (s == t) for s, n in enumerate(counts)])
            for t in range(len(counts))
        ]
        return [float(mp.exp(x - before) / words) for x in after]


def bayes_excess(topics: int, words: int, alpha: float, length: int) -> float:
    """E|P(. | theta) - P(. | x)|^2 = E|P(. | x)|^2 at infinitely many words less the same at N."""
    with mp.workdps(DIGITS):
        a = mp.mpf(alpha)
        A = topics * a
        known = mp.mpf(0)
        for counts in _counts(length, topics):
            mass = _arranged(counts) * mp.exp(_log_topics(a, counts))
            known += mass * mp.fsum(((a + n) / (A + length)) ** 2 for n in counts)
        # E sum theta^2 is the probability that two words are of one topic
        two = topics * mp.exp(_log_topics(a, (2, *([0] * (topics - 1)))))
        return float((two - known) / words)


def masked_values(
    topics: int,
    words: int,
    alpha: float,
    length: int,
    shares: tuple[float, float, float],
    ridge: float,
) -> tuple[list[float], float]:
    """([same word, same topic, constant] of the best values, their squared error), from V x V
    matrices of moments.
    """
    with mp.workdps(DIGITS):
        a = mp.mpf(alpha)
        V = topics * words
        mask, keep, random = (mp.mpf(x) for x in shares)
        own = 1 - mask + mask * keep
        other = mask * random
        u = mp.mpf(1) / V
        one = mp.exp(_log_topics(a, (2, *([0] * (topics - 1))))) / words**2
        two = mp.mpf(0)
        if topics > 1:
            two = mp.exp(_log_topics(a, (1, 1, *([0] * (topics - 2))))) / words**2
        pair = mp.matrix(V, V)
        for i in range(V):
            for j in range(V):
                pair[i, j] = one if i // words == j // words else two
        unit = mp.eye(V)
        flat = mp.ones(V, V) * u * u
        first = keep * u * unit + random * flat  # E y S_1'
        others = own * pair + other * flat  # E y S_l', l > 1
        Y = (first + (length - 1) * others) / length
        diagonal = (keep + random + (length - 1) * (own + other)) * u * unit
        # two shown positions: both their own words, or at least one random
        both = own**2 * pair + (2 * own * other + other**2) * flat
        mixed = keep * own * pair + (keep * other + random * own + random * other) * flat
        S = diagonal + (length - 1) * (length - 2) * both + 2 * (length - 1) * mixed
        S = S / mp.mpf(length) ** 2
        W = Y * mp.inverse(S + mp.mpf(ridge) * unit)
        risk = 1 - 2 * _trace(W * Y.T) + _trace(W * S * W.T)
        far = W[0, V - 1] if topics > 1 else mp.mpf(0)
        near = W[0, 1] if words > 1 else far
        return [float(W[0, 0] - near), float(near - far), float(far)], float(risk)


def _trace(M: mp.matrix) -> mp.mpf:
    return mp.fsum(M[i, i] for i in range(M.rows))


def attention_risks(
    topics: int,
    words: int,
    alpha: float,
    length: int,
    correct: float,
    scores: tuple[float, float],
) -> tuple[float, float]:
    """(risk of attention with these scores, Bayes risk of the topic), by all counts."""
    with mp.workdps(DIGITS):
        a = mp.mpf(alpha)
        c = mp.mpf(correct)
        word, topic = (mp.exp(mp.mpf(x)) for x in scores)
        A = topics * a
        p = mp.mpf(1) / words
        risk = mp.mpf(0)
        bayes = mp.mpf(0)
        for n in _counts(length - 1, topics):
            mass = _arranged(n) * mp.exp(_log_topics(a, n))
            truth = [(a + x) / (A + length - 1) for x in n]
            for k in range(topics):
                joint = [t * ((1 - c) / topics + c * (z == k)) for z, t in enumerate(truth)]
                shown = mp.fsum(joint)
                if shown:
                    bayes += mass * (shown - mp.fsum(x * x for x in joint) / shown)
                for m in range(n[k] + 1):
                    equal = mp.binomial(n[k], m) * p**m * (1 - p) ** (n[k] - m)
                    mine = (m + 1) * word + (n[k] - m) * topic
                    total = mine + sum(n) - n[k]
                    said = [(mine if t == k else x) / total for t, x in enumerate(n)]
                    square = mp.fsum(x * x for x in said)
                    hit = mp.fsum(j * x for j, x in zip(joint, said))
                    risk += mass * equal * (shown * (1 + square) - 2 * hit)
        return float(risk), float(bayes)
