"""Errors of SparseTokenClassification: Bayes, its two tests, a head, and the strength that an error
needs.

Truth: integrals over three tokens at most, and relations between the tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.estimates import (
    answer_of,
    below,
    budget,
    several,
)
from stress.judged import Answer, Relation, Truth, at_most
from stress.references import sparse_tokens
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

# share of the settings in which the Bayes error of three tokens is integrated: a second each
PATIENCE = 0.1

ALIGNED = 0.1  # share of settings with k = v = xi
SMOOTH = 0.95  # k.v up to which the integrand of the reference is smooth enough for 48 nodes

# relative: a root of an error that is itself known to 1e-14 or so, found to 1e-10
NEEDED = 1e-8

# -- SparseTokenClassification ---------------------------------------------------------------------


def _draw_sparse(rng: np.random.Generator) -> Setting:
    kind = choice(rng, ["few", "one marked", "any"])
    L = log_integer(rng, 1, {"few": 3, "one marked": 10**12, "any": 12}[kind], (1, 2))
    return {
        "dim": 2,
        "length": L,
        "strength": log_uniform(rng, 1e-6, 12.0 if kind != "one marked" else 40.0, (0.0,)),
        "marked": 1 if kind == "one marked" else int(rng.integers(1, L + 1)),
        "patience": bool(rng.random() < PATIENCE),
        "budget": budget(rng),
    }


def _sparse(setting: Setting) -> at.SparseTokenClassification:
    return at.SparseTokenClassification(
        *(setting[name] for name in ("dim", "length", "strength", "marked"))
    )


def _truth_sparse(setting: Setting) -> Truth | None:
    L = setting["length"]
    R = setting["marked"]
    theta = setting["strength"]
    if L == 1:
        return Truth(sparse_tokens.tail(theta / 2))
    if theta < 0.05 or L > 3 or (L == 3 and not setting["patience"]):
        return None
    return Truth(*sparse_tokens.sparse_bayes(L, R, theta))


def _relations_sparse(setting: Setting, answer: Answer) -> Iterable[Relation]:
    task = _sparse(setting)
    yield below("Bayes <= max test", answer, task.max_test_error())
    yield below("Bayes <= linear test", answer, task.linear_error())
    known = sparse_tokens.tail(setting["strength"] * math.sqrt(setting["marked"]) / 2)
    yield at_most(
        "knowing where to look is easier", known, answer.value, answer.error, answer.sampled
    )


def _too_strong(setting: Setting) -> str:
    return (
        "the Laplace inversion serves strengths up to 70" if setting["strength"] > 70 else ""
    )


def _draw_tests(rng: np.random.Generator) -> Setting:
    L = log_integer(rng, 1, 10**12, (1, 2))
    return {
        "dim": 2,
        "length": L,
        "strength": log_uniform(rng, 1e-3, 100.0, (0.0, 1e3)),
        "marked": log_integer(rng, 1, L, (1, L)),
    }


def _call_tests(setting: Setting) -> Answer:
    task = _sparse(setting)
    return several(task.max_test_error(), task.linear_error())


def _truth_tests(setting: Setting) -> Truth:
    L = setting["length"]
    R = setting["marked"]
    theta = setting["strength"]
    linear = sparse_tokens.tail(R * theta / (2 * math.sqrt(L)))
    return Truth(np.array([sparse_tokens.max_test(L, R, theta), linear]))


def _draw_needed(rng: np.random.Generator) -> Setting:
    test = choice(rng, ["bayes", "max", "linear"])
    L = log_integer(rng, 1, 10**9, (1, 2))
    marked = choice(rng, [1, L]) if test == "bayes" else log_integer(rng, 1, L, (1, L))
    return {
        "dim": 2,
        "length": L,
        "strength": 0.0,
        "marked": marked,
        "test": test,
        "error": log_uniform(rng, 1e-12, 0.499, (0.1, 0.499)),
    }


def _call_needed(setting: Setting) -> Answer:
    found = _sparse(setting).strength_needed(setting["error"], setting["test"])
    return Answer(found, NEEDED * (1 + found))


def _relations_needed(setting: Setting, answer: Answer) -> Iterable[Relation]:
    """A little more strength reaches the error, a little less does not."""
    found = answer.value
    wanted = setting["error"]
    around = (found - answer.error, found + answer.error)
    errors = [_test_error(setting | {"strength": max(theta, 0.0)}) for theta in around]
    yield at_most("less does not reach it", wanted, *errors[0])
    yield at_most("more reaches it", errors[1][0], wanted, errors[1][1])


def _inversion_out_of_reach(setting: Setting) -> str:
    return (
        "the Laplace inversion serves strengths up to 70"
        if setting["test"] == "bayes"
        else ""
    )


def _test_error(setting: Setting) -> tuple[float, float]:
    """(error, what it is known to) of the setting's test at its strength."""
    L = setting["length"]
    R = setting["marked"]
    theta = setting["strength"]
    if setting["test"] == "linear":
        value = sparse_tokens.tail(R * theta / (2 * math.sqrt(L)))
        return value, 1e-14 * value
    if setting["test"] == "max":
        value = sparse_tokens.max_test(L, R, theta)
        return value, 1e-14 * value
    found = _sparse(setting).bayes_error()
    return found.excess, found.error


def _draw_signs(rng: np.random.Generator) -> Setting:
    L = log_integer(rng, 1, 12, (1, 2, 3))
    kappa, theta, left = (float(x) for x in rng.uniform(-1, 1, 3))
    apart = math.sqrt((1 - kappa**2) * (1 - theta**2))
    aligned = bool(rng.random() < ALIGNED)  # k = v = xi: the largest tokens decide
    return {
        "dim": 4,
        "length": L,
        "strength": log_uniform(rng, 1e-2, 8.0, (0.0,)),
        "marked": choice(rng, [1, L]),
        "kind": choice(rng, ["softmax", "erf"]),
        "inverse_temperature": log_uniform(rng, 1e-2, 2.0),
        "overlaps": (1.0, 1.0, 1.0)
        if aligned
        else (kappa, theta, kappa * theta + left * apart),
        "budget": budget(rng),
    }


def _call_signs(setting: Setting) -> Answer:
    kappa, theta, rho = setting["overlaps"]
    kind = at.Softmax if setting["kind"] == "softmax" else at.Erf
    place = at.Overlaps(kappa, 0.0, theta, 0.0, rho)
    head = kind(setting["inverse_temperature"])
    return answer_of(at.sign_error(_sparse(setting), head, place, **setting["budget"]))


def _truth_signs(setting: Setting) -> Truth | None:
    longest = 3 if setting["kind"] == "softmax" else 2
    if setting["length"] > longest or abs(setting["overlaps"][2]) > SMOOTH:
        return None
    task = (setting["length"], setting["marked"], setting["strength"])
    head = (setting["kind"], setting["inverse_temperature"])
    return Truth(*sparse_tokens.wrong_signs(*head, task, setting["overlaps"]))


def _relations_signs(setting: Setting, answer: Answer) -> Iterable[Relation]:
    best = _sparse(setting).bayes_error()
    slack = answer.error + best.error
    yield at_most("no head beats Bayes", best.excess, answer.value, slack, answer.sampled)


SUBJECTS: list[Subject] = [
    Subject(
        "sign_error",
        ("sign_error",),
        _draw_signs,
        _call_signs,
        _truth_signs,
        _relations_signs,
    ),
    Subject(
        "SparseTokenClassification.bayes_error",
        ("SparseTokenClassification.bayes_error",),
        _draw_sparse,
        lambda setting: answer_of(_sparse(setting).bayes_error(**setting["budget"])),
        _truth_sparse,
        _relations_sparse,
        _too_strong,
        weight=2.0,
    ),
    Subject(
        "SparseTokenClassification tests",
        (
            "SparseTokenClassification.max_test_error",
            "SparseTokenClassification.linear_error",
        ),
        _draw_tests,
        _call_tests,
        _truth_tests,
        truths=0.5,
    ),
    Subject(
        "SparseTokenClassification.strength_needed",
        ("SparseTokenClassification.strength_needed",),
        _draw_needed,
        _call_needed,
        relations=_relations_needed,
        may_refuse=_inversion_out_of_reach,
        weight=0.5,
    ),
]
