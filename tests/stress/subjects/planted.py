"""Posteriors and Bayes predictions of tasks with one key and one value, against Bayes' rule in 60
digits (references.planted).

notation and promised errors: stress/tokens.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from stress import tokens as law
from stress.draws import choice, log_integer, log_uniform, pmf
from stress.judged import Answer, Relation, Truth, same
from stress.references import planted as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

SMALL = 5  # tokens at most where subsets are listed: 32 of them


# -- several informative tokens --------------------------------------------------------------------


def _draw_multi(rng: np.random.Generator) -> Setting:
    L = log_integer(rng, 1, SMALL, (1, 2))
    gamma, signal = law.gamma_and_signal(rng)
    kind = choice(rng, ["fixed", "independent", "counts"])
    relevant: Any = int(rng.integers(1, L + 1))
    if kind == "independent":
        relevant = log_uniform(rng, 1e-20, 0.99, (0.5, 1 - 1e-12))
    elif kind == "counts":
        relevant = pmf(rng, L + 1)
    numbers = {
        "dim": log_integer(rng, 2, 6, (2,)),
        "length": L,
        "relevant": relevant,
        "weights": choice(rng, ["equal", "sum", "dirichlet"]),
        "concentration": log_uniform(rng, 1e-6, 1e6),
        "gamma": gamma,
        "signal": signal,
    }
    return law.with_tokens(rng, numbers)


def _multi(setting: Setting) -> at.MultiLocation:
    names = ("dim", "length", "relevant", "weights", "concentration", "gamma", "signal")
    return at.MultiLocation(**{name: setting[name] for name in names})


def _call_multi(setting: Setting) -> Answer:
    task = _multi(setting)
    x = law.tokens_of(task, setting)
    says = np.linalg.norm(x[0], axis=1)
    return law.inferred(
        task.posterior(x),
        task.bayes_predict(x),
        says,
        law.gaussian_delta(x, task.gamma, task.signal),
    )


def _truth_multi(setting: Setting) -> Truth:
    task = _multi(setting)
    x = law.tokens_of(task, setting)[0]
    numbers = (task.gamma, task.signal, task.count_probs, task.weight_moments()[0])
    return law.truth_of(reference.multi_location(x, task.key, task.value, *numbers))


# -- max-type location -----------------------------------------------------------------------------


def _draw_max(rng: np.random.Generator) -> Setting:
    numbers = {
        "dim": log_integer(rng, 2, 6, (2,)),
        "length": log_integer(rng, 1, 30, (1, 2)),
        "strength": log_uniform(rng, 1e-3, 1e6, (0.0,)),
    }
    return law.with_tokens(rng, numbers)


def _max(setting: Setting) -> at.MaxLocation:
    return at.MaxLocation(setting["dim"], setting["length"], setting["strength"])


def _call_max(setting: Setting) -> Answer:
    task = _max(setting)
    x = law.tokens_of(task, setting)
    lengths = np.linalg.norm(x[0], axis=1)
    delta = (
        law.ROUNDINGS
        * law.EPS
        * (task.dim + 4)
        * (1.0 + task.strength * float(lengths.max()))
    )
    return law.inferred(task.location_posterior(x), task.bayes_predict(x), lengths, delta)


def _truth_max(setting: Setting) -> Truth:
    task = _max(setting)
    return law.truth_of(
        reference.max_location(
            law.tokens_of(task, setting)[0], task.key, task.value, task.strength
        )
    )


# -- marked or not ---------------------------------------------------------------------------------


def _draw_sparse(rng: np.random.Generator) -> Setting:
    L = log_integer(rng, 1, SMALL, (1, 2))
    numbers = {
        "dim": log_integer(rng, 1, 6, (1,)),
        "length": L,
        "strength": log_uniform(rng, 1e-3, 50.0, (0.0, 1e4, 1e8)),
        "marked": int(rng.integers(1, L + 1)),
    }
    return law.with_tokens(rng, numbers)


def _sparse(setting: Setting) -> at.SparseTokenClassification:
    return at.SparseTokenClassification(
        *(setting[name] for name in ("dim", "length", "strength", "marked"))
    )


def _call_sparse(setting: Setting) -> Answer:
    """P(y = 1 | X), the tokens' posteriors, and then the log-likelihood ratio."""
    task = _sparse(setting)
    x = law.tokens_of(task, setting)
    delta = law.gaussian_delta(x, 1.0, task.strength)
    p = np.append(task.posterior(x), task.token_posterior(x))
    ratio = float(task.log_likelihood_ratio(x)[0])
    return Answer(np.append(p, ratio), np.append(law.probability_error(p, delta), delta))


def _truth_sparse(setting: Setting) -> Truth:
    task = _sparse(setting)
    ratio, found = reference.sparse_tokens(
        law.tokens_of(task, setting)[0], task.direction, task.strength, task.marked
    )
    return Truth(np.append(found.posterior, ratio))


def _relations_sparse(setting: Setting, answer: Answer) -> Iterable[Relation]:
    yield from law.probabilities(setting, answer)
    task = _sparse(setting)
    label = task.bayes_predict(law.tokens_of(task, setting))[0]
    yield same(
        "the label is the sign of the ratio",
        label,
        1.0 if answer.value[-1] >= 0 else -1.0,
        0.0,
    )
    total = float(np.sum(answer.value[1:-1]))
    slack = float(np.sum(answer.error[:-1])) * (1 + task.marked)
    yield same("a row sums to R P(y = 1 | X)", total, task.marked * answer.value[0], slack)


SUBJECTS = [
    Subject(
        "MultiLocation posterior",
        ("MultiLocation.posterior", "MultiLocation.bayes_predict"),
        _draw_multi,
        _call_multi,
        _truth_multi,
        law.permuted(_multi, 1),
    ),
    Subject(
        "MaxLocation posterior",
        ("MaxLocation.location_posterior", "MaxLocation.bayes_predict"),
        _draw_max,
        _call_max,
        _truth_max,
        law.permuted(_max, 1),
    ),
    Subject(
        "SparseTokenClassification posterior",
        tuple(
            f"SparseTokenClassification.{name}"
            for name in (
                "posterior",
                "token_posterior",
                "log_likelihood_ratio",
                "bayes_predict",
            )
        ),
        _draw_sparse,
        _call_sparse,
        _truth_sparse,
        _relations_sparse,
    ),
]
