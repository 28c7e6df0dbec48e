"""Stationary points of the risk of any planted task: multi-start Newton on the product of spheres.

notation: x_1..x_m the trained vectors (k_1, v_1, k_2, ...), unit rows of X in R^D; T the r teachers;
G the Gram matrix of all; R_aj = dR/d(x_a.y_j), y = (x, T), from the route of the pair (exact, or
fixed nodes: nodes/node_gradient.py). D = min(d, r + m) holds every Gram matrix.

    gradient   g_a = sum_{j != a} R_aj y_j, less its part along x_a
    Hessian    central differences of g along great circles, of step DIFFERENCE
    outside    every dimension beyond D adds one block, B_ab = R_ab, B_aa = -sum_{j != a} R_aj G_aj

Rotations that fix the teachers leave R as it is: their directions are known zero modes, inside R^D
and, for what X has beyond the teachers, in every dimension outside; Newton's steps leave them
alone. Starts: each trained vector at each teacher or perpendicular to all
(one head), heads at pairs of teachers, and descents from random vectors; points that are one up to
signs with the same risk are listed once.

On nodes R is a smooth function, found to rounding; it is not the risk. Errors of eigenvalues are the
scatter over scramblings of v^T H v, and how far the eigenvalues move where the point does by its own
error H^+ g, both widened; the risk is that of other nodes, which owes nothing to the search. A
search may miss points: what is listed is there, what is not listed may be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from attnscope.numerics.border.sampled_estimate import widened
from attnscope.numerics.semidefinite import lower_factor
from attnscope.predictors.heads import adds_heads
from attnscope.theory.nodes.node_gradient import node_gradient
from attnscope.theory.nodes.node_risk import reader_of
from attnscope.theory.nodes.node_routes import GRADIENT_NODES
from attnscope.theory.optima.stationary import (
    StationaryPoint,
    kind_of,
    name_of,
    signs_of,
    sure_signs,
)
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk
from attnscope.theory.route import gradient_row

__all__ = ["Surface", "planted_points", "surface_of"]

DIFFERENCE = 1e-3  # rad: second-order differences, 1e-6 of a third derivative
STEEP = 1e-9  # size of a gradient, relative to its entries, below which Newton's method has arrived
STEPS = 25  # of at most LONGEST rad: the way around the sphere, and then some
LONGEST = 0.3
SAME = 2e-3  # distance in every inner product below which points are one, exact or not
SURE = 5.0
NULL = 1e-10  # squared length of a rotation's direction that is rounding
CHECK = 1  # seed of the nodes on which risks are computed; the search has seed 0
NAMED = 0.02  # overlaps this close to 0 or 1 have the name of the exact point: nodes move it


class Surface(NamedTuple):
    """both(G) -> the risk, and its derivatives (S, m, V) of each scrambling; S = 1 where they are
    exact.
    """

    both: Callable[[np.ndarray], tuple[float, np.ndarray]]
    star: np.ndarray
    vectors: int
    exact: bool


class Place(NamedTuple):
    """A found point: X (m, D), its eigenvalues with errors, and how far it may be off."""

    vectors: np.ndarray
    eigenvalues: np.ndarray
    multiplicities: np.ndarray
    errors: np.ndarray
    away: float


def surface_of(task: Any, predictor: Any, lam: float, of: str) -> Surface:
    """The risk as a function of Gram matrices, with the gradient of the pair's route."""
    star = np.asarray(task.teacher_gram, dtype=np.float64)
    heads = predictor.heads if adds_heads(predictor) else 1
    m = 2 * heads
    row = gradient_row(task, predictor, of, "a predictor that JAX can differentiate")
    if row.exact and heads == 1 and len(star) == 2:
        return _exact_surface(task, predictor, lam, row, star)
    gradient = node_gradient(task, reader_of(task, predictor), GRADIENT_NODES, 0, of)

    def both(G: np.ndarray) -> tuple[float, np.ndarray]:
        found = gradient(G, lam)
        return found.value, found.parts[:, :m]

    return Surface(both, star, m, False)


def _exact_surface(
    task: Any, predictor: Any, lam: float, row: Any, star: np.ndarray
) -> Surface:
    rows = [0, 0, 1, 1, 0]
    columns = [2, 3, 2, 3, 1]

    def at(G: np.ndarray) -> Overlaps:
        return Overlaps(*(np.asarray(x) for x in np.clip(G[rows, columns], -1, 1)))

    def both(G: np.ndarray) -> tuple[float, np.ndarray]:
        o = at(G)
        found = np.asarray(row.gradient(task, predictor, o, lam)).reshape(6)[:5]
        out = np.zeros((1, 2, 4))
        out[0, rows, columns] = found
        out[0, 1, 0] = found[4]
        return float(row.excess(task, predictor, o, lam).excess), out

    return Surface(both, star, 2, True)


# -- the spheres -----------------------------------------------------------------------------------


class Spheres:
    """Unit rows X (m, D) beside the teachers, and the risk on them."""

    def __init__(self, surface: Surface, dim: int) -> None:
        self.surface = surface
        r = len(surface.star)
        self.size = min(dim, r + surface.vectors)
        self.teachers = np.zeros((r, self.size))
        self.teachers[:, :r] = lower_factor(surface.star[None])[0]
        self.outside = dim - self.size
        # axes perpendicular to the teachers
        self.free = np.linalg.svd(self.teachers)[2][np.linalg.matrix_rank(self.teachers) :]

    def gram(self, X: np.ndarray) -> np.ndarray:
        Y = np.concatenate([X, self.teachers])
        G = Y @ Y.T
        np.fill_diagonal(G, 1.0)
        m = len(X)
        G[m:, m:] = self.surface.star
        return G

    def parts(self, X: np.ndarray) -> tuple[float, np.ndarray]:
        """The risk, and its derivatives (S, m, V) without those in a vector's own length."""
        value, slopes = self.surface.both(self.gram(X))
        own = np.arange(len(X))
        slopes = slopes.copy()
        slopes[:, own, own] = 0.0
        return value, slopes

    def tangent(self, X: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """(S, m, D) Riemannian gradients."""
        g = parts @ np.concatenate([X, self.teachers])
        return np.asarray(g - (g * X).sum(2, keepdims=True) * X)

    def gradients(self, X: np.ndarray) -> np.ndarray:
        return self.tangent(X, self.parts(X)[1])

    def basis(self, X: np.ndarray) -> tuple[np.ndarray, int]:
        """(m D, n) orthonormal tangent directions without those of rotations, whose number comes
        second.
        """
        m, D = X.shape
        tangent = np.zeros((m * D, m * (D - 1)))
        for a, x in enumerate(X):
            normal = np.linalg.svd(x[None])[2][1:].T
            tangent[a * D : (a + 1) * D, a * (D - 1) : (a + 1) * (D - 1)] = normal
        free = self.free
        turns = []
        for i in range(len(free)):
            for j in range(i):
                along = np.outer(X @ free[i], free[j]) - np.outer(X @ free[j], free[i])
                turns.append(tangent.T @ along.ravel())
        if not turns:
            return tangent, 0
        _, sizes, rows = np.linalg.svd(np.array(turns))
        rank = int((sizes**2 > NULL).sum())
        return tangent @ rows[rank:].T, rank

    def moved(self, X: np.ndarray, step: np.ndarray) -> np.ndarray:
        out = X + step.reshape(X.shape)
        return out / np.linalg.norm(out, axis=1, keepdims=True)

    def hessians(self, X: np.ndarray, basis: np.ndarray) -> np.ndarray:
        """(S, n, n), symmetric."""
        h = math.tan(DIFFERENCE)
        ends = [
            self.gradients(self.moved(X, h * direction))
            - self.gradients(self.moved(X, -h * direction))
            for direction in basis.T
        ]
        columns = [x.reshape(len(x), -1) @ basis / (2 * DIFFERENCE) for x in ends]
        H = np.stack(columns, axis=2)
        return (H + H.swapaxes(1, 2)) / 2

    def newton(self, X: np.ndarray) -> np.ndarray | None:
        """The critical point next to X, of any index; None where there is none.

        One-sided differences: a matrix that is wrong by 1e-3 gains three digits a step.
        """
        h = math.tan(DIFFERENCE)
        for _ in range(STEPS):
            basis, _ = self.basis(X)
            parts = self.parts(X)[1].mean(0, keepdims=True)
            here = self.tangent(X, parts)[0].ravel()
            g = basis.T @ here
            if float(np.linalg.norm(g)) <= STEEP * max(1.0, float(np.abs(parts).max())):
                return X
            near = [self.gradients(self.moved(X, h * x)).mean(0).ravel() for x in basis.T]
            H = basis.T @ (np.array(near) - here).T / DIFFERENCE
            step = -np.linalg.pinv((H + H.T) / 2, rcond=1e-8, hermitian=True) @ g
            length = float(np.linalg.norm(step))
            if length <= 1e-14:  # what is left of the gradient lies along zero modes
                return None
            X = self.moved(X, basis @ step * min(1.0, LONGEST / length))
        return None

    def descended(self, X: np.ndarray) -> np.ndarray:
        """Some way down: BFGS on vectors of free length, whose directions count."""
        shape = X.shape

        def both(flat: np.ndarray) -> tuple[float, np.ndarray]:
            raw = flat.reshape(shape)
            size = np.linalg.norm(raw, axis=1, keepdims=True)
            unit = raw / size
            value, parts = self.parts(unit)
            return value, (self.tangent(unit, parts).mean(0) / size).ravel()

        found = minimize(
            both, X.ravel(), jac=True, method="BFGS", options={"gtol": 1e-4, "maxiter": 60}
        )
        return self.moved(found.x.reshape(shape), np.zeros(X.size))


# -- the search ------------------------------------------------------------------------------------


def planted_points(
    task: Any, predictor: Any, lam: float, starts: int, seed: int, of: str
) -> list[StationaryPoint]:
    """What is found from the structured starts and `starts` random ones, best risk first."""
    surface = surface_of(task, predictor, lam, of)
    on = Spheres(surface, task.dim)
    found: list[Place] = []
    for X in _starts(on, starts, seed):
        end = on.newton(X)
        if end is None or any(_same(on, end, x.vectors, SAME) for x in found):
            continue
        found.append(_place(on, end))
    points = [_point(task, predictor, on, place) for place in found]
    return _distinct(sorted(points, key=lambda p: p.risk.value))


def _starts(on: Spheres, starts: int, seed: int) -> Iterator[np.ndarray]:
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


def _place(on: Spheres, X: np.ndarray) -> Place:
    """The spectrum of a critical point, with its errors."""
    basis, turns = on.basis(X)
    H = on.hessians(X, basis)
    values, frame = np.linalg.eigh(H.mean(0))
    errors = np.zeros(len(values))
    away = 0.0
    # rotations of what X has beyond the teachers into another dimension
    left, sizes, _ = np.linalg.svd(X @ on.free.T)
    beyond = int((sizes**2 > NULL).sum())
    apart = left[:, beyond:]
    blocks = apart.T @ _outside(on, X) @ apart
    outer, outer_frame = np.linalg.eigh(blocks.mean(0))
    outer_errors = np.zeros(len(outer))
    if not on.surface.exact:
        S = len(H)
        along = np.einsum("an,sab,bn->sn", frame, H, frame)
        errors = _error(along, S)
        slopes = on.gradients(X).reshape(S, -1) @ basis @ frame
        # where the curvature is less than its error the point may be anywhere along it
        bend = np.maximum(np.abs(values), np.maximum(errors, 1e-12))
        shift = np.minimum(_error(slopes, S) / bend, LONGEST)
        there = on.moved(X, basis @ (frame @ shift))
        other = on.hessians(there, on.basis(there)[0]).mean(0)
        moved = np.linalg.eigvalsh(other)
        if len(moved) == len(values):
            errors = np.hypot(errors, np.abs(moved - values))
        outer_errors = _error(np.einsum("an,sab,bn->sn", outer_frame, blocks, outer_frame), S)
        far = np.linalg.eigvalsh(apart.T @ _outside(on, there).mean(0) @ apart)
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


def _outside(on: Spheres, X: np.ndarray) -> np.ndarray:
    """(S, m, m): the block of every dimension beyond D (module docstring)."""
    parts = on.parts(X)[1]
    m = len(X)
    pulls = (parts * on.gram(X)[:m]).sum(2)
    return parts[:, :, :m] - pulls[:, :, None] * np.eye(m)


def _error(x: np.ndarray, scramblings: int) -> np.ndarray:
    """Standard errors of means over scramblings, widened as a risk's."""
    return np.asarray(x.std(0, ddof=1) * widened(1.0, scramblings) / math.sqrt(scramblings))


def _point(task: Any, predictor: Any, on: Spheres, place: Place) -> StationaryPoint:
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
        at = risk(task, predictor, G, seed=CHECK)
    else:
        at = risk(task, predictor, G, method="quasi-monte-carlo", seed=CHECK)
    if on.surface.exact:
        kind = kind_of(signs_of(place.eigenvalues, 1.0), place.multiplicities)
    else:
        known = (place.errors > 0) | (
            place.eigenvalues != 0
        )  # not the zero modes of rotations
        kind = _kind(place.eigenvalues[known], place.errors[known])
    name = name_of(clipped[:, 0], max(NAMED, place.away)) if single and r > 1 else "point"
    return StationaryPoint(
        name,
        o,
        at,
        place.eigenvalues,
        place.multiplicities,
        kind,
        G,
        None if on.surface.exact else place.errors,
        place.away,
    )


def _kind(eigenvalues: np.ndarray, errors: np.ndarray) -> str:
    signs = sure_signs(eigenvalues, errors)
    if (signs > 0).any() and (signs < 0).any():
        return "saddle"
    if (signs == 0).any():
        return "undecided"
    return "minimum" if (signs > 0).all() else "maximum"


def _same(on: Spheres, one: np.ndarray, other: np.ndarray, near: float) -> bool:
    return bool(np.abs(on.gram(one) - on.gram(other)).max() < near)


def _distinct(points: list[StationaryPoint]) -> list[StationaryPoint]:
    """Each point once: of those that agree up to signs of trained vectors, and in their risk, the
    one with the largest inner products with the teachers.
    """
    kept: list[StationaryPoint] = []
    for p in points:
        twin = next((i for i, q in enumerate(kept) if _image(p, q)), None)
        if twin is None:
            kept.append(p)
        elif _leaning(p) > _leaning(kept[twin]) + SAME:
            kept[twin] = p
    return kept


def _image(p: StationaryPoint, q: StationaryPoint) -> bool:
    assert p.gram is not None and q.gram is not None
    off = abs(p.risk.value - q.risk.value)
    if off > SURE * (p.risk.error + q.risk.error) + 1e-9 * abs(p.risk.value):
        return False
    V = len(p.gram)
    m = 2 * np.size(p.overlaps.kappa)
    near = SAME + SURE * (p.away + q.away)
    for flips in product((1.0, -1.0), repeat=m):
        sign = np.append(flips, np.ones(V - m))
        if np.abs(sign[:, None] * p.gram * sign - q.gram).max() < near:
            return True
    return False


def _leaning(p: StationaryPoint) -> float:
    assert p.gram is not None
    m = 2 * np.size(p.overlaps.kappa)
    return float(p.gram[:m, m:].sum())
