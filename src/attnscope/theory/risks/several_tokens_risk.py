"""Risks of one attention head on tasks with several informative tokens or a max-type location, at
(k*, v*) with an output gain.

notation: T = b sum_l a_l w_l, w = X.v*, b = gain, a_l the weights, D_l the label's weights with h =
E[D | m], h2 = E[D^2 | m], sigma the activation.

MultiLocation. The values w are independent of the scores u, mean 0, variance gam^2 (informative) or
1, so given m = |S|

    R = gam^2 m (h2 - 2 b h E a_J + b^2 E a_J^2) + b^2 (L - m) E a_0^2,

with the moments of normalised weights by Laplace transform (normalised_risk.weight_moments) and of
sigma(lam u) by quadrature. It is averaged over m. One head with v = v* gives every informative
token the same sign and competes for one unit of weight; b matters for "sum".

MaxLocation. All tokens are N(0, I) and J ~ p = softmax(nu chi): R = 1 - 2 b E sum_l p_l a_l + b^2 E
sum_l a_l^2. For normalised a_l = h_l/(c0 + S')

    E sum_l p_l a_l = L int int dtau dtau' E[K_1(tau + nu chi) K_1(tau' + log h)] f^{L-1} e^{-c0
        e^tau'},   f = E[K_0(.) K_0(.)],

two Laplace variables, the inner averages being matrix products; componentwise weights need one
(numerics.integrals.max_integral).

Exact up to quadrature, to about 1e-12 absolute. `sampled_excess` is the second route, at any
overlaps: projections on (k, v, k*, v*) are drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.integrals.interpolation import first_two
from attnscope.numerics.integrals.max_integral import max_grid, weighted_activation
from attnscope.numerics.integrals.refined_panels import ScoreLaw, resolve
from attnscope.predictors.attention import (
    Normalised,
    Predictor,
    is_componentwise,
    is_normalised,
)
from attnscope.predictors.inverse_temperature import constant_inverse_temperature
from attnscope.tasks.base import checked_law, has_law
from attnscope.tasks.planted.max_location import MaxLocation
from attnscope.tasks.planted.multi_location import MultiLocation
from attnscope.theory.risks.normalised_risk import weight_moments

__all__ = ["head_risk"]


def head_risk(
    task: MultiLocation | MaxLocation, predictor: Predictor, gain: float = 1.0
) -> Estimate:
    """Exact risk of gain * sum_l a_l X_l.v* at k = k*; predictor normalised or componentwise.

    Args:
        task: a MultiLocation or a MaxLocation.
        predictor: one head, normalised or componentwise.
        gain: which multiplies the output.

    >>> from attnscope.predictors.attention import Softmax
    >>> task = MultiLocation(dim=10, length=10, relevant=2, gamma=1.0, signal=3.0)
    >>> round(head_risk(task, Softmax(0.81)).value, 4)
    0.1353
    """
    of = "head_risk"
    b = check.real(gain, "gain", of)
    lam = constant_inverse_temperature(_checked_head(predictor, of), of)
    checked_law(task, (MultiLocation, MaxLocation), of, "risk(task, ...)")
    if has_law(task, MultiLocation):
        excess, error = _multi_location_excess(task, predictor, lam, b)
    else:
        excess, error = _max_location_excess(task, predictor, lam, b)  # type: ignore[arg-type]
    return estimate(excess, error, "2-D quadrature", task.noise)


def _checked_head(predictor: object, of: str) -> Predictor:
    if not (is_normalised(predictor) or is_componentwise(predictor)):
        raise bad(
            "predictor",
            of,
            "a normalised or componentwise predictor",
            predictor,
            "Softmax(2.0)",
        )
    return predictor


def _multi_location_excess(
    task: MultiLocation, predictor: Any, lam: float, b: float
) -> tuple[float, float]:
    g2 = task.gamma**2
    L = task.length
    mean, square = task.weight_moments()
    total, size = 0.0, 0.0
    for m in np.flatnonzero(task.count_probs):
        first, second, outside, error = _head_weight_moments(predictor, lam, task, int(m))
        terms = g2 * m * np.array([square[m], -2 * b * mean[m] * first, b * b * second])
        q = task.count_probs[m]
        total += q * float(terms.sum() + b * b * (L - m) * outside)
        size += (
            q * (g2 * m * (2 * abs(b) * mean[m] + b * b) + b * b * (L - m)) * error
            + 1e-15 * q * np.abs(terms).sum()
        )
    return total, size


def _head_weight_moments(
    predictor: Any, lam: float, task: MultiLocation, m: int
) -> tuple[float, float, float, float]:
    """E a_J, E a_J^2, E a_0^2, error."""
    if predictor.normalised:
        return weight_moments(predictor, lam, task.gamma, task.signal, m, task.length)
    one = resolve(predictor, ScoreLaw(lam, task.signal, task.gamma), first_two)
    zero = resolve(predictor, ScoreLaw(lam, 0.0, 1.0), first_two)
    error = float(max(one.error.max(), zero.error.max()))
    return float(one.value[0]), float(one.value[1]), float(zero.value[1]), error


def _max_location_excess(
    task: MaxLocation, predictor: Any, lam: float, b: float
) -> tuple[float, float]:
    nu = task.strength
    L = task.length
    if predictor.normalised:
        both, error = _weight_agreement(predictor, lam, nu, L)
        moments = weight_moments(predictor, lam, 1.0, 0.0, 0, L)
        squares = L * moments.background_square
        more = L * moments.error
    else:
        both, error = weighted_activation(nu, L, lambda chi: predictor.activation(lam * chi))
        own = resolve(predictor, ScoreLaw(lam, 0.0, 1.0), first_two)
        squares = L * float(own.value[1])
        more = L * float(own.error[1])
    return 1 - 2 * b * both + b * b * squares, 2 * abs(b) * error + b * b * more + 1e-14 * (
        1 + b * b * squares
    )


def _weight_agreement(
    predictor: Normalised, lam: float, nu: float, L: int
) -> tuple[float, float]:
    """(E sum_l p_l a_l, error) for p = softmax(nu chi) and normalised weights a."""
    log_h = lambda chi: predictor.log_activation(lam * chi)
    # the score varies as fast as the steeper of the two weights
    p_tau, a_tau, rules = max_grid(
        (lambda chi: nu * chi, log_h), max(nu, lam), L, predictor.sink
    )
    step = (p_tau[1] - p_tau[0]) * (a_tau[1] - a_tau[0])
    values = []
    for chi, weight in rules:
        e, e_ = (
            np.exp(np.minimum(t[:, None] + y, 7.0))
            for t, y in ((p_tau, nu * chi), (a_tau, log_h(chi)))
        )
        k0 = np.exp(-e)
        k0_ = np.exp(-e_)
        pair = (e * k0 * weight) @ (e_ * k0_).T  # (tau, tau')
        rest = (-np.expm1(-e) @ weight)[:, None] + (k0 * weight) @ (-np.expm1(-e_)).T  # 1 - f
        sink = np.exp(-predictor.sink * np.exp(np.minimum(a_tau, 7.0)))
        values.append(
            L
            * step
            * float(
                np.sum(pair * np.exp((L - 1) * np.log1p(-np.minimum(rest, 1 - 1e-16))) @ sink)
            )
        )
    fine, coarse = values
    return fine, abs(fine - coarse) + 1e-13
