"""Risks of MultiLocation and MaxLocation: against few-token integrals, siblings and each other.

A sibling as truth: a binomial number of informative tokens, given as probabilities, is independent
inclusion, which has a closed form down to 1e-300, where sampling sees nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import mpmath as mp
import numpy as np
from scipy.stats import binom

import attnscope as at
from stress.draws import choice, log_integer, log_uniform, pmf
from stress.estimates import (
    budget,
    ordered,
    sampled_call,
    several,
    sibling,
    strong,
)
from stress.judged import Answer, Relation, Truth, at_most
from stress.references import planted_risks as reference
from stress.subject import Setting, Subject
from stress.tokens import gamma_and_signal

__all__ = ["SUBJECTS"]

# share of the settings of a max-type location with strengths up to 100: three seconds each
SHARP = 0.02
EXACT_COUNTS = 60  # tokens up to which binomial sums are done in 40 digits


# -- MultiLocation ---------------------------------------------------------------------------------


def _draw_multi(rng: np.random.Generator) -> Setting:
    kind = choice(rng, ["two tokens", "binomial", "any"])
    gamma, signal = gamma_and_signal(rng)
    L = log_integer(rng, 1, 20, (1, 2))
    relevant: Any = int(rng.integers(1, L + 1))
    weights = choice(rng, ["equal", "sum", "dirichlet"])
    if kind == "two tokens":
        gamma = 1.0
        signal = log_uniform(rng, 0.05, 8.0, (0.0,))
        L = 2
        relevant = pmf(rng, 3)
    elif kind == "binomial":
        q = log_uniform(rng, 1e-6, 0.99, (0.5,))
        weights = "sum"
        relevant = binom.pmf(np.arange(L + 1), L, q)
        relevant = relevant / relevant.sum()
    elif rng.random() < 0.5:
        relevant = pmf(rng, L + 1)
    return {
        "kind": kind,
        "dim": log_integer(rng, 2, 10_000, (2, 3)),
        "length": L,
        "relevant": relevant,
        "q": q if kind == "binomial" else 0.0,
        "weights": weights,
        "concentration": log_uniform(rng, 1e-6, 1e6),
        "gamma": gamma,
        "signal": signal,
        "budget": budget(rng),
    }


def _multi(setting: Setting) -> at.MultiLocation:
    names = ("dim", "length", "relevant", "weights", "concentration", "gamma", "signal")
    return at.MultiLocation(**{name: setting[name] for name in names})


def _truth_multi(setting: Setting) -> Truth | None:
    task = _multi(setting)
    if setting["kind"] == "two tokens":
        return Truth(
            *reference.two_tokens(task.signal, task.count_probs, *task.weight_moments())
        )
    if setting["kind"] == "binomial":
        names = ("dim", "length", "gamma", "signal")
        numbers = {name: setting[name] for name in names}
        other = at.MultiLocation(**numbers, relevant=float(setting["q"]), weights="sum")
        exact = sibling(other.bayes_risk)
        return exact and Truth(
            exact.excess, exact.error + 1e-12 * exact.excess
        )  # the pmf as given is the binomial's to 1e-13
    return None


def _too_large(setting: Setting) -> str:
    g2 = setting["gamma"] ** 2
    s2 = setting["signal"] ** 2
    d = setting["dim"]
    size = (
        d * abs(math.log(setting["gamma"]))
        + s2 / g2
        + abs(1 / g2 - 1) * max(1.0, g2) * (d + s2)
    )
    beyond = (
        "log-likelihood ratios beyond 1e9 are known to 1e-7 at best" if size > 0.99e9 else ""
    )
    return beyond or strong(setting["signal"])


def _draw_moments(rng: np.random.Generator) -> Setting:
    kind = choice(rng, ["fixed", "independent", "counts"])
    long = kind != "counts" and rng.random() < 0.3
    L = log_integer(rng, 1, 100_000 if long else EXACT_COUNTS, (1, 2))
    relevant: Any = int(rng.integers(1, L + 1))
    if kind == "independent":
        relevant = log_uniform(rng, 1e-20, 0.99, (0.5, 1 - 1e-12))
    elif kind == "counts":
        relevant = pmf(rng, L + 1)
    return {
        "kind": kind,
        "length": L,
        "relevant": relevant,
        "weights": "sum"
        if kind == "independent" and long
        else choice(rng, ["equal", "sum", "dirichlet"]),
        "concentration": log_uniform(rng, 1e-6, 1e6),
        "gamma": log_uniform(rng, 1e-4, 1e4, (1.0,)),
    }


def _moments(setting: Setting) -> at.MultiLocation:
    return at.MultiLocation(
        2, signal=1.0, **{name: x for name, x in setting.items() if name != "kind"}
    )


def _call_moments(setting: Setting) -> Answer:
    task = _moments(setting)
    return several(task.null_risk(), task.linear_risk())


def _truth_moments(setting: Setting) -> Truth | None:
    L = setting["length"]
    relevant = setting["relevant"]
    with mp.workdps(40):
        probs: list[Any]
        if setting["kind"] == "independent":
            if L > EXACT_COUNTS:
                g2 = mp.mpf(setting["gamma"]) ** 2
                q = mp.mpf(relevant)
                null = g2 * L * q
                return Truth(
                    np.array(
                        [float(null), float(null - (g2 * q) ** 2 * L / (1 - q + q * g2))]
                    )
                )
            q = mp.mpf(relevant)
            probs = [mp.binomial(L, m) * q**m * (1 - q) ** (L - m) for m in range(L + 1)]
        elif setting["kind"] == "counts":
            probs = [mp.mpf(float(p)) for p in relevant]
        elif L > EXACT_COUNTS:
            return None
        else:
            probs = [mp.mpf(int(m == relevant)) for m in range(L + 1)]
        found = reference.multi_affine(
            setting["gamma"], L, probs, setting["weights"], setting["concentration"]
        )
        return Truth(np.array(found))


# -- MaxLocation -----------------------------------------------------------------------------------


def _draw_max(rng: np.random.Generator) -> Setting:
    return {
        "dim": 2,
        "length": log_integer(rng, 1, 10**12, (1, 2, 2, 3)),
        "strength": log_uniform(
            rng, 1e-6, 100.0 if rng.random() < SHARP else 20.0, (0.0, 1e6)
        ),
        "noise": log_uniform(rng, 1e-8, 1e3, (0.0,)),
    }


def _max(setting: Setting) -> at.MaxLocation:
    return at.MaxLocation(**setting)


def _call_max(setting: Setting) -> Answer:
    task = _max(setting)
    return several(
        task.bayes_risk(),
        task.location_error(),
        task.linear_attention_risk(),
        task.linear_risk(),
    )


def _truth_max(setting: Setting) -> Truth | None:
    L = setting["length"]
    nu = setting["strength"]
    found = reference.max_disagreement(nu, L)
    if found is None:
        return None
    bayes, error = found
    pull = nu * bayes  # E chi_J, by Stein's lemma
    attention = 1 - (1 + pull**2) / L
    errors = np.array([error, error, 2 * pull * nu * error / L + 1e-15, 1e-15])
    return Truth(np.array([bayes, bayes, attention, 1 - 1 / L]), errors)


def _relations_max(setting: Setting, answer: Answer) -> Iterable[Relation]:
    bayes, _, attention, linear = answer.value
    error, _, more, rounding = answer.error
    yield at_most("Bayes <= linear attention", bayes, attention, error + more)
    yield at_most("linear attention <= affine", attention, linear, more + rounding + 1e-15)
    yield at_most("a risk is at least 0", 0.0, bayes, error)
    softer = _max(setting | {"strength": 0.9 * setting["strength"]}).bayes_risk()
    yield at_most("a stronger location is easier", bayes, softer.excess, error + softer.error)
    shorter = _max(setting | {"length": max(1, setting["length"] // 2)}).bayes_risk()
    yield at_most("fewer tokens are easier", shorter.excess, bayes, error + shorter.error)


SUBJECTS: list[Subject] = [
    Subject(
        "MultiLocation.bayes_risk",
        ("MultiLocation.bayes_risk",),
        _draw_multi,
        sampled_call(_multi),
        _truth_multi,
        ordered(_multi),
        _too_large,
        weight=1.0,
    ),
    Subject(
        "MultiLocation null and linear risk",
        ("MultiLocation.null_risk", "MultiLocation.linear_risk"),
        _draw_moments,
        _call_moments,
        _truth_moments,
    ),
    Subject(
        "MaxLocation risks",
        (
            *(
                f"MaxLocation.{x}_risk"
                for x in ("bayes", "linear", "linear_attention", "null")
            ),
            "MaxLocation.location_error",
        ),
        _draw_max,
        _call_max,
        _truth_max,
        _relations_max,
        lambda setting: "strength beyond 100" if setting["strength"] > 100 else "",
    ),
]
