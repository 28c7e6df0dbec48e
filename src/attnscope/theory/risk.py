"""Population risk of a predictor on a task, exactly or by Monte Carlo, and its gradient.

    risk(task, predictor, overlaps) = E[(Y - T(X))^2],   excess = risk - noise^2

Which exact route serves which pair is one table (routes/). Where no route exists, the risk is
sampled: on quasi-random nodes (nodes/) where the task is a definition, with the standard error of
their scramblings; else from its projections (monte_carlo.py), with a standard error that includes
an allowance for rare events that were not sampled. Gradients without a route are those of the
nodes. Instead of overlaps, any Gram matrix of trained vectors and teachers may be given. Overlaps
are those of the head's unit vectors k, v with the task's first key and value; of any further
teachers the head keeps only what these imply. On a CorrelatedBackground they are those of the
whitened vectors.

`risk` and `risk_gradient` check their arguments; `unchecked_risk` and `unchecked_gradient` take
them in the form the checks return, for loops that have checked them once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from attnscope.deprecated import old_names
from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.whole_values import refuse_masked
from attnscope.optional import needs
from attnscope.predictors.attention import Predictor, has_one_head
from attnscope.predictors.heads import adds_heads
from attnscope.predictors.inverse_temperature import constant_inverse_temperature
from attnscope.tasks.base import PlantedTask, checked_law, has_classes, is_defined
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.monte_carlo import sampled_excess, sampled_wrong
from attnscope.theory.nodes.node_routes import (
    checked_gram,
    defined_excess,
    gram_excess,
)
from attnscope.theory.overlaps import MOVE_TOLERANCE, Overlaps, checked_overlaps
from attnscope.theory.route import (
    Excess,
    Route,
    checked_planted,
    checked_predictor,
    find_route,
    gradient_row,
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

Method = Literal["auto", "exact", "monte-carlo", "quasi-monte-carlo"]
METHODS = get_args(Method)


class _Six(NamedTuple):
    kappa: Any
    eta: Any
    theta: Any
    nu: Any
    rho: Any
    inverse_temperature: Any


@old_names
class RiskGradient(_Six):
    """Partial derivatives of the risk in the five overlaps and the inverse temperature.

    error: their standard errors, six in the same order, where they are means over nodes; None where
    an exact route has them, to rounding or to its quadrature's tolerance (docs/accuracy.md).

    Attributes:
        kappa, eta, theta, nu, rho: dR/d of each overlap, as five free variables.
        inverse_temperature: dR/d lam.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> slope = at.risk_gradient(task, at.Erf(0.1), at.Overlaps.oracle())
    >>> round(slope.kappa, 4), round(slope.inverse_temperature, 4)
    (-0.0107, 2.0986)
    """

    error: _Six | None = None


def risk(
    task: PlantedTask,
    predictor: Predictor,
    overlaps: Overlaps | np.ndarray | Sequence[Any],
    method: Method = "auto",
    samples: int = 100_000,
    seed: int = 0,
) -> Estimate:
    """Population risk at the given overlaps (numbers or arrays that broadcast).

    Args:
        task: a planted task: SingleLocation, MultiLocation, ..., or your own Planted.
        predictor: with overlaps one head; with a Gram matrix also a MultiHead, or a function
            f(fields (L, m), inverse temperature 1.0) of the projections of one sequence, by JAX.
        overlaps: an Overlaps, or Gram matrices (..., V, V) of (k_1, v_1, ..., teachers).
        method: "auto" (exact where a route exists, else sampled), "exact" (or a refusal),
            "quasi-monte-carlo" on about `samples` fixed nodes, or "monte-carlo" on `samples` draws
            of the projections, whose error includes an allowance for rare events that were not
            sampled. The cost does not depend on the dimension. The estimate's `method` names the
            method used.
        samples: number of nodes or draws where the risk is not exact; more give a smaller error.
        seed: of the nodes or draws.

    >>> from attnscope.predictors.attention import Erf
    >>> task = SingleLocation(dim=400, length=10)
    >>> round(risk(task, Erf(0.1), Overlaps.oracle()).value, 5)
    0.1135
    """
    of = "risk"
    checked_planted(task, of)
    if not isinstance(overlaps, tuple) and np.ndim(overlaps) >= 2:
        return _gram_risk(task, predictor, overlaps, method, samples, seed)
    lam = _checked_inverse_temperature(predictor, of)
    o = checked_overlaps(overlaps, task, of)
    if method not in METHODS:
        raise bad("method", of, "one of " + ", ".join(METHODS), method)
    samples = check.integer(samples, "samples", of, 2)
    seed = check.seed_value(seed, of)
    return unchecked_risk(task, predictor, o, lam, method, samples, seed)


def _checked_inverse_temperature(predictor: object, of: str) -> float:
    """The inverse temperature of one head, or one sentence about a schedule or about another
    predictor.
    """
    lam = checked_predictor(predictor, of).inverse_temperature
    return constant_inverse_temperature(predictor, of) if callable(lam) else lam


def _gram_risk(
    task: Any, predictor: Any, matrix: Any, method: str, samples: int, seed: int
) -> Estimate:
    """`risk` at Gram matrices, on nodes; of one head on two teachers by its overlaps."""
    of = "risk"
    if method not in ("auto", "quasi-monte-carlo"):
        raise bad("method", f"{of} at a Gram matrix", "'auto' or 'quasi-monte-carlo'", method)
    samples = check.integer(samples, "samples", of, 2)
    seed = check.seed_value(seed, of)
    heads = adds_heads(predictor)
    one = not heads and has_one_head(predictor)
    if not (heads or one or callable(predictor)):
        must = "a Predictor, a MultiHead or a function of projections"
        raise bad("predictor", of, must, predictor, "Softmax(1.0)")
    lam = constant_inverse_temperature(predictor, of) if heads or one else 1.0
    G = checked_gram(matrix, task, 2 * predictor.heads if heads else 2 if one else None, of)
    unit = (
        one
        and len(task.teacher_gram) == 2
        and np.abs(G[..., [0, 1], [0, 1]] - 1).max() <= MOVE_TOLERANCE
    )
    if unit and method == "auto":
        rows, columns = [0, 0, 1, 1, 0], [2, 3, 2, 3, 1]
        o = Overlaps(*np.moveaxis(np.clip(G[..., rows, columns], -1, 1), -1, 0))
        return unchecked_risk(
            task, predictor, checked_overlaps(o, task, of), lam, method, samples, seed
        )
    out = gram_excess(task, predictor, G, lam, samples, seed, method != "auto")
    return estimate(out.excess, out.error, out.method, label_noise(task), out.log_excess)


def unchecked_risk(
    task: Any,
    predictor: Predictor,
    o: Overlaps,
    lam: float,
    method: str = "auto",
    samples: int = 100_000,
    seed: int = 0,
) -> Estimate:
    """`risk` at the inverse temperature lam, the predictor's own or another, for arguments in the
    form its checks return.

    Args:
        o: possible overlaps, float64 arrays of one shape (`checked_overlaps`, `as_arrays`).
        lam: a finite float >= 0.
    """
    route = find_route(task, predictor)
    lacking = "a route" if route is None else route.missing(task, predictor, o)
    if method == "exact" and lacking:
        raise _no_exact_risk(task, predictor, o, lacking)
    if route is not None and not lacking and method in ("auto", "exact"):
        out = route.excess(task, predictor, o, lam)
    elif method == "quasi-monte-carlo":
        out = defined_excess(task, predictor, o, lam, samples, seed, nodes=True)
    elif method == "auto" and is_defined(task):
        out = defined_excess(task, predictor, o, lam, samples, seed)
    else:
        out = sampled(route, task, predictor, o, lam, samples, seed)
    return estimate(out.excess, out.error, out.method, label_noise(task), out.log_excess)


def label_noise(task: Any) -> float:
    """The noise whose square a squared loss adds to the excess; other losses include it."""
    return task.noise if getattr(task, "loss", "squared") == "squared" else 0.0


def _no_exact_risk(
    task: Any, predictor: Predictor, o: Overlaps, lacking: str
) -> AttnscopeError:
    """The error about a pair without a route, or about what its route lacks here."""
    needed("excess", task, predictor, "risk(method='exact')", "method='monte-carlo'")
    of = f"the exact risk on {type(task).__name__}"
    return bad("overlaps or task", of, lacking, _overlaps_text(o), "method='monte-carlo'")


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


def _overlaps_text(o: Overlaps) -> str:
    if o.kappa.ndim:
        return f"overlaps of shape {o.kappa.shape}"
    return ", ".join(f"{name}={float(x):.6g}" for name, x in o._asdict().items())


def risk_gradient(
    task: PlantedTask, predictor: Predictor, overlaps: Overlaps
) -> RiskGradient:
    """Partial derivatives of the risk in the overlaps (as five free variables) and in the
    inverse_temperature: exact where a route has them, else those of the risk on 2^14 fixed nodes,
    with their standard errors as `error`.

    Args:
        task: a planted task: SingleLocation, MultiLocation, ..., or your own Planted.
        predictor: one head, at an inverse temperature.
        overlaps: numbers or arrays that broadcast.

    >>> from attnscope.predictors.attention import Erf
    >>> task = SingleLocation(dim=400, length=10)
    >>> round(risk_gradient(task, Erf(0.1), Overlaps.oracle()).nu, 4)
    -0.9534
    """
    of = "risk_gradient"
    checked_planted(task, of)
    lam = _checked_inverse_temperature(predictor, of)
    o = checked_overlaps(overlaps, task, of)
    row = gradient_row(task, predictor, of, "differences of risk")
    if row.measured is None:
        return unchecked_gradient(task, predictor, o, lam)
    found, error = row.measured(task, predictor, o, lam)
    out = _finite_gradient(found)
    out.error = _Six(*_finite_gradient(error))
    return out


def unchecked_gradient(
    task: Any, predictor: Predictor, o: Overlaps, lam: float
) -> RiskGradient:
    """`risk_gradient` without errors, arguments as in `unchecked_risk`."""
    gradient = needed("gradient", task, predictor, "risk_gradient", "differences of risk")
    return _finite_gradient(gradient(task, predictor, o, lam))


def _finite_gradient(parts: Any) -> RiskGradient:
    found = np.array(parts)
    if not np.isfinite(found).all():
        raise AttnscopeError(
            "the gradient must be finite in float64, got an overflow at these parameters; try "
            "values closer to 1."
        )
    return RiskGradient(*(float(x) if x.ndim == 0 else x for x in found))


def risk_function(task: PlantedTask, predictor: Predictor) -> Callable[[Overlaps, Any], Any]:
    """The excess risk as a raw JAX function f(overlaps, inverse_temperature): differentiable, jit-
    and vmap-able.

    It refuses missing and masked values, validates nothing else and computes in the precision that
    is active: call it inside `attnscope.numerics.border.x64.x64()` for float64. It returns no error:
    closed forms are exact to rounding, Softmax sums on a fixed grid, to 1e-9 of gamma^2 + signal^2
    while lambda max(1, gamma) <= 5.6 and lambda (signal + 12 max(1, gamma)) +
    2 log(length) <= 192.

    Args:
        task: a planted task: SingleLocation, MultiLocation, ..., or your own Planted.
        predictor: one head whose exact risk is a JAX function; any other is refused.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> excess = at.risk_function(task, at.Erf(0.1))
    >>> with at.x64():
    ...     print(round(float(excess(at.Overlaps.oracle(), 0.1)), 4))
    0.1135
    """
    of = "risk_function"
    checked_planted(task, of)
    needs("jax", of)
    form = needed("jax", task, checked_predictor(predictor, of), of, "risk, or risk_gradient")
    excess = form(task, predictor)

    def excess_risk(overlaps: Overlaps, inverse_temperature: Any) -> Any:
        if not isinstance(overlaps, (tuple, list)) and np.ndim(overlaps) == 0:
            raise bad("overlaps", of, "an Overlaps", overlaps, "Overlaps.oracle()")
        given = (
            *zip(Overlaps._fields, overlaps),
            ("inverse_temperature", inverse_temperature),
        )
        for name, value in given:
            refuse_masked(value, name, of)
        return excess(overlaps, inverse_temperature)

    return excess_risk


def has_jax_form(task: PlantedTask, predictor: Predictor) -> bool:
    """Whether `risk_function` knows this pair."""
    route = find_route(task, predictor)
    return route is not None and route.jax is not None


def checked_task(task: object, of: str) -> SingleLocation:
    """For what is derived for single-location regression only."""
    return checked_law(task, SingleLocation, of, "SingleLocation(dim=400, length=10)")
