"""Same-topic attention: how much more a position attends to words of its topic, exactly.

notation: c = probability that the predicted position shows its own word (else any word), c1 and c2
= scores of the same word and of other words of the same topic, others 0
(tasks.exchangeable.topic_scores); k = topic of the shown word, z = the true one.

Routes. The sum over two counts against an enumeration of all 1540 counts of topics from the
definition, and against drawn documents: losses at the optimum, and a row of 20 free scores fitted
from uniform attention. Bayes as a floor, on the same documents. For long documents both scores tend
to log(1 + c T/(1-c)): one Richardson step from N = 200 and 400 at concentration 1 leaves O(1/N^2),
230/N^2 at most in a pilot; 800/N^2 is allowed. (At concentration 0.3 topics that are all but absent
make the approach slower.)
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln
from scipy.stats import binom

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import (
    BAND,
    mean_and_error,
    sampled,
    stated,
    worst,
)
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Points
from attnscope.tasks.exchangeable.topic_mixture import TopicMixture
from attnscope.tasks.exchangeable.topics import count_vectors
from attnscope_claims.around.topic_documents import ScoreFit, fitted_scores, own_first
from attnscope_claims.drawing import figure, legend, panel

TASK = TopicMixture(topics=4, words=5, concentration=0.3)
LENGTH = 20
CORRECT_SHARES = (0.2, 0.35, 0.5, 0.8)
FITTED_SHARE = 0.5  # the one at which all scores are fitted
LONG_TASK = TopicMixture(topics=4, words=5, concentration=1.0)
FAR_LENGTHS = (200, 400)
REMAINDER = 800 / FAR_LENGTHS[1] ** 2
COUNTS_WHY = "roundoff: 30,000 terms that sum to less than 1"
# What the statement says: the scores c1 of the same word and c2 of the same topic at c = 0.5, and the
# largest excess of the risk over that of Bayes, as a share.
SCORES = (0.79, 1.62)
OVER_BAYES = 0.005


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 607])
    n = context.pick(60_000, 400_000)
    best = [TASK.attention_optimum(LENGTH, c) for c in CORRECT_SHARES]
    exact = np.array([[b.risk.value, b.bayes.value] for b in best])
    drawn = []
    fit: ScoreFit | None = None
    for c, b in zip(CORRECT_SHARES, best):
        true, counts = own_first(TASK, n, LENGTH, c, rng)
        said = _attention(counts, b.same_word, b.same_topic)
        target = np.eye(TASK.topics)[true]
        drawn.append(mean_and_error(np.sum((target - said) ** 2, axis=1)))
        if c == FITTED_SHARE:
            fit = fitted_scores(TASK, true, counts)
    assert fit is not None
    found = best[CORRECT_SHARES.index(FITTED_SHARE)]
    scores = np.zeros(TASK.vocabulary)
    scores[: TASK.words] = found.same_topic
    scores[0] = found.same_word
    enumerated = [
        _risk_by_counts(c, b.same_word, b.same_topic) for c, b in zip(CORRECT_SHARES, best)
    ]
    towards = _long_document_scores()
    limit = _limit(np.array(CORRECT_SHARES))
    comparisons = (
        worst(
            "risk at the optimum: all counts",
            exact[:, 0],
            enumerated,
            1e-12,
            COUNTS_WHY,
            key="counts",
        ),
        sampled("risk at the optimum, drawn", exact[:, 0], drawn, key="risk"),
        sampled(
            "20 free scores, c = 0.5",
            scores,
            fit.scores,
            fit.error,
            key="row",
            scale=SCORES[1],
        ),
        sampled(
            "same word and same topic, fitted",
            (found.same_word, found.same_topic),
            fit.groups,
            fit.groups_error,
            key="fitted",
        ),
        stated(
            "scores",
            "same word and same topic, exact, as stated",
            SCORES,
            (found.same_word, found.same_topic),
            0.01,
        ),
        stated(
            "smaller",
            "same topic less same word, fitted, as stated",
            SCORES[1] - SCORES[0],
            fit.groups[1] - fit.groups[0],
            0.01,
            np.sum(fit.groups_error),
        ),
        worst(
            "both scores of long documents: log(1 + c T/(1-c))",
            limit[:, None],
            2 * towards[1] - towards[0],
            REMAINDER,
            "a Richardson step from N = 200 and 400 leaves O(1/N^2): 230/N^2 in a pilot, 800 allowed",
            key="long",
        ),
        worst(
            "attention over Bayes, c = 0.2 to 0.8",
            1 + OVER_BAYES,
            (exact[:, 0] / exact[:, 1]).max(),
            1e-9,
            "both are exact sums; half a per cent was fixed beforehand",
            key="bayes",
            rule="at most",
        ),
    )
    notes = (
        "Words of the same topic are attended more than the same word: the word itself sits in its "
        "own slot and is discounted."
    )
    return Evidence(comparisons, _figure(fit), notes)


def _attention(counts: np.ndarray, same_word: float, same_topic: float) -> np.ndarray:
    """What the layer says of the topics, from counts (n, V) whose word 0 is the shown one."""
    scores = np.zeros(TASK.vocabulary)
    scores[1 : TASK.words] = same_topic
    scores[0] = same_word
    weights = counts * np.exp(scores)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights.reshape(-1, TASK.topics, TASK.words).sum(axis=2)


def _risk_by_counts(c: float, same_word: float, same_topic: float) -> float:
    """The risk by all counts of topics of the other positions, the true topic, the shown one and
    the number of equal words: the definition.
    """
    T = TASK.topics
    alpha = TASK.concentration
    (n,) = count_vectors(LENGTH - 1, T, "around-07")
    total = 0.0
    for z in range(T):
        # Dirichlet-multinomial of the others, and the true topic after them
        logs = np.sum(gammaln(alpha + n) - gammaln(alpha) - gammaln(n + 1.0), axis=1)
        logs += gammaln(T * alpha) - gammaln(T * alpha + LENGTH - 1) + gammaln(LENGTH)
        mass = np.exp(logs) * (alpha + n[:, z]) / (T * alpha + LENGTH - 1)
        for k in range(T):
            shown = c * (k == z) + (1 - c) / T
            for m in range(LENGTH):
                word = np.exp(same_word) * (m + 1)
                topic = np.exp(same_topic) * np.maximum(n[:, k] - m, 0)
                said = n.astype(float)
                said[:, k] = word + topic
                said /= said.sum(axis=1, keepdims=True)
                loss = np.sum((np.eye(T)[z] - said) ** 2, axis=1)
                equal = binom.pmf(m, n[:, k], 1 / TASK.words)
                total += shown * float(np.sum(mass * equal * loss))
    return total


def _limit(c: np.ndarray) -> np.ndarray:
    """Both scores of long documents."""
    return np.log1p(c * TASK.topics / (1 - c))


def _long_document_scores() -> np.ndarray:
    """Best scores (lengths, values of c, 2) of long documents."""
    found = [
        [LONG_TASK.attention_optimum(N, c)[:2] for c in CORRECT_SHARES] for N in FAR_LENGTHS
    ]
    return np.array(found)


def _figure(fit: ScoreFit) -> Figure:
    grid = np.linspace(0.02, 0.9, 23)
    curve = [TASK.attention_optimum(LENGTH, float(c)) for c in grid]
    sizes = (
        Line(grid, [b.same_topic for b in curve], "same topic", 0),
        Line(grid, [b.same_word for b in curve], "same word", 1),
        Line(grid, _limit(grid), "both, long documents", 6, dashed=True),
        Points([FITTED_SHARE], fit.groups[1:], "", 0, BAND * fit.groups_error[1:]),
        Points([FITTED_SHARE], fit.groups[:1], "", 1, BAND * fit.groups_error[:1]),
        legend("fitted"),
    )
    return figure(
        "Same-topic attention and its exact size",
        panel("best scores, N = 20", "shown word right, c", "score", *sizes),
    )


CLAIM = Claim(
    id="around-07-topic-attention",
    title="Same-topic attention: its exact size",
    statement=(
        "Where a position shows its own word with probability c, [the best attention scores words "
        "of its topic by c2 and the same word by less, c1](smaller).",
        f"[These scores are {SCORES[1]:g} and {SCORES[0]:g} at c = 0.5](scores).",
        "[Its risk is exact by a sum over two counts](counts, risk), and [at most "
        f"{OVER_BAYES:.1%} above the Bayes risk](bayes).",
        "[A row of 20 free scores, fitted from uniform attention, finds the same pattern](row) "
        "[and the same two sizes](fitted).",
        "[For long documents both scores tend to log(1 + c T/(1-c))](long).",
    ),
    headline="scores",
    provenance=Provenance(
        "sharpened",
        ("topics/attention",),
        "the sizes of both scores, their risk beside Bayes, the limit of long documents",
    ),
    hypotheses=(
        "four disjoint topics of five words, Dirichlet concentration 0.3, N = 20 (1, and 200 and "
        "400 for the limit); values say the topic; squared error"
    ),
    routes=(
        "sum over two counts, Newton's method",
        "all counts of topics from the definition; drawn documents, 20 free scores",
    ),
    check=check,
    snippet="""\
import attnscope as at
task = at.TopicMixture(topics=4, words=5, concentration=0.3)
for correct in (0.2, 0.35, 0.5, 0.8):
    best = task.attention_optimum(length=20, correct=correct)
    print(correct, best.same_word, best.same_topic, best.risk.value)
""",
)
