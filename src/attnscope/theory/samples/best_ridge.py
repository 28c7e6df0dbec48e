"""The ridge with which attention fitted to n = alpha d bags has the least risk.

notation: l_k, l_v the ridges of key and value.

The risk of ridge_erm.py is minimised over (log l_k, log l_v) by Nelder and Mead's simplex, among
those ridges at which replica symmetry holds. The search uses one set of nodes (its risk is off by
up to a few per cent, which hardly moves the location of a flat minimum); the risk that is returned
is then computed with all nodes at the ridge that was found. So it is the risk of that ridge, and
above that of the best one by as much as the two differ, to second order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize

from attnscope.errors import AttnscopeError
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.theory.samples.ridge_erm import (
    LARGEST_FITTED_ALPHA,
    REPLICA_METHOD,
    SMALLEST_FITTED_ALPHA,
    check_reach,
    fits_of,
    trusted,
)
from attnscope.theory.samples.ridge_setting import RIDGE_RANGE, kind_of, spike_of
from attnscope.theory.samples.ridge_solver import Setting, coarse_saddle

if TYPE_CHECKING:
    from attnscope.predictors.attention import Predictor
    from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["BestRidge", "best_ridge"]

# (l_k, l_v) at the start, times the first of these factors at which the fit is stable
START_RIDGES = (0.5, 0.5)
START_FACTORS = (1.0, 4.0, 16.0, 64.0, 256.0)
# assigned to an unstable ridge, plus its stability, so that the simplex moves back to stable ones;
# twice that outside RIDGE_RANGE
UNSTABLE_RISK = 1e3
SIMPLEX_LOG_SIZE = 0.7  # of the first simplex: log of the ratio of its corners
# size of the last simplex in log l: the minimum is flat, 2 % of l move the risk by 1e-4 of it
FINAL_LOG_RIDGE_SIZE = 0.02
# times the limits of stability: the single set of the search knows these numbers to about 15 %
STABILITY_MARGIN = 0.8
LARGEST_EVALUATION_COUNT = 120  # 40 to 70 are usual


class BestRidge(NamedTuple):
    """The ridges of least risk, and the risk there.

    Attributes:
        key, value: the ridges of key and value.
        risk: there, with its error.
        stability: below 1 where replica symmetry is consistent.
        two_minima: share of bags with two minima.
        at_the_border: whether a smaller ridge was ruled out only because replica symmetry fails
            there.

    >>> import attnscope as at
    >>> at.BestRidge._fields[:3]  # what at.best_ridge(task, alpha, predictor) finds, in seconds
    ('key', 'value', 'risk')
    """

    key: float
    value: float
    risk: Estimate
    stability: float
    two_minima: float
    at_the_border: bool


def best_ridge(task: SingleLocation, alpha: float, predictor: Predictor) -> BestRidge:
    """The ridge (of key, of value) of least risk at alpha; pass (best.key, best.value) on as
    `ridge` of learning_curve.

    Args:
        task: SingleLocation.spiked with noise > 0.
        alpha: bags per dimension.
        predictor: Softmax or LinearAttention; its inverse temperature and offset are the units of
            the ridges (docs/learning_curves_in_samples.md).

    >>> from attnscope.predictors.attention import LinearAttention
    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> task = SingleLocation.spiked(dim=1000, length=2, strength=5.0, noise=0.1**0.5)
    >>> best = best_ridge(task, 4.0, LinearAttention(1.0, offset=1.0))
    >>> round(best.risk.excess, 2), best.at_the_border
    (0.35, False)
    """
    of = "best_ridge"
    kind = kind_of(predictor, of)
    units = kind.units(predictor, of)
    spike = spike_of(task, of)
    a = check.real(
        alpha, "alpha", of, SMALLEST_FITTED_ALPHA, LARGEST_FITTED_ALPHA, hint="alpha=2.0"
    )
    check_reach(kind, spike, np.array([a]), of)
    coarse = kind.channel(*spike, True)
    refused: list[np.ndarray] = []
    warm: list[np.ndarray] = []

    def badness(logs: np.ndarray) -> float:
        if (logs < math.log(RIDGE_RANGE[0])).any() or (logs > math.log(RIDGE_RANGE[1])).any():
            return 2 * UNSTABLE_RISK
        setting = Setting(a, spike.strength, *(float(x) for x in np.exp(logs)))
        solution = coarse_saddle(setting, coarse, warm[-1] if warm else None)
        if solution is None:
            return 2 * UNSTABLE_RISK
        if not trusted(solution[1], STABILITY_MARGIN):
            refused.append(logs)
            return UNSTABLE_RISK + min(solution[1].stability, UNSTABLE_RISK)
        warm.append(solution[0])
        return solution[1].risk

    starts = [np.log(START_RIDGES) + math.log(factor) for factor in START_FACTORS]
    start = next((x for x in starts if badness(x) < UNSTABLE_RISK), starts[-1])
    corners = start + SIMPLEX_LOG_SIZE * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    options = {
        "initial_simplex": corners,
        "xatol": FINAL_LOG_RIDGE_SIZE,
        "fatol": 1e-6,
        "maxfev": LARGEST_EVALUATION_COUNT,
    }
    found = minimize(badness, start, method="Nelder-Mead", options=options)
    if found.fun >= UNSTABLE_RISK:
        raise AttnscopeError(
            f"alpha of {of} must be one at which some ridge has a stable fit, got {a:g}, at which "
            "none was found; try a larger alpha."
        )
    penalty = float(np.exp(found.x[0])), float(np.exp(found.x[1]))
    (fit,) = fits_of(kind, spike, np.array([a]), penalty, refuse=True)
    near = any(np.abs(logs - found.x).max() < 2 * FINAL_LOG_RIDGE_SIZE for logs in refused)
    return BestRidge(
        penalty[0] * units.key_scale**2,
        penalty[1] * units.value_scale**2,
        estimate(fit.risk, fit.risk_error, REPLICA_METHOD, spike.variance**0.5),
        fit.stability,
        fit.two_minima,
        near,
    )
