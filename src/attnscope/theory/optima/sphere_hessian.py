"""Gradient and Hessian of a risk on the product of unit spheres, from its derivatives in the five
overlaps.

notation: k perturbed along xi in T_k, v along om in T_v (tangent spaces), k(t) = k + t xi - t^2
|xi|^2 k/2 + ..., same for v. Then

    kap'' = -kap |xi|^2, eta'' = -eta |xi|^2, the'' = -the |om|^2, nu'' = -nu |om|^2, rho''
        = 2 xi.om - rho (|xi|^2 + |om|^2),

and the Riemannian Hessian is J^T H J + sum_i R_i o_i'' with H, R_i the second and first derivatives
of the risk in the five overlaps. Exact for Erf and LinearAttention (complex step on the analytic
gradient, to roundoff), else fourth-order differences of the exact gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attnscope.predictors.attention import Predictor
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.route import closed_form, needed, prepared_gradient

__all__ = [
    "Derivatives",
    "moved",
    "outside_blocks",
    "overlap_derivatives",
    "overlaps_of",
    "sphere_hessian",
    "tangent_basis",
    "tangent_gradient",
    "vectors_with",
]

COMPLEX_STEP = 1e-30  # derivative = Im f(x + ih)/h has no subtraction, so h may be this small


class Derivatives(NamedTuple):
    """First derivatives of the risk in the five overlaps, o (5,) -> (5,), and second ones (5, 5)
    where they are analytic.
    """

    first: Callable[[np.ndarray], np.ndarray]
    second: Callable[[np.ndarray], np.ndarray] | None


def overlap_derivatives(
    task: SingleLocation, predictor: Predictor, lam: float
) -> Derivatives:
    """Those of this predictor's risk."""
    route = needed(
        "gradient", task, predictor, "stationary_points", "Erf, Softmax or Componentwise"
    )
    prepared = prepared_gradient(task, predictor, lam)
    if prepared is not None:
        return Derivatives(lambda o: prepared(np.clip(o, -1, 1)[:, None])[:, 0], None)
    if not closed_form(task, predictor):
        inside = lambda o: Overlaps(*(np.asarray(x) for x in np.clip(o, -1, 1)))
        return Derivatives(
            lambda o: np.asarray(route(task, predictor, inside(o), lam)).reshape(6)[:5], None
        )
    first = lambda o: np.array(route(task, predictor, Overlaps(*o), lam))[:5]
    column = lambda o, row: first(o + 1j * COMPLEX_STEP * row).imag / COMPLEX_STEP
    return Derivatives(first, lambda o: np.array([column(o, row) for row in np.eye(5)]))


def vectors_with(o: Overlaps, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit k, v in R^m with these overlaps, where k* = e1 and v* = e2 (m = 4 holds every case)."""
    k = np.array([o.kappa, o.eta, math.sqrt(max(0.0, 1 - o.kappa**2 - o.eta**2)), 0.0])
    third = (o.rho - o.kappa * o.theta - o.eta * o.nu) / k[2] if k[2] > 1e-8 else 0.0
    v = np.array(
        [o.theta, o.nu, third, math.sqrt(max(0.0, 1 - o.theta**2 - o.nu**2 - third**2))]
    )
    # dim 2, 3: fold the last coordinates; exact where they vanish, a start for Newton otherwise
    if m < 4:
        k, v = (
            np.append(k[: m - 1], np.linalg.norm(k[m - 1 :])),
            np.append(v[: m - 1], np.linalg.norm(v[m - 1 :])),
        )
    return k / np.linalg.norm(k), v / np.linalg.norm(v)


def overlaps_of(k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.array([k[0], k[1], v[0], v[1], k @ v])


def _overlap_jacobian(k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """d overlaps / d (k, v), (5, 2m)."""
    m = len(k)
    e = np.eye(m)
    zero = np.zeros(m)
    pairs = [(e[0], zero), (e[1], zero), (zero, e[0]), (zero, e[1]), (v, k)]
    return np.array([np.concatenate(pair) for pair in pairs])


def tangent_basis(*vectors: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the tangent space at n unit vectors of R^m as columns, (n m, n (m - 1))."""
    n, m = len(vectors), len(vectors[0])
    basis = np.zeros((n, m, n, m - 1))
    for i, x in enumerate(vectors):
        basis[i, :, i] = np.linalg.svd(x[None])[2][1:].T
    return basis.reshape(n * m, n * (m - 1))


def tangent_gradient(derivatives: Derivatives, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The Riemannian gradient as a vector (2m,) of the ambient coordinates."""
    euclidean = _overlap_jacobian(k, v).T @ derivatives.first(overlaps_of(k, v))
    m = len(k)
    return np.concatenate(
        [g - (g @ x) * x for g, x in ((euclidean[:m], k), (euclidean[m:], v))]
    )


def moved(k: np.ndarray, v: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a = k + step[: len(k)]
    b = v + step[len(k) :]
    return a / np.linalg.norm(a), b / np.linalg.norm(b)


def sphere_hessian(derivatives: Derivatives, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Riemannian Hessian in the tangent basis, (2m - 2, 2m - 2)."""
    basis = tangent_basis(k, v)
    if (
        derivatives.second is None
    ):  # differences of the tangent gradient along the spheres, so that overlaps stay feasible
        h = 1e-3  # fourth-order stencil: truncation h^4 ~ 1e-12 relative, roundoff 1e-13/h
        at = lambda x, n: tangent_gradient(derivatives, *moved(k, v, np.tan(n * h) * x))
        columns = [
            (8 * (at(x, 1) - at(x, -1)) - at(x, 2) + at(x, -2)) / (12 * h) for x in basis.T
        ]
        H = basis.T @ np.array(columns).T
        return (H + H.T) / 2
    o, J = overlaps_of(k, v), _overlap_jacobian(k, v)
    return (
        basis.T
        @ (
            J.T @ derivatives.second(o) @ J
            + np.kron(outside_blocks(derivatives.first(o), o), np.eye(len(k)))
        )
        @ basis
    )


def outside_blocks(R: np.ndarray, o: np.ndarray) -> np.ndarray:
    """The 2 x 2 block of every dimension outside span{k, v, k*, v*}:
    the second-order change of the overlaps (module docstring).
    """
    pull_k = R[0] * o[0] + R[1] * o[1] + R[4] * o[4]
    pull_v = R[2] * o[2] + R[3] * o[3] + R[4] * o[4]
    return np.array([[-pull_k, R[4]], [R[4], -pull_v]])
