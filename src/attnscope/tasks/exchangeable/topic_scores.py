"""What keys and queries learn on a topic mixture: same-topic attention and its exact size (new
here).

notation: T topics of v words, alpha, A = T alpha as in topic_mixture; N = length; c = correct; k =
topic of the word shown at the predicted position, z = its true topic; n = other positions of topic
k, m = those of them that show the very word, M = N - 1 - n = the rest, n_j = of topic j; c1, c2 =
same_word, same_topic.

The predicted position shows its own word with probability c, else any word. It attends to all N
positions, its own among them, with scores c1 (same word), c2 (same topic), 0; values say the topic.
With D = (m+1) e^{c1} + (n-m) e^{c2} + M the layer says topic k with weight 1 - M/D and topic j with
n_j/D, so its squared error is a polynomial in g = 1/D:

    shown right:  (M^2 + Q) g^2                                             Q = sum_{j != k} n_j^2
    shown wrong:  1 - 2[(1-Mg)(alpha+n) + (alpha M + Q) g]/(A+N-1) + (1-Mg)^2 + Q g^2

given counts: z = k in the first case, and z ~ (alpha + n_z)/(A+N-1) in the second. n is
beta-binomial with parameters (alpha + [right], A - alpha), m | n is Binomial(n, 1/v), and given n
the n_j are Dirichlet-multinomial on T-1 topics, of which only E Q enters:

    E Q = M^2/(T-1) + M (T-2)/(T-1) ((T-1) alpha + M)/((T-1) alpha + 1).

So the risk is a sum of N(N+1)/2 terms instead of one over all counts of topics, with exact first
and second derivatives in (c1, c2); the optimum is found by Newton's method. What no predictor can
beat has P(z | shown) proportional to (alpha + n_z)(1 - c + c T [z = k]): for long documents both
scores tend to log(1 + c T/(1 - c)), and attention to Bayes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln

from attnscope.errors import bad
from attnscope.numerics.border.estimate import Estimate, estimate

__all__ = ["AttentionOptimum", "ShownTopics", "attention_optimum", "attention_risk"]

EPS = float(np.finfo(np.float64).eps)
FARTHEST_SCORE = (
    40.0  # scores from which on a weight is 0 or 1 to rounding: no finite optimum
)
NEWTON_STEPS = 4  # steps of polish: each doubles the digits
SCORE_ERROR_LIMIT = (
    1e-6  # what rounding may do to the best scores; where it does more, they are refused
)
NEGLIGIBLE_PAIR = (
    1e-24  # pairs (n, m) of less probability are left out: 2e6 of them are worth 1e-17
)


class AttentionOptimum(NamedTuple):
    """The best scores; risk: their error; uniform: that of equal scores; bayes: what no predictor
    of the topic can beat.
    """

    same_word: float
    same_topic: float
    risk: Estimate
    uniform: Estimate
    bayes: Estimate


class ShownTopics(NamedTuple):
    """Everything that the risk averages over, flat over the pairs (n, m).

    right, wrong: probabilities of (n, m) where the shown word is right, and where it is not,
    without the factors c and 1 - c; rounding: relative error of each.
    """

    topics: int
    alpha: float
    length: int
    correct: float
    n: np.ndarray
    m: np.ndarray
    squares: np.ndarray
    right: np.ndarray
    wrong: np.ndarray
    rounding: float

    @staticmethod
    def of(topics: int, words: int, alpha: float, length: int, correct: float) -> ShownTopics:
        """The law of the counts at one length."""
        others = length - 1
        count = np.arange(length)
        n = np.repeat(count, count + 1)
        m = np.arange(len(n)) - np.repeat(np.cumsum(count), count + 1)
        M = others - n.astype(float)
        rest = (topics - 1) * alpha
        squares = np.zeros(len(n))
        if topics > 1:
            spread = (rest + M) / (rest + 1)
            squares = M * (M + (topics - 2) * spread) / (topics - 1)
        same = _log_binomial(n, m, 1 / words)
        laws = []
        for extra in (1.0, 0.0):
            log_n = _log_beta_binomial(others, alpha + extra, rest)
            p = np.exp(log_n[n] + same)
            laws.append(p / p.sum())
        sizes = 1 + abs(math.log(alpha)) + math.log(length + 1) + math.log(topics * words)
        rounding = 8 * EPS * (10 + length * sizes)
        seen = laws[0] + laws[1] > NEGLIGIBLE_PAIR
        return ShownTopics(
            topics=topics,
            alpha=alpha,
            length=length,
            correct=correct,
            n=n[seen],
            m=m[seen],
            squares=squares[seen],
            right=laws[0][seen],
            wrong=laws[1][seen],
            rounding=rounding,
        )


def attention_risk(law: ShownTopics, same_word: float, same_topic: float) -> Estimate:
    """E|e_z - prediction|^2 at these scores."""
    right, wrong = _conditional_losses(law, _inverse_mass(law, same_word, same_topic)[0])
    return _expected_loss(law, right, wrong)


def attention_optimum(law: ShownTopics, of: str) -> AttentionOptimum:
    """The minimiser over both scores, or one sentence where there is no finite one."""
    best = None if law.correct == 1 else _best_scores(law)
    if best is None:
        must = "below 1, and such that finite scores are best"
        got = f"{law.correct:g} at length {law.length}, where they run off"
        raise bad("correct", of, must, got, "a smaller one, or a longer document")
    for _ in range(NEWTON_STEPS):
        at = _risk_derivatives(law, best)
        flattest = float(np.linalg.eigvalsh(at.hessian)[0])
        if not at.noise < SCORE_ERROR_LIMIT * flattest:
            got = f"{law.correct:g} at length {law.length}, where the risk is flat"
            raise bad("correct", of, "such that the best scores are unique", got)
        best = best - np.linalg.solve(at.hessian, at.gradient)
    c1, c2 = map(float, best)
    return AttentionOptimum(
        c1,
        c2,
        attention_risk(law, c1, c2),
        attention_risk(law, 0.0, 0.0),
        _bayes_estimate(law),
    )


def _best_scores(law: ShownTopics) -> np.ndarray | None:
    """The best of descents from uniform scores, from those of long documents, and from sharper
    ones; None where the best of them runs off.
    """
    limit = math.log1p(law.correct * law.topics / (1 - law.correct))
    found = []
    for start in ((limit, limit), (0.0, 0.0), (limit / 2 + 2, limit + 2)):
        held: dict[bytes, _Derivatives] = {}

        def at(x: np.ndarray, held: dict[bytes, _Derivatives] = held) -> _Derivatives:
            """Value, gradient and Hessian are asked one after the other: computed once."""
            key = np.asarray(x).tobytes()
            if key not in held:
                held.clear()
                held[key] = _risk_derivatives(law, x)
            return held[key]

        descent = minimize(
            lambda x: at(x).value,
            start,
            jac=lambda x: at(x).gradient,
            hess=lambda x: at(x).hessian,
            method="trust-exact",
            options={"gtol": 1e-8},
        )
        found.append((float(descent.fun), descent.x))
    # descents that end in one minimum differ by rounding
    least = min(value for value, _ in found) + law.rounding
    inside = [x for value, x in found if value <= least and np.abs(x).max() < FARTHEST_SCORE]
    return inside[0] if inside else None


def _inverse_mass(law: ShownTopics, c1: float, c2: float) -> tuple[np.ndarray, ...]:
    """(g, the two parts of D that move with c1 and c2)."""
    word = (law.m + 1) * math.exp(c1)
    topic = (law.n - law.m) * math.exp(c2)
    return 1 / (word + topic + (law.length - 1 - law.n)), word, topic


def _conditional_losses(law: ShownTopics, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared errors given (n, m), where the shown word is right and where it is wrong."""
    M = law.length - 1 - law.n
    own = 1 - M * g
    others = law.squares * g * g
    hit = own * (law.alpha + law.n) + (law.alpha * M + law.squares) * g
    drawn = law.topics * law.alpha + law.length - 1
    return (M * g) ** 2 + others, 1 - 2 * hit / drawn + own**2 + others


def _expected_loss(law: ShownTopics, right: np.ndarray, wrong: np.ndarray) -> Estimate:
    c = law.correct
    total = c * float(law.right @ right) + (1 - c) * float(law.wrong @ wrong)
    # losses are sums of terms up to 2, each probability is off by `rounding`
    error = law.rounding * (total + 4 * EPS) + 16 * EPS * (1 - c + total)
    return estimate(total, error, "sum over counts")


class _Derivatives(NamedTuple):
    """Risk, gradient and Hessian in (c1, c2); noise: what rounding does to the gradient."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray
    noise: float


def _risk_derivatives(law: ShownTopics, x: np.ndarray) -> _Derivatives:
    """Both losses have the second derivative 2(M^2 + Q) in g."""
    clipped = np.clip(
        x, -2 * FARTHEST_SCORE, 2 * FARTHEST_SCORE
    )  # a trial step far out stays finite
    g, word, topic = _inverse_mass(law, float(clipped[0]), float(clipped[1]))
    M = law.length - 1 - law.n
    c = law.correct
    right, wrong = _conditional_losses(law, g)
    drawn = law.topics * law.alpha + law.length - 1
    square = M * M + law.squares
    slope_right = 2 * square * g
    shift = law.squares + law.alpha * M - M * (law.alpha + law.n)
    slope_wrong = 2 * square * g - 2 * M - 2 * shift / drawn
    slope = c * law.right * slope_right + (1 - c) * law.wrong * slope_wrong
    bend = 2 * (c * law.right + (1 - c) * law.wrong) * square
    g1 = -g * g * word
    g2 = -g * g * topic
    g11 = 2 * g**3 * word * word + g1
    g22 = 2 * g**3 * topic * topic + g2
    g12 = 2 * g**3 * word * topic
    cross = float(np.sum(bend * g1 * g2 + slope * g12))
    hessian = [
        [float(np.sum(bend * g1 * g1 + slope * g11)), cross],
        [cross, float(np.sum(bend * g2 * g2 + slope * g22))],
    ]
    value = c * float(law.right @ right) + (1 - c) * float(law.wrong @ wrong)
    gradient = np.array([np.sum(slope * g1), np.sum(slope * g2)])
    noise = law.rounding * float(np.sum(np.abs(slope) * np.abs(g1 + g2)))
    return _Derivatives(value, gradient, np.array(hessian), noise)


def _bayes_estimate(law: ShownTopics) -> Estimate:
    """E[1 - sum_z P(z | shown)^2]."""
    c = law.correct
    T = law.topics
    M = law.length - 1 - law.n
    boost = 1 - c + c * T
    total = boost * (law.alpha + law.n) + (1 - c) * ((T - 1) * law.alpha + M)
    other = (1 - c) * ((T - 1) * law.alpha + M) / total
    squares = (T - 1) * law.alpha**2 + 2 * law.alpha * M + law.squares
    left = other * (2 - other) - ((1 - c) / total) ** 2 * squares
    return _expected_loss(law, left, left)


def _log_binomial(n: np.ndarray, m: np.ndarray, p: float) -> np.ndarray:
    """log P(Binomial(n, p) = m)."""
    ways = gammaln(n + 1.0) - gammaln(m + 1.0) - gammaln(n - m + 1.0)
    if p == 1:
        return np.where(m == n, 0.0, -np.inf)
    return ways + m * math.log(p) + (n - m) * math.log1p(-p)


def _log_beta_binomial(most: int, a: float, b: float) -> np.ndarray:
    """log P(n), n = 0 .. most, of the beta-binomial law; b = 0 puts all mass on `most`."""
    n = np.arange(most + 1)
    if b == 0:
        return np.where(n == most, 0.0, -np.inf)
    ways = gammaln(most + 1.0) - gammaln(n + 1.0) - gammaln(most - n + 1.0)
    i = np.arange(most)
    first = np.concatenate([[0.0], np.cumsum(np.log1p(i / a))])
    second = np.concatenate([[0.0], np.cumsum(np.log1p(i / b))])[::-1]
    # rising factorials over powers: a^n and b^(most - n) come back as shares of a + b
    shares = -n * math.log1p(b / a) - (most - n) * math.log1p(a / b)
    return ways + first + second + shares - np.sum(np.log1p(i / (a + b)))
