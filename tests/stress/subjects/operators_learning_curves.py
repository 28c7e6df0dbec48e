"""Learning curves of attention as an operator, and the best attention at a length.

`softmax_curve` states its error; `cme_curve` promises 1e-10 of its size (docs/accuracy.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import operators as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

# -- learning curves -------------------------------------------------------------------------------


def _draw_curve(rng: np.random.Generator) -> Setting:
    power = rng.dirichlet(np.ones(int(rng.integers(1, 5)))).tolist()
    return {
        "dim": log_integer(rng, 2, 60, [2, 3]),
        "length": log_integer(rng, 1, 10**5 if rng.random() < 0.3 else 40, [1, 2]),
        "bandwidth": log_uniform(rng, 0.03, 1e3, [0.25, 1e6]),
        "noise": log_uniform(rng, 1e-3, 1e3, [0.0, 0.5]),
        "power": choice(rng, [(0.0, 1.0), power]),
        "gain": log_uniform(rng, 1e-2, 1e2, [0.0, 1.0, -1.0]),
        "sink": choice(rng, [None, None, float(rng.normal() * 10)]),
        "seed": int(rng.integers(2**31)),
    }


def _curve(s: Setting, **other: Any) -> Any:
    s = s | other
    return at.softmax_curve(
        s["dim"], s["length"], s["bandwidth"], s["noise"], s["power"], s["gain"], s["sink"]
    )


def _call_curve(s: Setting) -> Answer:
    e = _curve(s)
    return Answer(e.value, e.error)


def _true_curve(s: Setting) -> Truth | None:
    if s["length"] > 300:
        return None
    where = (
        s["dim"],
        s["length"],
        s["bandwidth"],
        s["noise"],
        s["power"],
        s["gain"],
        s["sink"],
        s["seed"],
    )
    return Truth(*reference.softmax_error(*where))


def _curve_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    low, middle, high = (_curve(s, gain=g) for g in (-1.0, 0.0, 1.0))
    yield same("a gain of 0 predicts 0", middle.value, 1.0, middle.error)
    square = (low.value + high.value) / 2 - middle.value
    line = (high.value - low.value) / 2
    g = s["gain"]
    slack = a.error + (1 + abs(g) + g * g) * (low.error + middle.error + high.error)
    yield same("quadratic in the gain", a.value, 1 + g * line + g * g * square, slack)
    if s["sink"] is None and s["length"] == 1:
        yield same(
            "one token has weight 1",
            high.value,
            2 + s["noise"] ** 2 - 2 * _mean_kernel(s),
            high.error + 1e-14,
        )
    yield at_most("no error below 0", -a.value, 0.0, a.error)


def _mean_kernel(s: Setting) -> float:
    """E f(q) f(k) at a uniform key: the power of degree 0."""
    return float(s["power"][0] / sum(s["power"]))


def _draw_cme_curve(rng: np.random.Generator) -> Setting:
    return {
        "dim": log_integer(rng, 2, 20, [2, 3]),
        "length": log_integer(rng, 1, 10**9, [1, 2]),
        "ridge": log_uniform(rng, 1e-6, 1e4, [0.25]),
        "bandwidth": log_uniform(rng, 0.05, 1e3, [1.0]),
        "noise": log_uniform(rng, 1e-3, 1e2, [0.0, 0.5]),
        "power": choice(rng, [(0.0, 1.0), (0.3, 0.3, 0.4), (1.0,)]),
    }


def _call_cme_curve(s: Setting) -> Answer:
    value = at.cme_curve(*s.values())
    return Answer(value, 1e-10 * (value + s["noise"] ** 2) + 1e-12)


def _true_cme_curve(s: Setting) -> Truth | None:
    value = reference.cme_error(*s.values())
    return None if math.isnan(value) else Truth(value)


def _draw_best(rng: np.random.Generator) -> Setting:
    return {
        "dim": log_integer(rng, 2, 20, [2, 3]),
        "length": log_integer(rng, 1, 300, [1, 2]),
        "noise": log_uniform(rng, 0.05, 10, [0.5]),
        "power": choice(rng, [(0.0, 1.0), (0.3, 0.3, 0.4)]),
        "bandwidth": log_uniform(rng, 0.03, 20),
        "gain": log_uniform(rng, 0.1, 10, [1.0]),
        "sink": float(rng.normal() * 3),
    }


def _call_best(s: Setting) -> Answer:
    best = at.best_attention(s["dim"], s["length"], s["noise"], s["power"])
    sink = [0.0, 0.0] if best.sink is None else [1.0, best.sink]
    return Answer([best.error, best.inverse_bandwidth, best.gain, *sink], np.zeros(5))


def _best_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    error, inverse, gain, has_sink, logit = a.value
    where = (s["dim"], s["length"])
    sink = logit if has_sink else None
    own = at.softmax_curve(*where, 1 / inverse, s["noise"], s["power"], gain, sink)
    yield same("its error is the curve's", error, own.value, own.error + 1e-12)
    other = at.softmax_curve(
        *where, s["bandwidth"], s["noise"], s["power"], s["gain"], s["sink"]
    )
    yield at_most("no other attention is better", error, other.value, other.error + 1e-9)
    plain = at.softmax_curve(*where, s["bandwidth"], s["noise"], s["power"], s["gain"], None)
    yield at_most("none without a sink either", error, plain.value, plain.error + 1e-9)


SUBJECTS: list[Subject] = [
    Subject(
        "softmax_curve",
        ("softmax_curve",),
        _draw_curve,
        _call_curve,
        _true_curve,
        _curve_relations,
        weight=2,
    ),
    Subject("cme_curve", ("cme_curve",), _draw_cme_curve, _call_cme_curve, _true_cme_curve),
    Subject(
        "best_attention",
        ("best_attention",),
        _draw_best,
        _call_best,
        relations=_best_relations,
        weight=0.05,
    ),
]
