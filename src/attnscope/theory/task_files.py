"""A task in a user's own file, named like `my_paper.py:SignLocation`.

The file is imported under its own name, with its folder on the path, so that worker processes and
saved runs find it again. Its class becomes a row of the catalogue: the arguments are those of its
constructor (of a Planted: dim, length, noise, seed and its annotated attributes).
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from inspect import Parameter, isclass, signature
from pathlib import Path
from types import ModuleType
from typing import Any

from attnscope.errors import bad
from attnscope.plugins import import_named
from attnscope.registry import (
    DIM,
    INVERSE_TEMPERATURE,
    LENGTH,
    NOISE,
    SEED,
    SIGNAL,
    TASKS,
    Argument,
    Entry,
    add,
    remove,
)

__all__ = ["arguments_of_class", "first_line", "is_file", "task_of_file"]

KNOWN_PARAMETERS = {
    x.name: x for x in (DIM, LENGTH, NOISE, SEED, SIGNAL, INVERSE_TEMPERATURE)
}


def is_file(word: object) -> bool:
    """Whether a task's name is a file: my_paper.py, or my_paper.py:SignLocation."""
    return str(word).rpartition(":")[0].endswith(".py") or str(word).endswith(".py")


def task_of_file(word: object, of: str) -> str:
    """The registered name of the task in a file; the task is registered if it is new."""
    text = str(word)
    path, name = (text, "") if text.endswith(".py") else text.rsplit(":", 1)
    module = _imported_module(Path(path), of)
    if name.replace("_", "-") in TASKS:
        return name
    kind = _task_class(module, name, Path(path).name, of)
    spelled = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", kind.__name__).lower()
    if spelled in TASKS and TASKS[spelled].home is not kind:
        if not _same_class(TASKS[spelled].home, kind):
            raise bad(
                "task", of, "a class with a name of its own", f"{spelled}, which is taken"
            )
        remove(spelled, TASKS)  # the file was imported anew
    if spelled not in TASKS:
        arguments = arguments_of_class(kind, of)
        add(Entry(spelled, kind, first_line(kind), arguments, "sampled"), TASKS)
    return spelled


def _same_class(home: Any, kind: type) -> bool:
    return isclass(home) and (home.__module__, home.__name__) == (
        kind.__module__,
        kind.__name__,
    )


def _imported_module(path: Path, of: str) -> ModuleType:
    must = "a file that can be imported"
    if not path.is_file():
        raise bad("task", of, must, f"no file {path.name}", "its path from this folder")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = import_named(path.stem)
    except ImportError as error:
        raise bad("task", of, must, f"{path.name} ({error})") from error
    if Path(module.__file__ or "").resolve() != path.resolve():
        got = f"{path.name}, the name of another module"
        raise bad("task", of, must, got, "another name for the file")
    return module


def _task_class(module: ModuleType, name: str, file: str, of: str) -> type:
    """The class of this name, or the only planted one that the file defines."""
    found = {
        x.__name__: x
        for x in vars(module).values()
        if isclass(x)
        and x.__module__ == module.__name__
        and callable(getattr(x, "projections", None))
    }
    if name in found:
        return found[name]
    names = ", ".join(found) or "none"
    if name:
        raise bad("task", of, f"a planted task that {file} defines ({names})", name)
    if len(found) != 1:
        hint = f"{file}:{next(iter(found), 'MyTask')}"
        raise bad("task", of, "a file with one planted task, or file:Class", names, hint)
    return next(iter(found.values()))


def first_line(kind: type) -> str:
    """Of its docstring: what lists and figures call it."""
    return (kind.__doc__ or kind.__name__).strip().splitlines()[0].rstrip(".")


def arguments_of_class(kind: type, of: str) -> tuple[Argument, ...]:
    """Of the constructor; those of a shared name have their shared ranges."""
    out = []
    for name, x in signature(kind).parameters.items():
        default = None if x.default is Parameter.empty else x.default
        if name in KNOWN_PARAMETERS:
            out.append(
                KNOWN_PARAMETERS[name]
                if default is None
                else replace(KNOWN_PARAMETERS[name], default=default)
            )
        elif isinstance(default, str):
            out.append(Argument(name, name, default, options=(default,)))
        elif isinstance(default, (int, float)):
            whole = isinstance(default, int)
            out.append(Argument(name, name, default, whole=whole))
        elif x.default is Parameter.empty:
            must = "a class whose arguments have defaults, dim and length apart"
            raise bad("task", of, must, f"{kind.__name__}({name})", f"{name}: float = 1.0")
    return tuple(out)
