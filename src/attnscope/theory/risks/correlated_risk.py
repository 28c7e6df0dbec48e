"""Exact risk of componentwise attention before a background with mean and covariance, by
one-dimensional quadrature.

notation: u = x.k, w = x.v, sigma = the activation, lam = inverse temperature, G standard normal;
index 0 background, 1 informative token (tasks.planted.correlated_background).

T(X) = sum_l sigma(lam u_l) w_l sums independent terms, and A = Y - sigma(lam u_J) w_J is
independent of the L - 1 background terms T_0, so with intercept b

    R = Var A + (L-1) Var T_0 + (E A - (L-1) m0 - b)^2,        m0 = E T_0 = E[sigma(lam u) w].

Given the score of a token everything else is Gaussian: w = mean + slope (u - E u) + residual, and Y
has the same form, so that all five moments are means over one normal variable. A background value w
of mean != 0, or one correlated with the score, gives m0 != 0 and costs (L-1)^2 m0^2 without
intercept; the best intercept b = E A - (L-1) m0 removes that, but not the variance Var T_0 it comes
with. For a Student t background u is t distributed, E[w | u] is the same line, and Var(w | u) is
multiplied by (n - 2 + T^2)/(n - 1), T = (u - E u)/sd(u): again one integral, over panels that
follow the tail.

Exact up to the panel rule, whose error is estimated by a coarser rule on the same panels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.integrals.quadrature import doubling_edges, normal_panels, panel_nodes
from attnscope.numerics.integrals.refined_panels import ScoreLaw, sigma_rules
from attnscope.predictors.attention import Componentwise, Erf, is_componentwise
from attnscope.predictors.inverse_temperature import constant_inverse_temperature
from attnscope.tasks.base import checked_law
from attnscope.tasks.planted.correlated_background import CorrelatedBackground

__all__ = ["correlated_inverse_temperature", "correlated_risk"]

MOMENT_ROUNDOFF = 1e-13  # relative: a few thousand summands, and quadratic forms of length d
# the panels of a Student t end at about 10^(18/(n-2)): 1e90 here
SMALLEST_DEGREES_OF_FREEDOM = 2.2
# second moment beyond the panels of a Student t: below rounding for a thousand tokens
OMITTED_SECOND_MOMENT = 1e-18
# coarse search of the best lambda, in units of 1/(sd(u) + |mean of u_J|), six per decade; the best
# one is of the size of a weak signal, and may be below all of these (_log_lambda_bracket)
LAMBDA_GRID = np.geomspace(1e-10, 1e2, 73)


class _Gauss(NamedTuple):
    """u and a second variable that is linear in u plus a residual:
    means, sd of u, slope on (u - Eu)/sd, residual variance.
    """

    mean_u: float
    sd_u: float
    mean_w: float
    slope: float
    residual: float


def correlated_risk(
    task: CorrelatedBackground,
    predictor: Componentwise,
    k: np.ndarray | None = None,
    v: np.ndarray | None = None,
    intercept: bool = False,
) -> Estimate:
    """Population risk of T(X) = sum_l sigma(lam x_l.k) x_l.v (+ the best constant, if `intercept`)
    on a correlated task.

    Args:
        task: a CorrelatedBackground.
        predictor: Erf, or another Componentwise; only Erf where the background is a Student t (its
            moments must exist).
        k, v: directions (dim,) of any length; the task's key and value (the oracle) if None.

    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> inner = SingleLocation(dim=60, length=10)
    >>> shifted = CorrelatedBackground(inner, mean=inner.value)
    >>> round(correlated_risk(shifted, Erf(0.1)).value, 4), round(correlated_risk(shifted, Erf(0.1), intercept=True).value, 4)
    (0.5215, 0.3271)
    """
    of = "correlated_risk"
    _check_task_and_head(task, predictor, of)
    lam = constant_inverse_temperature(predictor, of)
    k = task.key if k is None else check.array(k, "k", of, (task.dim,)).astype(np.float64)
    v = task.value if v is None else check.array(v, "v", of, (task.dim,)).astype(np.float64)
    if not isinstance(intercept, (bool, np.bool_)):
        raise bad("intercept", of, "True or False", intercept)
    (fine, rounding), (coarse, _) = (
        _excess_and_rounding(task, predictor, lam, k, v, bool(intercept), rule)
        for rule in (0, 1)
    )
    return estimate(fine, abs(fine - coarse) + rounding, "1-D quadrature", task.noise)


def correlated_inverse_temperature(
    task: CorrelatedBackground,
    family: Callable[[float], Componentwise] = Erf,
    intercept: bool = False,
) -> tuple[float, Estimate]:
    """(inverse temperature, risk) of the smallest risk at the oracle directions; inverse
    temperature 0 where none is better than that.

    Args:
        task: a CorrelatedBackground.
        family: from inverse temperature to predictor, as the class `Erf`.
        intercept: with the best constant added.

    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> best, risk = correlated_inverse_temperature(CorrelatedBackground(SingleLocation(dim=60, length=10)))
    >>> round(best, 4), round(risk.value, 4)
    (0.0958, 0.2108)
    """
    _check_task_and_head(
        task, family(0.5) if callable(family) else family, "correlated_inverse_temperature"
    )
    key = task.key
    unit = math.sqrt(float(key @ task.covariance @ key)) + abs(
        float(task.informative_mean @ key)
    )

    def at(log_lam: float) -> Estimate:
        return correlated_risk(task, family(math.exp(log_lam)), intercept=intercept)

    none = correlated_risk(task, family(0.0), intercept=intercept)
    ends = _log_lambda_bracket(at, none, unit)
    excess = lambda x: float(at(x).excess)
    lam = math.exp(
        minimize_scalar(excess, bounds=ends, method="bounded", options={"xatol": 1e-7}).x
    )
    found = correlated_risk(task, family(lam), intercept=intercept)
    # without a signal attention only costs
    return (lam, found) if found.excess < none.excess else (0.0, none)


def _log_lambda_bracket(
    at: Callable[[float], Estimate], none: Estimate, unit: float
) -> tuple[float, float]:
    """Logarithms of lambda around the smallest risk of a grid.

    The grid grows downwards while its lower end is the best of it, until two risks in a row do not
    differ from the risk at lambda = 0. For a Student t of n degrees of freedom, 3 < n < 4,
    E[sigma^2 w^2] grows like lam^(n-2): the risk is R(0) - a lam + b lam^(n-2), least at
    (a/b)^(1/(n-3)) up to a constant, which is far below the signal.
    """

    def differs_from_zero(e: Estimate) -> bool:
        return bool(abs(e.excess - none.excess) > e.error + none.error)

    grid = list(np.log(LAMBDA_GRID / unit))
    found = [at(x) for x in grid]
    best = int(np.argmin([e.excess for e in found]))
    while best == 0 and (differs_from_zero(found[0]) or differs_from_zero(found[1])):
        grid.insert(0, 2 * grid[0] - grid[1])
        found.insert(0, at(grid[0]))
        best = int(found[1].excess <= found[0].excess)
    return grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]


def _check_task_and_head(task: object, predictor: object, of: str) -> None:
    task = checked_law(task, CorrelatedBackground, of, "risk(task, ...) for a SingleLocation")
    if not is_componentwise(predictor):
        raise bad(
            "predictor", of, "Erf or another Componentwise predictor", predictor, "Erf(0.1)"
        )
    n = task.degrees_of_freedom
    if n is not None and not (predictor.tame and n >= SMALLEST_DEGREES_OF_FREEDOM):
        got = f"{type(predictor).__name__} and degrees_of_freedom={n:g}"
        raise bad(
            "predictor",
            of,
            f"Erf with degrees_of_freedom >= {SMALLEST_DEGREES_OF_FREEDOM} for a Student t",
            got,
        )


def _excess_and_rounding(
    task: CorrelatedBackground,
    predictor: Componentwise,
    lam: float,
    k: np.ndarray,
    v: np.ndarray,
    b: bool,
    rule: int,
) -> tuple[float, float]:
    """The excess risk by the fine (0) or the coarse (1) rule, and a bound on its rounding."""
    star = task.value
    n = task.degrees_of_freedom
    others = task.length - 1
    mu1 = task.informative_mean
    S1 = task.informative_covariance
    one_w = _projection_law(mu1, S1, k, v)
    one_y = _projection_law(mu1, S1, k, star)
    zero = _projection_law(task.mean, task.covariance, k, v)
    # the informative token: A given its score has mean a and variance spread
    g, p = _normal_rules(predictor, lam, one_w)[rule]
    s = predictor.activation(lam * (one_w.mean_u + one_w.sd_u * g))
    a = one_y.mean_w + one_y.slope * g - s * (one_w.mean_w + one_w.slope * g)
    cross = float(v @ S1 @ star) - one_w.slope * one_y.slope
    spread = np.maximum(one_y.residual - 2 * s * cross + s * s * one_w.residual, 0.0)
    informative = _Moments.of(p, a, spread)
    # a background token
    if n is None:
        g, p = _normal_rules(predictor, lam, zero)[rule]
    else:
        g, p = _student_rule(predictor, lam, zero, n, rule)
    s = predictor.activation(lam * (zero.mean_u + zero.sd_u * g))
    swell = 1.0 if n is None else (n - 2 + g * g) / (n - 1)
    background = _Moments.of(
        p, s * (zero.mean_w + zero.slope * g), s * s * zero.residual * swell
    )
    bias = 0.0 if b else informative.mean - others * background.mean
    sizes = informative.size + others * background.size
    rounding = (
        informative.rounding
        + others * background.rounding
        + MOMENT_ROUNDOFF * (2 * abs(bias) + MOMENT_ROUNDOFF * sizes) * sizes
    )
    # quadratic forms whose differences are the residual variances
    forms = float(star @ S1 @ star) + float(v @ S1 @ v)
    return (
        informative.variance + others * background.variance + bias**2,
        rounding + MOMENT_ROUNDOFF * forms,
    )


class _Moments(NamedTuple):
    """Mean, variance and size E|x| of a variable, and the rounding of its variance."""

    mean: float
    variance: float
    size: float
    rounding: float

    @classmethod
    def of(cls, p: np.ndarray, x: np.ndarray, spread: np.ndarray) -> _Moments:
        """From the conditional mean x and variance `spread` at nodes of weight p."""
        mean = float(np.sum(p * x))
        size = float(np.sum(p * np.abs(x)))
        variance = float(np.sum(p * ((x - mean) ** 2 + spread)))
        return cls(
            mean,
            variance,
            size,
            MOMENT_ROUNDOFF
            * (variance + (2 * math.sqrt(variance) + MOMENT_ROUNDOFF * size) * size),
        )


def _projection_law(
    mean: np.ndarray, covariance: np.ndarray, k: np.ndarray, v: np.ndarray
) -> _Gauss:
    su = covariance @ k
    variance = float(k @ su)
    sd = math.sqrt(max(variance, 0.0))
    slope = float(v @ su) / sd if sd > 0 else 0.0
    return _Gauss(
        float(mean @ k),
        sd,
        float(mean @ v),
        slope,
        max(float(v @ covariance @ v) - slope**2, 0.0),
    )


def _turns_and_kinks(
    predictor: Componentwise, lam: float, law: _Gauss
) -> tuple[list[tuple[float, float]], list[float]]:
    """Where in g the activation turns, as (place, scale) pairs, and where it has kinks."""
    steep = lam * law.sd_u
    if steep == 0:
        return [], []
    place = lambda x: (x - lam * law.mean_u) / steep
    return [(place(x), scale / steep) for x, scale in predictor.turns()], [
        place(x) for x in predictor.kinks
    ]


def _normal_rules(
    predictor: Componentwise, lam: float, law: _Gauss
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Nodes and weights for E[f(G)], fine and coarse: panels around the turns of a tame
    sigma, panels that resolve another."""
    if predictor.tame:
        return normal_panels(*_turns_and_kinks(predictor, lam, law))
    return sigma_rules(predictor, ScoreLaw(lam, law.mean_u, law.sd_u))


def _student_rule(
    predictor: Componentwise, lam: float, law: _Gauss, n: float, rule: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a Student t of variance 1,
    out to where its second moment has OMITTED_SECOND_MOMENT left.
    """
    log_constant = gammaln((n + 1) / 2) - gammaln(n / 2) - 0.5 * math.log((n - 2) * math.pi)
    # far out the density is e^power |t|^-(n+1), and its second moment beyond `end` is 2 e^power
    # end^(2-n)/(n - 2)
    power = log_constant + (n + 1) / 2 * math.log(n - 2)
    end = max(
        40.0,
        math.exp((power + math.log(2 / (n - 2)) - math.log(OMITTED_SECOND_MOMENT)) / (n - 2)),
    )
    places, kinks = _turns_and_kinks(predictor, lam, law)
    t, w = panel_nodes(doubling_edges([(0.0, 0.5), *places], -end, end, kinks))[rule]
    return t, w * np.exp(log_constant - (n + 1) / 2 * np.log1p(t * t / (n - 2)))
