"""Settings of single-location regression with overlaps, and what is asked of any predictor there.

Settings: any feasible overlaps, key and value orthogonal or not, gamma 1e-4..1e4, signal 0..1e8,
inverse temperature 0..1e6, L to 1e12, d to 1e9. Gradients carry no error: GRADIENT times the size
of the terms that make them up is what is asked.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import attnscope as at
from stress.draws import CORNER, choice, log_integer, log_uniform, overlaps
from stress.judged import Answer, Relation, Truth, at_most
from stress.references import single_location
from stress.subject import Setting

__all__ = [
    "draw_numbers",
    "draw_with_inverse_temperature",
    "gradient_answer",
    "gradient_truth_of",
    "reference_arguments",
    "risk_answer",
    "risk_bounds",
    "task_of",
    "truth_of",
]

# gradients are exact to rounding of their terms, quadratures behind them to 1e-10
GRADIENT = 1e-9

INFEASIBLE = (
    # a Gram matrix with eigenvalue -x is that of vectors moved by about x; ten of them bound what
    # is moved
    10.0
)

EPS = 2.2e-16

# -- settings --------------------------------------------------------------------------------------


def draw_numbers(
    rng: np.random.Generator,
    oblique: bool = True,
    longest: int = 10**12,
    signals: float = 1e8,
) -> Setting:
    """dim, length, gamma, signal, noise, c of a task, and overlaps that some vectors have."""
    out: Setting = {
        "dim": log_integer(rng, 4, 10**9, (4, 5)),
        "length": log_integer(rng, 1, longest, (1, 2)),
        "gamma": log_uniform(rng, 1e-4, 1e4, (1.0, 0.5**0.5)),
        "signal": log_uniform(rng, 1e-3, min(1e4, signals), (0.0, 1.0, signals)),
        "noise": log_uniform(rng, 1e-6, 1e2, (0.0,)),
        "c": 0.0,
        "overlaps": overlaps(rng),
    }
    if oblique and rng.random() < CORNER:
        out["dim"] = 5
        out["c"] = choice(rng, [1.0, -1.0, 0.5, float(rng.uniform(-1, 1)), 1e-6, 1 - 1e-9])
        out["overlaps"] = _oblique(rng, out["c"])
    return out


def _oblique(rng: np.random.Generator, c: float) -> tuple[float, ...]:
    """Overlaps of unit vectors k, v in R^5 with key = e1 and value = c e1 + sqrt(1 - c^2) e2."""
    value = np.array([c, math.sqrt(1 - c * c), 0, 0, 0])
    if rng.random() < CORNER:
        return 1.0, c, c, 1.0, c
    k, v = rng.standard_normal((2, 5))
    k = k / np.linalg.norm(k)
    v = v / np.linalg.norm(v)
    return float(k[0]), float(k @ value), float(v[0]), float(v @ value), float(k @ v)


def task_of(setting: Setting) -> at.SingleLocation:
    """The task of a setting; key and value are given only where they are not orthogonal."""
    numbers = {name: setting[name] for name in ("dim", "length", "gamma", "signal", "noise")}
    c = setting.get("c", 0.0)
    if c:
        key, value = np.zeros((2, setting["dim"]))
        key[0] = 1.0
        value[:2] = c, math.sqrt(1 - c * c)
        numbers |= {"key": key, "value": value}
    return at.SingleLocation(**numbers)


def draw_with_inverse_temperature(rng: np.random.Generator, **limits: Any) -> Setting:
    return draw_numbers(rng, **limits) | {
        "inverse_temperature": log_uniform(rng, 1e-6, 1e6, (0.0, 1.0))
    }


def reference_arguments(setting: Setting) -> tuple:
    task = task_of(setting)
    names = ("overlaps", "inverse_temperature", "gamma", "signal", "length")
    return (*(setting[name] for name in names), task.alignment)


def _moved(setting: Setting) -> float:
    """How far overlaps that no vectors have are moved:
    by what they miss, and by the rounding of the Gram matrix that tells.
    """
    defect = single_location.gram_defect(setting["overlaps"], task_of(setting).alignment)
    return INFEASIBLE * (defect + EPS) if defect > 0 else 0.0


def truth_of(exact: single_location.Exact, setting: Setting, digits: int) -> Truth:
    """A reference's value, with its rounding, that of the inputs,
    and what overlaps that no vectors have are worth.
    """
    defect = _moved(setting)
    # the scale on which the risk varies with kappa
    defect *= 1 + setting["inverse_temperature"] * setting["signal"]
    return Truth(
        float(exact.value), float(exact.size) * (10.0 ** (8 - digits) + defect) + 1e-307
    )


# -- what is asked of a predictor ------------------------------------------------------------------


def risk_answer(setting: Setting, predictor: Any) -> Answer:
    found = at.risk(task_of(setting), predictor, at.Overlaps(*setting["overlaps"]))
    return Answer(found.excess, found.error)


def gradient_answer(setting: Setting, predictor: Any) -> Answer:
    """The six partial derivatives; what is allowed is in the truth's error."""
    found = at.risk_gradient(task_of(setting), predictor, at.Overlaps(*setting["overlaps"]))
    return Answer(np.array(found, dtype=float), np.zeros(6))


def gradient_truth_of(
    parts: list[single_location.Exact], setting: Setting, floor: np.ndarray | float = 0.0
) -> Truth:
    """The derivatives; allowed are GRADIENT of their terms, and of the risk's own terms over the
    scale on which it varies (floor).
    """
    size = np.array([float(part.size) for part in parts]) + floor
    defect = _moved(setting)
    return Truth(
        np.array([float(part.value) for part in parts]), size * (GRADIENT + defect) + 1e-300
    )


def risk_bounds(setting: Setting, answer: Answer) -> list[Relation]:
    """No predictor beats the Bayes predictor; a risk is never negative;
    the label noise adds its square.
    """
    task = task_of(setting)
    out = [at_most("0 <= risk", 0.0, answer.value, answer.error)]
    if _bayes_in_reach(setting) and setting["length"] <= 1000:
        bayes = task.bayes_risk()
        out.append(
            at_most("Bayes <= risk", bayes.excess, answer.value, bayes.error + answer.error)
        )
    return out


def _bayes_in_reach(setting: Setting) -> bool:
    return (
        setting["signal"] <= 100 and 0.05 <= setting["gamma"] <= 5 and setting["dim"] <= 10**5
    )
