"""Population risk of a predictor on a task, exactly or by Monte Carlo, and its gradient.

    risk(task, predictor, overlaps) = E[(Y - T(X))^2],   excess = risk - noise^2

Which exact route serves which pair is one table (route.py, routes.py). What no route reaches is
sampled from the task's projections (monte_carlo.py), with a standard error that counts what no draw
has shown. Overlaps are those of the head's unit vectors k, v with the task's first key and value; of any further teachers the head
keeps only what these imply. On a CorrelatedBackground they are those of the whitened vectors.

Two doors lead to each number. `risk` and `risk_gradient` check what they are given;
`unchecked_risk` and `unchecked_gradient` take it in the form the checks return, for loops that have
checked it once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.predictors.attention import Predictor
from attnscope.predictors.temperature import constant_temperature
from attnscope.tasks.base import PlantedTask, checked_law, has_classes
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.monte_carlo import sampled_excess, sampled_wrong
from attnscope.theory.overlaps import Overlaps, checked_overlaps
from attnscope.theory.route import (
    Excess,
    Route,
    checked_planted,
    checked_predictor,
    find_route,
    needed,
)

__all__ = [
    "RiskGradient",
    "checked_task",
    "has_jax_form",
    "risk",
    "risk_function",
    "risk_gradient",
    "sampled",
    "unchecked_gradient",
    "unchecked_risk",
]

METHODS = ("auto", "exact", "monte-carlo")


class RiskGradient(NamedTuple):
    """Partial derivatives of the risk in the five overlaps and the temperature."""

    kappa: Any
    eta: Any
    theta: Any
    nu: Any
    rho: Any
    temperature: Any


def risk(
    task: PlantedTask,
    predictor: Predictor,
    overlaps: Overlaps,
    method: str = "auto",
    samples: int = 100_000,
    seed: int = 0,
) -> Estimate:
    """Population risk at the given overlaps (numbers or arrays that broadcast).

    Args:
        task: a planted task: SingleLocation, MultiLocation, RandomLength, ...
        method: "auto" (exact where a route exists, else sampled), "exact" (or a refusal), or
        "monte-carlo" on `samples` draws of the
            projections, whose cost does not depend on the dimension; its `error` is a standard
            error that counts what no draw has shown. The estimate's `method` says what was done.

    >>> from attnscope.predictors.attention import Erf
    >>> task = SingleLocation(dim=400, length=10)
    >>> round(risk(task, Erf(0.1), Overlaps.oracle()).value, 5)
    0.1135
    """
    of = "risk"
    checked_planted(task, of)
    lam = constant_temperature(checked_predictor(predictor, of), of)
    o = checked_overlaps(overlaps, task, of)
    if method not in METHODS:
        raise bad("method", of, "'auto', 'exact' or 'monte-carlo'", method)
    samples = check.integer(samples, "samples", of, 2)
    seed = check.seed_value(seed, of)
    return unchecked_risk(task, predictor, o, lam, method, samples, seed)


def unchecked_risk(
    task: Any,
    predictor: Predictor,
    o: Overlaps,
    lam: float,
    method: str = "auto",
    samples: int = 100_000,
    seed: int = 0,
) -> Estimate:
    """`risk` at the temperature lam, the predictor's own or another, for arguments in the form its
    checks return.

    Args:
        o: possible overlaps, float64 arrays of one shape (`checked_overlaps`, `as_arrays`).
        lam: a finite float >= 0.
    """
    route = find_route(task, predictor)
    lacking = "a route" if route is None else route.missing(task, predictor, o)
    if method == "exact" or (method == "auto" and not lacking):
        out = _exact(task, predictor, o, lam, lacking)
    else:
        out = sampled(route, task, predictor, o, lam, samples, seed)
    return estimate(out.excess, out.error, out.method, task.noise, out.log_excess)


def _exact(task: Any, predictor: Predictor, o: Overlaps, lam: float, lacking: str) -> Excess:
    excess = needed("excess", task, predictor, "risk(method='exact')", "method='monte-carlo'")
    if lacking:
        of = f"the exact risk on {type(task).__name__}"
        raise bad("overlaps or task", of, lacking, _shown(o), "method='monte-carlo'")
    return excess(task, predictor, o, lam)


def sampled(
    route: Route | None,
    task: Any,
    predictor: Predictor,
    o: Overlaps,
    lam: float,
    samples: int,
    seed: int,
) -> Excess:
    """The sampled excess at any overlaps, unchecked; the share of wrong signs of classes."""
    if route is not None and route.sampled is not None:
        return route.sampled(task, predictor, o, lam, samples, seed)
    points = list(zip(*(x.ravel() for x in o)))
    draw = sampled_wrong if has_classes(task) else sampled_excess
    each = enumerate(points)
    rows = [draw(task, predictor, Overlaps(*x), lam, samples, [seed, i]) for i, x in each]
    excess, error = np.array(rows).T.reshape(2, *o.kappa.shape)
    return Excess(excess, error, "monte-carlo")


def _shown(o: Overlaps) -> str:
    if o.kappa.ndim:
        return f"overlaps of shape {o.kappa.shape}"
    return ", ".join(f"{name}={float(x):.6g}" for name, x in o._asdict().items())


def risk_gradient(
    task: PlantedTask, predictor: Predictor, overlaps: Overlaps
) -> RiskGradient:
    """Exact partial derivatives of the risk in the overlaps (as five free variables) and in the
    temperature.

    >>> from attnscope.predictors.attention import Erf
    >>> task = SingleLocation(dim=400, length=10)
    >>> round(risk_gradient(task, Erf(0.1), Overlaps.oracle()).nu, 4)
    -0.9534
    """
    of = "risk_gradient"
    checked_planted(task, of)
    lam = constant_temperature(checked_predictor(predictor, of), of)
    return unchecked_gradient(task, predictor, checked_overlaps(overlaps, task, of), lam)


def unchecked_gradient(
    task: Any, predictor: Predictor, o: Overlaps, lam: float
) -> RiskGradient:
    """`risk_gradient`, arguments as in `unchecked_risk`."""
    gradient = needed("gradient", task, predictor, "risk_gradient", "differences of risk")
    parts = np.array(gradient(task, predictor, o, lam))
    if not np.isfinite(parts).all():
        raise AttnscopeError(
            "the gradient must be finite in float64, got an overflow at these parameters; try "
            "values closer to 1."
        )
    return RiskGradient(*(float(x) if x.ndim == 0 else x for x in parts))


def risk_function(task: PlantedTask, predictor: Predictor) -> Callable[[Overlaps, Any], Any]:
    """The excess risk as a raw JAX function f(overlaps, temperature): differentiable, jit- and
    vmap-able.

    It validates nothing and computes in whatever precision is active: call it inside
    `attnscope.numerics.border.x64.x64()` for float64. It has no error of its own: closed forms are
    exact to rounding, Softmax sums on a fixed grid, to 1e-9 of gamma^2 + signal^2 while temperature
    max(1, gamma) <= 5.6 and temperature (signal + 12 max(1, gamma)) + 2 log(length) <= 192.
    """
    of = "risk_function"
    checked_planted(task, of)
    return needed(
        "jax", task, checked_predictor(predictor, of), of, "risk, or risk_gradient"
    )(task, predictor)


def has_jax_form(task: PlantedTask, predictor: Predictor) -> bool:
    """Whether `risk_function` knows this pair."""
    route = find_route(task, predictor)
    return route is not None and route.jax is not None


def checked_task(task: object, of: str) -> SingleLocation:
    """For what is derived for single-location regression only."""
    return checked_law(task, SingleLocation, of, "SingleLocation(dim=400, length=10)")
