"""Bayes risks of a linear map and of a function on the sphere; the order of two symbols.

The risks state their errors; references draw Y where its side is at most DRAWN_SIDE.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from stress.draws import log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import exchangeable as reference
from stress.subject import Setting, Subject
from stress.subjects.exchangeable import draw_sphere

__all__ = ["SUBJECTS"]

# beyond, drawing Y for the reference costs more than the setting's share of time
DRAWN_SIDE = 12

# -- Bayes risks -----------------------------------------------------------------------------------


def _draw_map_risk(rng: np.random.Generator) -> Setting:
    huge = rng.random() < 0.2
    dim = log_integer(rng, 1, 200 if huge else 8, [1, 2])
    length = log_integer(rng, 1, 10**9 if dim <= 3 else 200, [0, 1, 2, dim, dim + 1])
    return {
        "dim": dim,
        "length": length,
        "prior_variance": log_uniform(rng, 1e-6, 1e6, [1.0]),
        "noise": log_uniform(rng, 1e-6, 1e3, [1.0, 1e-3]),
        "dim_value": int(rng.integers(1, 4)),
        "seed": int(rng.integers(2**31)),
    }


def _map_risk(s: Setting, dim: int, length: int) -> Any:
    return at.LinearMap(dim, s["dim_value"], s["prior_variance"], s["noise"]).bayes_risk(
        length
    )


def _call_map_risk(s: Setting) -> Answer:
    e = _map_risk(s, s["dim"], s["length"])
    return Answer(e.excess, e.error)


def _true_map_risk(s: Setting) -> Truth | None:
    short, long = sorted((s["dim"], s["length"]))
    if short > DRAWN_SIDE or (short > 2 and long > 100):
        return None
    value, error = reference.wishart_trace(
        s["length"], s["dim"], s["prior_variance"] / s["noise"] ** 2, s["seed"]
    )
    scale = s["dim_value"] * s["prior_variance"]
    return Truth(scale * value, scale * error)


def _map_risk_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    d = s["dim"]
    L = s["length"]
    c = s["prior_variance"] / s["noise"] ** 2
    scale = s["dim_value"] * s["prior_variance"]
    yield at_most("<= prior", a.value, scale * d, a.error + 1e-15 * scale * d)
    yield at_most(
        "Jensen: >= d/(1 + c L)", scale * d / (1 + c * L), a.value, a.error + 1e-14 * a.value
    )
    if d + 1 < L:
        yield at_most(
            "<= least squares",
            a.value,
            scale * d / (c * (L - d - 1)),
            a.error + 1e-14 * a.value,
        )
    if 1 <= L <= 200:
        turned = _map_risk(s, L, d)
        both = a.error + turned.error + 1e-14 * scale * max(d, L)
        yield same(
            "rows and columns swapped", a.value - scale * d, turned.excess - scale * L, both
        )
    before = _map_risk(s, d, max(L - 1, 0))
    yield at_most(
        "one more token never hurts", a.value, before.excess, a.error + before.error
    )


def _draw_sphere_risk(rng: np.random.Generator) -> Setting:
    s = draw_sphere(rng)
    return s | {"length": log_integer(rng, 1, 30, [0, 1, 2]), "dim": int(rng.integers(2, 4))}


def _call_sphere_risk(s: Setting) -> Answer:
    task = at.SphereRegression(s["dim"], s["noise"], s["degrees"], s["weights"])
    e = task.bayes_risk(s["length"], samples=400, seed=s["seed"] % 1000)
    return Answer(e.excess, e.error, sampled=True)


def _true_sphere_risk(s: Setting) -> Truth | None:
    weights = dict(zip(s["degrees"], s["weights"]))
    found = reference.sphere_gap(s["dim"], s["noise"], weights, s["length"], s["seed"])
    return found and Truth(found[0], found[1] / reference.SIGMAS)


# -- the order of two symbols ----------------------------------------------------------------------


def _draw_order(rng: np.random.Generator) -> Setting:
    length = int(rng.integers(0, 7))
    symbols = rng.integers(2, 5, size=length)
    if length >= 2 and rng.random() < 0.9:
        symbols[rng.choice(length, 2, replace=False)] = [0, 1]
    return {
        "symbols": symbols.tolist(),
        "positions": rng.permutation(length).tolist(),
        "noise": log_uniform(rng, 1e-6, 10, [0.0]),
        "seen": bool(rng.random() < 0.7),
    }


def _call_order(s: Setting) -> Answer:
    task = at.OrderTask(5, s["noise"])
    content = np.eye(5)[np.asarray(s["symbols"], dtype=int)]
    positions = np.asarray(s["positions"]) if s["seen"] else None
    predicted = float(task.bayes_predict(content, positions))
    risk = task.bayes_risk(len(content), s["seen"])
    return Answer(
        [predicted, float(task.posterior(content, positions)), risk.excess],
        [0.0, 0.0, risk.error],
    )


def _true_order(s: Setting) -> Truth:
    L = len(s["symbols"])
    mean = reference.order_law(L, s["positions"], s["symbols"], s["seen"])
    return Truth([mean, (1 + mean) / 2, 0.0 if s["seen"] and L >= 2 else 1.0])


SUBJECTS: list[Subject] = [
    Subject(
        "LinearMap.bayes_risk",
        ("LinearMap.bayes_risk",),
        _draw_map_risk,
        _call_map_risk,
        _true_map_risk,
        _map_risk_relations,
        weight=3,
    ),
    Subject(
        "SphereRegression.bayes_risk",
        ("SphereRegression.bayes_risk",),
        _draw_sphere_risk,
        _call_sphere_risk,
        _true_sphere_risk,
    ),
    Subject(
        "OrderTask.posterior, bayes_predict, bayes_risk",
        ("OrderTask.posterior", "OrderTask.bayes_predict", "OrderTask.bayes_risk"),
        _draw_order,
        _call_order,
        _true_order,
        weight=0.5,
    ),
]
