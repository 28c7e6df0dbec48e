"""Risks, gradients and raw risk functions of attention predictors on single-location regression.

Settings, and what is asked of any predictor: stress/location_settings.py.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import attnscope as at
from attnscope.numerics.border.x64 import x64
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, same
from stress.location_settings import (
    draw_numbers,
    draw_with_inverse_temperature,
    gradient_answer,
    gradient_truth_of,
    reference_arguments,
    risk_answer,
    risk_bounds,
    task_of,
    truth_of,
)
from stress.predictors import plain_predictor
from stress.references import normalised_attention, single_location
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

RAW = 1e-9  # risk_function sums on a fixed grid without an error of its own
STANDARD_ERRORS = 6.0  # of a sampled truth against a bounding error: 2e-9 each
# in the same: about half of it is what a million evaluations serve (docs/risk.md)
# values of (1 + tanh)/2 whose steps, 1e-16, are beyond the 1e-10 that the rules ask of each other
STAIRCASE = 1e-6
NARROWEST = 1e-5
# in standard deviations of the score: narrower features are found by their `scale` alone
NARROW = 1e-3
# radians of sigma in a standard deviation of the score beyond which a quadrature may say that it
# cannot
WAVES = 5e3
# rounding of overlaps, inverse temperature and signal on their way in, relative to the terms
INPUT = 4e-16


# -- token by token --------------------------------------------------------------------------------


def _sigma_risk(
    name: str, predictor: Any, sigma: Any, draw: Any, covers: tuple[str, ...], **more: Any
) -> list[Subject]:
    """Rows for the risk and the gradient of one kind of componentwise predictor."""

    def truth(setting: Setting) -> Truth:
        return truth_of(
            single_location.componentwise_risk(sigma(setting), *reference_arguments(setting)),
            setting,
            _digits(setting),
        )

    def gradient_truth(setting: Setting) -> Truth:
        arguments = sigma(setting), *reference_arguments(setting)
        terms = float(single_location.componentwise_risk(*arguments).size)
        sharp = _sharpness(sigma(setting))
        in_kappa = 1 + setting["inverse_temperature"] * setting["signal"] * sharp
        in_inverse_temperature = (1 + setting["signal"] + setting["gamma"]) * sharp
        floor = terms * np.array([in_kappa, 1, 1, 1, 1, in_inverse_temperature])
        return gradient_truth_of(
            single_location.componentwise_gradient(*arguments), setting, floor
        )

    def _digits(setting: Setting) -> int:
        return single_location._digits(sigma(setting))

    return [
        Subject(
            f"risk({name})",
            ("risk", *covers),
            draw,
            lambda s: risk_answer(s, predictor(s)),
            truth,
            risk_bounds,
            truths=more.get("truths", 1.0),
            weight=more.get("weight", 1.0),
            may_refuse=more.get("may_refuse", lambda s: ""),
        ),
        Subject(
            f"risk_gradient({name})",
            ("risk_gradient", *covers),
            draw,
            lambda s: gradient_answer(s, predictor(s)),
            gradient_truth,
            truths=more.get("gradient_truths", 0.3),
            weight=more.get("weight", 1.0) / 2,
            may_refuse=more.get("may_refuse", lambda s: ""),
        ),
    ]


def _sharpness(sigma: tuple) -> float:
    """1 over the scale in x on which sigma varies."""
    return {"cos": lambda: 1 + sigma[1], "bump": lambda: 1 + 1 / sigma[2]}.get(
        sigma[0], lambda: 1.0
    )()


EVERYWHERE = (-math.inf, math.inf)


def _erf(setting: Setting) -> tuple:
    return ("erf",)


def _linear(setting: Setting) -> tuple:
    return ("pieces", ((*EVERYWHERE, (setting["offset"], 1.0)),))


def _draw_linear(rng: np.random.Generator) -> Setting:
    sign = choice(rng, [-1.0, 1.0])
    return draw_with_inverse_temperature(rng) | {
        "offset": sign * log_uniform(rng, 1e-6, 1e3, (0.0, 1.0, 0.99999))
    }


class Sigma:
    """A user's sigma in NumPy, from the same plain data as the reference's."""

    def __init__(self, data: tuple) -> None:
        self.data = data

    def __call__(self, x: Any) -> Any:
        kind = self.data[0]
        if kind == "tanh":
            return np.tanh(x)
        if kind == "cos":
            return np.cos(self.data[1] * x + self.data[2])
        if kind == "bump":
            return np.exp(-(((x - self.data[1]) / self.data[2]) ** 2))
        if kind == "logistic":
            return 0.5 * (1 + np.tanh(x / 2))
        out = np.zeros_like(x)
        for low, high, coefficients in self.data[1]:
            out = np.where(
                (low <= x) & (x < high),
                np.polynomial.polynomial.polyval(x, coefficients),
                out,
            )
        return out


def _draw_sigma(rng: np.random.Generator) -> Setting:
    kind = choice(rng, ["tanh", "logistic", "cos", "bump", "relu", "steps", "hat"])
    place = float(rng.uniform(-3, 3))
    if kind in ("tanh", "logistic"):
        data: tuple = (kind,)
    elif kind == "cos":
        data = ("cos", log_uniform(rng, 0.1, 100), place)
    elif kind == "bump":
        data = ("bump", place, log_uniform(rng, 1e-3, 10))
    elif kind == "relu":
        start = choice(rng, [0.0, place])
        data = ("pieces", ((start, math.inf, (-start, 1.0)),))
    elif kind == "steps":
        edges = np.sort(rng.uniform(-3, 3, 4))
        data = (
            "pieces",
            tuple(
                (float(a), float(b), (float(rng.normal()),))
                for a, b in itertools.pairwise(edges)
            ),
        )
    else:
        width = log_uniform(rng, 1e-2, 10)
        rise = (1 - place / width, 1 / width)
        fall = (1 + place / width, -1 / width)
        data = ("pieces", ((place - width, place, rise), (place, place + width, fall)))
    out = draw_with_inverse_temperature(rng) | {"sigma": data}
    out["inverse_temperature"] = log_uniform(rng, 1e-4, 1e4, (0.0, 1.0))
    out["length"] = min(out["length"], 10**6)
    return out


def _componentwise(setting: Setting) -> Any:
    data = setting["sigma"]
    kinks = (
        sorted({x for piece in data[1] for x in piece[:2] if math.isfinite(x)})
        if data[0] == "pieces"
        else ()
    )
    return at.Componentwise(
        Sigma(data), setting["inverse_temperature"], kinks=kinks, scale=_hint(setting)
    )


def _hint(setting: Setting) -> float | None:
    """How narrow a bump is, said where nobody would see it:
    docs/risk.md asks for that below NARROW standard deviations.
    """
    data = setting["sigma"]
    spread = setting["inverse_temperature"] * max(1.0, setting["gamma"])  # of the score
    return data[2] if data[0] == "bump" and data[2] < NARROW * spread else None


def _many_waves(setting: Setting) -> str:
    """The budget of a quadrature is a million evaluations."""
    spread = setting["inverse_temperature"] * max(1.0, setting["gamma"])
    if setting["sigma"][0] == "bump" and setting["sigma"][2] < NARROWEST * spread:
        return "a scale that the budget cannot serve"
    if setting["sigma"][0] == "logistic" and _cancels(setting):
        return "the user's sigma is a staircase of its own roundings there"
    if setting["sigma"][0] != "cos":
        return ""
    # radians in a standard deviation
    waves = setting["sigma"][1] * setting["inverse_temperature"] * max(1.0, setting["gamma"])
    return "too many waves for the budget" if waves > WAVES else ""


def _cancels(setting: Setting) -> bool:
    """Whether (1 + tanh)/2 is below STAIRCASE at all scores of the informative token."""
    centre = setting["signal"] * setting["overlaps"][0]
    highest = setting["inverse_temperature"] * (centre + 5 * setting["gamma"])
    return highest < math.log(STAIRCASE)


# -- normalised ------------------------------------------------------------------------------------

KINDS = {
    "softmax": at.Softmax,
    "softmax_one": at.SoftmaxOne,
    "softplus": at.SoftplusAttention,
}


def _draw_normalised(kind: str, rng: np.random.Generator) -> Setting:
    out = draw_with_inverse_temperature(rng)
    # most of the settings below the documented end
    if kind != "softmax" and rng.random() < 0.8:
        out["inverse_temperature"] = log_uniform(
            rng, 1e-6, 60 / max(1.0, out["gamma"]), (0.0,)
        )
    if rng.random() < 0.5:  # half of the settings where a reference reaches
        out["length"] = choice(rng, [1, 2, 2, 2, log_integer(rng, 3, 300)])
    return out


def _normalised_truth(kind: str, setting: Setting) -> Truth | None:
    o, lam, gam, s, L, c = reference_arguments(setting)
    if L == 1:
        return truth_of(
            normalised_attention.single_token(kind, o, lam, gam, s, c), setting, 30
        )
    if L == 2 and kind == "softmax":
        return truth_of(normalised_attention.pair_softmax(o, lam, gam, s, c), setting, 34)
    if L == 2:
        found = normalised_attention.pair_grid(kind, o, lam, gam, s, c)
        return None if found is None else Truth(*found)
    if L <= 300:
        value, error = normalised_attention.sampled(kind, o, lam, gam, s, L, c)
        return Truth(value, STANDARD_ERRORS * error + INPUT * (s * s + gam * gam))
    return None


def _normalised_gradient_truth(kind: str, setting: Setting) -> Truth | None:
    o, lam, gam, s, L, c = reference_arguments(setting)
    if L == 1:
        floor = (s * s + gam * gam) * np.array([1 + lam * s, 1, 1, 1, 1, 1 + s + gam])
        return gradient_truth_of(
            normalised_attention.single_token_gradient(kind, o, lam, gam, s, c),
            setting,
            floor,
        )
    if L == 2 and kind == "softmax":
        return gradient_truth_of(
            normalised_attention.pair_softmax_gradient(o, lam, gam, s, c), setting
        )
    return None


def _steep(kind: str, setting: Setting) -> str:
    """The documented ends of the two-dimensional rules."""
    lam = setting["inverse_temperature"]
    gam = setting["gamma"]
    s = setting["signal"]
    if kind != "softmax":
        return (
            "inverse temperature beyond 60/max(1, gamma)" if lam * max(1.0, gam) > 60 else ""
        )
    return (
        "scores too large for the two-dimensional rule"
        if lam * (s + max(1.0, gam)) > 1e3
        else ""
    )


def _normalised(kind: str) -> list[Subject]:
    make = KINDS[kind]
    return [
        Subject(
            f"risk({make.__name__})",
            ("risk", make.__name__),
            lambda rng: _draw_normalised(kind, rng),
            lambda s: risk_answer(s, make(s["inverse_temperature"])),
            lambda s: _normalised_truth(kind, s),
            risk_bounds,
            lambda s: _steep(kind, s),
            truths=0.5,
        ),
        Subject(
            f"risk_gradient({make.__name__})",
            ("risk_gradient", make.__name__),
            lambda rng: _draw_normalised(kind, rng),
            lambda s: gradient_answer(s, make(s["inverse_temperature"])),
            lambda s: _normalised_gradient_truth(kind, s),
            may_refuse=lambda s: _steep(kind, s),
            truths=0.3 if kind == "softplus" else 0.05,
            weight=0.5,
        ),
    ]


# -- the raw function ------------------------------------------------------------------------------


def _raw(setting: Setting) -> Answer:
    task = task_of(setting)
    o = at.Overlaps(*setting["overlaps"])
    predictor = plain_predictor(setting)
    with x64():
        value = float(at.risk_function(task, predictor)(o, setting["inverse_temperature"]))
    exact = at.risk(task, predictor, o)
    return Answer(value, RAW * (exact.excess + task.gamma**2 + task.signal**2) + exact.error)


def _raw_relation(setting: Setting, answer: Answer) -> list[Relation]:
    exact = at.risk(
        task_of(setting), plain_predictor(setting), at.Overlaps(*setting["overlaps"])
    )
    return [same("risk_function = risk", answer.value, exact.excess, answer.error)]


def _draw_raw(rng: np.random.Generator) -> Setting:
    out = draw_numbers(rng, longest=10**4, signals=100.0)
    out["gamma"] = log_uniform(rng, 0.1, 10)
    inverse_temperature = log_uniform(rng, 1e-3, 3)
    kind = choice(rng, ["erf", "linear", "softmax"])
    if kind == "softmax":  # as far as the fixed grid is promised to resolve it
        wide = max(1.0, out["gamma"])
        reach = (192 - 2 * np.log(out["length"])) / (out["signal"] + 12 * wide)
        inverse_temperature = min(inverse_temperature, 5.6 / wide, float(reach))
    return out | {"inverse_temperature": inverse_temperature, "kind": kind}


SUBJECTS: list[Subject] = [
    *_sigma_risk(
        "Erf",
        lambda s: at.Erf(s["inverse_temperature"]),
        _erf,
        draw_with_inverse_temperature,
        ("Erf",),
    ),
    *_sigma_risk(
        "LinearAttention",
        lambda s: at.LinearAttention(s["inverse_temperature"], s["offset"]),
        _linear,
        _draw_linear,
        ("LinearAttention",),
        gradient_truths=1.0,
    ),
    *_sigma_risk(
        "Componentwise",
        _componentwise,
        lambda s: s["sigma"],
        _draw_sigma,
        ("Componentwise",),
        truths=0.6,
        gradient_truths=0.15,
        may_refuse=_many_waves,
        weight=2.0,
    ),
    *(subject for kind in KINDS for subject in _normalised(kind)),
    Subject(
        "risk_function",
        ("risk_function",),
        _draw_raw,
        _raw,
        relations=_raw_relation,
        weight=0.3,
    ),
]
