"""From a grid to a list of cells' parameters.

A grid is either a dict of lists (their product, the last name varying fastest) or a list of dicts
(the cells themselves). Every value becomes plain data (see `key.plain`), so that the function gets
what the key names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

from attnscope.errors import AttnscopeError, bad
from attnscope.sweeps.key import plain

__all__ = ["accepts_seed", "check_fits", "expand"]

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]


def expand(grid: Grid) -> list[dict[str, Any]]:
    """The parameters of every cell, in grid order.

    >>> expand({"a": [1, 2], "b": ["x"]})
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    if isinstance(grid, Mapping):
        cells = _product(grid)
    elif isinstance(grid, list | tuple):
        cells = [_cell(one) for one in grid]
    else:
        raise bad(
            "grid",
            "sweep",
            "a dict of lists or a list of dicts",
            grid,
            'grid={"dim": [100, 200]}',
        )
    if not cells:
        raise bad(
            "grid",
            "sweep",
            "non-empty",
            "a grid with no cell",
            "at least one value for each name",
        )
    return cells


def _product(grid: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not grid:
        return []
    values = [_values(name, grid[name]) for name in grid]
    return [dict(zip(grid, choice, strict=True)) for choice in product(*values)]


def _values(name: Any, values: Any) -> list[Any]:
    _check_name(name)
    # a NumPy vector, a pandas column
    if hasattr(values, "tolist") and getattr(values, "ndim", 0) == 1:
        values = values.tolist()
    if not isinstance(values, list | tuple | range):
        raise bad(
            f"values of {name!r}", "the grid of sweep", "a list", values, f"{name}=[...]"
        )
    return [plain(value, name) for value in values]


def _cell(parameters: Any) -> dict[str, Any]:
    if not isinstance(parameters, Mapping):
        raise bad("a cell", "the grid of sweep", "a dict of parameters", parameters)
    for name in parameters:
        _check_name(name)
    return {name: plain(value, name) for name, value in parameters.items()}


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise bad("a parameter name", "the grid of sweep", "a string", name)


def accepts_seed(function: Callable[..., Any]) -> bool:
    """Whether the function can be called with `seed=`, by name or through `**kwargs`."""
    if isinstance(function, partial) and "seed" in function.keywords:
        return False  # it has one already
    parameters = _signature(function).parameters.values()
    named = any(
        p.name == "seed" and p.kind not in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)
        for p in parameters
    )
    return named or any(p.kind is p.VAR_KEYWORD for p in parameters)


def check_fits(function: Callable[..., Any], cells: list[dict[str, Any]]) -> None:
    """Refuse, before anything runs, a cell that names an unknown parameter or lacks a required
    one.
    """
    signature = _signature(function)
    with_seed = accepts_seed(function)
    for names in {tuple(cell): None for cell in cells}:
        call: dict[str, Any] = dict.fromkeys(names)
        if with_seed:
            call.setdefault("seed", 0)
        try:
            signature.bind(**call)
        except TypeError as error:
            raise AttnscopeError(
                "grid of sweep must fit the function "
                f"{getattr(function, '__name__', 'given')}{signature}, "
                f"got the parameters {', '.join(names)}: {error}."
            ) from None


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise bad(
            "function", "sweep", "a Python function with a signature", function
        ) from None
