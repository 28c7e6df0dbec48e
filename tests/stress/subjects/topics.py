"""Finite topics: risks, the error of two topics at any length, the Chernoff rate.

Promises without a stated error (docs/accuracy.md): a Chernoff tilt is the zero of a function of
slope v: rounding over v.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform, pmf
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import exchangeable as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS", "draw_topics", "few_counts", "topics_of"]

MOST_COUNTS = 1500  # count vectors a reference sums in DIGITS digits, in a tenth of a second


def topics_of(s: Setting) -> Any:
    return at.Topics(s["prior"], s["emissions"], s.get("labels"), s.get("noise", 0.0))


def draw_topics(rng: np.random.Generator, topics: int, longest: int) -> Setting:
    symbols = choice(rng, [1, 2, 2, 2, 3, 3, 4, 4])
    emissions = np.array([pmf(rng, symbols) for _ in range(topics)])
    if topics > 1 and rng.random() < 0.2:  # nearly or exactly equal topics
        emissions[1] = emissions[0] * (
            1 + log_uniform(rng, 1e-9, 1e-1, [0.0]) * rng.standard_normal(symbols)
        )
        emissions[1] = np.abs(emissions[1]) / np.abs(emissions[1]).sum()
    length = log_integer(rng, 1, longest, [0, 1, 2])
    return {
        "prior": pmf(rng, topics).tolist(),
        "emissions": emissions.tolist(),
        "length": length,
    }


def few_counts(s: Setting) -> bool:
    symbols = len(s["emissions"][0])
    return (
        s["length"] <= MOST_COUNTS
        and math.comb(s["length"] + symbols - 1, symbols - 1) <= MOST_COUNTS
    )


# -- topics: risks ---------------------------------------------------------------------------------


def _draw_risk(rng: np.random.Generator) -> Setting:
    s = draw_topics(rng, int(rng.integers(1, 5)), 400)
    if len(s["emissions"][0]) > 2:
        s["length"] = min(s["length"], 40)  # counts of more symbols grow like L^3
    if rng.random() < 0.5:
        s["labels"] = (
            rng.standard_normal(len(s["prior"])) * log_uniform(rng, 1e-6, 1e6)
        ).tolist()
        s["noise"] = log_uniform(rng, 1e-6, 10, [0.0])
    return s


def _call_risk(s: Setting) -> Answer:
    found = [topics_of(s).topic_error(s["length"]), topics_of(s).bayes_risk(s["length"])]
    return Answer([e.excess for e in found], [e.error for e in found])


def _means(s: Setting) -> np.ndarray:
    return np.asarray(s["labels"] if "labels" in s else topics_of(s).emissions, dtype=float)


def _true_risk(s: Setting) -> Truth | None:
    if not few_counts(s):
        return None
    return Truth(
        list(reference.topic_sums(s["prior"], s["emissions"], s["length"], _means(s)))
    )


def _risk_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task = topics_of(s)
    error, excess = a.value
    order = np.arange(len(s["prior"]))[::-1]
    labels = None if "labels" not in s else np.asarray(s["labels"])[order]
    turned = at.Topics(task.prior[order], task.emissions[order], labels, s.get("noise", 0.0))
    yield same(
        "topics in another order",
        turned.topic_error(s["length"]).excess,
        error,
        2 * a.error[0],
    )
    best = float(task.prior.max())
    yield at_most(
        "bayes <= guessing from the prior",
        error,
        1 - float(task.prior @ task.prior),
        a.error[0] + 1e-15,
    )
    yield at_most(
        "topic error <= 2 (1 - largest prior)", error, 2 * (1 - best), a.error[0] + 1e-15
    )
    if s["length"]:
        before = task.bayes_risk(s["length"] - 1)
        yield at_most(
            "one more token never hurts", excess, before.excess, a.error[1] + before.error
        )


# -- two topics at any length ----------------------------------------------------------------------


def _draw_two(rng: np.random.Generator) -> Setting:
    s = draw_topics(rng, 2, 10**12 if rng.random() < 0.3 else 400)
    s["length"] = max(1, s["length"])
    return s


def _call_two(s: Setting) -> Answer:
    e = at.two_topic_error(topics_of(s), s["length"])
    return Answer(e.excess, e.error)


def _true_two(s: Setting) -> Truth | None:
    if not few_counts(s):
        return None
    return Truth(reference.topic_sums(s["prior"], s["emissions"], s["length"], np.eye(2))[0])


def _undecided(s: Setting) -> str:
    """Why a pair of topics has no Chernoff tilt inside (0, 1)."""
    rows = _occurring(s)
    pairs = [(i, j) for i in range(len(rows)) for j in range(i)]
    if not pairs:
        return "fewer than two topics that occur"
    if any(reference.chernoff(rows[i], rows[j]) is None for i, j in pairs):
        return (
            "two topics are equal, or one forbids symbols that decide: no tilt inside (0, 1)"
        )
    if any(np.max(np.abs(np.subtract(rows[i], rows[j]))) < 1e-7 for i, j in pairs):
        return "two topics equal to rounding"
    if s.get("length", 0) > 10**6 and any(0 < x < 1e-12 for row in rows for x in row):
        return "a long sequence of symbols so rare that a million panels do not resolve their law"
    return ""


def _occurring(s: Setting) -> list[list[float]]:
    """Emissions of the topics of positive prior: the others are no topics."""
    return [row for row, prior in zip(s["emissions"], s["prior"], strict=True) if prior > 0]


def _two_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task = topics_of(s)
    turned = at.two_topic_error(
        at.Topics(task.prior[::-1], task.emissions[::-1]), s["length"]
    )
    yield same("topics in another order", turned.excess, a.value, a.error + turned.error)
    yield at_most(
        "<= guessing from the prior", a.value, 2 * float(np.prod(task.prior)), a.error
    )
    longer = at.two_topic_error(task, 2 * s["length"])
    yield at_most(
        "twice the tokens never hurt", longer.excess, a.value, a.error + longer.error
    )
    found = reference.chernoff(*s["emissions"])
    if found is not None and s["length"] > 1 and min(s["prior"]) > 0:
        yield _near_asymptotics(s, a, *found)


def _near_asymptotics(
    s: Setting, a: Answer, rate: float, tilt: float, variance: float
) -> Relation:
    """Close to 2 pi_0^s pi_1^(1-s) (pi/sin pi s) e^{-LC}/sqrt(2 pi L v), up to terms of order 1/L
    whose size is bounded here generously.
    """
    L = s["length"]
    ratios = [abs(math.log(x / y)) for x, y in zip(*s["emissions"]) if x and y]
    odds = math.log(s["prior"][0] / s["prior"][1])
    order = (
        3
        * (10 + odds**2 + 10 / min(tilt, 1 - tilt) ** 2 + max(ratios) ** 2 / variance)
        / (L * variance)
    )
    log_law = tilt * math.log(s["prior"][0]) + (1 - tilt) * math.log(s["prior"][1]) - L * rate
    log_law += (
        math.log(2 * math.pi / math.sin(math.pi * tilt))
        - math.log(2 * math.pi * L * variance) / 2
    )
    # steps of several units are nearly a lattice: its constant oscillates with L
    smooth = max(ratios) < 0.5
    if order > 0.1 or not smooth or not log_law > -700 or a.value == 0:
        return same("Chernoff asymptotics", 0.0, 0.0, 1.0)
    return same(
        "Chernoff asymptotics",
        math.log(a.value),
        log_law,
        order + 1e-12 * L * max(rate, 1e-3),
    )


# -- the Chernoff rate and the asymptotic law ------------------------------------------------------


def _call_chernoff(s: Setting) -> Answer:
    found = at.chernoff(topics_of(s))
    rate, tilt, variance = found[:3]
    i, j = found.pair
    ratios = [
        abs(math.log(x / y)) for x, y in zip(s["emissions"][i], s["emissions"][j]) if x and y
    ]
    far = 1 + max(ratios)
    # laws sum to 1 up to 1e-16 only: their ratios are known to 1e-15 absolutely; the root is found
    # to 1e-14
    return Answer(
        [rate, tilt, variance],
        [
            1e-15 * far + 1e-13 * rate,
            1e-14 + 1e-15 * far / variance,
            4e-15 * far**2 + 1e-13 * variance,
        ],
    )


def _true_chernoff(s: Setting) -> Truth | None:
    rows = _occurring(s)
    pairs = [(i, j) for i in range(len(rows)) for j in range(i + 1, len(rows))]
    found = [reference.chernoff(rows[i], rows[j]) for i, j in pairs]
    if any(x is None for x in found):
        return None
    least = sorted(x for x in found if x is not None)
    if len(least) > 1 and least[1][0] - least[0][0] < 1e-12:
        return None  # two pairs tie: either may be named
    return Truth(list(least[0]))


def _draw_pair_or_more(rng: np.random.Generator) -> Setting:
    s = draw_topics(rng, int(rng.integers(2, 4)), 10)
    return {"prior": s["prior"], "emissions": s["emissions"]}


def _call_asymptotic(s: Setting) -> Answer:
    e = at.asymptotic_topic_error(topics_of(s), s["length"])
    return Answer(e.excess, e.error)


SUBJECTS: list[Subject] = [
    Subject(
        "Topics.topic_error, bayes_risk",
        ("Topics.topic_error", "Topics.bayes_risk"),
        _draw_risk,
        _call_risk,
        _true_risk,
        _risk_relations,
        weight=2,
    ),
    Subject(
        "two_topic_error",
        ("two_topic_error",),
        _draw_two,
        _call_two,
        _true_two,
        _two_relations,
        _undecided,
        weight=3,
    ),
    Subject(
        "asymptotic_topic_error",
        ("asymptotic_topic_error",),
        _draw_two,
        _call_asymptotic,
        _true_two,
        may_refuse=_undecided,
    ),
    Subject(
        "chernoff",
        ("chernoff",),
        _draw_pair_or_more,
        _call_chernoff,
        _true_chernoff,
        may_refuse=_undecided,
    ),
]
