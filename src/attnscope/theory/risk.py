"""Population risk of a predictor on a task, exactly or by Monte Carlo, and its gradient.

    risk(task, predictor, overlaps) = E[(Y - T(X))^2],   excess = risk - noise^2

Which exact route serves which predictor is one table, EXACT: Erf and LinearAttention in closed form, any other Componentwise by
one-dimensional quadrature, Softmax by the two-dimensional rule of softmax_risk, other normalised weights by that of normalised_risk. Risks of
these predictors do not depend on the position pmf, because the predictors treat all positions alike.

Tasks other than SingleLocation have their own line in the table TASKS: RandomLength averages the risks of its lengths; MultiLocation and
MaxLocation are exact at the oracle overlaps (several_tokens_risk) and sampled elsewhere. Their gradients are not offered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics import validation as check
from attnscope.numerics.estimate import Estimate, estimate
from attnscope.predictors.attention import Componentwise, Erf, LinearAttention, Normalised, Predictor, Softmax
from attnscope.predictors.temperature import constant_temperature
from attnscope.tasks.max_location import MaxLocation
from attnscope.tasks.multi_location import MultiLocation
from attnscope.tasks.random_length import RandomLength
from attnscope.tasks.single_location import SingleLocation
from attnscope.theory.componentwise_gradient import componentwise_gradient
from attnscope.theory.componentwise_risk import componentwise_excess
from attnscope.theory.erf_risk import erf_excess_and_error, erf_excess_gradient, erf_excess_jax
from attnscope.theory.linear_risk import linear_excess, linear_excess_and_error, linear_excess_gradient
from attnscope.theory.monte_carlo import monte_carlo_excess
from attnscope.theory.normalised_gradient import normalised_gradient
from attnscope.theory.normalised_risk import normalised_excess
from attnscope.theory.optimal_sigma import OptimalSigma, optimal_sigma_log_excess
from attnscope.theory.overlaps import Overlaps, checked_overlaps
from attnscope.theory.several_tokens_risk import head_risk, sampled_excess

__all__ = ["RiskGradient", "checked_task", "has_jax_form", "risk", "risk_function", "risk_gradient"]


class RiskGradient(NamedTuple):
    """Partial derivatives of the risk in the five overlaps and the temperature."""

    kappa: Any
    eta: Any
    theta: Any
    nu: Any
    rho: Any
    temperature: Any


class Excess(NamedTuple):
    """What an exact route returns: arrays of the overlaps' shape; log_excess None where log(excess) will do."""

    excess: Any
    error: Any
    method: str
    log_excess: Any = None


def risk(
    task: SingleLocation | MultiLocation | MaxLocation | RandomLength,
    predictor: Predictor,
    overlaps: Overlaps,
    method: str = "exact",
    samples: int = 100_000,
    seed: int = 0,
) -> Estimate:
    """Population risk at the given overlaps (numbers or arrays that broadcast).

    Args:
        task: a SingleLocation; a RandomLength (average over its lengths); a MultiLocation or MaxLocation (exact at the oracle overlaps only).
        method: "exact", or "monte-carlo" on `samples` draws of the projections (its cost does not depend on the dimension).

    >>> task = SingleLocation(dim=400, length=10)
    >>> round(risk(task, Erf(0.1), Overlaps.oracle()).value, 5)
    0.1135
    """
    of = "risk"
    other = next((TASKS[kind] for kind in type(task).__mro__ if kind in TASKS), None)
    known: Any = task if other else checked_task(task, of)
    lam = constant_temperature(_known(predictor, of), of)
    o = checked_overlaps(overlaps, known, of)
    if method not in ("exact", "monte-carlo"):
        raise bad("method", of, "'exact' or 'monte-carlo'", method)
    samples, seed = check.integer(samples, "samples", of, 2), check.seed_value(seed, of)
    if other:
        return other(task, predictor, o, lam, method, samples, seed)
    if method == "exact":
        out = _route(EXACT, predictor, of, "method='monte-carlo'")(task, predictor, o, lam)
    else:
        out = _sampled(known, predictor, o, lam, samples, seed)
    return estimate(out.excess, out.error, out.method, known.noise, out.log_excess)


def _averaged(
    task: RandomLength, predictor: Predictor, o: Overlaps, lam: float, method: str, samples: int, seed: int
) -> Estimate:
    return task.average(lambda fixed: risk(fixed, predictor, o, method, samples, seed))


def _one_head(
    task: Any, predictor: Predictor, o: Overlaps, lam: float, method: str, samples: int, seed: int
) -> Estimate:
    if o.kappa.ndim:
        raise bad(
            "overlaps", f"risk on {type(task).__name__}", "scalars", f"shape {o.kappa.shape}", "one call per point"
        )
    if method == "monte-carlo":
        return estimate(*sampled_excess(task, predictor, o, lam, samples, seed), "monte-carlo", task.noise)
    if tuple(o) != Overlaps.oracle():
        got = ", ".join(f"{name}={float(x):.6g}" for name, x in o._asdict().items())
        of = f"the exact risk on {type(task).__name__}"
        raise bad("overlaps", of, "Overlaps.oracle()", got, "method='monte-carlo'")
    return head_risk(task, predictor)


TASKS: dict[type, Callable] = {RandomLength: _averaged, MultiLocation: _one_head, MaxLocation: _one_head}


def risk_gradient(task: SingleLocation, predictor: Predictor, overlaps: Overlaps) -> RiskGradient:
    """Exact partial derivatives of the risk in the overlaps (as five free variables) and in the temperature.

    >>> task = SingleLocation(dim=400, length=10)
    >>> round(risk_gradient(task, Erf(0.1), Overlaps.oracle()).nu, 4)
    -0.9534
    """
    of = "risk_gradient"
    checked_task(task, of)
    lam = constant_temperature(_known(predictor, of), of)
    o = checked_overlaps(overlaps, task, of)
    parts = np.array(_route(GRADIENT, predictor, of, "Erf(0.1)")(task, predictor, o, lam))
    if not np.isfinite(parts).all():
        raise AttnscopeError(
            "the gradient must be finite in float64, got an overflow at these parameters; try values closer to 1."
        )
    return RiskGradient(*(float(x) if x.ndim == 0 else x for x in parts))


def risk_function(task: SingleLocation, predictor: Predictor) -> Callable[[Overlaps, Any], Any]:
    """The excess risk as a raw JAX function f(overlaps, temperature): differentiable, jit- and vmap-able.

    It validates nothing and computes in whatever precision is active: call it inside `attnscope.numerics.x64.x64()` for float64.
    """
    of = "risk_function"
    checked_task(task, of)
    return _route(JAX, _known(predictor, of), of, "risk and risk_gradient, which know every predictor")(task, predictor)


def checked_task(task: object, of: str) -> SingleLocation:
    if not isinstance(task, SingleLocation):
        raise bad("task", of, "a SingleLocation", task, "SingleLocation(dim=400, length=10)")
    return task


def _known(predictor: object, of: str) -> Predictor:
    if not isinstance(predictor, Predictor):
        raise bad(
            "predictor",
            of,
            "a predictor with an exact risk (Erf, Softmax, SoftmaxOne, SoftplusAttention, Componentwise, LinearAttention)",
            predictor,
            "Erf(0.1)",
        )
    return predictor


def _route(table: dict[type, Callable], predictor: Predictor, of: str = "risk", hint: str = "") -> Callable:
    for kind in type(predictor).__mro__:
        if kind in table:
            return table[kind]
    names = ", ".join(kind.__name__ for kind in table)
    raise bad("predictor", of, f"one of {names}", predictor, hint)


def has_jax_form(predictor: Predictor) -> bool:
    """Whether `risk_function` knows this predictor."""
    return any(kind in JAX for kind in type(predictor).__mro__)


def _numbers(task: SingleLocation) -> dict[str, Any]:
    return {"gamma": task.gamma, "signal": task.signal, "length": task.length, "alignment": task.alignment}


def _pointwise(function: Callable[[tuple[float, ...]], Any], o: Overlaps) -> list[Any]:
    """function(overlaps of one point) for every point of the broadcast shape, in order."""
    return [function(tuple(float(x) for x in point)) for point in zip(*(x.ravel() for x in o))]


def _erf(task: SingleLocation, predictor: Predictor, o: Overlaps, lam: float) -> Excess:
    return Excess(*erf_excess_and_error(o, lam, **_numbers(task)), "closed form")


def _linear(task: SingleLocation, predictor: Any, o: Overlaps, lam: float) -> Excess:
    return Excess(*linear_excess_and_error(o, lam, predictor.offset, **_numbers(task)), "closed form")


def _componentwise(task: SingleLocation, predictor: Any, o: Overlaps, lam: float) -> Excess:
    rows = np.array(_pointwise(lambda point: componentwise_excess(predictor, point, lam, **_numbers(task)), o))
    return Excess(rows[:, 0].reshape(o.kappa.shape), rows[:, 1].reshape(o.kappa.shape), "1-D quadrature")


def _optimal(task: SingleLocation, predictor: Any, o: Overlaps, lam: float) -> Excess:
    same = (predictor.sigma.gamma, predictor.sigma.signal, predictor.sigma.length) == (
        task.gamma,
        task.signal,
        task.length,
    )
    if not (same and task.alignment == 0 and o.kappa.ndim == 0 and tuple(o) == Overlaps.oracle()):
        return _componentwise(task, predictor, o, lam)
    log_excess, error = optimal_sigma_log_excess(task.gamma, task.signal, task.length)
    return Excess(np.exp(log_excess), error * np.exp(log_excess), "log-space quadrature", log_excess)


def _softmax(task: SingleLocation, predictor: Predictor, o: Overlaps, lam: float) -> Excess:
    from attnscope.theory.softmax_risk import softmax_excess  # here, because it loads numba

    rows = np.array(_pointwise(lambda point: softmax_excess(*point, temperature=lam, **_numbers(task)), o))
    excess, log_excess, error = (rows[:, i].reshape(o.kappa.shape) for i in range(3))
    return Excess(excess, error, "2-D quadrature", log_excess)


def _normalised(task: SingleLocation, predictor: Any, o: Overlaps, lam: float) -> Excess:
    rows = np.array(_pointwise(lambda point: normalised_excess(predictor, point, lam, **_numbers(task)), o))
    return Excess(rows[:, 0].reshape(o.kappa.shape), rows[:, 1].reshape(o.kappa.shape), "2-D quadrature")


def _sampled(task: SingleLocation, predictor: Predictor, o: Overlaps, lam: float, samples: int, seed: int) -> Excess:
    points = list(zip(*(x.ravel() for x in o)))
    draw = lambda i, point: monte_carlo_excess(predictor, point, lam, **_numbers(task), samples=samples, seed=[seed, i])
    rows = np.array([draw(i, point) for i, point in enumerate(points)])
    return Excess(rows[:, 0].reshape(o.kappa.shape), rows[:, 1].reshape(o.kappa.shape), "monte-carlo")


def _softmax_gradient(task: SingleLocation, predictor: Predictor, o: Overlaps, lam: float) -> np.ndarray:
    from attnscope.theory.softmax_risk import softmax_excess_gradient

    return _stacked(lambda point: softmax_excess_gradient(*point, temperature=lam, **_numbers(task)), o)


def _linear_jax(task: SingleLocation, predictor: Any) -> Callable[[Overlaps, Any], Any]:
    import jax.numpy as jnp

    return lambda o, lam: linear_excess(o, lam, predictor.offset, **_numbers(task), xp=jnp)


def _softmax_jax(task: SingleLocation, predictor: Predictor) -> Callable[[Overlaps, Any], Any]:
    from attnscope.theory.softmax_risk import softmax_excess_jax

    return lambda o, lam: softmax_excess_jax(o, lam, **_numbers(task))


def _stacked(function: Callable[[tuple[float, ...]], np.ndarray], o: Overlaps) -> np.ndarray:
    return np.array(_pointwise(function, o)).T.reshape(6, *o.kappa.shape)


EXACT: dict[type, Callable] = {
    Erf: _erf,
    LinearAttention: _linear,
    OptimalSigma: _optimal,
    Componentwise: _componentwise,
    Softmax: _softmax,
    Normalised: _normalised,
}
GRADIENT: dict[type, Callable] = {
    Erf: lambda task, p, o, lam: erf_excess_gradient(o, lam, **_numbers(task)),
    LinearAttention: lambda task, p, o, lam: linear_excess_gradient(o, lam, p.offset, **_numbers(task)),
    Componentwise: lambda task, p, o, lam: _stacked(lambda x: componentwise_gradient(p, x, lam, **_numbers(task)), o),
    Softmax: _softmax_gradient,
    Normalised: lambda task, p, o, lam: _stacked(lambda x: normalised_gradient(p, x, lam, **_numbers(task)), o),
}
JAX: dict[type, Callable] = {
    Erf: lambda task, p: lambda o, lam: erf_excess_jax(o, lam, **_numbers(task)),
    LinearAttention: _linear_jax,
    Softmax: _softmax_jax,
}
