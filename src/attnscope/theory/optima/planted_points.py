"""Stationary points of the risk of any planted task: multi-start Newton on the product of spheres
(planted_spheres.py, with the notation).

Starts: each trained vector at each teacher or perpendicular to all (one head), heads at pairs of
teachers, and descents from random vectors; points that are one up to signs with the same risk are
listed once.

Where the gradient comes from nodes, errors of eigenvalues are the scatter over scramblings of
v^T H v, and how far the eigenvalues move when the point moves by its own error H^+ g, both widened;
the risk is that of independent nodes, free of selection bias. A search may miss points: every
listed point exists, but the list may be incomplete.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from attnscope.numerics.border.sampled_estimate import widened
from attnscope.theory.optima.optimum import FINAL_RISK_SEED
from attnscope.theory.optima.planted_spheres import (
    HESSIAN_DIFFERENCE_RADIANS,
    LONGEST_STEP_RADIANS,
    SMALLEST_ROTATION_SQUARE,
    Spheres,
    surface_of,
)
from attnscope.theory.optima.stationary import (
    SIGNIFICANT_ERRORS,
    StationaryPoint,
    kind_of,
    name_of,
    signs_of,
    sure_signs,
)
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk

__all__ = ["planted_points"]

SAME_POINT_DISTANCE = 2e-3  # in every inner product: closer points are the same point
# in overlaps: a point this close to an exact one, moved by nodes, has its name
NAME_TOLERANCE = 0.02


class Place(NamedTuple):
    """A found point: X (m, D), its eigenvalues with errors, and how far it may be off."""

    vectors: np.ndarray
    eigenvalues: np.ndarray
    multiplicities: np.ndarray
    errors: np.ndarray
    away: float


def planted_points(
    task: Any, predictor: Any, lam: float, starts: int, seed: int, of: str
) -> list[StationaryPoint]:
    """The points found from the structured starts and `starts` random ones, best risk first."""
    surface = surface_of(task, predictor, lam, of)
    on = Spheres(surface, task.dim)
    found: list[Place] = []
    for X in _start_vectors(on, starts, seed):
        end = on.newton(X)
        if end is None or any(
            _is_same_point(on, end, x.vectors, SAME_POINT_DISTANCE) for x in found
        ):
            continue
        found.append(_spectrum_at(on, end))
    points = [_stationary_point(task, predictor, on, place) for place in found]
    return _distinct_points(sorted(points, key=lambda p: p.risk.value))


def _start_vectors(on: Spheres, starts: int, seed: int) -> Iterator[np.ndarray]:
    m = on.surface.vectors
    T = on.teachers
    r = len(T)
    free = on.free
    if m == 2:
        for choice in product(range(r + 1), repeat=2):
            if all(c < r or len(free) > a for a, c in enumerate(choice)):
                yield np.stack([T[c] if c < r else free[a] for a, c in enumerate(choice)])
    else:
        if r >= m:
            yield T[:m].copy()
        if len(free) >= m:
            yield free[:m].copy()
    rng = np.random.default_rng([seed, 0x57A7])
    for _ in range(starts):
        yield on.descended(on.moved(rng.standard_normal((m, on.size)), np.zeros(m * on.size)))


def _spectrum_at(on: Spheres, X: np.ndarray) -> Place:
    """The spectrum of a critical point, with its errors."""
    basis, turns = on.basis(X)
    H = on.hessians(X, basis)
    values, frame = np.linalg.eigh(H.mean(0))
    errors = np.zeros(len(values))
    away = 0.0
    # rotations of what X has beyond the teachers into another dimension
    left, sizes, _ = np.linalg.svd(X @ on.free.T)
    beyond = int((sizes**2 > SMALLEST_ROTATION_SQUARE).sum())
    apart = left[:, beyond:]
    blocks = apart.T @ on.outside_blocks(X) @ apart
    outer, outer_frame = np.linalg.eigh(blocks.mean(0))
    outer_errors = np.zeros(len(outer))
    if on.surface.doubt is not None:
        # of second-order differences of a gradient that is known to `doubt`
        doubt = on.surface.doubt(on.gram(X))
        largest = float(np.abs(values).max(initial=0.0))
        errors = np.full(
            len(values),
            doubt / HESSIAN_DIFFERENCE_RADIANS
            + HESSIAN_DIFFERENCE_RADIANS**2 * max(largest, 1.0),
        )
        outer_errors = np.full(len(outer), 2 * doubt)
    if not on.surface.exact:
        S = len(H)
        along = np.einsum("an,sab,bn->sn", frame, H, frame)
        errors = _scrambling_error(along, S)
        slopes = on.gradients(X).reshape(S, -1) @ basis @ frame
        # if the curvature is smaller than its error the point may lie anywhere along that direction
        bend = np.maximum(np.abs(values), np.maximum(errors, 1e-12))
        shift = np.minimum(_scrambling_error(slopes, S) / bend, LONGEST_STEP_RADIANS)
        there = on.moved(X, basis @ (frame @ shift))
        other = on.hessians(there, on.basis(there)[0]).mean(0)
        moved = np.linalg.eigvalsh(other)
        if len(moved) == len(values):
            errors = np.hypot(errors, np.abs(moved - values))
        outer_errors = _scrambling_error(
            np.einsum("an,sab,bn->sn", outer_frame, blocks, outer_frame), S
        )
        far = np.linalg.eigvalsh(apart.T @ on.outside_blocks(there).mean(0) @ apart)
        outer_errors = np.hypot(outer_errors, np.abs(far - outer))
        away = float(np.abs(on.gram(there) - on.gram(X)).max())
    counts = np.ones(len(values), int)
    turns += beyond * on.outside
    if turns:
        values, errors = np.append(values, 0.0), np.append(errors, 0.0)
        counts = np.append(counts, turns)
    if on.outside:
        values, errors = np.append(values, outer), np.append(errors, outer_errors)
        counts = np.append(counts, np.full(len(outer), on.outside))
    order = np.argsort(values)
    return Place(X, values[order], counts[order], errors[order], away)


def _scrambling_error(x: np.ndarray, scramblings: int) -> np.ndarray:
    """Standard errors of means over scramblings, widened as a risk's."""
    return np.asarray(x.std(0, ddof=1) * widened(1.0, scramblings) / math.sqrt(scramblings))


def _stationary_point(
    task: Any, predictor: Any, on: Spheres, place: Place
) -> StationaryPoint:
    G = on.gram(place.vectors)
    m = len(place.vectors)
    r = len(on.teachers)
    of_heads = [
        [G[a, m], G[a, m + 1] if r > 1 else 0.0, G[a + 1, m], G[a + 1, m + 1] if r > 1 else 0.0,
         G[a, a + 1]]
        for a in range(0, m, 2)
    ]  # fmt: skip
    clipped = np.clip(np.array(of_heads).T, -1, 1)
    single = m == 2
    o = Overlaps(*(float(x[0]) if single else x for x in clipped))
    if single and r == 2:
        at = risk(task, predictor, G, seed=FINAL_RISK_SEED)
    else:
        at = risk(task, predictor, G, method="quasi-monte-carlo", seed=FINAL_RISK_SEED)
    stated = not on.surface.exact or on.surface.doubt is not None
    if not stated:
        kind = kind_of(signs_of(place.eigenvalues, 1.0), place.multiplicities)
    else:
        known = (place.errors > 0) | (
            place.eigenvalues != 0
        )  # not the zero modes of rotations
        kind = _kind_with_errors(place.eigenvalues[known], place.errors[known])
    name = (
        name_of(clipped[:, 0], max(NAME_TOLERANCE, place.away))
        if single and r > 1
        else "point"
    )
    return StationaryPoint(
        name,
        o,
        at,
        place.eigenvalues,
        place.multiplicities,
        kind,
        G,
        place.errors if stated else None,
        place.away,
    )


def _kind_with_errors(eigenvalues: np.ndarray, errors: np.ndarray) -> str:
    signs = sure_signs(eigenvalues, errors)
    if (signs > 0).any() and (signs < 0).any():
        return "saddle"
    if (signs == 0).any():
        return "undecided"
    return "minimum" if (signs > 0).all() else "maximum"


def _is_same_point(on: Spheres, one: np.ndarray, other: np.ndarray, near: float) -> bool:
    return bool(np.abs(on.gram(one) - on.gram(other)).max() < near)


def _distinct_points(points: list[StationaryPoint]) -> list[StationaryPoint]:
    """Each point once: of those that agree up to signs of trained vectors, and in their risk, the
    one with the largest inner products with the teachers.
    """
    kept: list[StationaryPoint] = []
    for p in points:
        twin = next((i for i, q in enumerate(kept) if _is_mirror_image(p, q)), None)
        if twin is None:
            kept.append(p)
        elif _teacher_overlap_sum(p) > _teacher_overlap_sum(kept[twin]) + SAME_POINT_DISTANCE:
            kept[twin] = p
    return kept


def _is_mirror_image(p: StationaryPoint, q: StationaryPoint) -> bool:
    assert p.gram is not None and q.gram is not None
    off = abs(p.risk.value - q.risk.value)
    if off > SIGNIFICANT_ERRORS * (p.risk.error + q.risk.error) + 1e-9 * abs(p.risk.value):
        return False
    V = len(p.gram)
    m = 2 * np.size(p.overlaps.kappa)
    near = SAME_POINT_DISTANCE + SIGNIFICANT_ERRORS * (p.away + q.away)
    for flips in product((1.0, -1.0), repeat=m):
        sign = np.append(flips, np.ones(V - m))
        if np.abs(sign[:, None] * p.gram * sign - q.gram).max() < near:
            return True
    return False


def _teacher_overlap_sum(p: StationaryPoint) -> float:
    assert p.gram is not None
    m = 2 * np.size(p.overlaps.kappa)
    return float(p.gram[:m, m:].sum())
