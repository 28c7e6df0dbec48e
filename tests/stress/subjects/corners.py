"""Corners that settings of the whole range meet too rarely to be sure of them in a short run.

rounded overlaps   off by u <= 1e-9, they stand for possible ones at that distance: the risk moves
    by at
                    most LIPSCHITZ u times its terms
kink at 0   at inverse temperature 0 the derivative is the one from the right: a difference of the
    risk itself
one token      the oracle's Hessian has a positive determinant at every inverse temperature: no
saddle, ever cancelling terms    linear attention with a gain of 1 - x, x tiny: the risk is x^2 of
its terms rare errors     R of L tokens clearly marked: knowing which is easier, so that the error
has a floor
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, at_most
from stress.references import single_location, sparse_tokens
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

# of the terms of a risk in each overlap, five of them, inverse temperatures and offsets below 3
LIPSCHITZ = 100.0
# inverse temperature of the difference quotient: its bias is STEP times curvature, its rounding
# 1e-9
STEP = 1e-6
NEVER = 1e300  # stands for an infinite critical inverse temperature
RARE_SAMPLES = 20_000  # a tenth of the default: the error says what that costs
# what is asked of the derivative, of a bound on its terms; the quotient itself is good to 1e-6
SLOPE = 1e-5


def _draw_rounded(rng: np.random.Generator) -> Setting:
    u = log_uniform(rng, 1e-16, 9e-10, [9e-10, 4e-10, 1e-15])
    signs = rng.choice([-1.0, 1.0], size=2)
    o = choice(
        rng, [(signs[0], 0.0, 0.0, signs[1], 0.0), (0.0, signs[0], signs[1], 0.0, 0.0)]
    )
    outwards = [u * x for x in o]
    anywhere = u * rng.choice([0.0, 1.0, -1.0], size=5)
    return {
        "length": choice(rng, [1, 1, 2, log_integer(rng, 3, 1000)]),
        "signal": log_uniform(rng, 0.1, 5),
        "off": [float(x) for x in choice(rng, [outwards, anywhere])],
        "overlaps": tuple(float(x) for x in o),
        "inverse_temperature": choice(rng, [0.0, log_uniform(rng, 1e-3, 3)]),
        "offset": choice(rng, [1.0, 1.0, -1.0, 0.5]),
    }


def _risk(s: Setting, moved: bool) -> Any:
    o = np.asarray(s["overlaps"], dtype=float) + (np.asarray(s["off"]) if moved else 0.0)
    task = at.SingleLocation(10, s["length"], signal=s["signal"])
    return at.risk(
        task, at.LinearAttention(s["inverse_temperature"], s["offset"]), at.Overlaps(*o)
    )


def _call_rounded(s: Setting) -> Answer:
    e = _risk(s, moved=True)
    return Answer(e.excess, e.error)


def _true_rounded(s: Setting) -> Truth:
    """The risk at the possible overlaps nearby, from the reference,
    give or take how far they are.
    """
    line = ("pieces", ((-np.inf, np.inf, (s["offset"], 1.0)),))
    numbers = (s["inverse_temperature"], 0.5**0.5, s["signal"], s["length"], 0.0)
    exact = single_location.componentwise_risk(line, s["overlaps"], *numbers)
    return Truth(
        float(exact.value), LIPSCHITZ * float(np.max(np.abs(s["off"]))) * float(exact.size)
    )


def _rounded_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    yield at_most("0 <= risk, to the bit", -a.value, 0.0, 0.0)


def _too_far(s: Setting) -> str:
    """An eigenvalue -2e of what k*, v* leave of k, v is mended by shrinking all overlaps by e,
    to 1e-9 at most.
    """
    kap, eta, the, nu, rho = (x + y for x, y in zip(s["overlaps"], s["off"], strict=True))
    a = np.array([kap, eta])
    b = np.array([the, nu])
    left = np.array([[1 - a @ a, rho - a @ b], [rho - a @ b, 1 - b @ b]])
    return (
        "overlaps further than 1e-9 from possible ones"
        if np.linalg.eigvalsh(left)[0] < -1.9e-9
        else ""
    )


def _draw_kink(rng: np.random.Generator) -> Setting:
    return {
        "length": log_integer(rng, 1, 50, [1, 2]),
        "gamma": log_uniform(rng, 0.2, 3, [1.0]),
        "signal": log_uniform(rng, 0.2, 5),
        "slopes": (float(rng.normal()), float(rng.normal())),
        "base": choice(rng, [0.0, 1.0]),
    }


def _kinked(s: Setting, inverse_temperature: float) -> at.Componentwise:
    left, right = s["slopes"]
    return at.Componentwise(
        lambda x: s["base"] + np.where(x < 0, left * x, right * x),
        inverse_temperature,
        kinks=(0.0,),
    )


def _call_kink(s: Setting) -> Answer:
    task = at.SingleLocation(6, s["length"], gamma=s["gamma"], signal=s["signal"])
    slope = at.risk_gradient(task, _kinked(s, 0.0), at.Overlaps.oracle()).inverse_temperature
    size = (
        (1 + s["signal"] + s["gamma"]) ** 3
        * (1 + max(map(abs, s["slopes"]))) ** 2
        * s["length"]
    )
    return Answer(slope, SLOPE * size)


def _true_kink(s: Setting) -> Truth:
    """(R(STEP) - R(0))/STEP by the reference."""
    left, right = s["slopes"]
    data = ("pieces", ((-np.inf, 0.0, (s["base"], left)), (0.0, np.inf, (s["base"], right))))
    oracle = (1.0, 0.0, 0.0, 1.0, 0.0)
    numbers = (s["gamma"], s["signal"], s["length"], 0.0)
    above, at_zero = (
        single_location.componentwise_risk(data, oracle, lam, *numbers) for lam in (STEP, 0.0)
    )
    return Truth(float((above.value - at_zero.value) / STEP))


def _draw_one_token(rng: np.random.Generator) -> Setting:
    return {
        "dim": log_integer(rng, 2, 10**9, [2, 1000]),
        "gamma": log_uniform(rng, 1e-2, 1e2, [1.0, 0.5**0.5]),
        "signal": log_uniform(rng, 1e-2, 1e3, [1.0]),
    }


def _call_one_token(s: Setting) -> Answer:
    task = at.SingleLocation(s["dim"], 1, gamma=s["gamma"], signal=s["signal"])
    return Answer(min(at.critical_inverse_temperature(task), NEVER), 0.0)


def _draw_cancelling(rng: np.random.Generator) -> Setting:
    x = log_uniform(rng, 1e-12, 1e-2, [1e-5])
    signal = log_uniform(rng, 0.1, 100, [5.1])
    # of the gain that comes from the inverse temperature, which adds share^2 of its own
    share = x * float(rng.uniform(0, 3))
    return {
        "length": 1,
        "signal": signal,
        "gamma": log_uniform(rng, 0.1, 10, [0.5**0.5]),
        "offset": 1 - x - share,
        "inverse_temperature": share / signal,
        "overlaps": (1.0, 0.0, 0.0, 1.0, 0.0),
    }


def _call_cancelling(s: Setting) -> Answer:
    task = at.SingleLocation(10, s["length"], gamma=s["gamma"], signal=s["signal"])
    e = at.risk(
        task,
        at.LinearAttention(s["inverse_temperature"], s["offset"]),
        at.Overlaps(*s["overlaps"]),
    )
    return Answer(e.excess, e.error)


def _true_cancelling(s: Setting) -> Truth:
    line = ("pieces", ((-np.inf, np.inf, (s["offset"], 1.0)),))
    numbers = (s["inverse_temperature"], s["gamma"], s["signal"], s["length"], 0.0)
    return Truth(
        float(single_location.componentwise_risk(line, s["overlaps"], *numbers).value)
    )


def _draw_rare(rng: np.random.Generator) -> Setting:
    length = int(rng.integers(3, 9))
    return {
        "length": length,
        "strength": float(rng.uniform(5, 9)),
        "marked": int(rng.integers(2, length)),
    }


def _rare(s: Setting) -> Any:
    return at.SparseTokenClassification(2, s["length"], s["strength"], marked=s["marked"])


def _call_rare(s: Setting) -> Answer:
    e = _rare(s).bayes_error(samples=RARE_SAMPLES)
    return Answer(
        e.excess, e.error, sampled="Monte Carlo" in e.method or "sampling" in e.method
    )


def _rare_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    known = sparse_tokens.tail(s["strength"] * math.sqrt(s["marked"]) / 2)
    yield at_most("knowing which is easier", known, a.value, a.error, a.sampled)
    test = _rare(s).max_test_error()
    yield at_most("Bayes <= max test", a.value, test.excess, a.error + test.error, a.sampled)


SUBJECTS: list[Subject] = [
    Subject(
        "risk at rounded overlaps",
        ("risk",),
        _draw_rounded,
        _call_rounded,
        _true_rounded,
        _rounded_relations,
        _too_far,
        weight=1.0,
    ),
    Subject(
        "risk_gradient at inverse temperature 0",
        ("risk_gradient",),
        _draw_kink,
        _call_kink,
        _true_kink,
        truths=0.5,
        weight=0.3,
    ),
    Subject(
        "critical_inverse_temperature of one token",
        ("critical_inverse_temperature",),
        _draw_one_token,
        _call_one_token,
        lambda s: Truth(NEVER),
        weight=0.5,
    ),
    Subject(
        "risk of cancelling terms",
        ("risk",),
        _draw_cancelling,
        _call_cancelling,
        _true_cancelling,
        weight=0.5,
    ),
    Subject(
        "bayes_error of rare errors",
        ("SparseTokenClassification.bayes_error",),
        _draw_rare,
        _call_rare,
        relations=_rare_relations,
        weight=0.3,
    ),
]
