"""The route table: what is known of a kind of predictor on a kind of task, and how the row of a
pair is found.

    Route(excess, gradient, jax, closed)     of a pair (kind of task, kind of predictor)

A pair is looked up by the classes of the task, most special first, then by those of the predictor;
so a subclass of Componentwise has a route without being listed. After the listed rows comes the one
of a task's own method `exact_risk`, and last that of every planted task, whose gradient is that of
fixed nodes (nodes/node_routes.py). The first row that has the part in question is used. The rows of
a pair of classes are found once and cached; `add_route` adds a row from anywhere and clears the
cache. The rows of this library are in shipped.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError
from attnscope.predictors.attention import Predictor, has_one_head
from attnscope.tasks.base import (
    PlantedTask,
    has_classes,
    has_value_by_class,
    is_planted,
    laws_of_class,
    per_class,
)
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
    "gradient_row",
    "has_gradient",
    "needed",
    "pointwise",
    "prepared_gradient",
    "remove_route",
    "rows_of",
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


def always(predictor: Any, of: str) -> None:
    """Every predictor has this gradient."""


@dataclass(frozen=True)
class Route:
    """The exact routes of a pair; None is what nobody has derived.

    excess(task, predictor, overlaps, inverse_temperature) -> Excess. gradient: the same arguments
    -> (6, ...) partial derivatives in the five overlaps and the inverse temperature. jax(task,
    predictor) -> f(overlaps, inverse_temperature), a raw JAX function. closed: excess and gradient
    are closed forms that broadcast over overlaps and inverse temperatures; the gradient takes
    complex overlaps too. sampled(task, predictor, overlaps, inverse_temperature, samples, seed) ->
    Excess: a cheaper sampler than the task's projections. missing(task, predictor, overlaps): "" or
    what the exact excess would need ("Overlaps.oracle()"). swapped(task, inverse_temperature) ->
    Overlaps: the role-swapped point, where it has a formula. critical(task): the inverse
    temperature above which the oracle is a saddle. exact: False for sampled numbers. measured: the
    same arguments as `gradient` -> the gradient and its standard errors, (6, ...) each; None where
    it is good to rounding or to the quadrature's own tolerance. refuse(predictor, of): one sentence
    where the predictor has no such gradient. prepared(task, predictor, inverse_temperature): the
    gradient in the five overlaps at this inverse temperature as a function (5, n) -> (5, n) that is
    cheap after some preparation, for those who ask hundreds of times, or None.
    """

    excess: Callable[..., Any]
    gradient: Callable[..., Any] | None = None
    jax: Callable[..., Any] | None = None
    closed: bool = False
    sampled: Callable[..., Excess] | None = None
    missing: Callable[[Any, Any, Any], str] = everywhere
    swapped: Callable[..., Overlaps] | None = None
    critical: Callable[[Any], float] | None = None
    exact: bool = True
    measured: Callable[..., tuple[Any, Any]] | None = None
    refuse: Callable[[Any, str], None] = always
    prepared: Callable[..., Callable[[np.ndarray], np.ndarray] | None] | None = None


_ROUTES: dict[tuple[type, type], Route] = {}


def add_route(task: type, predictor: type, route: Route) -> None:
    """Say what is exactly known of this kind of predictor on this kind of task;
    a later row replaces an earlier one.
    """
    _ROUTES[task, predictor] = route
    _listed_rows.cache_clear()  # type: ignore[attr-defined]


def remove_route(task: type, predictor: type) -> None:
    """Take out the row of exactly this pair."""
    del _ROUTES[task, predictor]
    _listed_rows.cache_clear()  # type: ignore[attr-defined]


def all_routes() -> Mapping[tuple[type, type], Route]:
    """Every row, shipped or added; read-only."""
    return MappingProxyType(_ROUTES)


@per_class
def _listed_rows(task: type, predictor: type) -> tuple[tuple[Route, ...], Route | None]:
    """The rows of two classes, most special first, and the row of every planted task."""
    kinds = predictor.__mro__
    pairs = [(t, p) for t in laws_of_class(task) for p in kinds]
    planted = [_ROUTES[PlantedTask, p] for p in kinds if (PlantedTask, p) in _ROUTES]
    return tuple(_ROUTES[x] for x in pairs if x in _ROUTES), planted[0] if planted else None


def rows_of(task: object, predictor: object) -> list[Route]:
    """The rows of a pair, most special first (module docstring)."""
    listed, last = _listed_rows(type(task), type(predictor))
    rows = list(listed)
    if callable(getattr(task, "exact_risk", None)):
        rows.append(OWN_METHOD)
    if last is not None and is_planted(task) and not has_classes(task):
        rows.append(last)
    return rows


def find_route(task: object, predictor: object) -> Route | None:
    """The most special row that is exact, or None."""
    listed, _ = _listed_rows(type(task), type(predictor))
    for row in listed:
        if row.exact:
            return row
    return next((row for row in rows_of(task, predictor) if row.exact), None)


def _own_excess(task: Any, predictor: Any, o: Overlaps, lam: float) -> Excess:
    value, error = task.exact_risk(predictor, o, lam)
    return Excess(value, error, "exact_risk")


def _own_missing(task: Any, predictor: Any, o: Any) -> str:
    known = (
        o is not None
        and task.exact_risk(predictor, o, predictor.inverse_temperature) is not None
    )
    return "" if known else "a predictor and overlaps that exact_risk knows"


# the row of a task that has a method `exact_risk(predictor, overlaps, inverse_temperature)`
OWN_METHOD = Route(_own_excess, missing=_own_missing)


def closed_form(task: object, predictor: object) -> bool:
    """Whether the pair has a closed form."""
    route = find_route(task, predictor)
    return route is not None and route.closed


def has_gradient(task: object, predictor: object) -> bool:
    """Whether the pair has an exact gradient, not only that of nodes."""
    rows = rows_of(task, predictor)
    return any(row.exact and row.gradient is not None for row in rows)


def gradient_row(task: object, predictor: object, of: str, sibling: str) -> Route:
    """The row whose gradient serves the pair, or the sentence of `needed`."""
    rows = rows_of(task, predictor)
    found = next((row for row in rows if row.gradient is not None), None)
    if found is None:
        raise AttnscopeError(_sentence("gradient", task, predictor, of, sibling))
    found.refuse(predictor, of)
    return found


def prepared_gradient(
    task: object, predictor: object, inverse_temperature: float
) -> Callable[[np.ndarray], np.ndarray] | None:
    """The pair's prepared gradient at this inverse temperature, where it has one."""
    route = find_route(task, predictor)
    if route is None or route.prepared is None:
        return None
    return route.prepared(task, predictor, inverse_temperature)


def needed(
    part: str, task: object, predictor: object, of: str, sibling: str
) -> Callable[..., Any]:
    """A part of the pair's route, or the sentence that says which predictors have it on this task
    and which sibling can.
    """
    if part == "gradient":
        return gradient_row(task, predictor, of, sibling).gradient  # type: ignore[return-value]
    route = find_route(task, predictor)
    found = None if route is None else getattr(route, part)
    if found is None:
        raise AttnscopeError(_sentence(part, task, predictor, of, sibling))
    return found


def _sentence(part: str, task: object, predictor: object, of: str, sibling: str) -> str:
    words = {"excess": "an exact risk", "gradient": "an exact gradient", "jax": "a JAX risk"}
    kinds = laws_of_class(type(task))
    names = [
        p.__name__
        for (t, p), row in _ROUTES.items()
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
    points = zip(*(np.ravel(x).tolist() for x in o))
    return np.array([function(point) for point in points])


def checked_planted(task: object, of: str) -> Any:
    """The task, if it has projections and a key and a value, or one sentence."""
    if has_value_by_class(type(task)):
        return task
    if not is_planted(task) or has_classes(task):
        one = "SingleLocation(dim=400, length=10)"
        sibling = "sign_error(task, predictor, overlaps)" if has_classes(task) else one
        raise AttnscopeError(
            f"task of {of} must be a planted task with a key and a value, got "
            f"{_short_repr(task)}; try {sibling}."
        )
    return task


def checked_predictor(predictor: object, of: str) -> Predictor:
    """The predictor, if it has one key and one value, or one sentence."""
    if not has_one_head(predictor):
        raise AttnscopeError(
            f"predictor of {of} must be a Predictor such as Erf, Softmax or Componentwise, got "
            f"{_short_repr(predictor)}; try Erf(0.1)."
        )
    return predictor


def _short_repr(x: object) -> str:
    return " ".join(repr(x).split())[:80]
