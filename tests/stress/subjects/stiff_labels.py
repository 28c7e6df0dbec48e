"""Risks of tasks of the user's with stiff labels (rare classes, narrow bands, turned signs,
oscillation, growth, hidden bumps), against sums that know where each label is special
(references.stiff_labels).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import attnscope as at
from stress.draws import choice, log_uniform
from stress.judged import Answer, Truth
from stress.references import stiff_labels as reference
from stress.subject import Setting, Subject
from stress.subjects.planted_definition import Defined

__all__ = ["KINDS", "SUBJECTS", "draw", "head_of", "task_of"]

KINDS = ("rare", "turned", "band", "steps", "sin", "exp", "power", "bump", "tanh", "hidden")


class Stiff(Defined):
    """Single-location regression whose label is a function of what the informative token says."""

    parts = ()  # set on the object: mappings, which arguments of a task cannot be

    def label(self, fields: Any, latent: np.ndarray, rng: np.random.Generator) -> Any:
        return reference.label(list(self.parts), fields[np.arange(len(fields)), latent, 1])


def task_of(s: Setting) -> Any:
    task = Stiff(dim=6, length=s["length"], signal=s["signal"], gamma=s["gamma"])
    task.parts = s["parts"]
    return task


def head_of(s: Setting) -> Any:
    from jax import numpy as jnp

    lam = s["inverse_temperature"]
    heads = {
        "erf": at.Erf,
        "softmax": at.Softmax,
        "linear": at.LinearAttention,
        "tanh": lambda lam: at.Componentwise(jnp.tanh, lam),
    }
    return heads[s["head"]](lam)


def _part(rng: np.random.Generator, kind: str) -> list[dict[str, Any]]:
    """The part, and for a hidden bump the line it hides on."""
    a, b, c = 1.0, 0.0, 1.0
    if kind == "rare":
        c = float(choice(rng, [-1.0, 1.0]))
        b = c * float(rng.uniform(2.5, 5.3))
        a = log_uniform(rng, 0.3, 100.0)
    elif kind in ("turned", "band"):
        b = float(rng.uniform(-2.5, 2.5))
        c = log_uniform(rng, 1e-4, 1e-1) if kind == "turned" else log_uniform(rng, 1e-5, 1.0)
        a = 1.0 if kind == "turned" else log_uniform(rng, 0.5, 30.0)
    elif kind == "steps":
        b, c = log_uniform(rng, 0.3, 5.0), float(rng.random())
    elif kind == "sin":
        b, c = log_uniform(rng, 1.0, 2000.0), float(rng.uniform(0, 6))
    elif kind == "exp":
        b = log_uniform(rng, 0.5, 4.0) * float(choice(rng, [-1.0, 1.0]))
    elif kind == "power":
        b = float(rng.integers(3, 12))
    elif kind == "bump":
        a, b, c = (
            log_uniform(rng, 1, 30),
            float(rng.uniform(-3, 3)),
            log_uniform(rng, 1e-5, 0.3),
        )
    elif kind == "tanh":
        b, c = float(rng.uniform(-3, 3)), log_uniform(rng, 1.0, 1e4)
    elif kind == "hidden":
        bump = {"kind": "bump", "a": log_uniform(rng, 1e-6, 1.0), "b": float(rng.uniform(-3, 3)),
                "c": log_uniform(rng, 1e-6, 1e-2)}  # fmt: skip
        return [{"kind": "line", "a": log_uniform(rng, 0.1, 10.0), "b": 0.0, "c": 1.0}, bump]
    return [{"kind": kind, "a": a, "b": b, "c": c}]


def draw(rng: np.random.Generator) -> Setting:
    parts = _part(rng, str(choice(rng, KINDS)))
    if rng.random() < 0.2:
        parts += _part(rng, str(choice(rng, KINDS[:5])))
    x = rng.standard_normal((2, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    overlaps = [float(v) for v in (*x[:, :2].ravel(), x[0] @ x[1])]
    if rng.random() < 0.3:
        overlaps = [1.0, 0.0, 0.0, 1.0, 0.0]
    return {
        "parts": parts,
        "head": str(choice(rng, ["erf", "softmax", "tanh", "linear"])),
        "inverse_temperature": log_uniform(rng, 0.1, 3.0, [0.7, 1.3]),
        "length": int(rng.integers(2, 11)),
        "gamma": log_uniform(rng, 0.5, 1.5, [1.0, 1.0]),
        "signal": float(3 * rng.random()),
        "overlaps": overlaps,
    }


def _call(s: Setting) -> Answer:
    found = at.risk(task_of(s), head_of(s), at.Overlaps(*s["overlaps"]))
    return Answer(found.value, found.error, sampled="moments" not in found.method)


def _truth(s: Setting) -> Truth:
    return Truth(*reference.risk(s, np.array(s["overlaps"])))


def _may_refuse(s: Setting) -> str:
    fast = any(p["kind"] == "sin" and p["b"] * s["gamma"] > 1000 for p in s["parts"])
    return "more oscillations than cells" if fast else ""


SUBJECTS = [
    Subject(
        "risk of a Planted with a stiff label",
        ("risk",),
        draw,
        _call,
        _truth,
        may_refuse=_may_refuse,
        weight=0.3,
    ),
]
