"""What the bytecode of a function names: globals, attributes, imports, in it and in what is defined
inside it.

notation: a code object is the compiled body of a function, class or lambda. What it names is exact;
what it makes up while it runs (`getattr(module, name)`, `eval`) is not named, and `Names.dynamic`
says that it may do so.
"""

from __future__ import annotations

import dis
import importlib
import sys
import sysconfig
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

__all__ = [
    "Names",
    "describe_code",
    "imported",
    "is_mine",
    "is_users",
    "label_of",
    "names_in",
]

# Builtins and functions that turn a text into a reference
DYNAMIC = {
    "getattr",
    "globals",
    "vars",
    "locals",
    "eval",
    "exec",
    "__dict__",
    "__import__",
    "import_module",
}
# the second is what a worker process calls the parent's script
MAIN = ("__main__", "__mp_main__")


@dataclass
class Names:
    """What a code object refers to."""

    loaded: set[str] = field(default_factory=set)  # global names
    # every name, those after a dot among them
    attributes: set[str] = field(default_factory=set)
    # (module, level of a relative import)
    imports: set[tuple[str, int]] = field(default_factory=set)

    @property
    def dynamic(self) -> bool:
        return bool(DYNAMIC & self.attributes)


def names_in(code: CodeType, into: Names | None = None) -> Names:
    """The names in the code, and in every function and class inside it."""
    names = Names() if into is None else into
    names.attributes |= set(code.co_names)
    before: list[Any] = [0, None]
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.loaded.add(str(instruction.argval))
        elif instruction.opname == "IMPORT_NAME":
            level = before[-2]  # pushed just before: the level, then the names wanted
            names.imports.add(
                (str(instruction.argval), level if isinstance(level, int) else 0)
            )
        before = [before[-1], instruction.argval]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names_in(constant, names)
    return names


def describe_code(code: CodeType) -> Any:
    """A code object as plain data, the same in every process;
    neither lines, nor comments, nor files are in it.
    """
    shape = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    names = [code.co_names, code.co_varnames, code.co_freevars]
    jumps = code.co_exceptiontable.hex()
    return [
        code.co_code.hex(),
        jumps,
        shape,
        names,
        [_constant(one) for one in code.co_consts],
    ]


def _constant(constant: Any) -> Any:
    if isinstance(constant, CodeType):
        return describe_code(constant)
    if isinstance(constant, frozenset):
        # its order differs from process to process
        return ["frozenset", *sorted(map(repr, constant))]
    if isinstance(constant, tuple):
        return ["tuple", *map(_constant, constant)]
    return repr(constant)


def imported(name: str, level: int, package: str | None) -> ModuleType | str:
    """The module an import statement means, loaded if it is the user's or ours;
    else only its name.
    """
    try:
        full = resolve_name("." * level + name, package or None) if level else name
        top = full.partition(".")[0]
        if full in sys.modules:
            return sys.modules[full]
        spec = find_spec(top)  # loads nothing
        if spec is not None and spec.origin and (is_mine(top) or _is_users_file(spec.origin)):
            return importlib.import_module(full)
        return full
    except Exception as error:  # an import that fails: the function would meet the same
        return f"{name}: {type(error).__name__}"


def is_mine(module: str) -> bool:
    """Whether this names a module of attnscope."""
    return module.partition(".")[0] == "attnscope"


def is_users(module: str | None, home: str) -> bool:
    """Whether the user wrote this module: a script, a module outside the installed packages,
    the swept function's.
    """
    if module is None or module in MAIN or module not in sys.modules:
        # not in sys.modules: made by exec, sent by value, or generated (namedtuple)
        return True
    if module.partition(".")[0] == home.partition(".")[0]:
        return True
    file = getattr(sys.modules[module], "__file__", None)
    return bool(file) and _is_users_file(str(file))


@cache
def _is_users_file(file: str) -> bool:
    if not file.endswith(".py"):  # built in, frozen, or compiled
        return False
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    libraries = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    return not any(path.is_relative_to(Path(library).resolve()) for library in libraries)


def label_of(thing: Any) -> str:
    """`module.qualified_name`, the script's as `__main__` in every process."""
    module = getattr(thing, "__module__", None) or ""
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", "?")
    return f"{'__main__' if module in MAIN else module}.{name}"
