"""Risks before other backgrounds and with several directions: against few-token integrals, siblings
and each other.

Siblings as truth: an isotropic background is a scaled single-location task; a Student t of 1e12
degrees of freedom is normal; independent orthonormal directions at gamma = 1 add up. They reach
down to 1e-300.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform, pmf
from stress.estimates import (
    answer_of,
    below,
    budget,
    noise_adds,
    sampled_call,
    several,
    sibling,
    strong,
)
from stress.judged import Answer, Relation, Truth, at_most
from stress.references import planted_risks as reference
from stress.subject import Setting, Subject
from stress.tokens import gamma_and_signal, orthonormal, unit

__all__ = ["SUBJECTS"]

# degrees of freedom; log-densities then differ by q^2/(4 n) < 1e-7 for squared distances q < 1e3
ALMOST_NORMAL = 1e12


# -- CorrelatedBackground --------------------------------------------------------------------------


def _draw_correlated(rng: np.random.Generator) -> Setting:
    kind = choice(rng, ["isotropic", "almost normal", "any"])
    d = log_integer(rng, 2, 20 if kind == "isotropic" else 4, (2,))
    L = log_integer(rng, 1, 12, (1, 2))
    gamma, signal = gamma_and_signal(rng)
    condition = log_uniform(rng, 1.0, 1e2, (1.0, 1e8))
    frame = orthonormal(rng, d, d)
    covariance = (frame * np.exp(rng.uniform(0, np.log(condition), d))) @ frame.T
    if kind == "isotropic":
        covariance = np.eye(d) * log_uniform(rng, 1e-2, 1e2)
    freedom = None if rng.random() < 0.5 else 2 + log_uniform(rng, 1e-2, 1e6)
    return {
        "kind": kind,
        "dim": d,
        "length": L,
        "gamma": gamma,
        "signal": signal,
        "probs": None if rng.random() < 0.5 else pmf(rng, L),
        "mean": rng.standard_normal(d),
        "covariance": covariance,
        "freedom": {"isotropic": None, "almost normal": ALMOST_NORMAL, "any": freedom}[kind],
        "informative": {"isotropic": "isotropic", "almost normal": "scaled"}.get(kind)
        or choice(rng, ["scaled", "isotropic"]),
        "budget": budget(rng),
    }


def _inner(setting: Setting) -> at.SingleLocation:
    names = ("dim", "length", "gamma")
    probs = setting["probs"]
    return at.SingleLocation(
        **{name: setting[name] for name in names},
        noise=0.0,
        signal=setting["signal"],
        location_probs=probs,
    )


def _correlated(setting: Setting) -> at.CorrelatedBackground:
    names = ("mean", "covariance", "freedom", "informative")
    return at.CorrelatedBackground(_inner(setting), *(setting[name] for name in names))


def _truth_correlated(setting: Setting) -> Truth | None:
    if setting["kind"] == "any":
        return None
    if setting["kind"] == "almost normal":
        normal = at.CorrelatedBackground(
            _inner(setting), setting["mean"], setting["covariance"]
        )
        found = sibling(normal.bayes_risk)
        return found and Truth(found.excess, found.error + 1e-6 * found.excess)
    scale = float(setting["covariance"][0, 0])
    shrunk = setting | {
        "gamma": setting["gamma"] / math.sqrt(scale),
        "signal": setting["signal"] / math.sqrt(scale),
    }
    found = sibling(_inner(shrunk).bayes_risk)
    # rounded numbers of the shrunk task move log-likelihood ratios of size (s/gamma)^2 + d by 1e-15
    # each
    moved = 1e-15 * (setting["signal"] ** 2 / setting["gamma"] ** 2 + setting["dim"] * 10)
    return found and Truth(
        scale * found.excess, scale * (found.error + min(moved, 1.0) * found.excess)
    )


def _relations_correlated(setting: Setting, answer: Answer) -> Iterable[Relation]:
    task = _correlated(setting)
    yield at_most("a risk is at least 0", 0.0, answer.value, answer.error, answer.sampled)
    yield below("Bayes <= null", answer, task.null_risk())
    if setting["probs"] is None or setting["informative"] == "scaled":
        yield below("Bayes <= affine", answer, task.linear_risk())


def _beyond(setting: Setting) -> str:
    smallest = float(np.linalg.eigvalsh(setting["covariance"])[0])
    own = smallest if setting["informative"] == "scaled" else 1.0
    size = setting["signal"] ** 2 * (1 / smallest + 1 / (own * setting["gamma"] ** 2))
    beyond = (
        "log-likelihood ratios beyond 1e9 are known to 1e-7 at best" if size > 0.99e9 else ""
    )
    return beyond or strong(setting["signal"])


def _draw_affine(rng: np.random.Generator) -> Setting:
    setting = _draw_correlated(rng) | {"length": log_integer(rng, 1, 3, (1, 2))}
    d = log_integer(rng, 2, 3)
    frame = orthonormal(rng, d, d)
    sizes = np.exp(rng.uniform(0, np.log(log_uniform(rng, 1.0, 1e3, (1e11,))), d))
    sizes[0] = 1.0
    kind = choice(rng, ["scaled", "isotropic"])
    return setting | {
        "dim": d,
        "mean": rng.standard_normal(d),
        "covariance": (frame * sizes) @ frame.T,
        "probs": None
        if kind == "isotropic" or rng.random() < 0.5
        else pmf(rng, setting["length"]),
        "freedom": None,
        "informative": kind,
    }


def _call_affine(setting: Setting) -> Answer:
    task = _correlated(setting)
    return several(task.null_risk(), task.linear_risk())


def _truth_affine(setting: Setting) -> Truth:
    task = _correlated(setting)
    L = task.length
    probs = (
        np.full(L, 1 / L) if task.task.location_probs is None else task.task.location_probs
    )
    background = (task.mean, task.covariance)
    informative = (task.informative_mean, task.informative_covariance)
    return Truth(np.array(reference.affine_risk(probs, background, informative, task.value)))


# -- MultiDirection --------------------------------------------------------------------------------


def _rows(rng: np.random.Generator, count: int, d: int) -> np.ndarray:
    return np.stack([unit(rng, d) for _ in range(count)])


def _draw_directions(rng: np.random.Generator) -> Setting:
    kind = choice(rng, ["exchange", "factorises", "any"])
    gamma, signal = gamma_and_signal(rng)
    F = 2
    L = 2
    d = log_integer(rng, 1, 8, (1, 2))
    positions = "distinct"
    vectors: tuple[Any, Any] = (_rows(rng, F, d), _rows(rng, F, d))
    if kind == "factorises":
        F = log_integer(rng, 1, 6)
        L = log_integer(rng, 1, 10**6, (1, 2))
        gamma = 1.0
        d = 2 * F + log_integer(rng, 1, 100)
        positions = "independent"
        vectors = (None, None)
    elif kind == "any":
        F = log_integer(rng, 1, 3)
        positions = choice(rng, ["distinct", "independent"])
        L = log_integer(rng, F, 6)
        vectors = (_rows(rng, F, d), _rows(rng, F, d))
    return {
        "kind": kind,
        "dim": d,
        "length": L,
        "directions": F,
        "positions": positions,
        "gamma": gamma,
        "signal": signal,
        "keys": vectors[0],
        "values": vectors[1],
        "budget": budget(rng),
    }


def _directions(setting: Setting) -> at.MultiDirection:
    return at.MultiDirection(
        **{name: x for name, x in setting.items() if name not in ("kind", "budget")}
    )


def _truth_directions(setting: Setting) -> Truth | None:
    task = _directions(setting)
    if setting["kind"] == "exchange":
        gaps = (task.keys[0] - task.keys[1], task.values[0] - task.values[1])
        return Truth(*reference.exchange_risk(*gaps, task.gamma, task.signal))
    if setting["kind"] == "factorises":
        one = sibling(
            at.SingleLocation(task.dim, task.length, 1.0, 0.0, task.signal).bayes_risk
        )
        F = task.directions
        return one and Truth(F * one.excess, F * one.error)
    return None


def _truth_variance(setting: Setting) -> Truth:
    task = _directions(setting)
    numbers = (task.length, task.gamma, task.signal, task.positions == "distinct")
    value = reference.direction_variance(task.keys, task.values, *numbers)
    return Truth(value, 1e-14 * value)  # some hundred float64 additions


def _draw_variance(rng: np.random.Generator) -> Setting:
    setting = _draw_directions(rng)
    while setting["kind"] == "factorises":
        setting = _draw_directions(rng)
    return setting


def _too_large(setting: Setting) -> str:
    g2 = setting["gamma"] ** 2
    d = setting["dim"]
    longest = (setting["directions"] * setting["signal"]) ** 2
    size = (
        d * abs(math.log(setting["gamma"]))
        + longest / g2
        + abs(1 / g2 - 1) * (g2 * d + longest)
    )
    beyond = (
        "log-likelihood ratios beyond 1e9 are known to 1e-7 at best" if size > 0.99e9 else ""
    )
    return beyond or strong(setting["signal"])


SUBJECTS: list[Subject] = [
    Subject(
        "CorrelatedBackground.bayes_risk",
        ("CorrelatedBackground.bayes_risk", "CorrelatedBackground.whiten"),
        _draw_correlated,
        sampled_call(_correlated),
        _truth_correlated,
        _relations_correlated,
        _beyond,
        weight=2.0,
    ),
    Subject(
        "CorrelatedBackground null and linear risk",
        ("CorrelatedBackground.null_risk", "CorrelatedBackground.linear_risk"),
        _draw_affine,
        _call_affine,
        _truth_affine,
    ),
    Subject(
        "MultiDirection.bayes_risk",
        ("MultiDirection.bayes_risk",),
        _draw_directions,
        sampled_call(_directions),
        _truth_directions,
        noise_adds(_directions),
        _too_large,
        weight=2.0,
    ),
    Subject(
        "MultiDirection.null_risk",
        ("MultiDirection.null_risk",),
        _draw_variance,
        lambda setting: answer_of(_directions(setting).null_risk()),
        _truth_variance,
    ),
]
