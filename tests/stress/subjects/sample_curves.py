"""Learning curves in samples: the Bayes-optimal curve, thresholds, its inverse, message passing.

Settings: alpha 1e-3..1e3, strength 1e-2..100, L to 300, noise 0..3, position probabilities, random
lengths. Two tokens have a reference for every number; with more, bags are drawn at the overlaps
that were found, and the two equations must hold for their averages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform, pmf
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import sample_curves
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

DRAWS = 40_000  # of bags: the averages to half a percent
ROUNDED = 1e-11  # of key and value after a few steps of message passing
REFERENCE = 1e-10  # relative, of what two grids and Newton's method leave


def _draw_curve(rng: np.random.Generator) -> Setting:
    L = log_integer(rng, 2, 300, (2, 2, 3))
    kind = choice(rng, ["uniform", "uniform", "probs", "lengths"]) if L > 2 else "uniform"
    return {
        "length": L,
        "strength": log_uniform(rng, 1e-2, 100, (1.0, 5.0)),
        "noise": log_uniform(rng, 1e-4, 3, (0.0, 0.3)),
        "alpha": log_uniform(rng, 1e-3, 1e3, (1.0, 2.0)),
        "branch": choice(rng, ["reached", "informed", "best"]),
        "probs": tuple(float(x) for x in pmf(rng, min(L, 8))) if kind == "probs" else None,
        "lengths": (max(L // 2, 1), L) if kind == "lengths" else None,
        "seed": int(rng.integers(1 << 31)),
    }


def _task(setting: Setting, dim: int = 100) -> Any:
    signal = math.sqrt(setting["strength"])
    probs = setting["probs"]
    L = setting["length"] if probs is None else len(probs)
    task = at.SingleLocation(dim, L, 1.0, setting["noise"], signal, probs)
    return at.RandomLength(task, setting["lengths"]) if setting["lengths"] else task


def _curve(setting: Setting) -> Answer:
    found = at.learning_curve(_task(setting), setting["alpha"], branch=setting["branch"])
    value = np.array([found.risk.excess, found.key_overlap, found.value_overlap])
    return Answer(value, np.array([found.risk.error, *[found.overlap_error] * 2]))


def _curve_truth(setting: Setting) -> Truth | None:
    if setting["length"] != 2 or setting["noise"] < 1e-3 or setting["branch"] == "best":
        return None
    found = sample_curves.pair_curve(
        setting["strength"],
        setting["noise"] ** 2,
        setting["alpha"],
        setting["branch"] == "informed",
    )
    if found is None:
        return None
    q_k, q_v, excess = found
    return Truth(np.array([excess, q_k, q_v]), REFERENCE)


def _curve_relations(setting: Setting, answer: Answer) -> Iterable[Relation]:
    """Bounds of any estimator; other branches; the equations, on drawn bags."""
    excess, q_k, q_v = answer.value
    task = _task(setting)
    bayes = task.bayes_risk()
    error = answer.error[0]
    yield at_most("population Bayes <= risk", bayes.excess, excess, bayes.error + error)
    yield at_most("risk <= null", excess, 1.0, error)
    known = _location_known(setting["alpha"], setting["noise"] ** 2)
    yield at_most("location known <= risk", known, excess, error + 1e-13)
    more = at.learning_curve(task, 1.1 * setting["alpha"], branch=setting["branch"])
    yield at_most("more bags help", more.risk.excess, excess, more.risk.error + error)
    V = setting["noise"] ** 2 + 1 - q_v
    if q_v < 1 and V > 1e-6 and not setting["lengths"]:
        L = task.length
        probs = np.full(L, 1 / L) if setting["probs"] is None else task.location_probs
        mean, deviation = sample_curves.drawn_averages(
            setting["strength"] * q_k, q_v, V, probs, DRAWS, setting["seed"]
        )
        rate = setting["alpha"] * np.array([setting["strength"], 1 / V])
        found = np.array([q_k / (1 - q_k), q_v / (1 - q_v)])
        slack = rate * deviation + answer.error[1:] / np.array([1 - q_k, 1 - q_v]) ** 2
        # rare bags decide an average near 1: then the draws say nothing of their own error
        if (deviation > 1e-3 * mean).all():
            yield same("the equations on drawn bags", found, rate * mean, slack, True)


def _location_known(alpha: float, D: float) -> float:
    """Excess of ridge regression with the right penalty on the deciding tokens."""
    b = D + alpha - 1
    root = math.sqrt(b * b + 4 * D)
    return 2 * D / (b + root) if b > 0 else (root - b) / 2


# -- thresholds and the inverse --------------------------------------------------------------------


def _draw_threshold(rng: np.random.Generator) -> Setting:
    return {
        "length": log_integer(rng, 2, 1000, (2, 2, 2)),
        "strength": log_uniform(rng, 1e-3, 30, (1.0,)),
        "noise": log_uniform(rng, 1e-4, 1, (0.0,)),
    }


def _numbers(found: at.Thresholds) -> tuple[list[float], list[float]]:
    values = [x.value if x is not None else 0.0 for x in found]
    return values, [x.error if x is not None else 0.0 for x in found]


def _threshold(setting: Setting) -> Answer:
    values, errors = _numbers(at.recovery_threshold(**setting))
    return Answer(np.array(values), np.array(errors))


def _threshold_relations(setting: Setting, answer: Answer) -> Iterable[Relation]:
    """Their order; on two tokens the turns of the reference."""
    reachable, possible, informed = answer.value
    slack = float(np.max(answer.error))
    if reachable > 0:
        if setting["noise"] == 0:
            yield at_most("1 <= informed", 1.0, informed, slack)
        yield at_most("informed <= possible", informed, possible, slack)
        yield at_most("possible <= reachable", possible, reachable, slack)
    if setting["length"] == 2 and setting["noise"] >= 0.003:
        D = setting["noise"] ** 2
        turns = sample_curves.pair_turns(setting["strength"], D, -5.0, 6.0 - math.log(D))
        expected = [turns[0], turns[-1]] if turns else [0.0, 0.0]
        allowed = slack + 1e-7 * max(expected)
        yield same("turns on two tokens", [reachable, informed], expected, allowed)


def _draw_inverse(rng: np.random.Generator) -> Setting:
    return {
        "length": log_integer(rng, 2, 100, (2, 2)),
        "strength": log_uniform(rng, 0.1, 30, (1.0, 5.0)),
        "noise": log_uniform(rng, 1e-2, 1, (0.3,)),
        "share": float(rng.uniform(0.05, 0.95)),
    }


def _inverse_parts(setting: Setting) -> tuple[Any, float]:
    numbers = {name: setting[name] for name in ("length", "strength", "noise")}
    task = at.SingleLocation.spiked(1000, **numbers)
    low = task.bayes_risk().value
    return task, low + setting["share"] * (task.null_risk().value - low)


def _inverse(setting: Setting) -> Answer:
    task, target = _inverse_parts(setting)
    found = at.bags_needed(task, target)
    return Answer(found.alpha.value, found.alpha.error)


def _inverse_relations(setting: Setting, answer: Answer) -> Iterable[Relation]:
    """A little more than this is enough and a little less is not; on two tokens by the reference."""
    task, target = _inverse_parts(setting)
    alpha = float(answer.value)
    off = 3 * float(answer.error) + 1e-6 * alpha
    D = task.noise**2
    for name, place, sign in (("enough", alpha + off, 1.0), ("too few", alpha - off, -1.0)):
        curve = at.learning_curve(task, place)
        slack = curve.risk.error
        yield at_most(name, sign * curve.risk.value, sign * target, slack)
        if setting["length"] == 2:
            found = sample_curves.pair_curve(setting["strength"], D, place, False)
            if found is not None:
                yield at_most(
                    f"{name}, reference", sign * (found[2] + D), sign * target, 1e-9
                )


# -- message passing -------------------------------------------------------------------------------


def _draw_messages(rng: np.random.Generator) -> Setting:
    return {
        "dim": int(rng.integers(2, 12)),
        "length": int(rng.integers(2, 5)),
        "bags": int(rng.integers(4, 20)),
        "strength": log_uniform(rng, 0.1, 10, (1.0,)),
        "noise": log_uniform(rng, 0.1, 3, (0.3,)),
        "steps": int(rng.integers(1, 4)),
        "seed": int(rng.integers(1 << 31)),
    }


def _drawn(setting: Setting) -> Any:
    numbers = [setting[name] for name in ("dim", "length", "strength", "noise")]
    return at.SingleLocation.spiked(*numbers).sample(setting["bags"], seed=setting["seed"])


def _messages(setting: Setting) -> Answer:
    batch = _drawn(setting)
    found = at.message_passing(
        batch, setting["strength"], setting["noise"], steps=setting["steps"]
    )
    fresh = batch.tokens[:3]
    parts = [
        found.key,
        found.value,
        found.predict(fresh),
        found.locate(fresh).ravel(),
    ]
    value = np.concatenate(parts)
    return Answer(value, ROUNDED * (1 + np.abs(value)))


def _messages_truth(setting: Setting) -> Truth:
    batch = _drawn(setting)
    nu = setting["strength"]
    k, v = sample_curves.messages(
        batch.tokens, batch.target, nu, setting["noise"] ** 2, setting["steps"], 0.5
    )
    fresh = batch.tokens[:3]
    score = np.exp(math.sqrt(nu) * (fresh @ k))
    p = score / score.sum(axis=1, keepdims=True)
    parts = [k, v, np.sum(p * (fresh @ v), axis=1), p.ravel()]
    return Truth(np.concatenate(parts))


SUBJECTS: list[Subject] = [
    Subject(
        "learning_curve",
        ("learning_curve",),
        _draw_curve,
        _curve,
        _curve_truth,
        _curve_relations,
        weight=0.3,
    ),
    Subject(
        "recovery_threshold",
        ("recovery_threshold",),
        _draw_threshold,
        _threshold,
        relations=_threshold_relations,
        weight=0.05,
    ),
    Subject(
        "bags_needed",
        ("bags_needed",),
        _draw_inverse,
        _inverse,
        relations=_inverse_relations,
        weight=0.05,
    ),
    Subject(
        "message_passing",
        ("message_passing", "MessagePassing.predict", "MessagePassing.locate"),
        _draw_messages,
        _messages,
        _messages_truth,
        may_refuse=lambda setting: "few bags in a small dimension may diverge",
        weight=0.3,
    ),
]
