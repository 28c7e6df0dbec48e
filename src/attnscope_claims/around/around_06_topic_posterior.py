"""Disjoint topics in Dirichlet proportions: one attention layer is the exact posterior, and masked
training with uniform attention finds its values.

notation: T topics of v words, alpha = concentration, A = T alpha, N = length, B = same-topic blocks
(tasks.exchangeable.topic_mixture); W = aI + bB + cJ the values that masked prediction learns.

Routes. The layer (equal scores, values B/v, one sink of logit log A and value 1/V, through
softmax_attention) against ratios of probabilities of whole documents, P(x, w)/P(x), for every word
w and lengths 0 to 40 of one task and two random ones. The closed risk against squared errors of the
layer on drawn documents. The closed optimum against least squares with V^2 free numbers on drawn
masked documents: all 400 entries, and their three averages.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import (
    mean_and_error,
    sampled,
    stated,
    worst,
)
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Mark
from attnscope.predictors.operators.context_attention import softmax_attention
from attnscope.tasks.exchangeable.topic_mixture import TopicMixture
from attnscope_claims.around.topic_documents import Fit, fitted_values, masked_documents
from attnscope_claims.drawing import figure, legend, panel, sampled_points

TASK = TopicMixture(topics=4, words=5, concentration=0.3)
RISK_LENGTHS = (0, 1, 5, 20, 100)
POSTERIOR_LENGTHS = (0, 1, 2, 7, 40)
DOCUMENTS = 5  # of each length: the identity holds document by document
SHARES = (
    0.15,
    0.1,
    0.1,
)  # masked, of these kept, of these random: as in masked language models
# (length, ridge, drawn documents quick and full)
MASKED_FITS = ((20, 0.0, (60_000, 400_000)), (200, 1e-3, (20_000, 200_000)))
ROUNDING = "roundoff: probabilities are exponentials of log likelihoods of size up to 150"
# What the statement says of the values at N = 20 without a ridge: same word, same topic.
SAME_WORD, SAME_TOPIC = 0.118, 0.201
WITHOUT_KEEPING = (0.15, 0.0, 0.1)  # SHARES if no masked word is kept
PATTERN_WHY = "400 single entries show the pattern; its sizes are compared as averages"


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 606])
    tasks = (TASK, _random_task(rng), _random_task(rng))
    said, ratio = map(np.concatenate, zip(*(_posteriors(task, rng) for task in tasks)))
    n = context.pick(20_000, 200_000)
    closed = np.array([TASK.bayes_risk(N).value for N in RISK_LENGTHS])
    drawn = np.array([mean_and_error(_errors(N, n, rng)) for N in RISK_LENGTHS])
    fits = [
        _masked_fit(length, ridge, context.pick(*sizes), rng)
        for length, ridge, sizes in MASKED_FITS
    ]
    length, ridge, sizes = MASKED_FITS[0]
    hidden = _masked_fit(length, ridge, context.pick(*sizes), rng, WITHOUT_KEEPING)[2]
    short = fits[0][2]
    comparisons = (
        worst(
            "attention layer: P(x, w)/P(x), every word",
            ratio,
            said,
            1e-12,
            ROUNDING,
            key="layer",
        ),
        stated(
            "stated",
            "same word and same topic, N = 20, as stated",
            (SAME_WORD, SAME_TOPIC),
            short.parts[:2],
            1e-3,
            short.parts_error[:2],
        ),
        sampled(
            "same word, N = 20, if masking keeps no word",
            0.0,
            hidden.parts[0],
            hidden.parts_error[0],
            key="kept",
            scale=SAME_WORD,
        ),
        # at N = 0 every document has the same error
        sampled(
            "squared error of the layer, N = 1 to 100", closed[1:], drawn[1:], key="risk"
        ),
        worst("squared error without a word", closed[0], drawn[0, 0], 1e-12, ROUNDING),
        *(
            c
            for (length, ridge, _), (matrix, parts, fit) in zip(MASKED_FITS, fits)
            for where in [f"N = {length}, ridge {ridge:g}"]
            for c in (
                sampled(
                    f"values, all 400: {where}",
                    matrix,
                    fit.matrix,
                    fit.matrix_error,
                    key=f"pattern-{length}",
                    scale=float(matrix.max()),
                    coarse=PATTERN_WHY,
                ),
                sampled(
                    f"same word, same topic, constant: {where}",
                    parts,
                    fit.parts,
                    fit.parts_error,
                    key=f"parts-{length}",
                    scale=SAME_TOPIC,
                ),
            )
        ),
    )
    notes = (
        "The same-word part is the leak of kept words: without a ridge it has a limit, with one it "
        "dies like 1/N."
    )
    return Evidence(comparisons, _figure(fits), notes)


def _random_task(rng: np.random.Generator) -> TopicMixture:
    topics, words = (int(x) for x in rng.integers(2, 7, size=2))
    return TopicMixture(topics, words, float(np.exp(rng.uniform(-3, 2))))


def _layer(task: TopicMixture, words: np.ndarray) -> np.ndarray:
    """The attention layer on documents (n, N): (n, V)."""
    layer = task.posterior_attention()
    n, N = words.shape
    # one query of size 1: scores are the keys, 0 for words, log A for the sink
    keys = np.zeros((n, N + 1, 1))
    keys[:, -1] = layer.sink
    sink = np.broadcast_to(layer.sink_value, (n, 1, task.vocabulary))
    values = np.concatenate([layer.values[words], sink], axis=1)
    return softmax_attention(np.ones((n, 1)), keys, values, bandwidth=1.0)


def _posteriors(
    task: TopicMixture, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(what the layer says, P(x, w)/P(x)) of every word, over documents of several lengths."""
    said = []
    ratio = []
    every = np.arange(task.vocabulary)
    for N in POSTERIOR_LENGTHS:
        words = task.sample(DOCUMENTS, N, int(rng.integers(2**31))).tokens
        said.append(_layer(task, words).ravel())
        longer = np.concatenate(
            [np.repeat(words, len(every), axis=0), np.tile(every, DOCUMENTS)[:, None]], axis=1
        )
        before = np.repeat(task.log_probability(words), len(every))
        ratio.append(np.exp(task.log_probability(longer) - before))
    return np.concatenate(said), np.concatenate(ratio)


def _errors(N: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """|y - layer|^2 on n drawn documents."""
    batch = TASK.sample(n, N, int(rng.integers(2**31)))
    block = max(1, 200_000 // (N + 1))  # words times V values held at a time: 32 MB
    parts = [
        np.sum(
            (batch.target[i : i + block] - _layer(TASK, batch.tokens[i : i + block])) ** 2, 1
        )
        for i in range(0, n, block)
    ]
    return np.concatenate(parts)


def _masked_fit(
    length: int,
    ridge: float,
    n: int,
    rng: np.random.Generator,
    shares: tuple[float, float, float] = SHARES,
) -> tuple[np.ndarray, np.ndarray, Fit]:
    """(closed W, its three parts, the fit); shares: masked, of these kept, of these random."""
    parts = np.array(TASK.masked_optimum(length, *shares, ridge)[:3])
    same_topic = TASK.posterior_attention().values > 0
    W = parts[0] * np.eye(TASK.vocabulary) + parts[1] * same_topic + parts[2]
    return (
        W,
        parts,
        fitted_values(TASK, *masked_documents(TASK, n, length, shares, rng), ridge),
    )


def _figure(fits: list[tuple[np.ndarray, np.ndarray, Fit]]) -> Figure:
    lengths = np.unique(np.geomspace(2, 2000, 40).astype(int))
    marks: list[Mark] = []
    for ridge in (0.0, 1e-3):
        optima = [TASK.masked_optimum(int(N), *SHARES, ridge) for N in lengths]
        words = f", ridge {ridge:g}" if ridge else ""
        for j, name in ((1, "same topic"), (0, "same word")):
            values = [found[j] for found in optima]
            marks.append(Line(lengths, values, name + words, 3 - j, dashed=ridge > 0))
    for (N, _, _), (_, _, fit) in zip(MASKED_FITS, fits):
        pairs = np.stack([fit.parts, fit.parts_error], axis=1)
        marks += [sampled_points([N], pairs[[j]], "", 3 - j) for j in (0, 1)]
    marks.append(legend("fitted"))
    return figure(
        "Topics: the exact posterior is one attention layer",
        panel("values learnt from masked words", "length N", "value", *marks, log="x"),
    )


CLAIM = Claim(
    id="around-06-topic-posterior",
    title="Uniform attention, blocks and a sink are a topic posterior",
    statement=(
        "For documents with Dirichlet proportions of disjoint topics, [one attention layer is the "
        "law of a held-out word, with the same parameter at every length](layer).",
        "[It has equal scores, values that are blocks of words of one topic, and one sink of logit "
        "log(T alpha) that holds the prior](layer).",
        "[Its squared error is known in closed form](risk).",
        "[Masked prediction with uniform attention learns such blocks](pattern-20, pattern-200), "
        "[with values in closed form](parts-20, parts-200).",
        f"[At N = 20 words of the same topic get {SAME_TOPIC:g}, and the same word gets "
        f"{SAME_WORD:g} more](stated), [which comes from words that masking keeps](kept).",
    ),
    headline="layer",
    provenance=Provenance(
        "sharpened",
        ("topics/embeddings",),
        "the posterior as a layer with a sink, its risk, the masked optimum with its constants",
    ),
    hypotheses=(
        "T disjoint topics of v equally likely words, symmetric Dirichlet proportions; squared "
        "error; masking 15 % (a tenth kept, a tenth random); N = 20 and 200 for the fits"
    ),
    routes=(
        "closed forms: Polya's urn, three eigenspaces",
        "probabilities of whole documents; drawn documents, least squares with 400 free numbers",
    ),
    check=check,
    snippet="""\
import attnscope as at
task = at.TopicMixture(topics=4, words=5, concentration=0.3)
for length in (0, 1, 5, 20, 100):
    print(length, round(task.bayes_risk(length).value, 6))
print(task.masked_optimum(length=20))
""",
)
