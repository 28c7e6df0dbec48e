"""Deciding by attention: the least weighted cost, and the exact regret of classes.

Promises without a stated error: a cost is an average whose scores are rounded, ROUNDING (1 +
|q||k|/h) of the largest cost; the action's cost is the least up to the same.
"""

from __future__ import annotations

from collections.abc import Iterable

import mpmath as mp
import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform, pmf
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import decisions as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

ROUNDING = 1e-14  # fifty roundings


# -- one decision ----------------------------------------------------------------------------------


def _draw(rng: np.random.Generator) -> Setting:
    return {
        "length": log_integer(rng, 1, 30, [1, 2]),
        "dim": int(rng.integers(1, 4)),
        "size": log_uniform(rng, 1e-3, 1e2, [0.0, 1.0]),
        "spread": log_uniform(rng, 1e-6, 1e6, [1.0]),
        "ties": bool(rng.random() < 0.3),
        "bandwidth": log_uniform(rng, 1e-2, 1e4, [0.2]),
        "short": log_uniform(rng, 1e-4, 1e4, [1.0, 9.0]),
        "over": log_uniform(rng, 1e-4, 1e4, [1.0]),
        "kind": choice(rng, ["newsvendor", "listed", "squared"]),
        "seed": int(rng.integers(2**31)),
    }


def _context(s: Setting) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(s["seed"])
    k = s["size"] * rng.standard_normal((s["length"] + 1, s["dim"]))
    y = rng.standard_normal(s["length"])
    if s["ties"]:
        y = np.round(y)
    return k[-1], k[:-1], s["spread"] * y


def _actions(s: Setting) -> np.ndarray:
    return s["spread"] * np.linspace(-2, 2, 9)


def _decided(s: Setting, q: np.ndarray, k: np.ndarray, y: np.ndarray) -> at.Decision:
    pair = (s["short"], s["over"])
    if s["kind"] == "newsvendor":
        return at.attention_decision(q, k, y, pair, bandwidth=s["bandwidth"])
    squared = lambda a, y: (a[:, None] - y) ** 2
    cost = pair if s["kind"] == "listed" else squared
    return at.attention_decision(q, k, y, cost, _actions(s), s["bandwidth"])


def _cost(s: Setting, a: float, y: float) -> mp.mpf:
    left = mp.mpf(a) - mp.mpf(y)
    if s["kind"] == "squared":
        return left**2
    return mp.mpf(s["over"]) * left if left > 0 else -mp.mpf(s["short"]) * left


def _slack(s: Setting) -> float:
    q, k, y = _context(s)
    scores = np.linalg.norm(q) * np.linalg.norm(k, axis=1).max() / s["bandwidth"]
    range_ = np.ptp([*y, *_actions(s)])
    largest = range_**2 if s["kind"] == "squared" else range_ * max(s["short"], s["over"])
    # at equal costs a quantile may be taken when its weights sum to tau up to L roundings
    return float(min(2.0, ROUNDING * (1 + scores) * (1 + s["length"])) * largest)


def _call(s: Setting) -> Answer:
    found = _decided(s, *_context(s))
    return Answer(float(found.cost), _slack(s))


def _truth(s: Setting) -> Truth:
    q, k, y = _context(s)
    actions = y if s["kind"] == "newsvendor" else _actions(s)
    cost = lambda a, x: _cost(s, a, x)
    return Truth(reference.least_cost(q, k, y, s["bandwidth"], cost, list(actions)))


def _relations(s: Setting, a: Answer) -> Iterable[Relation]:
    q, k, y = _context(s)
    cost = lambda action, x: _cost(s, action, x)
    chosen = float(_decided(s, q, k, y).action)
    own = reference.weighted_cost(q, k, y, s["bandwidth"], cost, chosen)
    yield at_most("the action has the least cost", own, a.value, 2 * a.error)
    turned = _decided(s, q, k[::-1], y[::-1])
    yield same("tokens in another order", float(turned.cost), a.value, 2 * a.error)
    twice = _decided(s, np.stack([q, q]), k, y)
    yield same("two queries at once", twice.cost, np.full(2, a.value), a.error)


# -- regret ----------------------------------------------------------------------------------------


def _draw_regret(rng: np.random.Generator) -> Setting:
    classes = int(rng.integers(1, 4))
    longest = 200 if classes == 1 else 40
    gap = log_uniform(rng, 1e-3, 10, [0.0])
    return {
        "length": log_integer(rng, 1, longest, [1, 2, 10]),
        "short": log_uniform(rng, 1e-3, 1e3, [1.0, 9.0]),
        "over": log_uniform(rng, 1e-3, 1e3, [1.0]),
        "shifts": [float(x) for x in gap * rng.standard_normal(classes)],
        "inverse_bandwidth": log_uniform(rng, 1e-2, 20, [0.0, 20.0]),
        "probabilities": [float(x) for x in pmf(rng, classes)],
        "seed": int(rng.integers(2**31)),
    }


def _call_regret(s: Setting) -> Answer:
    names = ("length", "short", "over", "shifts", "inverse_bandwidth", "probabilities")
    found = at.decision_regret(**{name: s[name] for name in names})
    return Answer(found.value, found.error)


def _true_regret(s: Setting) -> Truth:
    value, error = reference.regret(
        s["length"],
        s["short"],
        s["over"],
        s["shifts"],
        s["inverse_bandwidth"],
        s["probabilities"],
        s["seed"],
    )
    return Truth(value, error)


SUBJECTS = [
    Subject(
        "attention_decision",
        ("attention_decision", "Decision"),
        _draw,
        _call,
        _truth,
        _relations,
    ),
    Subject(
        "decision_regret", ("decision_regret",), _draw_regret, _call_regret, _true_regret
    ),
]
