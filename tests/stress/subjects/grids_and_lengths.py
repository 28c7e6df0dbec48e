"""Posteriors on a grid and of sequences of random length: marginals and padding of the
single-location posterior.

A logit is a sum of terms of size |x|^2 (1 + 1/gam^2) + s |x|/gam^2; ROUNDING of its size moves a
probability p by as much of p.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from stress.draws import log_integer, log_uniform, pmf
from stress.judged import Answer, Relation, Truth, same
from stress.references import location_posterior
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

ROUNDING = 1e-14  # fifty roundings
TINY = 1e-300  # underflow


def _draw(rng: np.random.Generator) -> Setting:
    return {
        "rows": int(rng.integers(1, 4)),
        "columns": int(rng.integers(1, 4)),
        "dim": log_integer(rng, 2, 30, [2, 3]),
        "gamma": log_uniform(rng, 1e-2, 1e2, [1.0, 0.5**0.5]),
        "signal": log_uniform(rng, 1e-3, 1e3, [0.0, 1.0]),
        "size": log_uniform(rng, 1e-2, 1e2, [1.0]),
        "law": [float(p) for p in pmf(rng, 3)],
        "seed": int(rng.integers(2**31)),
    }


def _tokens(s: Setting) -> np.ndarray:
    cells = s["rows"] * s["columns"]
    return s["size"] * np.random.default_rng(s["seed"]).standard_normal((1, cells, s["dim"]))


def _exact(task: Any, x: np.ndarray) -> tuple[np.ndarray, float]:
    """(posterior of the location, E[Y | X]) of one sequence x (L, d)."""
    p, mean = location_posterior.posterior(
        x, task.key, task.gamma, task.signal, np.zeros(len(x)), task.value
    )
    return np.array([float(q) for q in p]), float(mean)


def _logit_size(s: Setting, x: np.ndarray) -> float:
    squares = float(np.sum(x**2, axis=-1).max())
    return 1 + (1 + s["gamma"] ** -2) * squares + s["signal"] * squares**0.5 / s["gamma"] ** 2


# -- grids -----------------------------------------------------------------------------------------


def _grid(s: Setting) -> at.GridLocation:
    return at.GridLocation(s["rows"], s["columns"], s["dim"], s["gamma"], signal=s["signal"])


def _call_grid(s: Setting) -> Answer:
    x = _tokens(s)
    value = np.concatenate([_grid(s).row_posterior(x)[0], _grid(s).column_posterior(x)[0]])
    return Answer(value, np.minimum(ROUNDING * _logit_size(s, x), 1.0) * np.ones(len(value)))


def _true_grid(s: Setting) -> Truth:
    p, _ = _exact(_grid(s), _tokens(s)[0])
    cells = p.reshape(s["rows"], s["columns"])
    return Truth(np.concatenate([cells.sum(axis=1), cells.sum(axis=0)]))


def _grid_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    yield same("rows sum to 1", float(np.sum(a.value[: s["rows"]])), 1.0, 1e-14)
    yield same("columns sum to 1", float(np.sum(a.value[s["rows"] :])), 1.0, 1e-14)


# -- random lengths --------------------------------------------------------------------------------


def _random_length(s: Setting) -> at.RandomLength:
    task = at.SingleLocation(s["dim"], 1, s["gamma"], signal=s["signal"])
    longest = s["rows"] * s["columns"]
    return at.RandomLength(
        task, dict(zip(range(longest, longest + 3), s["law"], strict=True))
    )


def _padded(s: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Tokens with two places of padding, whose content must not matter, and the mask."""
    x = _tokens(s)
    mask = np.arange(x.shape[1] + 2)[None] < x.shape[1]
    return np.concatenate([x, np.full((1, 2, s["dim"]), 1e6)], axis=1), mask


def _call_length(s: Setting) -> Answer:
    task = _random_length(s)
    p = task.location_posterior(*_padded(s))[0]
    mean = float(task.bayes_predict(*_padded(s))[0])
    x = _tokens(s)
    slack = min(ROUNDING * _logit_size(s, x), 1.0)
    largest = float(np.abs(x @ task.value).max()) + 1e-2 * float(np.abs(x).max())
    return Answer([*p, mean], [slack] * len(p) + [len(p) * slack * largest + TINY])


def _true_length(s: Setting) -> Truth:
    task = at.SingleLocation(s["dim"], 1, s["gamma"], signal=s["signal"])
    p, mean = _exact(task, _tokens(s)[0])
    return Truth([*p, 0.0, 0.0, mean])


def _length_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task = _random_length(s)
    yield same("a posterior sums to 1", float(np.sum(a.value[:-1])), 1.0, 1e-14)
    yield same("padding has none of it, to the bit", a.value[-3:-1], [0.0, 0.0], 0.0)
    found = task.average(lambda fixed: fixed.null_risk())
    parts = [fixed.null_risk().excess for fixed in task.fixed]
    mean = float(np.dot(task.probs, parts))
    yield same("an average over lengths", found.excess, mean, found.error + 1e-14 * mean)


SUBJECTS: list[Subject] = [
    Subject(
        "GridLocation.row_posterior, column_posterior",
        ("GridLocation.row_posterior", "GridLocation.column_posterior"),
        _draw,
        _call_grid,
        _true_grid,
        _grid_relations,
        weight=0.5,
    ),
    Subject(
        "RandomLength.location_posterior, bayes_predict, average",
        (
            "RandomLength.location_posterior",
            "RandomLength.bayes_predict",
            "RandomLength.average",
        ),
        _draw,
        _call_length,
        _true_length,
        _length_relations,
        weight=0.5,
    ),
]
