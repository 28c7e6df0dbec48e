"""All minima of the loss on the overlaps of unit vectors, and which phase each belongs to.

notation: of skeleton.py; y = e/P; a prime along a curve.

A point of the arc is a minimum if the loss is least along the arc and falls outwards,
y L_y + m L_m <= 0; at its two ends L' = 0 by symmetry and the second derivatives decide:

    semantic     e = 0, m = 1:   P^2 L_ee - L_m > 0   (L_m < 0 always for w < 1)
    positional   e = P, m = 0:   L_mm - P L_e > 0 and L_e <= 0; or m = 0, e < P, L_e = 0,
                                 L_ee > 0, L_mm > 0
    mixed        both overlaps non-zero

On the axis and on a branch minima are zeros of L_e that a positive Hessian confirms. Zeros are
bracketed between neighbouring points of the skeleton and then found to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from attnscope.errors import bad
from attnscope.numerics.border.estimate import Estimate
from attnscope.tasks.planted.positional_semantic import PositionalSemantic
from attnscope.theory.positional_semantic.loss import (
    checked_semantic,
    loss_derivatives,
    positional_gradient,
    positional_loss,
)
from attnscope.theory.positional_semantic.skeleton import Skeleton, skeleton
from attnscope.theory.positional_semantic.table import Table, partials

__all__ = ["PHASE_NAMES", "PositionalMinimum", "checked_mix", "positional_minima"]

PHASE_NAMES = ("semantic", "positional", "mixed")
MINIMUM_NEWTON_STEPS = 30  # quadratic convergence from a distance of 1/500
SAME_MINIMUM_DISTANCE = 1e-6  # minima with closer overlaps are the same
ARC_END_ANGLE = 1e-5  # radians: a mixed minimum this near to an end of the arc is put there


@dataclass(frozen=True)
class PositionalMinimum:
    """A local minimum with e >= 0 and m >= 0; (+-e, +-m) are minima too.

    Attributes:
        e, m: p.k and k*.k there.
        loss: with its error.
        phase: "semantic" (e = 0), "positional" (m = 0) or "mixed".
        curvature: the smallest eigenvalue of the Hessian on the sphere of k among directions in the
            span of p, k* and k.

    >>> import attnscope as at
    >>> lowest = at.positional_minima(at.PositionalSemantic(dim=1000, mix=0.6, contrast=1.5))[0]
    >>> lowest.phase, round(lowest.e, 4), round(lowest.m, 4)
    ('semantic', 0.0, 1.0)
    """

    e: float
    m: float
    loss: Estimate
    phase: str
    curvature: float


def positional_minima(task: PositionalSemantic) -> tuple[PositionalMinimum, ...]:
    """Every minimum on e^2/P^2 + m^2 <= 1, inside and on the border, the lowest first.

    Two that are closer than 1/650 to one another count as one.

    Args:
        task: a PositionalSemantic with mix below 1: at 1 the loss does not depend on m.

    >>> for found in positional_minima(PositionalSemantic(dim=1000, mix=0.6, contrast=1.5)):
    ...     print(f"{found.phase:10s} e {found.e:.4f} m {found.m:.4f} {found.loss.value:.6f}")
    semantic   e 0.0000 m 1.0000 0.111259
    positional e 1.0000 m 0.0000 0.113535
    """
    of = "positional_minima"
    checked_semantic(task, of)
    checked_mix(task.mix, of)
    frame = skeleton(task.position)
    slopes, _ = loss_derivatives(task, frame.table, frame.at)
    places = [
        *_on_arc(task, frame, slopes),
        *_on_axis(task, frame, slopes),
        *_on_branches(task, frame, slopes),
    ]
    kept: list[tuple[float, float]] = []
    for place in places:
        if all(
            max(abs(place[0] - o[0]), abs(place[1] - o[1])) > SAME_MINIMUM_DISTANCE
            for o in kept
        ):
            kept.append(place)
    return tuple(
        sorted((_minimum_at(task, e, m) for e, m in kept), key=lambda x: x.loss.value)
    )


def checked_mix(mix: float, of: str) -> None:
    """Raise where the loss does not depend on m."""
    if mix == 1:
        must = "below 1: at 1 the loss does not depend on m"
        raise bad("mix", of, must, mix, "mix=0.999")


def _minimum_at(task: PositionalSemantic, e: float, m: float) -> PositionalMinimum:
    phase = PHASE_NAMES[0] if e == 0 else PHASE_NAMES[1] if m == 0 else PHASE_NAMES[2]
    return PositionalMinimum(
        e, m, positional_loss(task, e, m), phase, _smallest_curvature(task, e, m)
    )


def _smallest_curvature(task: PositionalSemantic, e: float, m: float) -> float:
    """Smallest eigenvalue of the Riemannian Hessian of k -> L(P y, m) in span{p, k*, k}: on the
    basis (p/P, k*, r), k = (y, m, r): P_T (H - (k.grad) I) P_T.
    """
    position = task.position
    there = positional_gradient(task, e, m)
    scale = np.array([position, 1.0])
    gradient = np.zeros(3)
    gradient[:2] = there.gradient * scale
    hessian = np.zeros((3, 3))
    hessian[:2, :2] = there.hessian * np.outer(scale, scale)
    rest = max(1 - (e / position) ** 2 - m**2, 0.0)
    k = np.array([e / position, m, np.sqrt(rest)])
    tangent = np.linalg.svd(k[None, :])[2][1:]
    inner = tangent @ (hessian - (k @ gradient) * np.eye(3)) @ tangent.T
    return float(np.linalg.eigvalsh(inner)[0])


def _slopes_at(task: PositionalSemantic, table: Table, e: float, m: float) -> np.ndarray:
    """(6,): L and its derivatives at one point."""
    p = partials(table, np.array([e]), np.array([m]))
    return loss_derivatives(task, table, p)[0][:, 0]


def _rising_zero_indices(values: np.ndarray) -> np.ndarray:
    """Places i where the sign goes from below 0 to 0 or above between i and i + 1."""
    return np.flatnonzero((values[:-1] < 0) & (values[1:] >= 0))


def _slope_zero(slope: Callable[[float], float], low: float, high: float) -> float:
    """Where the slope rises through 0; an end of the interval if it does not inside."""
    if slope(low) >= 0:
        return low
    return high if slope(high) <= 0 else float(brentq(slope, low, high, xtol=1e-14))


def _on_arc(
    task: PositionalSemantic, frame: Skeleton, slopes: np.ndarray
) -> list[tuple[float, float]]:
    position = task.position
    arc = np.flatnonzero(frame.kinds == 0)
    _, l_e, l_m, l_ee, _, l_mm = slopes[:, arc]
    at_start = position**2 * l_ee[0] - l_m[0]
    at_end = l_mm[-1] - position * l_e[-1]
    found = []
    if at_start > 0:
        found.append((0.0, 1.0))
    if at_end > 0 and l_e[-1] <= 0:
        found.append((position, 0.0))

    def slope(angle: float) -> float:
        y = np.sin(angle)
        m = np.cos(angle)
        _, by_e, by_m, *_ = _slopes_at(task, frame.table, position * y, m)
        return float(position * m * by_e - y * by_m)

    along = position * frame.m[arc] * l_e - frame.e[arc] / position * l_m
    angles = np.arctan2(frame.e[arc] / position, frame.m[arc])
    # at the two ends the slope is 0 by symmetry; just inside it is that of the curvature
    angles[0] = ARC_END_ANGLE
    angles[-1] -= ARC_END_ANGLE
    along[0] = ARC_END_ANGLE * at_start
    along[-1] = -ARC_END_ANGLE * at_end
    for i in _rising_zero_indices(along):
        angle = _slope_zero(slope, angles[i], angles[i + 1])
        e = position * float(np.sin(angle))
        m = float(np.cos(angle))
        there = _slopes_at(task, frame.table, e, m)
        if e * there[1] + m * there[2] <= 0:
            found.append((e, m))
    return found


def _on_axis(
    task: PositionalSemantic, frame: Skeleton, slopes: np.ndarray
) -> list[tuple[float, float]]:
    axis = np.flatnonzero(frame.kinds == 1)
    # the first interval begins at 0, where L_e = 0 and the loss falls along m: no minimum
    slope = lambda e: float(_slopes_at(task, frame.table, e, 0.0)[1])
    e = np.append(frame.e[axis], task.position)
    found = []
    for i in _rising_zero_indices(np.append(slopes[1, axis], slope(task.position))):
        zero = _slope_zero(slope, e[i], e[i + 1])
        there = _slopes_at(task, frame.table, zero, 0.0)
        if zero < task.position and there[3] > 0 and there[5] > 0:
            found.append((zero, 0.0))
    return found


def _on_branches(
    task: PositionalSemantic, frame: Skeleton, slopes: np.ndarray
) -> list[tuple[float, float]]:
    found = []
    for kind in range(2, int(frame.kinds.max()) + 1):
        branch = np.flatnonzero(frame.kinds == kind)
        for i in _rising_zero_indices(slopes[1, branch]):
            pair = branch[[i, i + 1]]
            start = np.array([frame.e[pair].mean(), frame.m[pair].mean()])
            found += _interior_minimum(task, frame.table, start)
    return found


def _interior_minimum(
    task: PositionalSemantic, table: Table, place: np.ndarray
) -> list[tuple[float, float]]:
    """The minimum inside that Newton's method reaches, if it is one."""
    for _ in range(MINIMUM_NEWTON_STEPS):
        _, l_e, l_m, l_ee, l_em, l_mm = _slopes_at(task, table, place[0], place[1])
        determinant = l_ee * l_mm - l_em**2
        if determinant <= 0 or l_ee <= 0:
            return []
        step = np.array([l_mm * l_e - l_em * l_m, l_ee * l_m - l_em * l_e]) / determinant
        place = place - step
        if not ((place[0] / task.position) ** 2 + place[1] ** 2 < 1 and place.min() > 0):
            return []
        if np.abs(step).max() < 1e-14:
            break
    return [(float(place[0]), float(place[1]))]
