"""The best linear attention, exactly: over all vectors k, v of any length and all offsets.

notation: T(X) = sum_l (c + X_l.k) X_l.v, a = c + s k.k*, b = s v.k*, rho = k.v, K2 = |k|^2, V2 =
|v|^2, g2 = gamma^2, L = length, k* perp v*.

    R = g2 - 2 g2 (a v.v* + b k.v*) + q1 + 2 (L-1) rho m1 + (L-1) q0 + (L-1)(L-2) rho^2,
        (any k, v, c)
    m1 = a b + g2 rho,  q0 = c^2 V2 + K2 V2 + 2 rho^2,
        q1 = a^2 b^2 + g2 (a^2 V2 + b^2 K2 + 4 a b rho) + g2^2 (K2 V2 + 2 rho^2)

Optimum: k ~ k*, v ~ v*, c : |k| = 1/(L-1) : s/(L-1+g2^2), and

    R* = g2 / (1 + g2 [1/(L-1) + s^2/(L-1+g2^2)]);   gamma = 1, nu = s^2:   1/R* = L/(L-1) + nu/L,
        nu R* -> L.

Proof: Y is odd under v* -> -v* and invariant under rotations that fix k* and v*, so among all
linear and quadratic token statistics sum_l X_l, sum_l X_l X_l^T only sum_l w_l and sum_l u_l w_l (u
= X.k*, w = X.v*) correlate with Y; they are uncorrelated noise for each other but for the
informative token, and least squares on the two gives R*. Linear attention at (k*, v*) is a
combination of exactly these two.

Normalised linear attention has weights 1/L + alpha (u_l - mean u), which add up to 1; at gamma = 1
its best slope is s/(L + nu) and its risk (L-1)/(L+nu): below R*, but still a power of nu.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.deprecated import old_names
from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.tasks.base import has_law
from attnscope.tasks.planted.single_location import SingleLocation

__all__ = [
    "LinearOptimum",
    "free_linear_excess",
    "linear_optimum",
    "normalised_linear_optimum",
]


@old_names
class LinearOptimum(NamedTuple):
    """The least risk, and the LinearAttention(inverse_temperature, offset) that attains it at (k*,
    v*).

    Attributes:
        risk: the least one.
        inverse_temperature, offset: of the LinearAttention that attains it.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> best = at.linear_optimum(task)
    >>> round(best.risk.value, 4), round(best.inverse_temperature, 4), round(best.offset, 4)
    (0.0421, 0.0644, 0.0047)
    """

    risk: Estimate
    inverse_temperature: float
    offset: float


class NormalisedLinearOptimum(NamedTuple):
    """The least risk of weights 1/L + slope (u_l - mean u) at (k*, v*), and that slope."""

    risk: Estimate
    slope: float


def linear_optimum(task: SingleLocation) -> LinearOptimum:
    """The best linear attention over all vectors and offsets.

    Args:
        task: a SingleLocation.

    >>> best = linear_optimum(SingleLocation.spiked(dim=20, length=10, strength=50.0))
    >>> round(best.risk.value, 4)
    0.1636
    """
    g2, s, L = _task_numbers(task, "linear_optimum")
    if L == 1:
        return LinearOptimum(estimate(0.0, 0.0, "closed form", task.noise), 0.0, 1.0)
    excess = g2 / (1 + g2 * (1 / (L - 1) + s * s / (L - 1 + g2 * g2)))
    return LinearOptimum(
        estimate(excess, 1e-15 * excess, "closed form", task.noise),
        s * excess / (L - 1 + g2 * g2),
        excess / (L - 1),
    )


def normalised_linear_optimum(task: SingleLocation) -> NormalisedLinearOptimum:
    """The best slope of normalised linear attention at (k*, v*), any gamma: its risk is a quadratic
    in the slope.

    Args:
        task: a SingleLocation.

    >>> best = normalised_linear_optimum(SingleLocation.spiked(dim=20, length=10, strength=50.0))
    >>> round(best.risk.value, 6), round(best.slope, 6)  # 9/60, sqrt(50)/60
    (0.15, 0.117851)
    """
    g2, s, L = _task_numbers(task, "normalised_linear_optimum")
    share = 1 - 1 / L
    # a_J = 1/L + alpha (s share + noise), a_0 = 1/L + alpha (-s/L + noise); R = g2 E(1 - a_J)^2 +
    # (L-1) E a_0^2
    quadratic = g2 * ((s * share) ** 2 + share**2 * g2 + share / L) + (L - 1) * (
        (s / L) ** 2 + share**2 + (g2 + L - 2) / L**2
    )
    linear = -2 * g2 * share * s * share - 2 * (L - 1) / L * s / L
    constant = g2 * share**2 + (L - 1) / L**2
    slope = -linear / (2 * quadratic) if L > 1 else 0.0
    excess = constant + slope * linear / 2
    return NormalisedLinearOptimum(
        estimate(excess, 1e-15 * constant, "closed form", task.noise), slope
    )


def free_linear_excess(
    task: SingleLocation, k: np.ndarray, v: np.ndarray, offset: float
) -> float:
    """Excess risk of sum_l (offset + X_l.k) X_l.v for vectors k, v (dim,) of any length."""
    of = "free_linear_excess"
    g2, s, L = _task_numbers(task, of)
    k, v = (
        check.array(x, name, of, (task.dim,)).astype(np.float64)
        for x, name in ((k, "k"), (v, "v"))
    )
    c = check.real(offset, "offset", of)
    a = c + s * (k @ task.key)
    b = s * (v @ task.key)
    rho = k @ v
    K2 = k @ k
    V2 = v @ v
    m1 = a * b + g2 * rho
    q0 = c * c * V2 + K2 * V2 + 2 * rho**2
    q1 = (
        a * a * b * b
        + g2 * (a * a * V2 + b * b * K2 + 4 * a * b * rho)
        + g2 * g2 * (K2 * V2 + 2 * rho**2)
    )
    gain = 2 * g2 * (a * (v @ task.value) + b * (k @ task.value))
    return float(
        g2 - gain + q1 + 2 * (L - 1) * rho * m1 + (L - 1) * q0 + (L - 1) * (L - 2) * rho**2
    )


def _task_numbers(task: object, of: str) -> tuple[float, float, float]:
    if not has_law(task, SingleLocation) or task.alignment != 0:
        raise bad(
            "task",
            of,
            "a SingleLocation with key perpendicular to value",
            task,
            "SingleLocation(dim=400, length=10)",
        )
    return task.gamma**2, task.signal, float(task.length)
