"""O(1) spikes and the best linear attention, in closed form and by one integral.

Settings: strength 0..2000, L to 1e300 for spikes; gamma 1e-4..1e4, signal 0..1e8, L to 1e12 for
linear attention.
"""

from __future__ import annotations

import math

import numpy as np

import attnscope as at
from stress.draws import choice, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.location_settings import task_of
from stress.references import location_posterior, single_location, spiked
from stress.subject import Setting, Subject
from stress.subjects.location_tasks import draw_location

__all__ = ["SUBJECTS"]

STANDARD_ERRORS = 6.0  # of a sampled truth against a bounding error: 2e-9 each
RARE = 30.0  # plain draws see an event only if about this many of them fall into it
CLOSED = 1e-13  # relative, for closed forms that return plain numbers
TINY = 1e-300  # below: underflow


def _numbers(setting: Setting) -> tuple[float, float, int]:
    return setting["gamma"], setting["signal"], setting["length"]


def _draw_spiked(rng: np.random.Generator) -> Setting:
    return {
        "strength": log_uniform(rng, 1e-4, 2000, (0.0, 1.0)),
        "length": choice(rng, [2, 3, log_uniform(rng, 2, 1e4), log_uniform(rng, 2, 1e300)]),
    }


def _spiked(setting: Setting) -> Answer:
    found = at.spiked_bayes_risk(setting["strength"], setting["length"])
    return Answer(found.excess, found.error)


def _spiked_truth(setting: Setting) -> Truth | None:
    nu = setting["strength"]
    L = setting["length"]
    if L == 2:
        value = float(location_posterior.pair_error(math.sqrt(nu)))
        return Truth(value, 1e-15 * value + TINY)
    if nu == 0:
        return Truth(1 - 1 / L, 1e-15)
    if int(L) == L and L <= 200:
        found = location_posterior.sampled_risks(2, 1.0, math.sqrt(nu), int(L), 0.0)
        return (
            Truth(found[2], STANDARD_ERRORS * found[3])
            if found[2] > RARE * L / location_posterior.DRAWS
            else None
        )
    return None


def _spiked_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """The other route; more tokens are worse; each wrong token alone costs the pair's risk."""
    nu = setting["strength"]
    L = setting["length"]
    pair = at.spiked_bayes_risk(nu, 2)
    double = at.spiked_bayes_risk(nu, min(2 * L, 1e300))
    most = (L - 1) * pair.excess
    out = [
        at_most(
            "R(L) <= (L-1) R(2)",
            answer.value,
            most,
            answer.error + (L - 1) * pair.error + 1e-15 * most + TINY,
        ),
        at_most(
            "R(L) <= R(2 L)", answer.value, double.excess, answer.error + double.error + TINY
        ),
        at_most("R <= 1 - 1/L", answer.value, 1 - 1 / L, answer.error + 1e-15),
    ]
    if L <= 1e12 and int(L) == L:
        other = at.SingleLocation.spiked(10, int(L), nu).bayes_risk()
        out.append(
            same(
                "SingleLocation.spiked",
                answer.value,
                other.excess,
                answer.error + other.error + TINY,
            )
        )
    return out


def _asymptotic(setting: Setting) -> Answer:
    value = at.spiked_asymptotic(max(setting["strength"], 1e-4), setting["length"])
    return Answer(value, CLOSED * value + TINY)


def _asymptotic_truth(setting: Setting) -> Truth:
    return Truth(float(spiked.asymptotic(max(setting["strength"], 1e-4), setting["length"])))


def _exponent(setting: Setting) -> Answer:
    return Answer(at.spiked_exponent(setting["rate"]), CLOSED)


def _optimum(setting: Setting) -> Answer:
    found = at.linear_optimum(task_of(setting))
    value = np.array([found.risk.excess, found.inverse_temperature, found.offset])
    return Answer(
        value, np.array([found.risk.error, CLOSED * abs(value[1]), CLOSED * abs(value[2])])
    )


def _optimum_truth(setting: Setting) -> Truth:
    exact, slope, offset = single_location.linear_optimum(*_numbers(setting))
    return Truth(
        np.array([float(exact.value), float(slope), float(offset)]),
        np.array([float(exact.size) * 1e-55, 0, 0]),
    )


def _normalised_optimum(setting: Setting) -> Answer:
    found = at.normalised_linear_optimum(task_of(setting))
    return Answer(
        np.array([found.risk.excess, found.slope]),
        np.array([found.risk.error, CLOSED * abs(found.slope)]),
    )


def _normalised_optimum_truth(setting: Setting) -> Truth:
    exact, slope = single_location.normalised_linear(*_numbers(setting))
    return Truth(
        np.array([float(exact.value), float(slope)]), np.array([float(exact.size) * 1e-55, 0])
    )


def _draw_plain(rng: np.random.Generator) -> Setting:
    return draw_location(rng) | {"c": 0.0, "probs": None}


SUBJECTS: list[Subject] = [
    Subject(
        "spiked_bayes_risk",
        ("spiked_bayes_risk",),
        _draw_spiked,
        _spiked,
        _spiked_truth,
        _spiked_relations,
        truths=0.5,
        weight=0.3,
    ),
    Subject(
        "spiked_asymptotic",
        ("spiked_asymptotic",),
        _draw_spiked,
        _asymptotic,
        _asymptotic_truth,
        weight=0.3,
    ),
    Subject(
        "spiked_exponent",
        ("spiked_exponent",),
        lambda rng: {"rate": log_uniform(rng, 1e-4, 10, (0.0, 0.125, 0.5))},
        _exponent,
        lambda s: Truth(spiked.exponent(s["rate"]), 1e-12),
        weight=0.3,
    ),
    Subject("linear_optimum", ("linear_optimum",), _draw_plain, _optimum, _optimum_truth),
    Subject(
        "normalised_linear_optimum",
        ("normalised_linear_optimum",),
        _draw_plain,
        _normalised_optimum,
        _normalised_optimum_truth,
    ),
]
