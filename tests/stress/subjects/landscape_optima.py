"""Best activations and inverse temperatures, the regime of the oracle, reference risks.

Key and value are perpendicular throughout (elsewhere these functions refuse).
"""

from __future__ import annotations

import math

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.location_settings import task_of
from stress.references import optimal_activation
from stress.subject import Setting, Subject
from stress.subjects.landscape import CLOSED, TINY, draw_perpendicular, numbers_of

__all__ = ["SUBJECTS"]

# of a weight sigma*: its logit has terms of size s^2/gam^2, which the settings here keep below 1e4
SIGMA = 1e-11

# -- best activation and inverse temperature
# ---------------------------------------------------------------


def _draw_best(rng: np.random.Generator) -> Setting:
    out = draw_perpendicular(rng) | {
        "gamma": log_uniform(rng, 0.05, 20, (1.0, 0.5**0.5)),
        "signal": log_uniform(rng, 1e-2, 60, (0.0, 1.0)),
    }
    return out | {
        "scores": tuple(float(x) for x in rng.uniform(-5, 5, 3) * (1 + out["signal"]))
    }


def _best(setting: Setting) -> Answer:
    task = task_of(setting)
    sigma = at.optimal_sigma(task)
    found = at.risk(task, sigma, at.Overlaps.oracle())
    weights = sigma.weights(np.array([setting["scores"]]))[0]
    return Answer(
        np.array([found.excess, *weights]), np.array([found.error, *[SIGMA] * len(weights)])
    )


def _best_truth(setting: Setting) -> Truth:
    gam, s, L = numbers_of(setting)
    risk = optimal_activation.least_risk(gam, s, L)
    weights = [float(optimal_activation.weight(u, gam, s, L)) for u in setting["scores"]]
    slack = [
        1e-15 * (10 + (s / gam) ** 2 + u * u * (1 + 1 / gam**2)) for u in setting["scores"]
    ]
    return Truth(
        np.array([float(risk), *weights]), np.array([1e-20 * float(risk) + TINY, *slack])
    )


def _best_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """No activation beats it: not erf, not tanh, and it beats nobody who knows more (Bayes)."""
    task = task_of(setting)
    oracle = at.Overlaps.oracle()
    lam = 1 / (1 + setting["signal"])
    out = []
    for predictor in (at.Erf(lam), at.LinearAttention(lam, 0.1)):
        other = at.risk(task, predictor, oracle)
        name = f"best <= {type(predictor).__name__}"
        out.append(
            at_most(name, answer.value[0], other.excess, answer.error[0] + other.error + TINY)
        )
    if setting["length"] <= 10**6 and setting["dim"] <= 10**5:
        bayes = task.bayes_risk()
        out.append(
            at_most(
                "Bayes <= best",
                bayes.excess,
                answer.value[0],
                answer.error[0] + bayes.error + TINY,
            )
        )
    return out


FAMILIES = {"Erf": at.Erf, "Softmax": at.Softmax, "LinearAttention": at.LinearAttention}


def _draw_inverse_temperature(rng: np.random.Generator) -> Setting:
    kind = choice(rng, ["Erf", "Erf", "LinearAttention", "Softmax"])
    out = draw_perpendicular(rng) | {
        "family": kind,
        "signal": log_uniform(rng, 0.1, 100),
        "gamma": log_uniform(rng, 0.1, 10, (1.0,)),
    }
    out["length"] = log_integer(rng, 1, 10**12 if kind != "Softmax" else 10**5, (1, 2))
    return out


def _inverse_temperature(setting: Setting) -> Answer:
    lam, found = at.optimal_inverse_temperature(task_of(setting), FAMILIES[setting["family"]])
    return Answer(np.array([lam, found.excess]), np.array([0.0, found.error]))


def _inverse_temperature_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """The risk is that of the inverse temperature, and no other inverse temperature on a wide grid
    does better.
    """
    task = task_of(setting)
    make = FAMILIES[setting["family"]]
    best, risk = answer.value
    at_best = at.risk(task, make(best), at.Overlaps.oracle())
    out = [same("risk at the best inverse temperature", risk, at_best.excess, 0.0)]
    for factor in (0.0, 1e-3, 0.1, 0.5, 0.9, 0.99, 1.01, 1.1, 2.0, 10.0):
        other = at.risk(task, make(factor * best if best else factor), at.Overlaps.oracle())
        slack = answer.error[1] + other.error + 1e-12 * other.excess
        out.append(at_most(f"not better at {factor} times it", risk, other.excess, slack))
    return out


def _no_best(setting: Setting) -> str:
    return (
        "alone or far off, a token is better let through at any inverse temperature"
        if setting["length"] == 1
        else ""
    )


def _draw_regime(rng: np.random.Generator) -> Setting:
    return draw_perpendicular(rng) | {
        "inverse_temperature": log_uniform(rng, 1e-6, 1e6, (0.0,))
    }


def _regime(setting: Setting) -> Answer:
    found = at.oracle_regime(task_of(setting), setting["inverse_temperature"])
    value = np.array(found, dtype=float)
    return Answer(value, CLOSED * value + TINY)


def _regime_truth(setting: Setting) -> Truth:
    lam = setting["inverse_temperature"]
    gam, s, L = numbers_of(setting)
    leading = float(optimal_activation.leading_risk(lam, gam, s, L))
    # erfc(x) is as good as x: its logarithm has slope 2 x
    return Truth(
        np.array([lam * s, lam * math.sqrt(L), leading]),
        np.array([0, 0, 1e-15 * (1 + (lam * s) ** 2) * leading]),
    )


def _references(setting: Setting) -> Answer:
    rows = at.reference_risks(
        task_of(setting), at.Erf(setting["inverse_temperature"]), at.Erf
    )
    return Answer(
        np.array([row.risk.excess for row in rows]),
        np.array([row.risk.error for row in rows]),
    )


def _reference_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """Null first, Bayes last and least; the rows in between agree with the functions they name."""
    task = task_of(setting)
    rows = at.reference_risks(task, at.Erf(setting["inverse_temperature"]), at.Erf)
    bayes = rows[-1].risk
    out = [
        at_most(
            f"Bayes <= {row.name}",
            bayes.excess,
            row.risk.excess,
            bayes.error + row.risk.error + TINY,
        )
        for row in rows
    ]
    out.append(same("null", rows[0].risk.value, task.null_risk().value, 0.0))
    out.append(same("linear", rows[1].risk.value, task.linear_risk().value, 0.0))
    return [*out, same("Bayes is last", float(rows[-1].name.startswith("Bayes")), 1.0, 0.0)]


def _draw_references(rng: np.random.Generator) -> Setting:
    out = _draw_best(rng) | {
        "inverse_temperature": log_uniform(rng, 1e-3, 3),
        "dim": log_integer(rng, 2, 10**5),
    }
    return out | {
        "length": log_integer(rng, 1, 10**4, (1, 2)),
        "gamma": log_uniform(rng, 0.3, 3, (1.0,)),
    }


SUBJECTS: list[Subject] = [
    Subject(
        "optimal_sigma",
        ("optimal_sigma", "risk"),
        _draw_best,
        _best,
        _best_truth,
        _best_relations,
        truths=0.3,
        weight=0.5,
    ),
    Subject(
        "optimal_inverse_temperature",
        ("optimal_inverse_temperature",),
        _draw_inverse_temperature,
        _inverse_temperature,
        relations=_inverse_temperature_relations,
        may_refuse=_no_best,
        weight=0.3,
    ),
    Subject(
        "oracle_regime",
        ("oracle_regime",),
        _draw_regime,
        _regime,
        _regime_truth,
        weight=0.3,
    ),
    Subject(
        "reference_risks",
        ("reference_risks",),
        _draw_references,
        _references,
        relations=_reference_relations,
        weight=0.1,
    ),
]
