"""The code that is loaded, as a hash: what a function is made of and everything it reaches by name.

From the function on, through the user's own files: its bytecode, constants, defaults and closure;
each global name it uses, be it a function, a class (with its bases and methods), a module (with the
names the code uses of it) or a value; and so on from each of these. Values count by content
(numbers, texts, containers, arrays, the state of objects). In attnscope, the files of the modules
reached, and of what they import. Installed packages count by name only.

Nothing is read from the user's files: a file edited after it was imported changes neither what is
computed nor the hash. Exact for what the code names. Where it makes names up
(`getattr(module, name)`, `eval`), every function and class of the modules in question counts. An
object without readable content (a lock, an open file) counts by its type.

notation: a part is one named thing (function, class, value, module of attnscope) with its hash.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnscope.errors import bad
from attnscope.sweeps.contents import PLAIN, Contents
from attnscope.sweeps.package import package_files
from attnscope.sweeps.reach import (
    MAIN,
    describe_code,
    imported,
    is_mine,
    is_users,
    label_of,
    names_in,
)
from attnscope.sweeps.text import canonical, digest

__all__ = ["Fingerprint", "fingerprint"]

# What Python adds to a class by itself, some of it late or only in one of two processes, and what
# is documentation
ADDED = {
    "__dict__",
    "__weakref__",
    "__doc__",
    "__module__",
    "__qualname__",
    "__firstlineno__",
    "__static_attributes__",
    "__annotations__",
    "__annotate__",
    "__annotate_func__",
    "__annotations_cache__",
    "__slotnames__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__parameters__",
    "__orig_bases__",
    "__abstractmethods__",
    "_abc_impl",
}


@dataclass(frozen=True)
class Fingerprint:
    """The hash of the loaded code, and its parts by name, to say which of them differ."""

    hash: str
    parts: dict[str, str]

    def differences(self, other: Fingerprint, ignore_script: bool = False) -> list[str]:
        """Names of the parts that are not the same in both;
        the script's own left out if so told.
        """
        names = sorted(self.parts.keys() | other.parts.keys())
        kept = [
            name for name in names if not (ignore_script and name.startswith("__main__."))
        ]
        return [name for name in kept if self.parts.get(name) != other.parts.get(name)]


def fingerprint(function: Callable[..., Any]) -> Fingerprint:
    """Walk the loaded code from this function. Some milliseconds:
    a sweep does it once, not once per cell.
    """
    walk = _Walk(getattr(function, "__module__", None) or "__main__")
    root = walk.value(function)
    walk.finish()
    files = package_files(frozenset(walk.package))
    parts = {**walk.parts, **files, "function": digest(canonical(root))}
    return Fingerprint(digest(canonical([sys.implementation.cache_tag, parts])), parts)


class _Walk(Contents):
    """One walk: parts described so far, things still to describe, and what has been met."""

    def __init__(self, home: str) -> None:
        super().__init__()
        self.home = home
        self.parts: dict[str, str] = {}
        self.package: set[str] = set()
        self.todo: list[tuple[str, Any]] = []
        self.labels: dict[str, int] = {}

    def finish(self) -> None:
        while self.todo:
            label, thing = self.todo.pop()
            body = (
                self.class_body(thing)
                if isinstance(thing, type)
                else self.function_body(thing)
            )
            self.parts[label] = digest(canonical(body))

    def refer(self, thing: Any) -> str:
        """The label of a function or class, which is described on its own, once."""
        if id(thing) not in self.met:
            label = label_of(thing)
            self.labels[label] = self.labels.get(label, 0) + 1
            if self.labels[label] > 1:  # lambdas of one line, local functions of one name
                label = f"{label}#{self.labels[label]}"
            self.met[id(thing)] = label
            self.alive.append(thing)
            self.todo.append((label, thing))
        return self.met[id(thing)]

    # functions and classes

    def function_body(self, function: Any) -> Any:
        where = function.__globals__
        names = names_in(function.__code__)
        reached = [
            self.named(name, where, names.attributes, names.dynamic)
            for name in sorted(names.loaded)
        ]
        for name, level in sorted(names.imports):
            module = imported(name, level, where.get("__package__"))
            reached.append(
                [
                    name,
                    self.value(module)
                    if isinstance(module, str)
                    else self.module(module, names.attributes, names.dynamic),
                ]
            )
        if names.dynamic and where.get("__name__") in sys.modules:
            reached.append(self.whole(sys.modules[where["__name__"]]))
        return [
            describe_code(function.__code__),
            self.captured(function, strict=True),
            reached,
        ]

    def captured(self, function: Any, strict: bool) -> Any:
        """Closure, defaults and the plain attributes set on a function;
        `strict` refuses what has no content.
        """
        cells = [self.cell(cell) for cell in function.__closure__ or ()]
        state = [cells, list(function.__defaults__ or ()), function.__kwdefaults__ or {}]
        before = self.opaque
        described = self.value(state)
        if strict and self.opaque > before:
            must = (
                "a module-level function, or one that captures numbers, texts, arrays, "
                "functions and objects of them"
            )
            raise bad("function", "sweep", must, function)
        marks = {
            name: value for name, value in vars(function).items() if isinstance(value, PLAIN)
        }
        return [described, self.value(marks)]

    def cell(self, cell: Any) -> Any:
        try:
            return cell.cell_contents
        except ValueError:  # not filled yet
            return None

    def named(
        self, name: str, where: dict[str, Any], attributes: set[str], dynamic: bool
    ) -> Any:
        """A global name that code uses, as a part of its own."""
        if name not in where:
            return name  # a builtin, or nothing
        value = where[name]
        if isinstance(value, types.ModuleType):
            return [name, self.module(value, attributes, dynamic)]
        if isinstance(value, (types.FunctionType, type)):
            return [name, self.value(value)]
        module = where.get("__name__")
        label = f"{'__main__' if module in MAIN else module}.{name}"
        if label not in self.parts:
            self.parts[label] = ""  # a value that leads back to itself
            self.parts[label] = digest(canonical(self.value(value)))
        return [name, label]

    def module(self, module: types.ModuleType, attributes: set[str], dynamic: bool) -> Any:
        """The names that code uses of a module; all of them if it does not say which."""
        name = module.__name__
        if is_mine(name):
            return self.module_of_ours(module, attributes, dynamic)
        if not is_users(name, self.home):
            return name
        if dynamic or not attributes & vars(module).keys():
            return self.whole(module)
        used = sorted(attributes & vars(module).keys())
        return [
            self.named(one, vars(module), attributes, dynamic)
            for one in used
            if not one.startswith("__")
        ]

    def module_of_ours(
        self, module: types.ModuleType, attributes: set[str], dynamic: bool
    ) -> Any:
        # of the package's public names, which load late
        homes = vars(module).get("_MODULE_OF", {})
        used = sorted(
            one
            for one in attributes & (homes.keys() | vars(module).keys())
            if one[:2] != "__"
        )
        if dynamic or not used:
            self.package.add(module.__name__)
        return [[one, self.ours(module, one, homes, attributes, dynamic)] for one in used]

    def ours(
        self,
        module: types.ModuleType,
        name: str,
        homes: dict[str, str],
        attributes: set[str],
        dynamic: bool,
    ) -> Any:
        """A name of one of our modules: loaded or not it is the same,
        unless the user has put another thing there.
        """
        value = vars(module).get(name)
        if name in homes and (
            value is None or is_mine(str(getattr(value, "__module__", module.__name__)))
        ):
            self.package.add(f"{module.__name__}.{homes[name]}")
            return homes[name]
        return (
            self.module(value, attributes, dynamic)
            if isinstance(value, types.ModuleType)
            else self.value(value)
        )

    def whole(self, module: types.ModuleType) -> Any:
        """Every function and class of a user's module,
        and its plain values (of a script they come and go).
        """
        if is_mine(module.__name__):
            self.package.add(module.__name__)
            return module.__name__
        kinds: tuple[Any, ...] = (types.FunctionType, type)
        kinds += () if module.__name__ in MAIN else PLAIN
        inside = sorted(vars(module).items())
        return [
            [name, self.value(one)]
            for name, one in inside
            if isinstance(one, kinds) and name[:2] != "__"
        ]

    def class_body(self, thing: type) -> Any:
        inside = {name: one for name, one in sorted(vars(thing).items()) if name not in ADDED}
        return [
            label_of(type(thing)),
            [self.value(base) for base in thing.__bases__],
            self.value(inside),
        ]

    def function(self, value: types.FunctionType) -> Any:
        module = value.__globals__.get("__name__")
        if is_mine(str(module)):
            self.package.add(str(module))
        elif is_users(module, self.home):
            return self.refer(value)
        # a decorator keeps the user's function in its closure
        return self.once(value, lambda one: [label_of(one), self.captured(one, strict=False)])

    def type(self, value: type) -> Any:
        if is_mine(value.__module__):
            self.package.add(value.__module__)
        elif is_users(value.__module__, self.home):
            return self.refer(value)
        return label_of(value)
