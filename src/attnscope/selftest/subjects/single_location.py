"""Risks, gradients and raw risk functions of attention predictors on single-location regression.

Settings: any feasible overlaps, key and value orthogonal or not, gamma 1e-4..1e4, signal 0..1e8, temperature 0..1e6, L to 1e12, d to 1e9.
Gradients carry no error: GRADIENT times the size of the terms that make them up is what is asked.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import attnscope as at
from attnscope.numerics.x64 import x64
from attnscope.selftest.draws import CORNER, choice, log_integer, log_uniform, overlaps
from attnscope.selftest.references import normalised_attention, single_location
from attnscope.selftest.subject import Answer, Relation, Setting, Subject, Truth, at_most, same

__all__ = ["SUBJECTS", "draw_numbers", "task_of", "truth_of"]

GRADIENT = 1e-9  # gradients are exact to rounding of their terms, quadratures behind them to 1e-10
RAW = 1e-9  # risk_function sums on a fixed grid without an error of its own
STANDARD_ERRORS = 6.0  # of a sampled truth against a bounding error: 2e-9 each
INFEASIBLE = (
    10.0  # a Gram matrix with eigenvalue -x is that of vectors moved by about x; ten of them bound what is moved
)
EPS = 2.2e-16
NARROWEST = 1e-5  # in the same: about half of it is what a million evaluations serve (docs/risk.md)
NARROW = 1e-3  # in standard deviations of the score: narrower features are found by their `scale` alone
WAVES = 5e3  # radians of sigma in a standard deviation of the score beyond which a quadrature may say that it cannot
INPUT = 4e-16  # rounding of overlaps, temperature and signal on their way in, relative to the terms


# -- settings -----------------------------------------------------------------------------------------------------------


def draw_numbers(
    rng: np.random.Generator, oblique: bool = True, longest: int = 10**12, signals: float = 1e8
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
    k, v = k / np.linalg.norm(k), v / np.linalg.norm(v)
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


def _drawn(rng: np.random.Generator, **limits: Any) -> Setting:
    return draw_numbers(rng, **limits) | {"temperature": log_uniform(rng, 1e-6, 1e6, (0.0, 1.0))}


def _reference_arguments(setting: Setting) -> tuple:
    task = task_of(setting)
    names = ("overlaps", "temperature", "gamma", "signal", "length")
    return (*(setting[name] for name in names), task.alignment)


def _moved(setting: Setting) -> float:
    """How far overlaps that no vectors have are moved: by what they miss, and by the rounding of the Gram matrix that tells."""
    defect = single_location.gram_defect(setting["overlaps"], task_of(setting).alignment)
    return INFEASIBLE * (defect + EPS) if defect > 0 else 0.0


def truth_of(exact: single_location.Exact, setting: Setting, digits: int) -> Truth:
    """A reference's value, with its rounding, that of the inputs, and what overlaps that no vectors have are worth."""
    defect = _moved(setting)
    defect *= 1 + setting["temperature"] * setting["signal"]  # the scale on which the risk varies with kappa
    return Truth(float(exact.value), float(exact.size) * (10.0 ** (8 - digits) + defect) + 1e-307)


# -- what is asked of a predictor -----------------------------------------------------------------------------------------


def _answer(setting: Setting, predictor: Any) -> Answer:
    found = at.risk(task_of(setting), predictor, at.Overlaps(*setting["overlaps"]))
    return Answer(found.excess, found.error)


def _gradient_answer(setting: Setting, predictor: Any) -> Answer:
    """The six partial derivatives; what is allowed is in the truth's error."""
    found = at.risk_gradient(task_of(setting), predictor, at.Overlaps(*setting["overlaps"]))
    return Answer(np.array(found, dtype=float), np.zeros(6))


def _gradient_truth(parts: list[single_location.Exact], setting: Setting, floor: np.ndarray | float = 0.0) -> Truth:
    """The derivatives; allowed are GRADIENT of their terms, and of the risk's own terms over the scale on which it varies (floor)."""
    size = np.array([float(part.size) for part in parts]) + floor
    defect = _moved(setting)
    return Truth(np.array([float(part.value) for part in parts]), size * (GRADIENT + defect) + 1e-300)


def _bounds(setting: Setting, answer: Answer) -> list[Relation]:
    """No predictor beats the Bayes predictor; a risk is never negative; the label noise adds its square."""
    task = task_of(setting)
    out = [at_most("0 <= risk", 0.0, answer.value, answer.error)]
    if _bayes_in_reach(setting) and setting["length"] <= 1000:
        bayes = task.bayes_risk()
        out.append(at_most("Bayes <= risk", bayes.excess, answer.value, bayes.error + answer.error))
    return out


def _bayes_in_reach(setting: Setting) -> bool:
    return setting["signal"] <= 100 and 0.05 <= setting["gamma"] <= 5 and setting["dim"] <= 10**5


# -- token by token -------------------------------------------------------------------------------------------------------


def _sigma_risk(
    name: str, predictor: Any, sigma: Any, draw: Any, covers: tuple[str, ...], **more: Any
) -> list[Subject]:
    """Rows for the risk and the gradient of one kind of componentwise predictor."""

    def truth(setting: Setting) -> Truth:
        return truth_of(
            single_location.componentwise_risk(sigma(setting), *_reference_arguments(setting)),
            setting,
            _digits(setting),
        )

    def gradient_truth(setting: Setting) -> Truth:
        arguments = sigma(setting), *_reference_arguments(setting)
        terms = float(single_location.componentwise_risk(*arguments).size)
        sharp = _sharpness(sigma(setting))
        in_kappa = 1 + setting["temperature"] * setting["signal"] * sharp
        in_temperature = (1 + setting["signal"] + setting["gamma"]) * sharp
        floor = terms * np.array([in_kappa, 1, 1, 1, 1, in_temperature])
        return _gradient_truth(single_location.componentwise_gradient(*arguments), setting, floor)

    def _digits(setting: Setting) -> int:
        return single_location._digits(sigma(setting))

    return [
        Subject(
            f"risk({name})", ("risk", *covers), draw, lambda s: _answer(s, predictor(s)), truth, _bounds,
            truths=more.get("truths", 1.0), weight=more.get("weight", 1.0), may_refuse=more.get("may_refuse", lambda s: ""),
        ),
        Subject(
            f"risk_gradient({name})", ("risk_gradient", *covers), draw, lambda s: _gradient_answer(s, predictor(s)),
            gradient_truth, truths=more.get("gradient_truths", 0.3), weight=more.get("weight", 1.0) / 2,
            may_refuse=more.get("may_refuse", lambda s: ""),
        ),
    ]  # fmt: skip


def _sharpness(sigma: tuple) -> float:
    """1 over the scale in x on which sigma varies."""
    return {"cos": lambda: 1 + sigma[1], "bump": lambda: 1 + 1 / sigma[2]}.get(sigma[0], lambda: 1.0)()


EVERYWHERE = (-math.inf, math.inf)


def _erf(setting: Setting) -> tuple:
    return ("erf",)


def _linear(setting: Setting) -> tuple:
    return ("pieces", ((*EVERYWHERE, (setting["offset"], 1.0)),))


def _draw_linear(rng: np.random.Generator) -> Setting:
    sign = choice(rng, [-1.0, 1.0])
    return _drawn(rng) | {"offset": sign * log_uniform(rng, 1e-6, 1e3, (0.0, 1.0, 0.99999))}


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
            out = np.where((low <= x) & (x < high), np.polynomial.polynomial.polyval(x, coefficients), out)
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
            tuple((float(a), float(b), (float(rng.normal()),)) for a, b in itertools.pairwise(edges)),
        )
    else:
        width = log_uniform(rng, 1e-2, 10)
        rise, fall = (1 - place / width, 1 / width), (1 + place / width, -1 / width)
        data = ("pieces", ((place - width, place, rise), (place, place + width, fall)))
    out = _drawn(rng) | {"sigma": data}
    out["temperature"] = log_uniform(rng, 1e-4, 1e4, (0.0, 1.0))
    out["length"] = min(out["length"], 10**6)
    return out


def _componentwise(setting: Setting) -> Any:
    data = setting["sigma"]
    kinks = sorted({x for piece in data[1] for x in piece[:2] if math.isfinite(x)}) if data[0] == "pieces" else ()
    return at.Componentwise(Sigma(data), setting["temperature"], kinks=kinks, scale=_hint(setting))


def _hint(setting: Setting) -> float | None:
    """How narrow a bump is, said where nobody would see it: docs/risk.md asks for that below NARROW standard deviations."""
    data = setting["sigma"]
    spread = setting["temperature"] * max(1.0, setting["gamma"])  # of the score
    return data[2] if data[0] == "bump" and data[2] < NARROW * spread else None


def _many_waves(setting: Setting) -> str:
    """The budget of a quadrature is a million evaluations."""
    spread = setting["temperature"] * max(1.0, setting["gamma"])
    if setting["sigma"][0] == "bump" and setting["sigma"][2] < NARROWEST * spread:
        return "a scale that the budget cannot serve"
    if setting["sigma"][0] != "cos":
        return ""
    waves = setting["sigma"][1] * setting["temperature"] * max(1.0, setting["gamma"])  # radians in a standard deviation
    return "too many waves for the budget" if waves > WAVES else ""


# -- normalised -------------------------------------------------------------------------------------------------------------

KINDS = {"softmax": at.Softmax, "softmax_one": at.SoftmaxOne, "softplus": at.SoftplusAttention}


def _draw_normalised(kind: str, rng: np.random.Generator) -> Setting:
    out = _drawn(rng)
    if kind != "softmax" and rng.random() < 0.8:  # most of the settings below the documented end
        out["temperature"] = log_uniform(rng, 1e-6, 60 / max(1.0, out["gamma"]), (0.0,))
    if rng.random() < 0.5:  # half of the settings where a reference reaches
        out["length"] = choice(rng, [1, 2, 2, 2, log_integer(rng, 3, 300)])
    return out


def _normalised_truth(kind: str, setting: Setting) -> Truth | None:
    o, lam, gam, s, L, c = _reference_arguments(setting)
    if L == 1:
        return truth_of(normalised_attention.single_token(kind, o, lam, gam, s, c), setting, 30)
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
    o, lam, gam, s, L, c = _reference_arguments(setting)
    if L == 1:
        floor = (s * s + gam * gam) * np.array([1 + lam * s, 1, 1, 1, 1, 1 + s + gam])
        return _gradient_truth(normalised_attention.single_token_gradient(kind, o, lam, gam, s, c), setting, floor)
    if L == 2 and kind == "softmax":
        return _gradient_truth(normalised_attention.pair_softmax_gradient(o, lam, gam, s, c), setting)
    return None


def _steep(kind: str, setting: Setting) -> str:
    """The documented ends of the two-dimensional rules."""
    lam, gam, s = setting["temperature"], setting["gamma"], setting["signal"]
    if kind != "softmax":
        return "temperature beyond 60/max(1, gamma)" if lam * max(1.0, gam) > 60 else ""
    return "scores too large for the two-dimensional rule" if lam * (s + max(1.0, gam)) > 1e3 else ""


def _normalised(kind: str) -> list[Subject]:
    make = KINDS[kind]
    return [
        Subject(
            f"risk({make.__name__})", ("risk", make.__name__), lambda rng: _draw_normalised(kind, rng), lambda s: _answer(s, make(s["temperature"])),
            lambda s: _normalised_truth(kind, s), _bounds, lambda s: _steep(kind, s), truths=0.5,
        ),
        Subject(
            f"risk_gradient({make.__name__})", ("risk_gradient", make.__name__), lambda rng: _draw_normalised(kind, rng),
            lambda s: _gradient_answer(s, make(s["temperature"])), lambda s: _normalised_gradient_truth(kind, s),
            may_refuse=lambda s: _steep(kind, s), truths=0.3 if kind == "softplus" else 0.05, weight=0.5,
        ),
    ]  # fmt: skip


# -- the raw function -------------------------------------------------------------------------------------------------------


def _raw(setting: Setting) -> Answer:
    task, o = task_of(setting), at.Overlaps(*setting["overlaps"])
    predictor = _raw_predictor(setting)
    with x64():
        value = float(at.risk_function(task, predictor)(o, setting["temperature"]))
    exact = at.risk(task, predictor, o)
    return Answer(value, RAW * (exact.excess + task.gamma**2 + task.signal**2) + exact.error)


def _raw_predictor(setting: Setting) -> Any:
    lam = setting["temperature"]
    return {"erf": at.Erf(lam), "linear": at.LinearAttention(lam, 0.5), "softmax": at.Softmax(lam)}[setting["kind"]]


def _raw_relation(setting: Setting, answer: Answer) -> list[Relation]:
    exact = at.risk(task_of(setting), _raw_predictor(setting), at.Overlaps(*setting["overlaps"]))
    return [same("risk_function = risk", answer.value, exact.excess, answer.error)]


def _draw_raw(rng: np.random.Generator) -> Setting:
    out = draw_numbers(rng, longest=10**4, signals=100.0)
    out["gamma"] = log_uniform(rng, 0.1, 10)
    return out | {"temperature": log_uniform(rng, 1e-3, 3), "kind": choice(rng, ["erf", "linear", "softmax"])}


SUBJECTS: list[Subject] = [
    *_sigma_risk("Erf", lambda s: at.Erf(s["temperature"]), _erf, _drawn, ("Erf",)),
    *_sigma_risk(
        "LinearAttention", lambda s: at.LinearAttention(s["temperature"], s["offset"]), _linear, _draw_linear,
        ("LinearAttention",), gradient_truths=1.0,
    ),
    *_sigma_risk(
        "Componentwise", _componentwise, lambda s: s["sigma"], _draw_sigma, ("Componentwise",),
        truths=0.6, gradient_truths=0.15, may_refuse=_many_waves,
        weight=2.0,
    ),
    *(subject for kind in KINDS for subject in _normalised(kind)),
    Subject("risk_function", ("risk_function",), _draw_raw, _raw, relations=_raw_relation, weight=0.3),
]  # fmt: skip
