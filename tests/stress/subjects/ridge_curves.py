"""Learning curves of ridge fits: key and value together, the key known, the best ridge.

Settings: alpha 0.05..50, strength 0.1..30, noise^2 1e-3..2, ridges 1e-2..100, inverse temperatures
and offsets; softmax on two tokens (with the key known up to eight), linear attention to 20. The
reference draws whole bags and solves the equations for them; with the key known it draws weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.special import softmax

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import ridge_curves
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

BAGS = 8000  # the reference's risk to a percent
# of the reference's own error: 20 groups know it to 16 %, and it is of first order in 1/BAGS
DOUBLED = 2.0
WEIGHTS = 40_000
GROUPS = 20


def _draw(rng: np.random.Generator) -> Setting:
    kind = choice(rng, ["softmax", "linear"])
    return {
        "kind": kind,
        "length": 2 if kind == "softmax" else log_integer(rng, 2, 20, (2, 3)),
        "strength": log_uniform(rng, 0.1, 30, (5.0,)),
        "variance": log_uniform(rng, 1e-3, 2, (0.1,)),
        "alpha": log_uniform(rng, 0.05, 50, (1.0, 2.0)),
        "ridge": (log_uniform(rng, 1e-2, 100, (0.5,)), log_uniform(rng, 1e-2, 100, (0.5,))),
        "inverse_temperature": log_uniform(rng, 0.2, 5, (1.0,)),
        "offset": choice(rng, [1.0, 0.5, -2.0]),
        "seed": int(rng.integers(1 << 31)),
    }


def _task(setting: Setting) -> at.SingleLocation:
    noise = math.sqrt(setting["variance"])
    return at.SingleLocation.spiked(100, setting["length"], setting["strength"], noise)


def _predictor(setting: Setting) -> Any:
    if setting["kind"] == "softmax":
        return at.Softmax(setting["inverse_temperature"])
    return at.LinearAttention(setting["inverse_temperature"], offset=setting["offset"])


def _units(setting: Setting) -> np.ndarray:
    """k = units[0] k~, v = units[1] v~: the fit's own letters against the predictor's."""
    tau = setting["inverse_temperature"]
    b = setting["offset"]
    return np.array([tau, 1.0]) if setting["kind"] == "softmax" else np.array([tau / b, b])


def _fit(setting: Setting) -> Answer:
    curve = at.learning_curve(
        _task(setting), setting["alpha"], _predictor(setting), setting["ridge"]
    )
    units = _units(setting)
    overlaps = np.array([curve.key_overlap, curve.value_overlap]) * units
    value = np.array([curve.risk.excess, *overlaps])
    return Answer(
        value, np.array([curve.risk.error, *(curve.overlap_error * abs(units))]), True
    )


def _fit_truth(setting: Setting) -> Truth | None:
    ridge = np.array(setting["ridge"]) / _units(setting) ** 2
    case = ridge_curves.Case(
        setting["kind"] == "softmax",
        setting["length"],
        setting["alpha"],
        setting["strength"],
        setting["variance"],
        *(float(x) for x in ridge),
    )
    found = ridge_curves.saddle(case, BAGS, setting["seed"])
    return None if found is None else Truth(found[0][:3], DOUBLED * found[1][:3])


def _fit_relations(setting: Setting, answer: Answer) -> Iterable[Relation]:
    """The Bayes curve is below."""
    bayes = at.learning_curve(_task(setting), setting["alpha"], branch="best").risk
    error = bayes.error + 5 * answer.error[0]
    yield at_most("Bayes-optimal <= fit", bayes.excess, answer.value[0], error)


# -- the key known ---------------------------------------------------------------------------------


def _draw_known(rng: np.random.Generator) -> Setting:
    setting = _draw(rng)
    length = log_integer(rng, 2, 8, (2, 3)) if setting["kind"] == "softmax" else None
    overlap = log_uniform(rng, 0.1, 3, (1.0,))
    return setting | {
        "length": length or setting["length"],
        "variance": choice(rng, [0.0, setting["variance"]]),
        "ridge": setting["ridge"][1],
        "key": (overlap, overlap**2 * log_uniform(rng, 1.0, 4.0, (1.0,))),
    }


def _known(setting: Setting) -> Answer:
    curve = at.learning_curve(
        _task(setting),
        setting["alpha"],
        _predictor(setting),
        setting["ridge"],
        key=setting["key"],
    )
    scale = _units(setting)[1]
    value = np.array([curve.risk.excess, curve.value_overlap * scale])
    return Answer(value, np.array([curve.risk.error, curve.overlap_error * abs(scale)]), True)


def _known_truth(setting: Setting) -> Truth:
    scale, value_scale = _units(setting)
    rng = np.random.default_rng(setting["seed"])
    overlap, square = setting["key"]
    u = abs(scale) * math.sqrt(square) * rng.standard_normal((WEIGHTS, setting["length"]))
    u[:, 0] += math.sqrt(setting["strength"]) * scale * overlap
    sig = softmax(u, axis=1) if setting["kind"] == "softmax" else 1 + u
    rest = (setting["alpha"], setting["ridge"] / value_scale**2, setting["variance"])
    whole = ridge_curves.fixed_key(sig, *rest)
    groups = [ridge_curves.fixed_key(part, *rest) for part in np.split(sig, GROUPS)]
    error = np.std(groups, axis=0, ddof=1) / math.sqrt(GROUPS)
    return Truth(np.array(whole), DOUBLED * error)


# -- the best ridge --------------------------------------------------------------------------------


def _draw_best(rng: np.random.Generator) -> Setting:
    return {
        "kind": "linear",
        "length": log_integer(rng, 2, 6, (2,)),
        "strength": log_uniform(rng, 1, 20, (5.0,)),
        "variance": log_uniform(rng, 0.01, 1, (0.1,)),
        "alpha": log_uniform(rng, 0.5, 10, (2.0,)),
        "inverse_temperature": 1.0,
        "offset": 1.0,
        "aside": float(rng.uniform(0.3, 1.0)),
    }


def _best(setting: Setting) -> Answer:
    best = at.best_ridge(_task(setting), setting["alpha"], _predictor(setting))
    value = np.array([best.risk.excess, best.key, best.value])
    return Answer(value, np.array([best.risk.error, 1e-12, 1e-12]), True)


def _best_relations(setting: Setting, answer: Answer) -> Iterable[Relation]:
    """Its risk is that of the curve there, and no less beside it."""
    risk, *ridge = answer.value
    ask = (_task(setting), setting["alpha"], _predictor(setting))
    here = at.learning_curve(*ask, tuple(ridge)).risk
    yield same("the curve at this ridge", here.excess, risk, 1e-9 * abs(risk), False)
    for sign in (1, -1):
        aside = [x * math.exp(sign * setting["aside"]) for x in ridge]
        other = at.learning_curve(*ask, tuple(aside), unstable="return").risk
        slack = 5 * (answer.error[0] + other.error)
        yield at_most("no less beside it", risk, other.excess, slack)


SUBJECTS: list[Subject] = [
    Subject(
        "learning_curve, fitted",
        ("learning_curve",),
        _draw,
        _fit,
        _fit_truth,
        _fit_relations,
        may_refuse=lambda setting: "replica symmetry may fail",
        weight=0.03,
    ),
    Subject(
        "learning_curve, key known",
        ("learning_curve",),
        _draw_known,
        _known,
        _known_truth,
        weight=0.1,
    ),
    Subject(
        "best_ridge",
        ("best_ridge",),
        _draw_best,
        _best,
        relations=_best_relations,
        may_refuse=lambda setting: "no ridge may be stable",
        weight=0.01,
    ),
]
