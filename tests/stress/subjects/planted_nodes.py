"""Risk of a task of the user's, by moments or on nodes: labels that no formula of ours knows, against
sums over the definition (references.planted_definition).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from attnscope.theory.overlaps import head_gram
from stress.draws import CORNER, choice, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import planted_definition as reference
from stress.subject import Setting, Subject
from stress.subjects.planted_definition import Defined

__all__ = ["SUBJECTS", "draw", "head_of", "overlaps_of", "task_of"]

SAMPLES = 20_000
HEADS = {"softmax": at.Softmax, "erf": at.Erf}


class Told(Defined):
    """The label is a function of what one token says."""

    shift: float = 0.0
    alignment: float = 0.0
    slope: float = 1.0
    told: str = "tanh"

    @property
    def teacher_gram(self) -> np.ndarray:
        return np.array([[1.0, self.alignment], [self.alignment, 1.0]])

    def means(self, latent: np.ndarray) -> np.ndarray:
        out = np.zeros((len(latent), self.length, 2))
        out[np.arange(len(latent)), latent] = self.signal, self.shift
        return out

    def label(
        self, fields: np.ndarray, latent: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        y = fields[np.arange(len(fields)), latent, 1]
        return np.asarray(reference.LABELS[self.told](y, self.slope))


class Chances(Told):
    """Two classes with logistic chances, and the logistic loss."""

    classes = (-1, 1)
    loss = "logistic"
    label = at.Planted.label

    def likelihood(self, fields: np.ndarray, latent: np.ndarray) -> np.ndarray:
        y = fields[np.arange(len(fields)), latent, 1]
        p = 1 / (1 + np.exp(-self.slope * y))
        return np.stack([1 - p, p], axis=1)


def task_of(s: Setting) -> Any:  # names become vectors: no type says so
    names = ("length", "gamma", "signal", "shift", "alignment", "slope", "noise")
    numbers: dict[str, Any] = {name: s[name] for name in names}
    if s["label"] == "chances":
        return Chances(dim=6, **numbers)
    return Told(dim=6, told=s["label"], **numbers)


def head_of(s: Setting) -> Any:
    return HEADS[s["head"]](s["inverse_temperature"])


def overlaps_of(s: Setting) -> at.Overlaps:
    return at.Overlaps(*s["overlaps"])


def draw(rng: np.random.Generator) -> Setting:
    length = int(choice(rng, [1, 2, 2, 3]))
    labels = ["tanh", "bump", "square", "chances"] if length < 3 else ["tanh", "square"]
    label = str(choice(rng, labels))
    alignment = 0.0 if rng.random() < 0.5 else float(0.8 * (2 * rng.random() - 1))
    star = np.array([[1, alignment], [alignment, 1]])
    # k and v of length 1 in a space of six; u and y of a token must not be nearly one number
    while True:
        x = rng.standard_normal((2, 6))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        cross = x[:, :2] @ np.linalg.cholesky(star).T
        if abs(cross[0, 1]) < 0.9:
            break
    return {
        "length": length,
        "label": label,
        "head": str(choice(rng, ["softmax", "erf"])),
        "inverse_temperature": log_uniform(rng, 0.1, 2.0, [1.0]),
        "gamma": log_uniform(rng, 0.3, 1.5, [1.0]),
        "signal": 0.0 if rng.random() < CORNER else float(2.5 * rng.random()),
        "shift": 0.0 if rng.random() < 0.5 else float(rng.standard_normal()),
        "alignment": alignment,
        "slope": log_uniform(rng, 0.3, 1.5, [1.0]),
        "noise": 0.0 if label == "chances" or rng.random() < 0.5 else float(rng.random()),
        "overlaps": [float(z) for z in (*cross.ravel(), x[0] @ x[1])],
        "seed": int(rng.integers(1 << 31)),
    }


def _call_risk(s: Setting) -> Answer:
    found = at.risk(
        task_of(s), head_of(s), overlaps_of(s), samples=SAMPLES, seed=s["seed"],
    )  # fmt: skip
    return Answer(found.value, found.error, sampled="moments" not in found.method)


def _true_risk(s: Setting) -> Truth:
    value, error = reference.risk(s, np.array(s["overlaps"]))
    return Truth(value + s["noise"] ** 2, error)


def _risk_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task = task_of(s)
    gram = head_gram(overlaps_of(s), task.teacher_gram)
    again = at.risk(task, head_of(s), gram, samples=SAMPLES, seed=s["seed"])
    yield same("at its Gram matrix", a.value, again.value, 1e-12 * abs(a.value))
    if s["label"] != "chances":
        best = task.bayes_risk(SAMPLES, s["seed"])
        slack = float(np.hypot(a.error, best.error)) + 1e-12
        yield at_most("no better than Bayes", best.value, a.value, slack, True)


SUBJECTS = [
    Subject(
        "risk of a Planted, on nodes",
        ("risk",),
        draw,
        _call_risk,
        _true_risk,
        _risk_relations,
        weight=0.2,
    ),
]
