"""Gradients and stationary points on nodes of a task of the user's, against differences of sums
over the definition (references.planted_definition). A family of its own: every setting compiles.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import numpy as np

import attnscope as at
from stress.judged import Answer, Truth
from stress.references import planted_definition as reference
from stress.subject import Setting, Subject
from stress.subjects.planted_nodes import draw, head_of, overlaps_of, task_of

__all__ = ["SUBJECTS"]


def _draw_gradient(rng: np.random.Generator) -> Setting:
    setting = draw(rng)
    return setting | {"length": min(setting["length"], 2), "noise": 0.0}


def _call_gradient(s: Setting) -> Answer:
    """The derivatives in the overlaps, with the errors they state."""
    slope = at.risk_gradient(task_of(s), head_of(s), overlaps_of(s))
    assert slope.error is not None  # no exact gradient is known of these tasks
    errors = np.array(slope.error[:5], dtype=float)
    return Answer(np.array(slope[:5], dtype=float), errors + 1e-9, sampled=True)


def _true_gradient(s: Setting) -> Truth:
    return Truth(*reference.gradient(s, np.array(s["overlaps"])))


@lru_cache(maxsize=4)  # the call and its reference ask in turn
def _best_point(text: str) -> Any:
    s = json.loads(text)
    return at.stationary_points(task_of(s), head_of(s), starts=0)[0]


def _call_point(s: Setting) -> Answer:
    """Both tangent gradients of the best point vanish, up to how far nodes may have moved it."""
    point = _best_point(json.dumps(s))
    steepest = float(np.abs(point.eigenvalues).max())
    # six directions at most, each off by `away`
    return Answer(
        np.zeros(2), np.full(2, 6**0.5 * steepest * point.away + 1e-7), sampled=True
    )


def _true_point(s: Setting) -> Truth:
    """|g|^2 - (g.x)^2 of g_k = R_kappa k* + R_eta v* + R_rho v, and of g_v, by inner products."""
    point = _best_point(json.dumps(s))
    slope, error = reference.gradient(s, np.array(point.overlaps, dtype=float))
    G = np.array(point.gram)
    out = []
    for x, other, first in ((0, 1, 0), (1, 0, 2)):
        part = np.zeros(4)
        part[[2, 3, other]] = slope[first], slope[first + 1], slope[4]
        along = float(part @ G[x])
        out.append(max(float(part @ G @ part) - along**2, 0.0) ** 0.5)
    return Truth(np.array(out), 3 * float(np.max(error)))


SUBJECTS = [
    Subject(
        "risk_gradient of a Planted, on nodes",
        ("risk_gradient",),
        _draw_gradient,
        _call_gradient,
        _true_gradient,
        weight=0.03,
    ),
    Subject(
        "stationary_points of a Planted, on nodes",
        ("stationary_points",),
        _draw_gradient,
        _call_point,
        _true_point,
        weight=0.01,
    ),
]
