"""Risks of a head from sampled tokens: the plain second route to everything that `risk` returns.

notation: k, v the head's unit vectors, T_1, T_2 the task's first two teachers.

    k, v = (a combination of T_1 and T_2) + (directions orthogonal to every teacher),

so that five overlaps determine the head whatever the number of teachers, and all five can be moved
a little in every direction.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.numerics.border.estimate import Estimate
from attnscope.plugin_checks.record import CheckFailed, CheckSkipped
from attnscope.predictors.predictions import predict
from attnscope.tasks.base import has_classes, standardised
from attnscope.theory.loss_values import loss_values
from attnscope.theory.overlaps import Overlaps, head_gram
from attnscope.theory.risk import risk, risk_gradient
from attnscope.theory.risks.sign_error import sign_error

__all__ = ["STANDARD_ERRORS", "gradient_strain", "head_vectors", "risk_strain"]

STANDARD_ERRORS = 5  # two-sided 6e-7
SEQUENCES = 40_000  # a risk to about 1 percent, so that an error of 10 percent is found
SHARE_ON_TEACHERS = 0.6  # length of the head's part in the span of the teachers
# a Richardson step: central differences at STEP and STEP/2 cancel the error of order STEP^2
STEP = 0.04
# where the risk is sampled: its noise enters over the step, and every risk takes a second
SAMPLED_STEP = 0.12
SAMPLED_NODES = 1 << 14
SAMPLED_SETTINGS = 2
ROUNDING = 1e-9  # of differences, relative to the size of the risk


def head_vectors(task: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors k and v (dim,) as in the module's docstring."""
    teachers = np.asarray(task.teachers)
    pair = np.linalg.qr(teachers[:2].T)[0].T
    if task.dim < len(teachers) + 2:
        raise CheckSkipped(
            f"dim = {task.dim} leaves no two directions beside {len(teachers)} teachers"
        )
    rng = np.random.default_rng([seed, 0x4EAD])
    rest = rng.standard_normal((2, task.dim))
    rest -= rest @ np.linalg.pinv(teachers) @ teachers
    rest = np.linalg.qr(rest.T)[0].T
    on_teachers = rng.standard_normal((2, len(pair)))
    on_teachers *= SHARE_ON_TEACHERS / np.linalg.norm(on_teachers, axis=1, keepdims=True)
    # v has a share of k's own direction, so that k.v is not that of the teachers alone
    own = np.array([[1.0, 0.0], [0.28, 0.96]]) * np.sqrt(1 - SHARE_ON_TEACHERS**2)
    k, v = on_teachers @ pair + own @ rest
    return k / np.linalg.norm(k), v / np.linalg.norm(v)


def risk_strain(task: Any, predictor: Any, seed: int, where: str) -> float:
    """|risk - mean loss of sampled tokens| / allowed; CheckFailed above 1.

    Allowed: the stated error (5 of them where it is a standard error) plus 5 standard errors of the
    sampled mean.
    """
    k, v = head_vectors(task, seed)
    exact = sign_error if has_classes(task) else risk
    found = exact(task, predictor, Overlaps.of(task, k, v))
    losses = _losses(task, predictor, k, v, seed)
    error = losses.std(ddof=1) / np.sqrt(len(losses))
    return compared(
        "risk", found, float(losses.mean()), float(error), f"sampled tokens at {where}"
    )


def compared(what: str, found: Estimate, mean: float, error: float, by: str) -> float:
    """|found - mean| / allowed, with one sentence above 1."""
    stated = float(found.error) * (STANDARD_ERRORS if "monte-carlo" in found.method else 1)
    allowed = stated + STANDARD_ERRORS * error
    strain = ratio(abs(float(found.value) - mean), allowed)
    if not strain <= 1:
        raise CheckFailed(
            f"{what} is {float(found.value):.5g} ({found.method}) but {mean:.5g} by {by}; "
            f"{allowed:.2g} is allowed.",
            strain,
        )
    return strain


def ratio(difference: float, allowed: float) -> float:
    """difference / allowed; 0 where both are 0."""
    if difference == 0:
        return 0.0
    return difference / allowed if allowed > 0 else float("inf")


def _losses(task: Any, predictor: Any, k: np.ndarray, v: np.ndarray, seed: int) -> np.ndarray:
    """(SEQUENCES,) losses of the head on sampled tokens: wrong signs of a task with classes."""
    batch = task.sample(SEQUENCES, seed=seed + 1)
    tokens, label, mask = standardised(task, batch)
    if np.ndim(label) > 1:
        raise CheckSkipped("the label has several numbers, and one head has one output")
    output = np.asarray(predict(predictor, k, v, tokens, mask))
    if has_classes(task):
        return (np.sign(output) != label).astype(float)
    gram = head_gram(Overlaps.of(task, k, v), np.asarray(task.teacher_gram))
    unit = task.projections(2, gram, np.random.default_rng(0)).unit
    loss = getattr(task, "loss", "squared")
    return unit**2 * loss_values(loss, output, np.asarray(label))


def gradient_strain(task: Any, predictor: Any, seed: int, where: str) -> float:
    """Largest |risk_gradient - central difference of risk| / allowed over the five overlaps; 0 for
    seeds from SAMPLED_SETTINGS on where the risk is sampled, which takes long.

    Allowed: 5 stated errors of the derivative, the stated errors of the two risks over the step, the
    difference between two step sizes, and rounding.
    """
    if has_classes(task):
        raise CheckSkipped("a share of wrong signs has no gradient")
    o = Overlaps.of(task, *head_vectors(task, seed))
    sampled = "monte-carlo" in risk(task, predictor, o, samples=SAMPLED_NODES).method
    if sampled and seed >= SAMPLED_SETTINGS:
        return 0.0
    step = SAMPLED_STEP if sampled else STEP
    slopes = risk_gradient(task, predictor, o)
    names = o._fields if len(task.teacher_gram) > 1 else ("kappa", "theta", "rho")
    worst = 0.0
    for name in names:
        slope = float(getattr(slopes, name))
        stated = 0.0 if slopes.error is None else float(getattr(slopes.error, name))
        wide, wide_error, size = _difference(task, predictor, o, name, step)
        narrow, narrow_error, _ = _difference(task, predictor, o, name, step / 2)
        difference = (4 * narrow - wide) / 3
        noise = (4 * narrow_error + wide_error) / 3
        allowed = (
            STANDARD_ERRORS * stated + noise + abs(narrow - wide) + ROUNDING * size / step
        )
        strain = ratio(abs(slope - difference), allowed)
        if not strain <= 1:
            raise CheckFailed(
                f"dR/d{name} of risk_gradient is {slope:.5g} but {difference:.5g} by "
                f"differences of risk at {where}; {allowed:.2g} is allowed.",
                strain,
            )
        worst = max(worst, strain)
    return worst


def _difference(
    task: Any, predictor: Any, o: Overlaps, name: str, step: float
) -> tuple[float, float, float]:
    """Central difference of the risk in one overlap, its error, and the size of the risk."""
    ends = [
        risk(
            task,
            predictor,
            o._replace(**{name: getattr(o, name) + sign * step}),
            samples=SAMPLED_NODES,
        )
        for sign in (-1, 1)
    ]
    times = [STANDARD_ERRORS if "monte-carlo" in end.method else 1 for end in ends]
    error = sum(n * float(end.error) for n, end in zip(times, ends)) / (2 * step)
    size = max(abs(float(end.value)) for end in ends)
    return (float(ends[1].value) - float(ends[0].value)) / (2 * step), error, size
