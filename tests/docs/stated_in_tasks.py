"""Numbers of the pages on memories, decisions, retrieval, sparse tokens and topics, with their
computation: see stated_numbers.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from docs.stated import row
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import expit, gammaln, ndtr
from scipy.stats import norm

import attnscope as at

# -- memory.md -------------------------------------------------------------------------------------


def gated(keys: str) -> Sequence[float]:
    """The gated delta rule at a = .999, .99, .9."""
    return [
        at.best_gates(at.DriftingMap(8, noise=0.5, decay=a, keys=keys)).risk.excess
        for a in (0.999, 0.99, 0.9)
    ]


def one_hot_floor() -> Sequence[float]:
    """Bayes risks of long contexts with one-hot keys."""
    return [
        at.DriftingMap(8, noise=0.5, decay=a, keys="one-hot").bayes_risk(length=4000).excess
        for a in (0.999, 0.99, 0.9)
    ]


MEMORY = [
    row(
        "docs/memory.md",
        "$a=.999,.99,.9$: .065787, .225783, .648574.",
        one_hot_floor,
        *(".065787", ".225783", ".648574"),
    ),
    row(
        "docs/memory.md",
        ".254189 / 1.364792 / 5.119255",
        lambda: gated("normal"),
        *(".254189", "1.364792", "5.119255"),
    ),
    row(
        "docs/memory.md",
        ".067119 / .231214 / .650366",
        lambda: gated("sphere"),
        *(".067119", ".231214", ".650366"),
    ),
]

# -- papers_around.md ------------------------------------------------------------------------------


def order_statistic_regret(n: int, short: float = 9.0, over: float = 1.0) -> float:
    tau = short / (short + over)
    j = math.ceil(tau * n)
    variance = j * (n + 1 - j) / ((n + 1) ** 2 * (n + 2))
    return (short + over) / 2 * (variance + (j / (n + 1) - tau) ** 2)


def normal_forecast_regret() -> float:
    """Uniform demand, decided by the normal law of the same mean and variance."""
    return 5.0 * (0.5 + norm.ppf(0.9) / math.sqrt(12) - 0.9) ** 2


def below_for_good() -> float:
    """The number of tokens from which on averaged costs beat the normal forecast."""
    worse = [
        n for n in range(1, 2000) if order_statistic_regret(n) >= normal_forecast_regret()
    ]
    return 1 + max(worse)


def head_complexity(L: int, Q: float = 1.5) -> float:
    """The closed form of the two ends of |q| <= Q, which is exact for one and two tokens."""
    k = np.arange(L + 1)
    p = np.exp(gammaln(L + 1) - gammaln(k + 1) - gammaln(L - k + 1) - L * math.log(2))
    f = {
        q: (k * np.exp(q) - (L - k) * np.exp(-q)) / (k * np.exp(q) + (L - k) * np.exp(-q))
        for q in (Q, -Q)
    }
    sides = [math.sqrt(p @ (f[Q] + sign * f[-Q]) ** 2) for sign in (1, -1)]
    return math.sqrt(2 / math.pi) * sum(sides) / 2


@cache
def worst_regret(sampling: bool) -> tuple[float, float]:
    """(largest regret/sqrt(T), the x where it is) of the limit, by adaptive quadrature."""
    z, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()

    def wrong(x: float, u: float) -> float:
        if not sampling:
            return float(ndtr(-x * math.sqrt(u)))
        return float(w @ expit(-2 * x * x * u - 2 * x * math.sqrt(u) * z))

    height = lambda x: -x * quad(lambda u: wrong(x, u), 0, 1)[0]
    found = minimize_scalar(
        height, bounds=(0.5, 3), method="bounded", options={"xatol": 1e-9}
    )
    return -float(found.fun), float(found.x)


PAPERS = [
    row(
        "docs/papers_around.md",
        "with maxima .264894 at $x=1.24686$ and .354366 at 1.33600",
        lambda: [*worst_regret(False), *worst_regret(True)],
        *(".264894", "1.24686", ".354366", "1.33600"),
    ),
    row(
        "docs/papers_around.md",
        ".121429,\\ .021429,\\ .015157\\ \\text{ at } n=5,19,40",
        lambda: [order_statistic_regret(n) for n in (5, 19, 40)],
        *(".121429", ".021429", ".015157"),
    ),
    row(
        "docs/papers_around.md",
        "keeps a regret of .004514 however much it has seen, and the mean .8.",
        lambda: [normal_forecast_regret(), 5.0 * 0.4**2],
        *(".004514", ".8"),
    ),
    row(
        "docs/papers_around.md",
        "below the normal forecast for good from $n=111$ on",
        lambda: [below_for_good()],
        "111",
    ),
    row(
        "docs/papers_around.md",
        "$\\mu=(0,.7,1.6)$, $L=30$, $\\beta=3$: .11652, .04526, .07797",
        lambda: at.decision_regret(30, 9.0, 1.0, (0.0, 0.7, 1.6), 3.0).value,
        *(".11652", ".04526", ".07797"),
    ),
    row(
        "docs/papers_around.md",
        "For $Q=1.5$: .79788 at $L=1$, 1.07486 at 2",
        lambda: [head_complexity(1), head_complexity(2)],
        *(".79788", "1.07486"),
    ),
    row(
        "docs/papers_around.md",
        "limit .72220",
        lambda: [math.sqrt(2 / math.pi) * math.tanh(1.5)],
        ".72220",
    ),
]

# -- retrieval.md ----------------------------------------------------------------------------------


def examples(noise: float) -> Sequence[float]:
    """A row of the table at log m = 160."""
    task = at.SparseRetrieval(round(math.exp(160)), noise)
    logarithm = math.log(task.features)
    n = 1.0
    for _ in range(200):
        n = (logarithm - 0.5 * math.log(n)) / task.capacity
    return [
        at.examples_needed(task),
        n,
        logarithm / task.capacity,
        at.examples_needed(task, scores="dot"),
        2 * (1 + noise**2) * logarithm,
    ]


RETRIEVAL = [
    row(
        "docs/retrieval.md",
        "| 160 | .5 | 196 | 195.5 | 198.8 | 393 | 400 |",
        lambda: examples(0.5),
        *("196", "195.5", "198.8", "393", "400"),
    ),
    row(
        "docs/retrieval.md",
        "| 160 | 1 | 454 | 452.8 | 461.7 | 628 | 640 |",
        lambda: examples(1.0),
        *("454", "452.8", "461.7", "628", "640"),
    ),
    row(
        "docs/retrieval.md",
        "| 160 | 2 | 1406 | 1401.6 | 1434 | 1569 | 1600 |",
        lambda: examples(2.0),
        *("1406", "1401.6", "1434", "1569", "1600"),
    ),
]

# -- sparse_and_correlated.md ----------------------------------------------------------------------

LENGTHS = (10, 10**2, 10**3, 10**4, 10**6, 10**12)


@cache
def needed(test: str) -> Sequence[float]:
    return [
        at.SparseTokenClassification(8, L, strength=5.0).strength_needed(0.1, test)
        for L in LENGTHS
    ]


@cache
def correlated(case: str) -> Sequence[float]:
    """Excess at the best inverse temperatures: plain, with an intercept, whitened."""
    inner = at.SingleLocation(dim=60, length=10)
    k, v = inner.key, inner.value
    e = np.linalg.svd(np.stack([k, v]))[2][2]  # a unit vector orthogonal to both
    mixed = (k + e) / math.sqrt(2)
    covariance = {
        "correlation": 0.6 * (np.outer(k, v) + np.outer(v, k)),
        "along k": 4 * np.outer(k, k),
        "along k and e": 8 * np.outer(mixed, mixed),
    }.get(case, 0.0)
    mean = {"v": v, "k": k, "k/4": k / 4}.get(case, 0 * k)
    task = at.CorrelatedBackground(inner, mean=mean, covariance=np.eye(60) + covariance)
    white = task.whiten()
    return [
        at.correlated_inverse_temperature(task)[1].excess,
        at.correlated_inverse_temperature(task, intercept=True)[1].excess,
        white.scale**2 * at.optimal_inverse_temperature(white.task, at.Erf)[1].excess,
    ]


SPARSE = [
    row(
        "docs/sparse_and_correlated.md",
        "isotropic .2108 / .2108 / .2108; $\\mu_0=v_*$ .5126 / .2878 / .2108",
        lambda: [correlated("isotropic")[0], *correlated("v")[:2]],
        *(".2108", ".5126", ".2878"),
    ),
    row(
        "docs/sparse_and_correlated.md",
        "$\\mu_0=k_*$ .2480 / .2480 / .2108",
        lambda: [correlated("k")[1], correlated("k")[2]],
        *(".2480", ".2108"),
    ),
    row(
        "docs/sparse_and_correlated.md",
        "correlation .6 of $k_*,v_*$ .3776 / .2437 / .1668; variance 5 along $k_*$ .3795 three times",
        lambda: [*correlated("correlation"), correlated("along k")[1]],
        *(".3776", ".2437", ".1668", ".3795"),
    ),
    row(
        "docs/sparse_and_correlated.md",
        ".3795 / .3795 / .2746. A small mean along $k_*$ helps a little (.2077 at $\\mu_0=k_*/4$).",
        lambda: [*correlated("along k and e")[1:], correlated("k/4")[0]],
        *(".3795", ".2746", ".2077"),
    ),
    row(
        "docs/sparse_and_correlated.md",
        "| Bayes, 10 % error | 3.519 | 4.261 | 4.875 | 5.408 | 6.322 | 8.433 |",
        lambda: needed("bayes"),
        *("3.519", "4.261", "4.875", "5.408", "6.322", "8.433"),
    ),
    row(
        "docs/sparse_and_correlated.md",
        "| max test | 3.524 | 4.266 | 4.879 | 5.412 | 6.325 | 8.435 |",
        lambda: needed("max"),
        *("3.524", "4.266", "4.879", "5.412", "6.325", "8.435"),
    ),
    row(
        "docs/sparse_and_correlated.md",
        "| linear | 8.11 | 25.6 | 81.1 | 256 | 2563 | 2.56e6 |",
        lambda: [2 * norm.ppf(0.9) * math.sqrt(L) for L in LENGTHS],
        *("8.11", "25.6", "81.1", "256", "2563", "2.56e6"),
    ),
    row(
        "docs/sparse_and_correlated.md",
        "| Bayes $-\\sqrt{2\\log L}$ | 1.373 | 1.227 | 1.158 | 1.116 | 1.066 | 0.999 |",
        lambda: [
            strength - math.sqrt(2 * math.log(L))
            for strength, L in zip(needed("bayes"), LENGTHS)
        ],
        *("1.373", "1.227", "1.158", "1.116", "1.066", "0.999"),
    ),
]

# -- topic_mixture.md ------------------------------------------------------------------------------


def topics(correct: float) -> Sequence[float]:
    found = at.TopicMixture(topics=4, words=5, concentration=0.3).attention_optimum(
        length=20, correct=correct
    )
    risks = (found.risk, found.uniform, found.bayes)
    return [found.same_word, found.same_topic, *(risk.value for risk in risks)]


TOPICS = [
    row(
        "docs/topic_mixture.md",
        "| 0.2 | 0.1057 | 0.6646 | 0.412089 | 0.422727 | 0.411266 |",
        lambda: topics(0.2),
        *("0.1057", "0.6646", "0.412089", "0.422727", "0.411266"),
    ),
    row(
        "docs/topic_mixture.md",
        "| 0.35 | 0.4394 | 1.1402 | 0.378194 | 0.416335 | 0.377291 |",
        lambda: topics(0.35),
        *("0.4394", "1.1402", "0.378194", "0.416335", "0.377291"),
    ),
    row(
        "docs/topic_mixture.md",
        "| 0.5 | 0.7900 | 1.6175 | 0.328552 | 0.409943 | 0.327567 |",
        lambda: topics(0.5),
        *("0.7900", "1.6175", "0.328552", "0.409943", "0.327567"),
    ),
    row(
        "docs/topic_mixture.md",
        "| 0.8 | 1.8033 | 2.8676 | 0.177203 | 0.397159 | 0.176353 |",
        lambda: topics(0.8),
        *("1.8033", "2.8676", "0.177203", "0.397159", "0.176353"),
    ),
]

STATED = [*MEMORY, *PAPERS, *RETRIEVAL, *SPARSE, *TOPICS]
