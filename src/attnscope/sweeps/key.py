"""What a cell is, as a hash: the content key, the seed, the version of the code.

    key  = sha256(canonical JSON of {function, source, version, parameters, sweep seed})
    seed = first 32 bits of sha256(canonical JSON of {function, parameters, sweep seed})

`function` is the qualified name (with the arguments a functools.partial binds), `source` the hash of the
file that defines it, `version` the caller's string, usually `code_version([...])` of the packages the
function uses. How a cell runs (order, workers, scheduler, store, terminal) is in neither, so it cannot
change a result. The source and version are in the key but not in the seed: an edited comment recomputes a
cell and finds the same numbers. The sweep seed is left out of both when the function takes none, or when the
grid itself gives `seed`.

Canonical JSON: sorted names, no spaces, floats by repr (which round-trips), so 1, 1.0, true and "1" are four
values. A function without a file of its own (lambda, local or interactive function) is named by its
bytecode, defaults and closure instead; the globals it reads are then not followed: give `version`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from attnscope.errors import AttnscopeError, bad

__all__ = ["Cell", "canonical", "code_version", "make_cell", "name_of", "plain", "source_hash"]


@dataclass(frozen=True)
class Cell:
    """One call of the function: its address in the store, the grid's parameters, the call with its seed."""

    key: str
    parameters: dict[str, Any]
    call: dict[str, Any]


def make_cell(function: Callable[..., Any], parameters: dict[str, Any], seed: int | None, version: str) -> Cell:
    """The cell of these plain parameters; `seed` is the sweep's, or None for a function that takes none."""
    given = "seed" in parameters or seed is None
    computed = {
        "function": _identity(function),
        "parameters": parameters,
        "sweep_seed": None if given else seed,
    }
    key = digest(canonical({**computed, "source": source_hash(function), "version": version}))
    call = parameters if given else {**parameters, "seed": int(digest(canonical(computed))[:8], 16)}
    return Cell(key, parameters, call)


def plain(value: Any, name: str) -> Any:
    """`value` as JSON data: None, bool, int, float, str, lists and dicts of these; refuses anything else."""
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
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item, name) for key, item in value.items()}
    if is_array_scalar(value):
        return plain(value.item(), name)
    hint = "a name or a number that the function turns into the object"
    raise bad(f"parameter {name!r}", "sweep", "a bool, number, string, or lists or dicts of these", value, hint)


def is_array_scalar(value: Any) -> bool:
    """Whether this is a NumPy or JAX scalar, without importing either; a longdouble has no plain form."""
    scalar = getattr(value, "shape", None) == () and hasattr(value, "item")
    return scalar and isinstance(value.item(), bool | int | float | str)


def _number(value: float, name: str) -> float:
    if value != value:
        raise bad(f"parameter {name!r}", "sweep", "a number", value, "leaving the cell out")
    return value


def canonical(value: Any) -> str:
    """The one JSON text of plain data.

    >>> canonical({"b": 0.1, "a": [1, True]})
    '{"a":[1,true],"b":0.1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def name_of(function: Callable[..., Any]) -> str:
    """`module.qualified_name` of the function a sweep was given (looking through functools.partial)."""
    inner = _unbound(function)
    return f"{inner.__module__}.{inner.__qualname__}"


def _unbound(function: Callable[..., Any]) -> Any:
    inner = function.func if isinstance(function, partial) else function
    # a bound method or a callable object carries state that a name does not show
    if not hasattr(inner, "__qualname__") or getattr(inner, "__self__", None) is not None:
        raise bad("function", "sweep", "a plain function (or functools.partial of one)", function)
    return inner


def _identity(function: Callable[..., Any]) -> Any:
    if not isinstance(function, partial):
        return name_of(function)
    bound = {"args": plain(function.args, "bound"), "keywords": plain(function.keywords, "bound")}
    return {"name": name_of(function), **bound}


def source_hash(function: Callable[..., Any]) -> str:
    """Hash of the source file that defines the function, and of its bytecode if the file does not tell."""
    return _source_hash(_unbound(function))


@lru_cache(maxsize=256)  # by function object: it stays true to the code loaded, a reloaded module has new functions
def _source_hash(function: Any) -> str:
    file = getattr(sys.modules.get(function.__module__), "__file__", None)
    text = _file_hash(Path(file)) if file and Path(file).exists() else ""  # "<stdin>" is no file
    if not text or "<" in function.__qualname__:  # interactive; `<lambda>` or `f.<locals>.g`
        text += canonical(_code_facts(function))
    return digest(text)


def _code_facts(function: Any) -> Any:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    state = [cells, list(function.__defaults__ or ()), function.__kwdefaults__ or {}]
    try:
        return [_describe(function.__code__), plain(state, "closure")]
    except AttnscopeError:
        raise bad(
            "function",
            "sweep",
            "a module-level function, or one that captures only numbers and strings",
            function,
        ) from None


def _describe(constant: Any) -> Any:
    """A code object as plain data, the same in every process (frozensets are not ordered the same)."""
    if isinstance(constant, CodeType):
        names = [constant.co_names, constant.co_varnames, constant.co_freevars]
        return [constant.co_code.hex(), names, [_describe(inner) for inner in constant.co_consts]]
    if isinstance(constant, frozenset):
        return sorted(map(repr, constant))
    return repr(constant)


def code_version(modules: Iterable[str | ModuleType]) -> str:
    """Hash of all Python source of the named modules and packages (a package with everything inside it).

    Give it as `version=` to `sweep`, so that editing a room the function uses, and nothing else, recomputes:
    `sweep(f, grid, version=code_version(["attnscope.theory", "attnscope.numerics"]))`.
    """
    if isinstance(modules, str):
        raise bad("modules", "code_version", "a list of names", modules, f"code_version([{modules!r}])")
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
    if spec is None or not (spec.submodule_search_locations or (spec.origin or "").endswith(".py")):
        raise bad("a module", "code_version", "importable and written in Python", name)
    if not spec.submodule_search_locations:
        return [(name, Path(str(spec.origin)))]
    roots = [Path(root) for root in spec.submodule_search_locations]
    return sorted((path.relative_to(root).as_posix(), path) for root in roots for path in root.rglob("*.py"))


def _file_hash(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise AttnscopeError(f"cannot read the source file {path} to name its version: {error.strerror}.") from None
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()  # the same on every system's checkout
