"""What a cell is, as a hash: the content key, the seed, the version of the code.

    key  = sha256(canonical JSON of {function, source, version, parameters, sweep seed})
    seed = first 32 bits of sha256(canonical JSON of {function, parameters, sweep seed})

`function` is the qualified name (with the arguments a functools.partial binds), `source` the hash
of the code that is loaded and of all it reaches (see `loaded`), `version` the caller's string, for
instance `code_version([...])` of installed packages the function uses. How a cell runs (order,
workers, scheduler, store, terminal) is in neither, so it cannot change a result. The source and
version are in the key but not in the seed: edited code that computes the same finds the same
numbers. The sweep seed is left out of both when the function takes none, or when the grid itself
gives `seed`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from attnscope.errors import AttnscopeError, bad, is_traced, masked, traced
from attnscope.sweeps.package import file_hash
from attnscope.sweeps.text import canonical, digest

__all__ = [
    "Cell",
    "code_version",
    "make_cell",
    "name_of",
    "plain",
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
        "function": _identity(function),
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
    head = canonical({"function": _identity(function)})[:-1] + ',"parameters":{'
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


def plain(value: Any, name: str) -> Any:
    """`value` as JSON data: None, bool, int, float, str, lists and dicts of these;
    refuses anything else.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # not str(): it would give an enum's name
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _number(float(value), name)
    if isinstance(value, list | tuple):
        return [plain(item, name) for item in value]
    refuse_stripped(value, name)
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item, name) for key, item in value.items()}
    if is_array_scalar(value):
        return plain(value.item(), name)
    hint = "a name or a number that the function turns into the object"
    raise bad(
        f"parameter {name!r}",
        "sweep",
        "a bool, number, string, or lists or dicts of these",
        value,
        hint,
    )


def refuse_stripped(value: Any, name: str) -> None:
    """Raise if `.item()` or `.tolist()` would drop a derivative or a mask; NumPy is not imported."""
    what = f"parameter {name!r}"
    if is_traced(value):
        raise traced(what, "sweep")
    mask: Any = getattr(value, "mask", None) if hasattr(value, "count") else None
    if getattr(mask, "any", lambda: False)():
        raise masked(what, "sweep", int(mask.sum()))


def is_array_scalar(value: Any) -> bool:
    """Whether this is a NumPy or JAX scalar, without importing either;
    a longdouble has no plain form.
    """
    scalar = getattr(value, "shape", None) == () and hasattr(value, "item")
    return scalar and isinstance(value.item(), bool | int | float | str)


def _number(value: float, name: str) -> float:
    if value != value:
        raise bad(f"parameter {name!r}", "sweep", "a number", value, "leaving the cell out")
    return value


def name_of(function: Callable[..., Any]) -> str:
    """`module.qualified_name` of the function a sweep was given (looking through
    functools.partial).
    """
    inner = unbound(function)
    return f"{inner.__module__}.{inner.__qualname__}"


def unbound(function: Callable[..., Any]) -> Any:
    """The function itself, out of a functools.partial; refuses what is not named by its code."""
    inner = function.func if isinstance(function, partial) else function
    # a bound method or a callable object carries state that a name does not show
    if not hasattr(inner, "__qualname__") or getattr(inner, "__self__", None) is not None:
        raise bad(
            "function", "sweep", "a plain function (or functools.partial of one)", function
        )
    return inner


def _identity(function: Callable[..., Any]) -> Any:
    if not isinstance(function, partial):
        return name_of(function)
    bound = {
        "args": plain(function.args, "bound"),
        "keywords": plain(function.keywords, "bound"),
    }
    return {"name": name_of(function), **bound}


def code_version(modules: Iterable[str | ModuleType]) -> str:
    """Hash of all Python source of the named modules and packages (a package with everything inside
    it).

    Give it as `version=` to `sweep` to follow installed packages, which a key follows by name only:
    `sweep(f, grid, version=code_version(["my_solver"]))`. Read from disk: take it before the
    package is updated.
    """
    if isinstance(modules, str):
        raise bad(
            "modules",
            "code_version",
            "a list of names",
            modules,
            f"code_version([{modules!r}])",
        )
    facts = {}
    for module in modules:
        name = module if isinstance(module, str) else module.__name__
        facts[name] = {relative: _file_hash(path) for relative, path in _sources(name)}
    return digest(canonical(facts))


def _sources(name: str) -> list[tuple[str, Path]]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not (
        spec.submodule_search_locations or (spec.origin or "").endswith(".py")
    ):
        raise bad("a module", "code_version", "importable and written in Python", name)
    if not spec.submodule_search_locations:
        return [(name, Path(str(spec.origin)))]
    roots = [Path(root) for root in spec.submodule_search_locations]
    return sorted(
        (path.relative_to(root).as_posix(), path)
        for root in roots
        for path in root.rglob("*.py")
    )


def _file_hash(path: Path) -> str:
    try:
        return file_hash(path)
    except OSError as error:
        raise AttnscopeError(
            f"cannot read the source file {path} to name its version: {error.strerror}."
        ) from None
