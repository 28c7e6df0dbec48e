"""What is exactly known of a predictor on a task: one table, from which risks, gradients, engines
and refusals are made.

    Route(excess, gradient, jax, closed)     of a pair (kind of task, kind of predictor)

A pair is looked up by the classes of the task, most special first, then by those of the predictor;
so a subclass of Componentwise has a route without being listed. `add_route` adds a row from
anywhere. What has no row is sampled: on nodes (nodes/), or from the task's projections
(monte_carlo.py); its gradient is that of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError
from attnscope.predictors.attention import Predictor, has_one_head
from attnscope.tasks.base import has_classes, is_planted, laws
from attnscope.theory.overlaps import Overlaps

__all__ = [
    "Excess",
    "Route",
    "add_route",
    "all_routes",
    "checked_planted",
    "checked_predictor",
    "closed_form",
    "find_route",
    "has_gradient",
    "needed",
    "pointwise",
]


class Excess(NamedTuple):
    """What an exact route returns: arrays of the overlaps' shape;
    log_excess None where log(excess) will do.
    """

    excess: Any
    error: Any
    method: str
    log_excess: Any = None


def everywhere(task: Any, predictor: Any, o: Any) -> str:
    """Nothing is missing."""
    return ""


@dataclass(frozen=True)
class Route:
    """The exact routes of a pair; None is what nobody has derived.

    excess(task, predictor, overlaps, temperature) -> Excess.
    gradient: the same arguments -> (6, ...) partial derivatives in the five overlaps and the
    temperature. jax(task, predictor) -> f(overlaps, temperature), a raw JAX function.
    closed: excess and gradient are closed forms that broadcast over overlaps and temperatures; the
    gradient takes complex overlaps too. sampled(task, predictor, overlaps, temperature, samples,
    seed) -> Excess: a cheaper sampler than the task's projections. missing(task, predictor,
    overlaps): "" or what the exact excess would need ("Overlaps.oracle()"). swapped(task,
    temperature) -> Overlaps: the role-swapped point, where it has a formula. critical(task): the
    temperature above which the oracle is a saddle.
    """

    excess: Callable[..., Any]
    gradient: Callable[..., Any] | None = None
    jax: Callable[..., Any] | None = None
    closed: bool = False
    sampled: Callable[..., Excess] | None = None
    missing: Callable[[Any, Any, Any], str] = everywhere
    swapped: Callable[..., Overlaps] | None = None
    critical: Callable[[Any], float] | None = None


_ROUTES: dict[tuple[type, type], Route] = {}


def add_route(task: type, predictor: type, route: Route) -> None:
    """Say what is exactly known of this kind of predictor on this kind of task;
    a later row replaces an earlier one.
    """
    _ROUTES[task, predictor] = route


def all_routes() -> dict[tuple[type, type], Route]:
    """Every row, shipped or added."""
    from attnscope.theory import routes  # noqa: F401  # the file that fills the table: it imports this one

    return _ROUTES


def find_route(task: object, predictor: object) -> Route | None:
    """The row of the most special classes, or None."""
    rows = all_routes()
    pairs = ((t, p) for t in laws(task) for p in type(predictor).__mro__)
    listed = next((rows[pair] for pair in pairs if pair in rows), None)
    if listed is None and callable(getattr(task, "exact_risk", None)):
        # here: it stands on this file
        from attnscope.theory.nodes.node_routes import own_route

        return own_route(task)
    return listed


def closed_form(task: object, predictor: object) -> bool:
    """Whether the pair has a closed form."""
    route = find_route(task, predictor)
    return route is not None and route.closed


def has_gradient(task: object, predictor: object) -> bool:
    """Whether the pair has an exact gradient, not only that of nodes."""
    route = find_route(task, predictor)
    return route is not None and route.gradient is not None


def needed(
    part: str, task: object, predictor: object, of: str, sibling: str
) -> Callable[..., Any]:
    """A part of the pair's route, or the sentence that says which predictors have it on this task
    and which sibling can.
    """
    route = find_route(task, predictor)
    found = None if route is None else getattr(route, part)
    if found is None and part == "gradient" and is_planted(task) and not has_classes(task):
        # every planted task has nodes, which can be differentiated if the weights can
        from attnscope.theory.jax_weights import weight_function
        from attnscope.theory.nodes.node_routes import NODES

        head: Any = getattr(predictor, "head", predictor)
        weight_function(head, of)
        found = NODES.gradient
    if found is None:
        raise AttnscopeError(_sentence(part, task, predictor, of, sibling))
    return found


def _sentence(part: str, task: object, predictor: object, of: str, sibling: str) -> str:
    words = {"excess": "an exact risk", "gradient": "an exact gradient", "jax": "a JAX risk"}
    kinds = laws(task)
    names = [
        p.__name__
        for (t, p), row in all_routes().items()
        if t in kinds and getattr(row, part) is not None
    ]
    on = type(task).__name__
    must = (
        f"one with {words[part]} on {on} ({', '.join(sorted(set(names)))})"
        if names
        else f"left out: no predictor has {words[part]} on {on}"
    )
    return f"predictor of {of} must be {must}, got {predictor!r}; try {sibling}."


def pointwise(function: Callable[[tuple[float, ...]], Any], o: Overlaps) -> np.ndarray:
    """function(overlaps of one point) for every point of the broadcast shape, in order:
    (points, ...).
    """
    return np.array(
        [function(tuple(float(x) for x in point)) for point in zip(*(x.ravel() for x in o))]
    )


def checked_planted(task: object, of: str) -> Any:
    """The task, if it has projections and a key and a value, or one sentence."""
    if not is_planted(task) or has_classes(task):
        one = "SingleLocation(dim=400, length=10)"
        sibling = "sign_error(task, predictor, overlaps)" if has_classes(task) else one
        raise AttnscopeError(
            f"task of {of} must be a planted task with a key and a value, got {_named(task)}; try "
            f"{sibling}."
        )
    return task


def checked_predictor(predictor: object, of: str) -> Predictor:
    if not has_one_head(predictor):
        raise AttnscopeError(
            f"predictor of {of} must be a Predictor such as Erf, Softmax or Componentwise, got "
            f"{_named(predictor)}; try Erf(0.1)."
        )
    return predictor


def _named(x: object) -> str:
    return " ".join(repr(x).split())[:80]
