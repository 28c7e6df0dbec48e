"""Stationary points of the population risk on the product of unit spheres, their Hessians, and what
they predict for training.

notation: k perturbed along xi in T_k, v along om in T_v (tangent spaces), k(t) = k + t xi - t^2
|xi|^2 k/2 + ..., same for v. Then

    kap'' = -kap |xi|^2, eta'' = -eta |xi|^2, the'' = -the |om|^2, nu'' = -nu |om|^2, rho''
        = 2 xi.om - rho (|xi|^2 + |om|^2),

and the Riemannian Hessian is J^T H J + sum_i R_i o_i'' with H, R_i the second and first derivatives
of the risk in the five overlaps. Coordinates outside span{k, v, k*, v*} decouple into equal 2 x 2
blocks [[-g_k, R_rho], [R_rho, -g_v]], one per dimension, so the spectrum in R^d costs the same for
every d: eigenvalues of the span (multiplicity 1) and one pair with multiplicity d - 4.

For erf (k* perp v*; e1 = erf'(0) = 2/sqrt(pi), V0 = Var erf(lam gam G), A = lam gam^2/sqrt(1 + 2
lam^2 gam^2)):
  oracle   k = k*, v = v*; a minimum below the critical inverse temperature, a saddle above (in the
  (eta,
      theta) plane), -> sqrt(3)/2 as d -> inf;
  swapped   k = v*, v = the k* + rest, the = min(1, A e1/(s V0)): the roles exchanged, because at
      small lam T is symmetric in k and v;
  degenerate   all four vectors orthogonal: R ~ a1 kap^2/2 - b kap nu + a2 the^2/2 - b eta the + h
      rho^2/2 with b = 2 A s e1,
               a1 = 8 gam^2 lam^2 s^2/(pi S^2 q), a2 = 2 s^2 V0: one unstable direction towards the
               oracle, one towards the swapped minimum. A start with small overlaps goes where its
               projection on these two directions is larger (`basin_prediction`).
Exact: first and second derivatives for Erf and LinearAttention (complex step on the analytic
gradient, to roundoff); other predictors use fourth-order differences of the exact gradient (about
1e-9) and Newton's method for the position.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnscope.deprecated import accept_old_keyword
from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.attention import Erf, Predictor, has_one_head
from attnscope.predictors.heads import MultiHead, adds_heads
from attnscope.predictors.inverse_temperature import constant_inverse_temperature
from attnscope.tasks.base import PlantedTask, has_law, laws, perpendicular
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.sphere_hessian import (
    Derivatives,
    moved,
    outside_blocks,
    overlap_derivatives,
    overlaps_of,
    sphere_hessian,
    tangent_basis,
    tangent_gradient,
    vectors_with,
)
from attnscope.theory.optima.stationary import (
    StationaryPoint,
    StationaryPoints,
    kind_of,
    name_of,
    signs_of,
)
from attnscope.theory.optima.swapped import swapped_overlaps
from attnscope.theory.overlaps import Overlaps, checked_overlaps
from attnscope.theory.risk import checked_task, risk
from attnscope.theory.risks.erf_risk import erf_variance
from attnscope.theory.route import (
    checked_planted,
    checked_predictor,
    closed_form,
    find_route,
)

__all__ = [
    "LocalGeometry",
    "StationaryPoint",
    "StationaryPoints",
    "basin_prediction",
    "known_landscape",
    "local_geometry",
    "orthogonal_task",
    "stationary_points",
    "swapped_overlaps",
]

# points whose overlaps are closer than this are the same: Newton's method ends within about 1e-9
SAME_POINT_OVERLAP = 1e-6
LANDSCAPE_NEWTON_STEPS = 20  # of at most 0.3 rad: about once around the sphere
# one-sided differences: an error of 1e-6 in the matrix gains six digits a step, at 7 gradients
# instead of 25
NEWTON_DIFFERENCE = 1e-6


class LocalGeometry(NamedTuple):
    """Norm of the Riemannian gradient and eigenvalues of the Riemannian Hessian, each once."""

    gradient: float
    eigenvalues: np.ndarray


def known_landscape(task: object) -> bool:
    """Whether the landscape of this task is derived: single-location regression."""
    return SingleLocation in laws(task)


def stationary_points(
    task: PlantedTask, predictor: Predictor | MultiHead, starts: int = 6, seed: int = 0
) -> StationaryPoints:
    """Stationary points of the risk on the product of unit spheres, best risk first: a list, a
    table in a notebook.

    Of one head on SingleLocation with key perpendicular to value: the oracle, the role-swapped
    point and the degenerate saddle, as far as they exist. For other predictors than Erf they are
    looked for by Newton's method from Erf's, and named by where it ends: "oracle"; "swapped" (k
    nearer to v* than to k*, v nearer to k* than to v*, up to signs); "degenerate" (k and v
    perpendicular to both); "reversed" (k = -k* or v = -v* or both); or "other".

    On any other planted task, including your own, and for several heads: what Newton's method finds
    from vectors at the teachers, perpendicular to them, and from random descents, on the exact risk
    where its gradient is known, else on fixed nodes with errors (planted_points.py). A search may
    miss points.

    Args:
        task: a planted task: SingleLocation, MultiLocation, ..., or your own Planted.
        predictor: one head, or a MultiHead.
        starts, seed: random descents of the search, and their seed.

    >>> for p in stationary_points(SingleLocation(dim=400, length=10), Erf(0.1)):
    ...     print(f"{p.name:10s} {p.risk.value:.4f} {p.kind}")
    oracle     0.1135 minimum
    swapped    0.1155 minimum
    degenerate 0.6155 saddle
    """
    of = "stationary_points"
    starts = check.integer(starts, "starts", of, 0)
    seed = check.seed_value(seed, of)
    if has_law(task, SingleLocation) and task.alignment == 0 and not adds_heads(predictor):
        return _of_one_location(task, _checked_head(predictor, of), of)
    checked_planted(task, of)
    if not adds_heads(predictor):
        checked_predictor(predictor, of)
    lam = constant_inverse_temperature(predictor, of)
    # imported here: only the search of other tasks needs it
    from attnscope.theory.optima.planted_points import planted_points

    return StationaryPoints(planted_points(task, predictor, lam, starts, seed, of))


def _of_one_location(task: SingleLocation, predictor: Predictor, of: str) -> StationaryPoints:
    lam = constant_inverse_temperature(predictor, of)
    row = find_route(task, predictor)
    own = None if row is None else row.swapped  # with it, starts are the points themselves
    starts = {"oracle": Overlaps.oracle()}
    if lam > 0 and task.signal > 0:
        starts["swapped"] = (own or swapped_overlaps)(task, lam)
    if task.dim >= 4:
        starts["degenerate"] = Overlaps(0.0, 0.0, 0.0, 0.0, 0.0)
    derivatives = overlap_derivatives(task, predictor, lam)

    def critical(k: np.ndarray, v: np.ndarray) -> bool:
        slope = np.linalg.norm(tangent_gradient(derivatives, k, v))
        return bool(slope < 1e-9 * (1 + task.signal**2))

    points: list[StationaryPoint] = []
    for name, o in starts.items():
        k, v = vectors_with(o, min(task.dim, 4))
        if own is None:
            if not critical(k, v):  # on a plateau Newton's method would only wander
                k, v = _newton_point(derivatives, k, v)
            name = name_of(overlaps_of(k, v), SAME_POINT_OVERLAP)
        if not critical(k, v):
            continue
        if not any(
            np.abs(overlaps_of(k, v) - np.array(p.overlaps)).max() < SAME_POINT_OVERLAP
            for p in points
        ):
            points.append(_stationary_point(task, predictor, derivatives, name, k, v))
    return StationaryPoints(sorted(points, key=lambda p: p.risk.value))


def local_geometry(
    task: SingleLocation, predictor: Predictor, overlaps: Overlaps
) -> LocalGeometry:
    """Riemannian gradient norm and Hessian eigenvalues of the risk at any one point (scalar
    overlaps).
    """
    orthogonal_task(task, "local_geometry")
    lam = constant_inverse_temperature(
        _checked_head(predictor, "local_geometry"), "local_geometry"
    )
    derivatives = overlap_derivatives(task, predictor, lam)
    k, v = vectors_with(Overlaps(*(float(x) for x in overlaps)), min(task.dim, 4))
    inside = np.linalg.eigvalsh(sphere_hessian(derivatives, k, v))
    o = overlaps_of(k, v)
    outside = (
        np.linalg.eigvalsh(outside_blocks(derivatives.first(o), o))
        if task.dim > 4
        else np.empty(0)
    )
    gradient = float(np.linalg.norm(tangent_gradient(derivatives, k, v)))
    return LocalGeometry(gradient, np.sort(np.concatenate([inside, outside])))


@accept_old_keyword
def basin_prediction(
    task: SingleLocation, inverse_temperature: float, overlaps: Overlaps
) -> np.ndarray:
    """Which minimum, "oracle" or "swapped", per start: the one that training of Erf reaches from
    small overlaps, to first order.

    Right for about 95 % of random starts (d = 400: 96.4 % at inverse temperature 0.02, 94.8 % at
    0.1, 5000 starts each); meaningless above the critical inverse temperature.

    Args:
        task: a SingleLocation.
        inverse_temperature: lam > 0 of Erf.
        overlaps: of the starts, numbers or arrays that broadcast; small.

    >>> import attnscope as at
    >>> import numpy as np
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> one, other = np.array([0.1, 0.0]), np.array([0.0, 0.1])
    >>> starts = at.Overlaps(one, other, other, one, 0.0)
    >>> at.basin_prediction(task, 0.1, starts)
    array(['oracle', 'swapped'], dtype='<U7')
    """
    orthogonal_task(task, "basin_prediction")
    lam = constant_inverse_temperature(Erf(inverse_temperature), "basin_prediction")
    o = checked_overlaps(overlaps, task, "basin_prediction")
    gam2 = task.gamma**2
    s = task.signal
    S2 = 1 + 2 * lam**2 * gam2
    q = math.sqrt(1 + 4 * lam**2 * gam2)
    b = 4 * lam * gam2 * s / math.sqrt(math.pi * S2)
    a1 = 8 * gam2 * lam**2 * s**2 / (math.pi * S2 * q)
    a2 = 2 * s**2 * float(erf_variance(0.0, q, lam**2 * gam2))
    star = _unstable_direction(a1, b)
    swap = _unstable_direction(a2, b)
    to_oracle = np.abs(star[0] * o.kappa + star[1] * o.nu)
    to_swapped = np.abs(swap[0] * o.theta + swap[1] * o.eta)
    return np.where(to_oracle > to_swapped, "oracle", "swapped")


def _unstable_direction(a: float, b: float) -> np.ndarray:
    """Unit eigenvector of [[-a, b], [b, 0]] with the positive eigenvalue."""
    return np.linalg.eigh(np.array([[-a, b], [b, 0.0]]))[1][:, 1]


# -- derivatives in the overlaps, and the Hessian on the spheres -----------------------------------


def _newton_point(
    derivatives: Derivatives, k: np.ndarray, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Riemannian Newton steps to the nearest critical point of any index;
    zero modes are left alone.
    """
    for _ in range(LANDSCAPE_NEWTON_STEPS):
        basis = tangent_basis(k, v)
        ambient = tangent_gradient(derivatives, k, v)
        g = basis.T @ ambient
        if np.linalg.norm(g) < 1e-13:
            break
        if derivatives.second is None:
            near = [
                tangent_gradient(derivatives, *moved(k, v, NEWTON_DIFFERENCE * x))
                for x in basis.T
            ]
            H = basis.T @ (np.array(near) - ambient).T / NEWTON_DIFFERENCE
            H = (H + H.T) / 2
        else:
            H = sphere_hessian(derivatives, k, v)
        step = basis @ (-np.linalg.pinv(H, rcond=1e-8) @ g)
        k, v = moved(
            k, v, step * min(1.0, 0.3 / max(float(np.linalg.norm(step)), 1e-300))
        )  # at most 0.3 rad: stay near the start
    return k, v


def _stationary_point(
    task: SingleLocation,
    predictor: Predictor,
    derivatives: Derivatives,
    name: str,
    k: np.ndarray,
    v: np.ndarray,
) -> StationaryPoint:
    inside = np.linalg.eigvalsh(sphere_hessian(derivatives, k, v))
    outside = np.linalg.eigvalsh(
        outside_blocks(derivatives.first(overlaps_of(k, v)), overlaps_of(k, v))
    )
    extra = task.dim - len(k)
    eigenvalues = np.concatenate([inside, outside]) if extra else inside
    multiplicities = (
        np.concatenate([np.ones(len(inside), int), [extra, extra]])
        if extra
        else np.ones(len(inside), int)
    )
    order = np.argsort(eigenvalues)
    eigenvalues = eigenvalues[order]
    multiplicities = multiplicities[order]
    exact = closed_form(task, predictor)
    kind = kind_of(
        signs_of(eigenvalues, 0.0 if exact else 1 + task.signal**2), multiplicities
    )
    o = Overlaps(*(float(x) for x in np.clip(overlaps_of(k, v), -1, 1)))
    return StationaryPoint(
        name, o, risk(task, predictor, o), eigenvalues, multiplicities, kind
    )


def _checked_head(predictor: object, of: str) -> Predictor:
    if not has_one_head(predictor):
        raise bad("predictor", of, "a predictor with an exact risk", predictor, "Erf(0.1)")
    return predictor


def orthogonal_task(task: object, of: str) -> SingleLocation:
    """The task; raises unless it is a SingleLocation with k* perp v*."""
    found = checked_task(task, of)
    perpendicular(found, of)
    return found
