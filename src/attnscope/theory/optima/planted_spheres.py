"""The risk of any planted task on a product of spheres: gradient, Hessian, Newton's method.

notation: x_1..x_m the trained vectors (k_1, v_1, k_2, ...), unit rows of X in R^D; T the r
teachers; G the Gram matrix of all; R_aj = dR/d(x_a.y_j), y = (x, T), from the route of the pair
(exact, moments of the label: labels/moment_gradient.py, or fixed nodes: nodes/node_gradient.py). D
= min(d, r + m) holds every Gram matrix.

    gradient   g_a = sum_{j != a} R_aj y_j, less its part along x_a
    Hessian    central differences of g along great circles, of step HESSIAN_DIFFERENCE_RADIANS
    outside    every dimension beyond D adds one block, B_ab = R_ab, B_aa = -sum_{j != a} R_aj G_aj

Rotations that fix the teachers do not change R: their directions are known zero modes, inside R^D
and, for what X has beyond the teachers, in every dimension outside; Newton's steps leave them
alone. On nodes R is a smooth function, found to rounding; it is not the risk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from attnscope.errors import AttnscopeError
from attnscope.numerics.semidefinite import lower_factor
from attnscope.predictors.heads import adds_heads
from attnscope.theory.labels.moment_gradient import MomentGradient, moment_gradient
from attnscope.theory.labels.moment_risk import moment_law
from attnscope.theory.nodes.node_gradient import node_gradient
from attnscope.theory.nodes.node_risk import reader_of
from attnscope.theory.nodes.node_routes import GRADIENT_NODES
from attnscope.theory.optima.sphere_hessian import tangent_basis
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.route import gradient_row

__all__ = [
    "HESSIAN_DIFFERENCE_RADIANS",
    "LONGEST_STEP_RADIANS",
    "SMALLEST_ROTATION_SQUARE",
    "Spheres",
    "Surface",
    "surface_of",
]

# second-order differences: they err by 1e-6 of a third derivative
HESSIAN_DIFFERENCE_RADIANS = 1e-3
CONVERGED_GRADIENT = 1e-9  # relative to the gradient's entries: Newton's method has converged
SPHERE_NEWTON_STEPS = 25  # of at most LONGEST_STEP_RADIANS: more than once around the sphere
LONGEST_STEP_RADIANS = 0.3
# a rotation's direction of smaller squared length is rounding
SMALLEST_ROTATION_SQUARE = 1e-10


class Surface(NamedTuple):
    """both(G) -> the risk, and its derivatives (S, m, V) of each scrambling; S = 1 where they are
    exact. doubt(G): the largest error of a derivative, where an exact route states one.
    """

    both: Callable[[np.ndarray], tuple[float, np.ndarray]]
    star: np.ndarray
    vectors: int
    exact: bool
    doubt: Callable[[np.ndarray], float] | None = None


def surface_of(task: Any, predictor: Any, lam: float, of: str) -> Surface:
    """The risk as a function of Gram matrices, with the gradient of the pair's route."""
    star = np.asarray(task.teacher_gram, dtype=np.float64)
    heads = predictor.heads if adds_heads(predictor) else 1
    m = 2 * heads
    row = gradient_row(task, predictor, of, "a predictor that JAX can differentiate")
    if row.exact and heads == 1 and len(star) == 2:
        return _exact_surface(task, predictor, lam, row, star)
    exact = _moment_surface(task, predictor, lam, star)
    if exact is not None:
        return exact
    gradient = node_gradient(task, reader_of(task, predictor), GRADIENT_NODES, 0, of)

    def both(G: np.ndarray) -> tuple[float, np.ndarray]:
        found = gradient(G, lam)
        return found.value, found.parts[:, :m]

    return Surface(both, star, m, False)


def _moment_surface(
    task: Any, predictor: Any, lam: float, star: np.ndarray
) -> Surface | None:
    """The surface from the moments of the label; None where they cannot be used on all spheres."""
    law = moment_law(task, predictor)
    if law.blocks is None:
        return None

    def at(G: np.ndarray) -> MomentGradient:
        found = moment_gradient(law, predictor, G, lam)
        if found is None:
            raise AttnscopeError(
                f"the risk of {type(task).__name__} is too steep to be differentiated at this "
                "inverse temperature; try a smaller one."
            )
        return found

    def both(G: np.ndarray) -> tuple[float, np.ndarray]:
        found = at(G)
        return found.value, found.gram[None]

    # where k is what the label reads, nothing smooths the weights
    for j in range(len(star)):
        G = np.eye(2 + len(star))
        G[2:, 2:] = star
        G[0, 2:] = G[2:, 0] = star[j]
        if moment_gradient(law, predictor, G, lam) is None:
            return None
    return Surface(both, star, 2, True, lambda G: float(at(G).gram_error.max()))


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
        tangent = tangent_basis(*X)
        free = self.free
        turns = []
        for i in range(len(free)):
            for j in range(i):
                along = np.outer(X @ free[i], free[j]) - np.outer(X @ free[j], free[i])
                turns.append(tangent.T @ along.ravel())
        if not turns:
            return tangent, 0
        _, sizes, rows = np.linalg.svd(np.array(turns))
        rank = int((sizes**2 > SMALLEST_ROTATION_SQUARE).sum())
        return tangent @ rows[rank:].T, rank

    def moved(self, X: np.ndarray, step: np.ndarray) -> np.ndarray:
        out = X + step.reshape(X.shape)
        return out / np.linalg.norm(out, axis=1, keepdims=True)

    def outside_blocks(self, X: np.ndarray) -> np.ndarray:
        """(S, m, m): the block of every dimension beyond D (module docstring)."""
        parts = self.parts(X)[1]
        m = len(X)
        pulls = (parts * self.gram(X)[:m]).sum(2)
        return parts[:, :, :m] - pulls[:, :, None] * np.eye(m)

    def hessians(self, X: np.ndarray, basis: np.ndarray) -> np.ndarray:
        """(S, n, n), symmetric."""
        h = math.tan(HESSIAN_DIFFERENCE_RADIANS)
        ends = [
            self.gradients(self.moved(X, h * direction))
            - self.gradients(self.moved(X, -h * direction))
            for direction in basis.T
        ]
        columns = [
            x.reshape(len(x), -1) @ basis / (2 * HESSIAN_DIFFERENCE_RADIANS) for x in ends
        ]
        H = np.stack(columns, axis=2)
        return (H + H.swapaxes(1, 2)) / 2

    def newton(self, X: np.ndarray) -> np.ndarray | None:
        """The critical point next to X, of any index; None where there is none.

        One-sided differences: a matrix that is wrong by 1e-3 gains three digits a step.
        """
        h = math.tan(HESSIAN_DIFFERENCE_RADIANS)
        for _ in range(SPHERE_NEWTON_STEPS):
            basis, _ = self.basis(X)
            parts = self.parts(X)[1].mean(0, keepdims=True)
            here = self.tangent(X, parts)[0].ravel()
            g = basis.T @ here
            if float(np.linalg.norm(g)) <= CONVERGED_GRADIENT * max(
                1.0, float(np.abs(parts).max())
            ):
                return X
            near = [self.gradients(self.moved(X, h * x)).mean(0).ravel() for x in basis.T]
            H = basis.T @ (np.array(near) - here).T / HESSIAN_DIFFERENCE_RADIANS
            step = -np.linalg.pinv((H + H.T) / 2, rcond=1e-8, hermitian=True) @ g
            length = float(np.linalg.norm(step))
            if length <= 1e-14:  # what is left of the gradient lies along zero modes
                return None
            X = self.moved(X, basis @ step * min(1.0, LONGEST_STEP_RADIANS / length))
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
