"""Averages of softmax weights of L independent standard normals: the integrals behind the max-type
location.

notation: p = softmax(nu chi), chi_1 .. chi_L independent N(0, 1), t = e^tau, K_p(y) = e^{p y}
exp(-e^y), f0 = E K_0(tau + nu chi).

    1/S^2 = int t e^{-tS} dt  gives   E sum_{j != m} p_j p_m = L (L-1) int dtau (E[K_1])^2 f0^{L-2}
    1/S   = int e^{-tS} dt    gives   E sum_l p_l sigma(chi_l) = L int dtau E[sigma K_1] f0^{L-1}

The first is a sum of positive terms, so it keeps its accuracy where the weights concentrate.
Trapezoid sums in tau (step TAU_STEP, relative error 3e-13 because |f(t e^{i a})| <= f(t cos a)) and in
chi (step chosen from nu, error reported from the halved rule).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from attnscope.errors import bad

__all__ = ["disagreement", "max_grid", "weighted_activation"]

# the numbers of theory/risks/normalised_risk.py, which has the same integrals with one law of tokens
TAU_STEP = 0.27
MAX_REACH_SIGMAS = 9.0
TAU_DEPTH_NATS = 40.0
LARGEST_LOG_WEIGHT = 7.0
NU_STEP = 0.2
# relative error of the rule in tau (module docstring) and rounding, beside the integral of |.|
TAU_RULE_ERROR = 4e-13
LARGEST_NU = 100.0  # nu beyond which the tables would hold more than about 10^8 numbers

Rule = tuple[np.ndarray, np.ndarray]  # chi, weights
Integral = Callable[[np.ndarray, Rule], float]  # of nodes of log t and a rule for chi
Score = Callable[[np.ndarray], np.ndarray]


def disagreement(strength: float, length: int) -> tuple[float, float]:
    """(E sum_{j != m} p_j p_m, error): one minus the expected squared length of the softmax
    weights.

    >>> round(disagreement(5.0, 10)[0], 6)
    0.296135
    """
    if length == 1:
        return 0.0, 0.0

    def value(tau: np.ndarray, rule: Rule) -> float:
        k1, rest = _expected_kernels(tau, strength, rule, np.ones_like(rule[0]))
        return (
            length
            * (length - 1.0)
            * float(np.sum(k1**2 * _power_of_complement(rest, length - 2)))
            * TAU_STEP
        )

    return _with_error(value, value, strength, length)


def weighted_activation(
    strength: float, length: int, activation: Callable[[np.ndarray], np.ndarray]
) -> tuple[float, float]:
    """(E sum_l p_l sigma(chi_l), error) for a smooth function sigma of chi."""

    def value(tau: np.ndarray, rule: Rule) -> float:
        return total(tau, rule, activation(rule[0]))

    def size(tau: np.ndarray, rule: Rule) -> float:
        return total(tau, rule, np.abs(activation(rule[0])))

    def total(tau: np.ndarray, rule: Rule, factor: np.ndarray) -> float:
        k1, rest = _expected_kernels(tau, strength, rule, factor)
        return length * float(np.sum(k1 * _power_of_complement(rest, length - 1))) * TAU_STEP

    return _with_error(value, size, strength, length)


def _with_error(
    value: Integral, size: Integral, nu: float, length: int
) -> tuple[float, float]:
    """The integral by the fine rule, and its error; size: the integral of |.|."""
    tau, _, (fine_rule, coarse_rule) = max_grid(
        (lambda chi: nu * chi, lambda chi: nu * chi), nu, length
    )
    fine = value(tau, fine_rule)
    coarse = value(tau, coarse_rule)
    return fine, abs(fine - coarse) + TAU_RULE_ERROR * size(tau, coarse_rule) + 1e-13


def max_grid(
    log_h: tuple[Score, Score], steepest: float, length: int, sink: float = 0.0
) -> tuple[np.ndarray, np.ndarray, list[Rule]]:
    """Nodes of log t for two increasing log weights (the second with a sink in its sum), and the
    rules for chi, fine and halved.
    """
    if steepest > LARGEST_NU:
        raise bad(
            "strength",
            "the max-location integral",
            f"at most {LARGEST_NU:g}, as the inverse temperature",
            steepest,
        )
    tails = np.array(
        [max(-MAX_REACH_SIGMAS, float(ndtri(10 ** (-18 / length)))), MAX_REACH_SIGMAS]
    )  # the largest chi is between, but for 1e-18
    nodes = []
    for f, extra in zip(log_h, (0.0, sink)):
        low, high = f(tails) + np.array([0.0, math.log(length)])
        if extra:
            low = max(low, math.log(extra))
            high = max(high, 0.0) + math.log(2)
        nodes.append(
            -high
            - TAU_DEPTH_NATS
            + TAU_STEP
            * np.arange(math.ceil((high - low + TAU_DEPTH_NATS + 4) / TAU_STEP) + 1)
        )
    count = 2 * math.ceil(MAX_REACH_SIGMAS / min(0.4, NU_STEP / max(steepest, 1e-9)) / 2)
    chi = np.linspace(-MAX_REACH_SIGMAS, MAX_REACH_SIGMAS, 2 * count + 1)
    weight = np.exp(-0.5 * chi * chi) * (MAX_REACH_SIGMAS / count) / math.sqrt(2 * math.pi)
    return nodes[0], nodes[1], [(chi, weight), (chi[::2], 2 * weight[::2])]


def _expected_kernels(
    tau: np.ndarray, nu: float, rule: Rule, factor: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """E[factor K_1] and 1 - E[K_0] at every tau."""
    chi, weight = rule
    parts = []
    for some in np.array_split(tau, max(1, tau.size * chi.size >> 20)):
        e = np.exp(np.minimum(some[:, None] + nu * chi, LARGEST_LOG_WEIGHT))
        parts.append(((e * np.exp(-e)) @ (weight * factor), -np.expm1(-e) @ weight))
    k1, rest = (np.concatenate(x) for x in zip(*parts))
    return k1, rest


def _power_of_complement(rest: np.ndarray, exponent: float) -> np.ndarray:
    return np.exp(exponent * np.log1p(-np.minimum(rest, 1 - 1e-16)))
