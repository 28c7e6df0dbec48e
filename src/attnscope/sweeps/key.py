"""What a cell is, as a hash: the key and the seed.

    key  = sha256(canonical JSON of {function, source, version, parameters, sweep seed})
    seed = first 32 bits of sha256(canonical JSON of {function, parameters, sweep seed})

`function` is the qualified name (with the arguments a functools.partial binds), `source` the hash
of the source that the function rests on (see `source`), `version` the caller's string. How a cell
runs (order, workers, scheduler, store, terminal) is in neither, so it cannot change a result. The
source and version are in the key but not in the seed: edited code that computes the same finds the
same numbers. The sweep seed is left out of both when the function takes none, or when the grid
itself gives `seed`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from attnscope.errors import bad
from attnscope.sweeps.text import canonical, digest, plain

__all__ = [
    "Cell",
    "identity",
    "is_found_by_name",
    "make_cell",
    "name_of",
    "product_keys",
    "unbound",
]


@dataclass(frozen=True)
class Cell:
    """One call of the function: its address in the store, the grid's parameters,
    the call with its seed.
    """

    key: str
    parameters: dict[str, Any]
    call: dict[str, Any]


def make_cell(
    function: Callable[..., Any],
    parameters: dict[str, Any],
    seed: int | None,
    version: str,
    source: str,
) -> Cell:
    """The cell of these plain parameters; `seed` is the sweep's,
    or None for a function that takes none.
    """
    given = "seed" in parameters or seed is None
    computed = {
        "function": identity(function),
        "parameters": parameters,
        "sweep_seed": None if given else seed,
    }
    key = digest(canonical({**computed, "source": source, "version": version}))
    call = (
        parameters
        if given
        else {**parameters, "seed": int(digest(canonical(computed))[:8], 16)}
    )
    return Cell(key, parameters, call)


def product_keys(
    function: Callable[..., Any],
    axes: Mapping[str, Sequence[Any]],
    seed: int | None,
    version: str,
    source: str,
) -> Iterator[str]:
    """The keys of `make_cell` for a product of axes, in its order, without the cells.

    Every value is written as JSON once, not once per cell: a million keys take a second or two.
    """
    given = "seed" in axes or seed is None
    # the names of a key in their sorted order, the parameters between
    head = canonical({"function": identity(function)})[:-1] + ',"parameters":{'
    rest = {
        "source": source,
        "sweep_seed": None if given else seed,
        "version": version,
    }
    tail = "}," + canonical(rest)[1:]
    texts = [[f"{canonical(name)}:{canonical(x)}" for x in axes[name]] for name in axes]
    # canonical JSON has its names sorted, the grid has them in its own order
    order = sorted(range(len(axes)), key=list(axes).__getitem__)
    for choice in product(*texts):
        yield digest(head + ",".join([choice[i] for i in order]) + tail)


def name_of(function: Callable[..., Any]) -> str:
    """`module.qualified_name` of the function a sweep was given (looking through
    functools.partial).
    """
    inner = unbound(function)
    return f"{inner.__module__}.{inner.__qualname__}"


def is_found_by_name(function: Any) -> bool:
    """Whether the function's module, as loaded here, has it under its name."""
    found: Any = sys.modules.get(getattr(function, "__module__", None) or "")
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def unbound(function: Callable[..., Any]) -> Any:
    """The function itself, out of a functools.partial; refuses what is not named by its code."""
    inner = function.func if isinstance(function, partial) else function
    # a bound method or a callable object carries state that a name does not show
    if not hasattr(inner, "__qualname__") or getattr(inner, "__self__", None) is not None:
        raise bad(
            "function", "sweep", "a plain function (or functools.partial of one)", function
        )
    return inner


def identity(function: Callable[..., Any]) -> Any:
    """The function's name, with the arguments that a functools.partial binds."""
    if not isinstance(function, partial):
        return name_of(function)
    bound = {
        "args": plain(function.args, "bound"),
        "keywords": plain(function.keywords, "bound"),
    }
    return {"name": name_of(function), **bound}
