"""Memories S <- A S - B (S.k) k + C v k at rest: their error, and the best of each kind.

At rest c = E S.w/d and p = E|S|^2/d solve

    c = a (A - B kappa) c + C kappa lam,
    p = (A^2 - 2 A B kappa + B^2 kappa2) p + 2 C (A kappa - B kappa2) a c + C^2 (kappa2 lam + s^2 kappa),

and the error is kappa d (lam - 2 c + p); notation of tasks.exchangeable.drifting_map, d_v = 1.
"""

from __future__ import annotations

from scipy.optimize import minimize_scalar

from attnscope.tasks.exchangeable.drifting_map import DriftingMap

__all__ = ["best_rivals", "error_at_rest", "least_error"]


def error_at_rest(task: DriftingMap, A: float, B: float, C: float) -> float:
    """The error of S <- A S - B (S.k) k + C v k at rest, kappa d times that of a coordinate."""
    kappa, kappa2 = task.key_moments
    a = task.decay
    left = 1 - (A * A - 2 * A * B * kappa + B * B * kappa2)
    if left <= 0:
        return float("inf")
    lam = task.prior_variance
    c = C * kappa * lam / (1 - a * (A - B * kappa))
    told = kappa2 * lam + task.noise**2 * kappa
    p = (2 * C * (A * kappa - B * kappa2) * a * c + C * C * told) / left
    return kappa * task.dim_key * (lam - 2 * c + p)


def best_rivals(task: DriftingMap) -> tuple[float, float]:
    """The best gated linear attention and the best delta rule without a gate, at rest."""

    def linear(gate: float) -> float:
        # quadratic in the scale: 1 - 2 e x + e^2 y
        one, two = (
            error_at_rest(task, gate, 0.0, e) / error_at_rest(task, 0.0, 0.0, 0.0)
            for e in (1, 2)
        )
        y = (two - 2 * one + 1) / 2
        x = (1 + y - one) / 2
        return 1 - x * x / y

    kappa, kappa2 = task.key_moments
    fine = {"xatol": 1e-10}
    gated = minimize_scalar(linear, bounds=(0.0, 1 - 1e-9), method="bounded", options=fine)
    free = minimize_scalar(
        lambda e: error_at_rest(task, 1.0, e, e),
        bounds=(0.0, 2 * kappa / kappa2),
        method="bounded",
        options=fine,
    )
    return float(gated.fun * error_at_rest(task, 0.0, 0.0, 0.0)), float(free.fun)


def least_error(task: DriftingMap, gate: float) -> float:
    """Of the delta rule with this forget gate, at its best step; unit keys."""
    found = minimize_scalar(
        lambda e: error_at_rest(task, gate, gate * e, e),
        bounds=(0.01, 1.9),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(found.fun)
