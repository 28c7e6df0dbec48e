"""Gradients on nodes of a task of the user's, against differences of sums over the definition
(references.planted_definition). A family of its own: every setting compiles.
"""

from __future__ import annotations

import numpy as np

import attnscope as at
from attnscope.selftest.judged import Answer, Truth
from attnscope.selftest.references import planted_definition as reference
from attnscope.selftest.subject import Setting, Subject
from attnscope.selftest.subjects.planted_nodes import draw, head_of, overlaps_of, task_of
from attnscope.theory.nodes.node_gradient import node_gradient
from attnscope.theory.nodes.node_risk import reader_of
from attnscope.theory.nodes.node_routes import GRADIENT_NODES
from attnscope.theory.overlaps import head_gram

__all__ = ["SUBJECTS"]


def _draw_gradient(rng: np.random.Generator) -> Setting:
    setting = draw(rng)
    return setting | {"length": min(setting["length"], 2), "noise": 0.0}


def _call_gradient(s: Setting) -> Answer:
    """The public derivatives in the overlaps, with the errors of the nodes they are means over."""
    task = task_of(s)
    slope = at.risk_gradient(task, head_of(s), overlaps_of(s))
    reader = reader_of(task, head_of(s))
    nodes = node_gradient(task, reader, GRADIENT_NODES, 0, "risk_gradient")
    found = nodes(head_gram(overlaps_of(s), task.teacher_gram), s["temperature"])
    errors = np.append(found.gram_error[:2, 2:].ravel(), found.gram_error[0, 1])
    return Answer(np.array(slope[:5], dtype=float), errors + 1e-9, sampled=True)


def _true_gradient(s: Setting) -> Truth:
    return Truth(*reference.gradient(s, np.array(s["overlaps"])))


SUBJECTS = [
    Subject(
        "risk_gradient of a Planted, on nodes",
        ("risk_gradient",),
        _draw_gradient,
        _call_gradient,
        _true_gradient,
        weight=0.03,
    ),
]
