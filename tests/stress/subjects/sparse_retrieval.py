"""SparseRetrieval, retrieval_probability, examples_needed: a coordinate from examples."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import sparse_retrieval as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

EPS = float(np.finfo(np.float64).eps)
GRIDS = 1e-9  # of the reference's own integrals
SCORES = ("cosine", "dot")


# -- hard choices ----------------------------------------------------------------------------------


def _draw_choice(rng: np.random.Generator) -> Setting:
    wide = rng.random() < 0.3
    return {
        "length": log_integer(rng, 1, 10**6 if wide else 60, [0, 1, 2, 3]),
        "features": log_integer(rng, 1, 10**12 if wide else 10**4, [1, 2, 3]),
        "noise": log_uniform(rng, 1e-6, 1e6) if wide else log_uniform(rng, 0.1, 10, [1.0]),
        "scores": choice(rng, SCORES),
        "more": choice(rng, [1, 10**280]),
    }


def _probability(s: Setting, length: int) -> Any:
    task = at.SparseRetrieval(s["features"] * s["more"], s["noise"])
    return at.retrieval_probability(task, length, s["scores"])


def _call_choice(s: Setting) -> Answer:
    e = _probability(s, s["length"])
    return Answer(e.value, e.error)


def _true_choice(s: Setting) -> Truth | None:
    if s["length"] > 2000 or not 0.01 <= s["noise"] <= 100:
        return None
    m = float(s["features"] * s["more"])
    found = reference.choice_probability(s["length"], m, s["noise"], s["scores"])
    return None if found is None else Truth(found, GRIDS)


def _choice_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    m = float(s["features"] * s["more"])
    n = s["length"]
    yield at_most("no worse than guessing", 1 / m, a.value, a.error)
    longer = _probability(s, min(n + 1, 10**6))
    yield at_most("one more example helps", a.value, longer.value, a.error + longer.error)
    if s["scores"] == "dot" and m == 2 and n > 0:
        from scipy.special import stdtr

        closed = stdtr(n, math.sqrt(n / (1 + 2 * s["noise"] ** 2)))
        yield same("two columns: Student's law", a.value, closed, a.error + 1e-14)


def _draw_needed(rng: np.random.Generator) -> Setting:
    return {
        "features": log_integer(rng, 2, 10**12, [2]),
        "noise": log_uniform(rng, 1e-3, 20, [1.0]),
        "probability": choice(rng, [0.5, float(rng.random())]),
        "scores": choice(rng, SCORES),
        "more": choice(rng, [1, 10**50]),
    }


def _call_needed(s: Setting) -> Answer:
    task = at.SparseRetrieval(s["features"] * s["more"], s["noise"])
    return Answer(at.examples_needed(task, s["probability"], s["scores"]), 0.0)


def _needed_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    n = int(a.value)
    reached = _probability(s, n)
    yield at_most("enough", s["probability"], reached.value, reached.error)
    if n > 0:
        before = _probability(s, n - 1)
        yield at_most("one fewer is not", before.value, s["probability"], before.error)


# -- the posterior ---------------------------------------------------------------------------------


def _draw_risk(rng: np.random.Generator) -> Setting:
    return {
        "length": log_integer(rng, 1, 16, [0, 1, 2]),
        "features": log_integer(rng, 1, 40, [1, 2, 2]),
        "noise": log_uniform(rng, 0.05, 20, [1.0, 1e-10]),
        "seed": int(rng.integers(2**31)),
    }


def _call_risk(s: Setting) -> Answer:
    e = at.SparseRetrieval(s["features"], s["noise"]).bayes_risk(s["length"])
    return Answer(e.excess, e.error)


def _true_risk(s: Setting) -> Truth | None:
    n = s["length"]
    m = s["features"]
    if n == 0 or m == 1:
        return Truth((m - 1) / m, 2e-16)
    if m == 2:
        value = math.exp(reference.two_columns(n, s["noise"]))
        return Truth(value, 1e-9 * value)
    return Truth(*reference.wrong_mass(n, m, s["noise"], s["seed"]))


def _risk_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    m = s["features"]
    yield at_most("no worse than the prior", a.value, (m - 1) / m, a.error + 1e-15)
    task = at.SparseRetrieval(m, s["noise"])
    if s["noise"] >= 1e-6:
        for scores in SCORES:
            # P(right) <= E max w <= (E sum w^2)^(1/2) = (1 - mass)^(1/2)
            hard = at.retrieval_probability(task, s["length"], scores)
            root = math.sqrt(max(1 - a.value, 0.0))
            yield at_most(f"{scores} below Bayes", hard.value, root, hard.error + 1e-11)
    before = task.bayes_risk(max(s["length"] - 1, 0))
    yield at_most("one more example helps", a.value, before.excess, a.error + before.error)


def _draw_posterior(rng: np.random.Generator) -> Setting:
    return {
        "length": int(rng.integers(0, 8)),
        "features": int(rng.integers(1, 7)),
        "noise": log_uniform(rng, 1e-3, 1e3, [1.0, 1e-40]),
        "scale": log_uniform(rng, 1e-3, 1e3, [1.0]),
        "seed": int(rng.integers(2**31)),
    }


def _context(s: Setting) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(s["seed"])
    keys = s["scale"] * rng.standard_normal((s["length"], s["features"]))
    values = keys[:, 0] + min(s["noise"], 1e3) * rng.standard_normal(s["length"])
    return keys, values, rng.standard_normal((s["features"],))


def _call_posterior(s: Setting) -> Answer:
    keys, values, query = _context(s)
    task = at.SparseRetrieval(s["features"], s["noise"])
    p = task.posterior(keys, values[:, None])
    mean = task.bayes_predict(query, keys, values[:, None])
    # rounding of a distance is relative to it, and so is that of the nearest
    t = np.sum(((keys - values[:, None]) / s["noise"]) ** 2, axis=0) / 2
    relative = EPS * (s["length"] + 10) * (1 + t + t.min())
    error = p * relative + float(p @ relative) * p + 1e-300
    return Answer(
        [*p, *mean], [*error, float(error @ np.abs(query)) + 8 * EPS * np.abs(query).max()]
    )


def _true_posterior(s: Setting) -> Truth:
    keys, values, query = _context(s)
    return Truth(reference.posterior(keys, values, query, s["noise"]))


SUBJECTS: list[Subject] = [
    Subject(
        "retrieval_probability",
        ("retrieval_probability",),
        _draw_choice,
        _call_choice,
        _true_choice,
        _choice_relations,
        truths=0.3,
        weight=1.0,
    ),
    Subject(
        "examples_needed",
        ("examples_needed",),
        _draw_needed,
        _call_needed,
        relations=_needed_relations,
        weight=0.1,
    ),
    Subject(
        "SparseRetrieval.bayes_risk",
        ("SparseRetrieval.bayes_risk",),
        _draw_risk,
        _call_risk,
        _true_risk,
        _risk_relations,
        weight=0.1,
    ),
    Subject(
        "SparseRetrieval.posterior, bayes_predict",
        ("SparseRetrieval.posterior", "SparseRetrieval.bayes_predict"),
        _draw_posterior,
        _call_posterior,
        _true_posterior,
        weight=0.5,
    ),
]
