"""Mixtures of disjoint topics: posteriors and risks, masked and attention optima.

Promises without a stated error (docs/accuracy.md): predictions 1e-14, log probabilities 1e-14 of
the logarithms they are sums of, masked values 1e-13 of the largest eigenvalue of W, best scores
1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import topic_mixture as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

ROUNDING = 1e-14
MOST = 400  # counts of topics that a reference sums in 60 digits


def _draw(rng: np.random.Generator) -> Setting:
    return {
        "topics": log_integer(rng, 1, 6, [1, 2]),
        "words": log_integer(rng, 1, 8, [1, 2]),
        "concentration": log_uniform(rng, 1e-8, 1e8, [0.3, 1.0]),
    }


def _task(s: Setting) -> at.TopicMixture:
    return at.TopicMixture(s["topics"], s["words"], s["concentration"])


# -- documents -------------------------------------------------------------------------------------


def _draw_document(rng: np.random.Generator) -> Setting:
    s = _draw(rng)
    length = log_integer(rng, 1, 300, [0, 1])
    counts = rng.multinomial(length, rng.dirichlet(np.ones(s["topics"])))
    return s | {"counts": counts.tolist(), "seed": int(rng.integers(2**31))}


def _document(s: Setting) -> np.ndarray:
    """A document with these counts of topics, in a drawn order."""
    rng = np.random.default_rng(s["seed"])
    topic = rng.permutation(np.repeat(np.arange(s["topics"]), s["counts"]))
    return topic * s["words"] + rng.integers(s["words"], size=len(topic))


def _call_document(s: Setting) -> Answer:
    task = _task(s)
    x = _document(s)
    once = task.bayes_predict(x)[:: s["words"]]  # a word of each topic
    logs = len(x) * (abs(math.log(s["concentration"])) + math.log(len(x) + 1.0) + 5) + 1
    value = [*task.posterior(x), *once, float(task.log_probability(x))]
    error = [*(ROUNDING * task.posterior(x)), *(ROUNDING * once), ROUNDING * logs]
    return Answer(value, error)


def _true_document(s: Setting) -> Truth:
    alpha = s["concentration"]
    law = (s["words"], alpha, s["counts"])
    parameters = [alpha + n for n in s["counts"]]
    return Truth([*parameters, *reference.predictive(*law), reference.log_document(*law)])


def _document_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task = _task(s)
    x = _document(s)
    p = task.bayes_predict(x)
    yield same("words in another order, to the bit", task.bayes_predict(x[::-1]), p, 0.0)
    yield same("a prediction sums to 1", float(p.sum()), 1.0, 1e-15 * (len(p) + 4))
    layer = task.posterior_attention()
    # a softmax over the words, of score 0, and the sink: its largest logit is taken off
    top = max(layer.sink, 0.0)
    sink = math.exp(layer.sink - top)
    word = math.exp(-top)
    total = word * layer.values[x].sum(axis=0) + sink * layer.sink_value
    layered = total / (word * len(x) + sink)
    yield same("the attention layer", layered, p, ROUNDING * (10 + len(x)) * p)


def _draw_risk(rng: np.random.Generator) -> Setting:
    return _draw(rng) | {"length": log_integer(rng, 1, 10**9, [0, 1, 5])}


def _call_risk(s: Setting) -> Answer:
    e = _task(s).bayes_risk(s["length"])
    return Answer(e.excess, e.error)


def _true_risk(s: Setting) -> Truth | None:
    if not _few(s["length"], s["topics"]):
        return None
    return Truth(
        reference.bayes_excess(s["topics"], s["words"], s["concentration"], s["length"])
    )


def _few(length: int, topics: int) -> bool:
    """Whether the counts of topics are few enough for a reference."""
    return length <= MOST and math.comb(length + topics - 1, topics - 1) <= MOST


def _risk_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task = _task(s)
    later = task.bayes_risk(s["length"] + 1)
    yield at_most("one more word never hurts", later.excess, a.value, later.error + a.error)
    without = task.bayes_risk(0)
    yield same("no word: the prior", without.value, 1 - 1 / task.vocabulary, 1e-15 * 4)


# -- optima ----------------------------------------------------------------------------------------


def _draw_masked(rng: np.random.Generator) -> Setting:
    keep = float(rng.random()) * choice(rng, [0.0, 0.2, 1.0])
    s = _draw(rng) | {
        "length": log_integer(rng, 1, 10**6, [1, 2, 20]),
        "mask": choice(rng, [0.15, 1.0, float(rng.random())]),
        "keep": keep,
        "random": (1 - keep) * choice(rng, [0.0, 0.1, 1.0, float(rng.random())]),
        "ridge": log_uniform(rng, 1e-8, 1e2, [0.0]),
    }
    return s | {"topics": min(s["topics"], 4), "words": min(s["words"], 4)}


def _call_masked(s: Setting) -> Answer:
    found = _task(s).masked_optimum(*(s[k] for k in _MASKING))
    T, v = s["topics"], s["words"]
    values = np.array(found[:3])
    # eigenvalues of W; its parts are differences of them
    sizes = np.abs(
        [values[0], values[0] + v * values[1], values[0] + v * values[1] + T * v * values[2]]
    )
    error = 10 * ROUNDING * sizes.max() * np.ones(3)
    if v == 1:  # same word and same topic are one
        values = np.array([values[0] + values[1], 0.0, values[2]])
    if T == 1:  # same topic and all words are one
        values = np.array([values[0], 0.0, values[1] + values[2]])
    if T * v == 1:
        values = np.array([values.sum(), 0.0, 0.0])
    return Answer([*values, found.risk.value], [*error, found.risk.error])


_MASKING = ("length", "mask", "keep", "random", "ridge")


def _true_masked(s: Setting) -> Truth | None:
    shows = s["keep"] + s["random"] > 0 or (s["length"] > 1 and s["mask"] < 1)
    if not shows and s["ridge"] == 0:
        return None  # nothing is ever shown: W is free
    law = (s["topics"], s["words"], s["concentration"])
    shares = (s["mask"], s["keep"], s["random"])
    values, risk = reference.masked_values(*law, s["length"], shares, s["ridge"])
    if s["topics"] == 1 and s["words"] > 1:
        values = [values[0], 0.0, values[1]]
    return Truth([*values, risk])


def _masked_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    yield at_most("no worse than predicting 0", a.value[3], 1.0, a.error[3])
    own = _task(s).masked_optimum(*(s[k] for k in _MASKING[:4]))
    yield at_most(
        "a ridge never helps", own.risk.value, a.value[3], own.risk.error + a.error[3]
    )


def _draw_attention(rng: np.random.Generator) -> Setting:
    s = _draw(rng)
    return s | {
        "topics": max(2, min(s["topics"], 4)),
        "words": max(2, s["words"]),
        "concentration": log_uniform(rng, 1e-3, 1e3, [0.3, 1.0]),
        "length": log_integer(rng, 3, 12, [3]),
        "correct": log_uniform(rng, 1e-3, 0.95, [0.0, 0.5]),
        "scores": rng.uniform(-3, 4, size=2).tolist(),
    }


def _call_attention(s: Setting) -> Answer:
    task = _task(s)
    where = (s["length"], s["correct"])
    found = task.attention_risk(*where, *s["scores"])
    best = task.attention_optimum(*where)
    value = [found.value, best.bayes.value, best.risk.value, best.same_word, best.same_topic]
    return Answer(value, [found.error, best.bayes.error, best.risk.error, 0.0, 0.0])


def _law(s: Setting) -> tuple[int, int, float, int, float]:
    return s["topics"], s["words"], s["concentration"], s["length"], s["correct"]


def _attention_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    risk, bayes = reference.attention_risks(*_law(s), tuple(s["scores"]))
    yield same("attention_risk: all counts", a.value[0], risk, a.error[0])
    yield same("Bayes: all counts", a.value[1], bayes, a.error[1])
    best = a.value[3:]
    at_best, _ = reference.attention_risks(*_law(s), tuple(best))
    yield same("the risk at the optimum", a.value[2], at_best, a.error[2])
    slack = a.error[2] + a.error[0]
    yield at_most("no other scores are better", a.value[2], a.value[0], slack)
    yield at_most("Bayes is best", a.value[1], a.value[2], a.error[1] + a.error[2])
    for i in (0, 1):
        for step in (-1e-3, 1e-3):
            moved = list(best)
            moved[i] += step
            near = _task(s).attention_risk(s["length"], s["correct"], *moved)
            yield at_most(
                "nor are scores nearby", a.value[2], near.value, near.error + a.error[2]
            )


def _no_optimum(s: Setting) -> str:
    """Whether scores may run off or be flat: few positions, or all but one topic absent."""
    if s["length"] < 6 or s["concentration"] < 0.05 or s["concentration"] > 20:
        return "a short document, or all or none of the topics alike: scores flat or infinite"
    if s["correct"] < 0.01 or s["correct"] > 0.9:
        return "a shown word that is all but sure or says nothing: scores flat or infinite"
    if s["length"] < 10 and s["concentration"] > 5:
        return (
            "a short document whose topics are nearly alike: the risk is flat in the scores"
        )
    return ""


SUBJECTS: list[Subject] = [
    Subject(
        "TopicMixture.posterior, bayes_predict, log_probability",
        (
            "TopicMixture.posterior",
            "TopicMixture.bayes_predict",
            "TopicMixture.log_probability",
            "TopicMixture.posterior_attention",
        ),
        _draw_document,
        _call_document,
        _true_document,
        _document_relations,
    ),
    Subject(
        "TopicMixture.bayes_risk",
        ("TopicMixture.bayes_risk",),
        _draw_risk,
        _call_risk,
        _true_risk,
        _risk_relations,
    ),
    Subject(
        "TopicMixture.masked_optimum",
        ("TopicMixture.masked_optimum",),
        _draw_masked,
        _call_masked,
        _true_masked,
        _masked_relations,
        weight=0.5,
    ),
    Subject(
        "TopicMixture.attention_risk, attention_optimum",
        ("TopicMixture.attention_risk", "TopicMixture.attention_optimum"),
        _draw_attention,
        _call_attention,
        relations=_attention_relations,
        may_refuse=_no_optimum,
        weight=0.5,
    ),
]
