"""The best temperature of a predictor at given overlaps, and the regime in which the erf oracle is asymptotically Bayes optimal.

notation: lam = temperature, s = signal.

For the erf oracle (k*, v*), with lam -> 0,

    R = gam^2 E(1 - erf(lam (s + gam G)))^2 + (L-1) E erf(lam G)^2  ~  gam^2 erfc(lam s)^2 + (4/pi) (L-1) lam^2,

so R -> 0, hence optimality, when lam s -> inf (lam sqrt(d) -> inf at the default signal) and lam sqrt(L) -> 0; the first condition lets
the informative token through, the second silences the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfc

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics import validation as check
from attnscope.numerics.estimate import Estimate
from attnscope.predictors.attention import Predictor
from attnscope.tasks.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps, checked_overlaps
from attnscope.theory.risk import checked_task, risk, risk_gradient

__all__ = ["OracleRegime", "optimal_temperature", "oracle_regime"]

STEP = 1.6  # ratio of neighbouring temperatures in the coarse search: optima of the predictors here are broader than a factor of 2
LOWEST, HIGHEST = 1e-5, 1e3  # the coarse search covers these multiples of 1/(1+signal) and of 1+signal
STEEPEST = (
    1e8  # temperature x (1 + signal + gamma) beyond which the softmax risk is not computed; its optimum is far below
)


class OracleRegime(NamedTuple):
    """How far (task, temperature) is inside the asymptotic regime of the erf oracle."""

    through: float  # lam s: large lets the informative token through
    leak: float  # lam sqrt(L): small silences the background
    leading_risk: float  # gam^2 erfc(lam s)^2 + (4/pi) (L-1) lam^2


def optimal_temperature(
    task: SingleLocation, family: Callable[[float], Predictor], overlaps: Overlaps | None = None
) -> tuple[float, Estimate]:
    """(temperature, risk) that minimise the exact risk at the oracle overlaps, or at the given scalar ones.

    Args:
        family: a predictor class such as `Erf` or `Softmax`, or a function from temperature to predictor.

    >>> from attnscope.predictors.attention import Erf
    >>> best, at_best = optimal_temperature(SingleLocation(dim=400, length=10), Erf)
    >>> round(best, 5), round(at_best.value, 5)
    (0.06377, 0.0671)
    """
    of = "optimal_temperature"
    checked_task(task, of)
    o = checked_overlaps(Overlaps.oracle(task.alignment) if overlaps is None else overlaps, task, of)
    if o.kappa.ndim:
        raise bad("overlaps", of, "scalars", f"shape {o.kappa.shape}", "one call per point")
    make = _family(family, of)
    log_excess = lambda lam: float(risk(task, make(lam), o).log_excess)
    slope = lambda log_lam: risk_gradient(task, make(math.exp(log_lam)), o).temperature
    low, high = _bracket(log_excess, task.signal, task.gamma)
    if low == 0.0:
        return 0.0, risk(task, make(0.0), o)
    lam = _root(slope, math.log(low), math.log(high), log_excess)
    return lam, risk(task, make(lam), o)


def _bracket(log_excess: Callable[[float], float], s: float, gam: float) -> tuple[float, float]:
    """Neighbours of the best temperature on a coarse logarithmic grid; (0, 0) if none beats temperature 0."""
    first, last = LOWEST / (1 + s), min(HIGHEST * (1 + s), STEEPEST / (1 + s + gam))
    lam, best, values, worse = first, math.inf, [], 0
    while lam < last and worse < 12:  # 12 steps of 1.6: a factor of 280 beyond the best seen without improvement
        try:
            values.append((log_excess(lam), lam))
        except (
            AttnscopeError
        ):  # a route that ends at some temperature; that the best one lies below is checked at the end
            if not worse:
                raise
            break
        worse = 0 if values[-1][0] < best else worse + 1
        best = min(best, values[-1][0])
        lam *= STEP
    value, lam = min(values)
    if log_excess(0.0) <= value:
        return 0.0, 0.0
    if lam == values[-1][1] or best == -math.inf:
        raise AttnscopeError(
            f"the optimal temperature must be finite, got a risk that still falls at temperature {lam:.3g}; try length >= 2, "
            "where background tokens bound it."
        )
    return lam / STEP, lam * STEP


def _root(slope: Callable[[float], float], low: float, high: float, log_excess: Callable[[float], float]) -> float:
    """The temperature where the derivative vanishes; golden section where its sign does not change (a flat optimum)."""
    if slope(low) < 0 < slope(high):
        return math.exp(brentq(slope, low, high, xtol=1e-14, rtol=1e-14))
    return math.exp(
        minimize_scalar(
            lambda x: log_excess(math.exp(x)), bounds=(low, high), method="bounded", options={"xatol": 1e-10}
        ).x
    )


def _family(family: object, of: str) -> Callable[[float], Predictor]:
    try:
        made = family(0.5)  # type: ignore[operator]
    except AttnscopeError:
        raise
    except Exception:
        made = None
    if not isinstance(made, Predictor):
        raise bad(
            "family",
            of,
            "a predictor class or a function from temperature to predictor",
            family,
            "Erf, or lambda t: Componentwise(f, t)",
        )
    return family  # type: ignore[return-value]


def oracle_regime(task: SingleLocation, temperature: float) -> OracleRegime:
    """Where (task, temperature) stands in the asymptotic regime of the erf oracle (module docstring).

    >>> regime = oracle_regime(SingleLocation(dim=10**8, length=10), 1e-3)
    >>> round(regime.through, 2), round(regime.leak, 4)
    (7.07, 0.0032)
    """
    checked_task(task, "oracle_regime")
    lam = check.real(temperature, "temperature", "oracle_regime", 0)
    L = float(task.length)
    leading = task.gamma**2 * erfc(lam * task.signal) ** 2 + 4 / math.pi * (L - 1) * lam**2
    return OracleRegime(lam * task.signal, lam * math.sqrt(L), float(np.float64(leading)))
