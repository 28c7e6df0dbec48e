"""Finite topics: posteriors, the atoms of a posterior and their merging, representations of a
sequence.

Promises without a stated error (docs/accuracy.md): posteriors and log probabilities are sums of log
likelihoods, each rounded, so their error is ROUNDING times the size of those sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

import attnscope as at
from stress.draws import choice, pmf
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import exchangeable as reference
from stress.subject import Setting, Subject
from stress.subjects.topics import draw_topics, few_counts, topics_of

__all__ = ["SUBJECTS"]

# fifty roundings: of sums over the tokens, of their logarithms, of the largest taken off
ROUNDING = 1e-14

LOWEST = 1e-300  # an absolute error where everything else is 0

# -- topics: posteriors ----------------------------------------------------------------------------


def _draw_sequence(rng: np.random.Generator) -> Setting:
    s = draw_topics(rng, int(rng.integers(1, 5)), 2000)
    counts = rng.multinomial(s.pop("length"), rng.dirichlet(np.ones(len(s["emissions"][0]))))
    return s | {"counts": counts.tolist()}


def _tokens(s: Setting) -> np.ndarray:
    return np.repeat(np.arange(len(s["counts"])), s["counts"])


def _call_posterior(s: Setting) -> Answer:
    task = topics_of(s)
    x = _tokens(s)
    p = task.posterior(x)
    value = np.concatenate(
        [p, task.predictive(x), task.bayes_predict(x), [float(task.log_probability(x))]]
    )
    logs = np.where(
        np.asarray(s["emissions"]) > 0, np.log(np.maximum(s["emissions"], LOWEST)), 0.0
    )
    size = 1 + float(np.max(np.abs(logs) @ np.asarray(s["counts"]))) + 50
    symbols = len(s["counts"])
    error = np.concatenate(
        [
            ROUNDING * size * p + LOWEST,
            np.full(2 * symbols, ROUNDING * size),
            [ROUNDING * size],
        ]
    )
    return Answer(value, error)


def _true_posterior(s: Setting) -> Truth | None:
    found = reference.topic_posterior(s["prior"], s["emissions"], s["counts"])
    if not found:
        return None
    mixed = np.asarray(found[:-1]) @ np.asarray(s["emissions"])
    return Truth(np.concatenate([found[:-1], mixed, mixed, found[-1:]]))


def _posterior_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task = topics_of(s)
    x = _tokens(s)
    K = len(s["prior"])
    yield same("a posterior sums to 1", float(np.sum(a.value[:K])), 1.0, 1e-15 * (K + 4))
    yield same(
        "tokens in another order, to the bit", task.posterior(x[::-1]), a.value[:K], 0.0
    )
    two = task.posterior(np.stack([x, x[::-1]]))
    yield same("as one of a batch, to the bit", two[1], a.value[:K], 0.0)


def _impossible(s: Setting) -> str:
    found = reference.topic_posterior(s["prior"], s["emissions"], s["counts"])
    return "" if found else "a sequence that no topic can produce"


# -- topics: representations -----------------------------------------------------------------------


def _draw_atoms(rng: np.random.Generator) -> Setting:
    s = draw_topics(rng, int(rng.integers(1, 4)), 1000)
    # long sequences of two symbols: likelihoods far below the smallest float64
    if rng.random() < 0.4:
        s["emissions"] = [pmf(rng, 2).tolist() for _ in s["prior"]]
        return s | {"length": int(rng.integers(400, 1000))}
    # a thousand count vectors
    most = {1: 10**6, 2: 1000, 3: 40, 4: 12}[len(s["emissions"][0])]
    return s | {"length": min(s["length"], most)}


def _call_atoms(s: Setting) -> Answer:
    """Mass, mean posterior and second moment of the atoms:
    none depends on how atoms are told apart.
    """
    p, post = at.posterior_atoms(topics_of(s), s["length"])
    value = [p.sum(), *(p @ post), float(p @ np.sum(post**2, axis=1))]
    # posteriors closer than 1e-11 are one atom: their second moment moves by that at most
    return Answer(value, [ROUNDING * _log_size(s)] * (1 + len(s["prior"])) + [1e-11])


def _log_size(s: Setting) -> float:
    smallest = min(p for row in s["emissions"] for p in row if p > 0)
    return 10 + s["length"] * (math.log(s["length"] + 1) - math.log(smallest))


def _true_atoms(s: Setting) -> Truth | None:
    if not few_counts(s):
        return None
    found = reference.topic_atoms(s["prior"], s["emissions"], s["length"])
    p = np.array([mass for _, mass, _ in found])
    post = np.array([row for _, _, row in found])
    return Truth([p.sum(), *(p @ post), float(p @ np.sum(post**2, axis=1))])


def _atom_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    atoms = at.posterior_atoms(topics_of(s), s["length"])
    costs = at.merge_costs(atoms)
    i, j = np.unravel_index(np.argmax(costs), costs.shape)
    p = atoms.mass[[i, j]]
    post = atoms.posterior[[i, j]]
    mean = (p @ post) / p.sum()
    yield same(
        "a merge costs the spread about the mean",
        costs[i, j],
        p @ np.sum((post - mean) ** 2, axis=1),
        1e-14,
    )
    yield same(
        "posteriors sum to 1", atoms.posterior.sum(axis=1), np.ones(len(atoms.mass)), 1e-13
    )
    yield at_most(
        "no cost below 0, none with itself", max(-costs.min(), np.trace(costs)), 0.0, 0.0
    )


def _draw_representation(rng: np.random.Generator) -> Setting:
    s = draw_topics(rng, int(rng.integers(1, 4)), 6)
    return s | {
        "statistic": choice(
            rng, ["tokens", "counts", "posterior", "prefix", "map", "rounded"]
        )
    }


def _call_representation(s: Setting) -> Answer:
    found = at.representation(topics_of(s), s["length"], s["statistic"])
    size = ROUNDING * _log_size(s)
    return Answer(
        [found.entropy, found.information, found.regret], [10 * size, 10 * size, size]
    )


def _true_representation(s: Setting) -> Truth | None:
    if s["statistic"] not in ("counts", "tokens") or not few_counts(s):
        return None
    atoms = reference.topic_atoms(s["prior"], s["emissions"], s["length"])
    prior = np.asarray(s["prior"])
    entropy, information = 0.0, 0.0
    for counts, mass, post in atoms:
        ways = reference.arrangements(counts) if s["statistic"] == "tokens" else 1
        entropy -= mass * math.log(mass / ways) if mass else 0.0
        information += mass * sum(p * math.log(p / q) for p, q in zip(post, prior) if p)
    return Truth([entropy, information, 0.0])


def _representation_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    _, information, regret = a.value
    full = at.representation(topics_of(s), s["length"], "tokens")
    slack = a.error[0]
    yield at_most("a map keeps no more than the tokens", information, full.information, slack)
    yield at_most("no regret below 0", -regret, 0.0, 0.0)
    yield at_most(
        "information <= entropy of the topic", information, _entropy(s["prior"]), slack
    )
    if s["statistic"] == "posterior":
        yield same("the posterior keeps everything", information, full.information, 1e-9)
        yield same("the posterior costs nothing", regret, 0.0, 1e-20)


def _entropy(p: Iterable[float]) -> float:
    return -sum(x * math.log(x) for x in p if x > 0)


SUBJECTS: list[Subject] = [
    Subject(
        "Topics.posterior, predictive, bayes_predict, log_probability",
        (
            "Topics.posterior",
            "Topics.predictive",
            "Topics.bayes_predict",
            "Topics.log_probability",
            "Topics.log_joint",
        ),
        _draw_sequence,
        _call_posterior,
        _true_posterior,
        _posterior_relations,
        _impossible,
        weight=2,
    ),
    Subject(
        "posterior_atoms, merge_costs",
        ("posterior_atoms", "merge_costs"),
        _draw_atoms,
        _call_atoms,
        _true_atoms,
        _atom_relations,
        weight=1.5,
    ),
    Subject(
        "representation",
        ("representation",),
        _draw_representation,
        _call_representation,
        _true_representation,
        _representation_relations,
    ),
]
