"""From a grid to its cells' parameters.

A grid is either a dict of lists (their product, the last name varying fastest) or a list of dicts
(the cells themselves). Every value becomes plain data (see `text.plain`), so that the function gets
what the key names. A product is a sequence that makes its cells when they are asked for: a million
of them cost no memory before they run.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, overload

from attnscope.errors import AttnscopeError, bad
from attnscope.sweeps.text import canonical, plain, refuse_stripped

__all__ = ["Product", "accepts_seed", "check_fits", "expand"]

MOST_CELLS = (
    10**12
)  # cells of a product: no sweep computes more, and a length of Python is below 2^63

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]


class Product(Sequence[dict[str, Any]]):
    """The cells of a product of axes, made one by one.

    >>> cells = Product({"a": [1, 2], "b": ["x", "y", "z"]})
    >>> len(cells), cells[4]
    (6, {'a': 2, 'b': 'y'})
    """

    def __init__(self, axes: dict[str, list[Any]]) -> None:
        self.axes = axes

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """Number of cells, also where it is too large for a length."""
        return math.prod(map(len, self.axes.values())) if self.axes else 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self.axes:
            yield from (
                dict(zip(self.axes, choice)) for choice in product(*self.axes.values())
            )

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        rest = range(len(self))[place]  # refuses what is beyond the end
        chosen = {}
        for name, values in reversed(self.axes.items()):
            rest, i = divmod(rest, len(values))
            chosen[name] = values[i]
        return dict(reversed(chosen.items()))

    def distinct(self) -> int:
        """Cells that differ: a value that stands twice on its axis counts once."""
        return math.prod(len(set(map(canonical, values))) for values in self.axes.values())


def expand(grid: Grid) -> Sequence[dict[str, Any]]:
    """The parameters of every cell, in grid order.

    >>> list(expand({"a": [1, 2], "b": ["x"]}))
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    cells: Sequence[dict[str, Any]]
    if isinstance(grid, Product):
        cells = grid
    elif isinstance(grid, Mapping):
        cells = Product({name: _values(name, grid[name]) for name in grid})
        if cells.size() > MOST_CELLS:
            must = f"a product of at most {MOST_CELLS:g} cells"
            raise bad("grid", "sweep", must, f"{cells.size():g}", "fewer values on an axis")
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


def _values(name: Any, values: Any) -> list[Any]:
    _check_name(name)
    # a NumPy vector, a pandas column
    refuse_stripped(values, name)
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


def check_fits(function: Callable[..., Any], cells: Sequence[dict[str, Any]]) -> None:
    """Refuse, before anything runs, a cell that names an unknown parameter or lacks a required
    one.
    """
    signature = _signature(function)
    with_seed = accepts_seed(function)
    # the cells of a product have the same names
    kinds = cells[:1] if isinstance(cells, Product) else cells
    for names in {tuple(cell): None for cell in kinds}:
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
