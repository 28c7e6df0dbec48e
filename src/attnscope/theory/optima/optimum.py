"""The best inverse temperature of a predictor at given overlaps, and the regime in which the erf
oracle is asymptotically Bayes optimal.

notation: lam = inverse temperature, s = signal.

For the erf oracle (k*, v*), with lam -> 0,

    R = gam^2 E(1 - erf(lam (s + gam G)))^2 + (L-1) E erf(lam G)^2  ~  gam^2 erfc(lam s)^2
        + (4/pi) (L-1) lam^2,

so R -> 0, hence optimality, when lam s -> inf (lam sqrt(d) -> inf at the default signal) and lam
sqrt(L) -> 0; the first condition lets the informative token through, the second silences the
other tokens.

On other planted tasks the range of the search follows from what a task has instead of s and gam:
the root mean square of the largest projection of a sequence on a teacher, and the smallest scale of
a token. Where no exact gradient is known the risk is minimised on one set of fixed nodes, as a
smooth function of lam, and the returned risk is that of an independent set, free of selection bias.
The location of the minimum is then known to sqrt(error/curvature).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfc

from attnscope.deprecated import accept_old_keyword
from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate
from attnscope.predictors.attention import Predictor, has_one_head
from attnscope.predictors.inverse_temperature import constant_inverse_temperature
from attnscope.tasks.base import PlantedTask
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps, alignment_of, checked_overlaps
from attnscope.theory.risk import checked_task, unchecked_gradient, unchecked_risk
from attnscope.theory.route import checked_planted, checked_predictor, has_gradient

__all__ = ["OracleRegime", "optimal_inverse_temperature", "oracle_regime"]

# between neighbours in the coarse search: the optima are broader than a factor of 2
LAMBDA_RATIO = 1.6
# half widths in log lam around the smallest risk found, tried in turn: near its minimum the risk is
# constant up to rounding
LOG_LAMBDA_BRACKETS = (1e-5, 1e-3, 1.0)
LOG_RISK_ROUNDING = 1e-12  # relative: smaller changes of the log risk are rounding
# the coarse search covers these multiples of 1/(1+signal) and of 1+signal+1/gamma
SMALLEST_LAMBDA_MULTIPLE = 1e-5
LARGEST_LAMBDA_MULTIPLE = 1e3
# lam (1 + signal + gamma) beyond which the softmax risk is not computed; its optimum is far below
LARGEST_SCALED_LAMBDA = 1e8
FINAL_RISK_SEED = 1  # of the nodes for the returned risk; the search uses seed 0
# drawn to estimate a task's sizes: the range is generous, 10 % is enough
SIZE_SEQUENCES = 4096


class OracleRegime(NamedTuple):
    """How far (task, inverse temperature) is inside the asymptotic regime of the erf oracle.

    Attributes:
        through: lam s: large lets the informative token through.
        leak: lam sqrt(L): small silences the background.
        leading_risk: gam^2 erfc(lam s)^2 + (4/pi) (L-1) lam^2.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> found = at.oracle_regime(task, 0.1)
    >>> round(found.through, 3), round(found.leak, 3), round(found.leading_risk, 4)
    (1.414, 0.316, 0.1156)
    """

    through: float
    leak: float
    leading_risk: float


def optimal_inverse_temperature(
    task: PlantedTask,
    family: Callable[[float], Predictor],
    overlaps: Overlaps | None = None,
) -> tuple[float, Estimate]:
    """(inverse temperature, risk) that minimise the risk at the oracle overlaps, or at the given
    scalar ones: the exact risk where it is known, else that of fixed nodes (or draws), with an
        error.

    Args:
        task: a planted task: SingleLocation, MultiLocation, ..., or your own Planted.
        family: a predictor class such as `Erf` or `Softmax`, or a function from inverse temperature
            to predictor.
        overlaps: numbers; None: the oracle's.

    >>> from attnscope.predictors.attention import Erf
    >>> best, at_best = optimal_inverse_temperature(SingleLocation(dim=400, length=10), Erf)
    >>> round(best, 5), round(at_best.value, 5)
    (0.06377, 0.0671)
    """
    of = "optimal_inverse_temperature"
    checked_planted(task, of)
    o = checked_overlaps(
        Overlaps.oracle(alignment_of(task)) if overlaps is None else overlaps, task, of
    )
    if o.kappa.ndim:
        raise bad("overlaps", of, "scalars", f"shape {o.kappa.shape}", "one call per point")
    make = _checked_family(family, of)

    def risk_at(lam: float, seed: int = 0) -> Estimate:
        predictor, inverse_temperature = _predictor_at(make, lam, of)
        return unchecked_risk(task, predictor, o, inverse_temperature, seed=seed)

    def slope(log_lam: float) -> float:
        predictor, inverse_temperature = _predictor_at(make, math.exp(log_lam), of)
        return unchecked_gradient(task, predictor, o, inverse_temperature).inverse_temperature

    log_excess = lambda lam: float(risk_at(lam).log_excess)
    low, high = _lambda_bracket(log_excess, task)
    if low == 0.0:
        return 0.0, risk_at(0.0, FINAL_RISK_SEED)
    known = has_gradient(task, _predictor_at(make, high, of)[0])
    lam = _lambda_of_zero_slope(
        slope if known else None, math.log(low), math.log(high), log_excess
    )
    return lam, risk_at(lam, FINAL_RISK_SEED)


class Sizes(NamedTuple):
    """What the range of the search needs of a task."""

    signal: float
    gamma: float


def sizes_of(task: Any) -> Sizes:
    """A task's own signal and gamma, or what plays their roles (module docstring)."""
    if hasattr(task, "signal") and hasattr(task, "gamma"):
        return Sizes(float(task.signal), float(task.gamma))
    drawn = task.projections(SIZE_SEQUENCES, task.teacher_gram, np.random.default_rng(0))
    largest = np.abs(drawn.fields).max((1, 2))
    return Sizes(math.sqrt(float(np.mean(largest**2))), float(drawn.scales.min()))


def _predictor_at(
    make: Callable[[float], Predictor], lam: float, of: str
) -> tuple[Predictor, float]:
    """The family's predictor and its own inverse temperature, which may differ from lam."""
    predictor = checked_predictor(make(lam), of)
    return predictor, constant_inverse_temperature(predictor, of)


def _lambda_bracket(log_excess: Callable[[float], float], task: Any) -> tuple[float, float]:
    """Neighbours of the best inverse temperature on a coarse logarithmic grid;
    (0, 0) if none beats inverse temperature 0.
    """
    s, gam = sizes_of(task)
    # the best weight lam u that is linear in the score: where most tokens are background, optima
    # are as small as this
    linear = s * gam**2 / (gam**2 * (gam**2 + s**2) + task.length - 1)
    lam = (
        min(SMALLEST_LAMBDA_MULTIPLE / (1 + s), 1e-2 * linear)
        if linear > 0
        else SMALLEST_LAMBDA_MULTIPLE / (1 + s)
    )
    last = min(
        LARGEST_LAMBDA_MULTIPLE * (1 + s + 1 / gam), LARGEST_SCALED_LAMBDA / (1 + s + gam)
    )
    values: list[tuple[float, float]] = []
    best = math.inf
    worse = 0
    # 12 steps of 1.6: a factor of 280 beyond the best seen without improvement
    while worse < 12:
        try:
            values.append((log_excess(lam), lam))
        except AttnscopeError:
            # the route ends at some lambda; that the best one lies below is checked at the end
            if not worse:
                raise
            break
        if values[-1][0] < best:
            worse = 0
        elif values[-1][0] > best + LOG_RISK_ROUNDING * (1 + abs(best)):
            # rounding on a plateau does not count as an increase
            worse += 1
        best = min(best, values[-1][0])
        if lam >= last:
            break
        lam = min(lam * LAMBDA_RATIO, last)
    i = values.index(min(values))
    value, lam = values[i]
    if log_excess(0.0) <= value:
        return 0.0, 0.0
    if i == len(values) - 1 or best == -math.inf:
        raise AttnscopeError(
            f"the optimal inverse temperature must be finite and at most {last:.3g}, where the "
            "search ends, got a risk that "
            f"still falls at inverse temperature {lam:.3g}; try "
            f"{'length >= 2' if task.length == 1 else 'a smaller signal'}."
        )
    return values[i - 1][1] if i else lam / LAMBDA_RATIO, values[i + 1][1]


def _lambda_of_zero_slope(
    slope: Callable[[float], float] | None,
    low: float,
    high: float,
    log_excess: Callable[[float], float],
) -> float:
    """The lambda where the derivative vanishes, near the smallest risk; the lambda of the smallest
    risk itself if the derivative does not change its sign or is not known.

    Gradients may cost a hundred times a risk: the risk narrows the bracket first.
    """
    risk_at = lambda x: log_excess(math.exp(x))
    least = float(
        minimize_scalar(
            risk_at, bounds=(low, high), method="bounded", options={"xatol": 1e-7}
        ).x
    )
    for half in LOG_LAMBDA_BRACKETS if slope is not None else ():
        assert slope is not None
        a = max(low, least - half)
        b = min(high, least + half)
        if slope(a) < 0 < slope(b):
            return math.exp(brentq(slope, a, b, xtol=1e-13, rtol=1e-13))
    return math.exp(least)


def _checked_family(family: object, of: str) -> Callable[[float], Predictor]:
    try:
        made = family(0.5)  # type: ignore[operator]
    except AttnscopeError:
        raise
    except Exception:
        made = None
    if not has_one_head(made):
        raise bad(
            "family",
            of,
            "a predictor class or a function from inverse temperature to predictor",
            family,
            "Erf, or lambda t: Componentwise(f, t)",
        )
    return family  # type: ignore[return-value]


@accept_old_keyword
def oracle_regime(task: SingleLocation, inverse_temperature: float) -> OracleRegime:
    """How far (task, inverse temperature) is inside the asymptotic regime of the erf oracle (module
    docstring).

    Args:
        task: a SingleLocation.
        inverse_temperature: lam > 0 of Erf.

    >>> regime = oracle_regime(SingleLocation(dim=10**8, length=10), 1e-3)
    >>> round(regime.through, 2), round(regime.leak, 4)
    (7.07, 0.0032)
    """
    checked_task(task, "oracle_regime")
    lam = check.real(inverse_temperature, "inverse_temperature", "oracle_regime", 0)
    L = float(task.length)
    leading = task.gamma**2 * erfc(lam * task.signal) ** 2 + 4 / math.pi * (L - 1) * lam**2
    return OracleRegime(lam * task.signal, lam * math.sqrt(L), float(np.float64(leading)))
