"""The code that is loaded, as a hash: what a function is made of and everything it reaches by name.

From the function on, through the user's own files: its bytecode, constants, defaults and closure; each global name it
uses, be it a function, a class (with its bases and methods), a module (with the names the code uses of it) or a value;
and so on from each of these. Values count by content (numbers, texts, containers, arrays, the state of objects). In
attnscope, the files of the modules reached, and of what they import. Installed packages count by name only.

Nothing is read from the user's files: a file edited after it was imported changes neither what is computed nor the
hash. Exact for what the code names. Where it makes names up (`getattr(module, name)`, `eval`), every function and class
of the modules in question counts. An object without readable content (a lock, an open file) counts by its type.

notation: a part is one named thing (function, class, value, module of attnscope) with its hash.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnscope.errors import bad
from attnscope.sweeps.package import package_files
from attnscope.sweeps.reach import MAIN, describe_code, imported, is_mine, is_users, label_of, names_in
from attnscope.sweeps.text import canonical, digest

__all__ = ["Fingerprint", "fingerprint"]

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range)
# What Python adds to a class by itself, some of it late or only in one of two processes, and what is documentation
ADDED = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__",
    "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__slotnames__",
    "__dataclass_fields__", "__dataclass_params__", "__parameters__", "__orig_bases__", "__abstractmethods__",
    "_abc_impl",
}  # fmt: skip
BUILT_IN = (types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType)
DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType, types.MethodDescriptorType)


@dataclass(frozen=True)
class Fingerprint:
    """The hash of the loaded code, and its parts by name, to say which of them differ."""

    hash: str
    parts: dict[str, str]

    def differences(self, other: Fingerprint, ignore_script: bool = False) -> list[str]:
        """Names of the parts that are not the same in both; the script's own left out if so told."""
        names = sorted(self.parts.keys() | other.parts.keys())
        kept = [name for name in names if not (ignore_script and name.startswith("__main__."))]
        return [name for name in kept if self.parts.get(name) != other.parts.get(name)]


def fingerprint(function: Callable[..., Any]) -> Fingerprint:
    """Walk the loaded code from this function. Some milliseconds: a sweep does it once, not once per cell."""
    walk = _Walk(getattr(function, "__module__", None) or "__main__")
    root = walk.value(function)
    walk.finish()
    files = package_files(frozenset(walk.package))
    parts = {**walk.parts, **files, "function": digest(canonical(root))}
    return Fingerprint(digest(canonical([sys.implementation.cache_tag, parts])), parts)


class _Walk:
    """One walk: parts described so far, things still to describe, and what has been met."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.parts: dict[str, str] = {}
        self.package: set[str] = set()
        self.todo: list[tuple[str, Any]] = []
        self.met: dict[int, str] = {}  # id -> label of a function or class, hash of a value
        self.labels: dict[str, int] = {}
        self.opaque = 0  # objects without readable content, so far
        self.hollow: dict[int, int] = {}  # id -> how many of them are inside a value
        self.alive: list[Any] = []  # ids stay those of the things met

    def finish(self) -> None:
        while self.todo:
            label, thing = self.todo.pop()
            body = self.class_body(thing) if isinstance(thing, type) else self.function_body(thing)
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
        reached = [self.named(name, where, names.attributes, names.dynamic) for name in sorted(names.loaded)]
        for name, level in sorted(names.imports):
            module = imported(name, level, where.get("__package__"))
            reached.append([name, self.value(module) if isinstance(module, str) else
                            self.module(module, names.attributes, names.dynamic)])  # fmt: skip
        if names.dynamic and where.get("__name__") in sys.modules:
            reached.append(self.whole(sys.modules[where["__name__"]]))
        return [describe_code(function.__code__), self.captured(function, strict=True), reached]

    def captured(self, function: Any, strict: bool) -> Any:
        """Closure, defaults and the plain attributes set on a function; `strict` refuses what has no content."""
        cells = [self.cell(cell) for cell in function.__closure__ or ()]
        state = [cells, list(function.__defaults__ or ()), function.__kwdefaults__ or {}]
        before = self.opaque
        described = self.value(state)
        if strict and self.opaque > before:
            must = "a module-level function, or one that captures numbers, texts, arrays, functions and objects of them"
            raise bad("function", "sweep", must, function)
        marks = {name: value for name, value in vars(function).items() if isinstance(value, PLAIN)}
        return [described, self.value(marks)]

    def cell(self, cell: Any) -> Any:
        try:
            return cell.cell_contents
        except ValueError:  # not filled yet
            return None

    def named(self, name: str, where: dict[str, Any], attributes: set[str], dynamic: bool) -> Any:
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
        return [self.named(one, vars(module), attributes, dynamic) for one in used if not one.startswith("__")]

    def module_of_ours(self, module: types.ModuleType, attributes: set[str], dynamic: bool) -> Any:
        homes = vars(module).get("_MODULE_OF", {})  # of the package's public names, which load late
        used = sorted(one for one in attributes & (homes.keys() | vars(module).keys()) if one[:2] != "__")
        if dynamic or not used:
            self.package.add(module.__name__)
        return [[one, self.ours(module, one, homes, attributes, dynamic)] for one in used]

    def ours(
        self, module: types.ModuleType, name: str, homes: dict[str, str], attributes: set[str], dynamic: bool
    ) -> Any:
        """A name of one of our modules: loaded or not it is the same, unless the user has put another thing there."""
        value = vars(module).get(name)
        if name in homes and (value is None or is_mine(str(getattr(value, "__module__", module.__name__)))):
            self.package.add(f"{module.__name__}.{homes[name]}")
            return homes[name]
        return self.module(value, attributes, dynamic) if isinstance(value, types.ModuleType) else self.value(value)

    def whole(self, module: types.ModuleType) -> Any:
        """Every function and class of a user's module, and its plain values (of a script they come and go)."""
        if is_mine(module.__name__):
            self.package.add(module.__name__)
            return module.__name__
        kinds: tuple[Any, ...] = (types.FunctionType, type)
        kinds += () if module.__name__ in MAIN else PLAIN
        inside = sorted(vars(module).items())
        return [[name, self.value(one)] for name, one in inside if isinstance(one, kinds) and name[:2] != "__"]

    def class_body(self, thing: type) -> Any:
        inside = {name: one for name, one in sorted(vars(thing).items()) if name not in ADDED}
        return [label_of(type(thing)), [self.value(base) for base in thing.__bases__], self.value(inside)]

    # values

    def value(self, value: Any) -> Any:
        """Any value as plain data, by content."""
        if type(value) in PLAIN:
            return [type(value).__name__, repr(value)]
        if isinstance(value, types.FunctionType):
            return self.function(value)
        if isinstance(value, type):
            return self.type(value)
        if isinstance(value, types.ModuleType):
            return self.once(value, lambda one: self.module(one, set(), True))
        return self.once(value, self.container)

    def once(self, value: Any, describe: Callable[[Any], Any]) -> str:
        """The hash of a value, described once; "itself" inside itself."""
        if id(value) in self.met:
            self.opaque += self.hollow.get(id(value), 0)
            return self.met[id(value)]
        self.alive.append(value)
        self.met[id(value)] = "itself"
        before = self.opaque
        self.met[id(value)] = digest(canonical(describe(value)))
        self.hollow[id(value)] = self.opaque - before
        return self.met[id(value)]

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

    def container(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, (list, tuple)):
            return [self.type(kind), *map(self.value, value)]
        if isinstance(value, (dict, types.MappingProxyType)):
            return [self.type(kind), *([self.value(key), self.value(one)] for key, one in value.items())]
        if isinstance(value, (set, frozenset)):
            return [self.type(kind), *sorted(canonical(self.value(one)) for one in sorted(value, key=repr))]
        if hasattr(value, "dtype") and hasattr(value, "__array__"):
            return self.array(value)
        return self.callable(value)

    def array(self, value: Any) -> Any:
        import numpy as np

        array = np.asarray(value)
        if array.dtype.hasobject:
            return [str(array.shape), self.value(array.ravel().tolist())]
        return [array.dtype.str, str(array.shape), hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()]

    def callable(self, value: Any) -> Any:
        """What wraps a function, then any other object."""
        name = label_of(type(value))
        if isinstance(value, functools.partial):
            return [name, self.value(value.func), self.value(value.args), self.value(value.keywords)]
        if isinstance(value, types.MethodType):
            return [name, self.value(value.__func__), self.value(value.__self__)]
        if isinstance(value, property):
            return [name, self.value([value.fget, value.fset, value.fdel])]
        if isinstance(value, functools.cached_property):
            return [name, self.value(value.func)]
        if hasattr(value, "py_func"):  # compiled by Numba
            return [name, self.value(value.py_func), repr(sorted(getattr(value, "targetoptions", {}).items()))]
        if hasattr(value, "__wrapped__"):  # lru_cache, jax.jit, classmethod, staticmethod
            return [name, self.value(value.__wrapped__)]
        if isinstance(value, DESCRIPTORS):
            return [name, value.__name__]
        if isinstance(value, BUILT_IN):
            owner = getattr(value, "__self__", None)
            return [label_of(value), None if isinstance(owner, types.ModuleType) else self.value(owner)]
        return self.object(value)

    def object(self, value: Any) -> Any:
        kind = self.type(type(value))
        if type(value) is object or type(value).__module__ in ("weakref", "_weakref", "_thread", "threading"):
            return self.no_content(kind)
        try:
            reduced = value.__reduce_ex__(4)  # what pickle would keep
        except Exception:
            return self.no_content(kind)
        if isinstance(reduced, str):
            return [kind, reduced]
        make, arguments, *rest = reduced
        state = [list(one) if isinstance(one, types.GeneratorType) or hasattr(one, "__next__") else one for one in rest]
        if state and isinstance(state[0], dict):  # what a cached property keeps comes with use
            cached = {name for name in state[0] if isinstance(_of_class(value, name), functools.cached_property)}
            state[0] = {name: one for name, one in state[0].items() if name not in cached}
        return [kind, self.value(make), self.value(arguments), self.value(state)]

    def no_content(self, kind: Any) -> Any:
        self.opaque += 1
        return ["no content", kind]


def _of_class(value: Any, name: str) -> Any:
    """The class's attribute of this name, itself and not what it gives."""
    return next((vars(one)[name] for one in type(value).__mro__ if name in vars(one)), None)
