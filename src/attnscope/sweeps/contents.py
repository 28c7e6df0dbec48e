"""Values by content, as plain data that can be hashed: numbers, texts, containers, arrays, what
wraps a function, the state of objects.

An object without readable content (a lock, an open file) counts by its type. What functions,
classes and modules are made of is for who derives from `Contents` to say.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable
from typing import Any

from attnscope.sweeps.reach import label_of
from attnscope.sweeps.text import canonical, digest

__all__ = ["PLAIN", "Contents"]

PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    type(Ellipsis),
    type(NotImplemented),
    range,
)
BUILT_IN = (types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType)
DESCRIPTORS = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.MethodDescriptorType,
)


class Contents:
    """Values met so far, each described once."""

    def __init__(self) -> None:
        self.met: dict[int, str] = {}  # id -> label of a function or class, hash of a value
        self.opaque = 0  # objects without readable content, so far
        self.hollow: dict[int, int] = {}  # id -> how many of them are inside a value
        self.alive: list[Any] = []  # ids stay those of the things met

    def function(self, value: types.FunctionType) -> Any:
        raise NotImplementedError

    def type(self, value: type) -> Any:
        raise NotImplementedError

    def module(self, module: types.ModuleType, attributes: set[str], dynamic: bool) -> Any:
        raise NotImplementedError

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

    def container(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, (list, tuple)):
            return [self.type(kind), *map(self.value, value)]
        if isinstance(value, (dict, types.MappingProxyType)):
            return [
                self.type(kind),
                *([self.value(key), self.value(one)] for key, one in value.items()),
            ]
        if isinstance(value, (set, frozenset)):
            return [
                self.type(kind),
                *sorted(canonical(self.value(one)) for one in sorted(value, key=repr)),
            ]
        if hasattr(value, "dtype") and hasattr(value, "__array__"):
            return self.array(value)
        return self.callable(value)

    def array(self, value: Any) -> Any:
        import numpy as np

        array = np.asarray(value)
        if array.dtype.hasobject:
            return [str(array.shape), self.value(array.ravel().tolist())]
        return [
            array.dtype.str,
            str(array.shape),
            hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
        ]

    def callable(self, value: Any) -> Any:
        """What wraps a function, then any other object."""
        name = label_of(type(value))
        if isinstance(value, functools.partial):
            return [
                name,
                self.value(value.func),
                self.value(value.args),
                self.value(value.keywords),
            ]
        if isinstance(value, types.MethodType):
            return [name, self.value(value.__func__), self.value(value.__self__)]
        if isinstance(value, property):
            return [name, self.value([value.fget, value.fset, value.fdel])]
        if isinstance(value, functools.cached_property):
            return [name, self.value(value.func)]
        if hasattr(value, "py_func"):  # compiled by Numba
            return [
                name,
                self.value(value.py_func),
                repr(sorted(getattr(value, "targetoptions", {}).items())),
            ]
        if hasattr(value, "__wrapped__"):  # lru_cache, jax.jit, classmethod, staticmethod
            return [name, self.value(value.__wrapped__)]
        if isinstance(value, DESCRIPTORS):
            return [name, value.__name__]
        if isinstance(value, BUILT_IN):
            owner = getattr(value, "__self__", None)
            return [
                label_of(value),
                None if isinstance(owner, types.ModuleType) else self.value(owner),
            ]
        return self.object(value)

    def object(self, value: Any) -> Any:
        kind = self.type(type(value))
        if type(value) is object or type(value).__module__ in (
            "weakref",
            "_weakref",
            "_thread",
            "threading",
        ):
            return self.no_content(kind)
        try:
            reduced = value.__reduce_ex__(4)  # what pickle would keep
        except Exception:
            return self.no_content(kind)
        if isinstance(reduced, str):
            return [kind, reduced]
        make, arguments, *rest = reduced
        state = [
            list(one)
            if isinstance(one, types.GeneratorType) or hasattr(one, "__next__")
            else one
            for one in rest
        ]
        # what a cached property keeps comes with use
        if state and isinstance(state[0], dict):
            cached = {
                name
                for name in state[0]
                if isinstance(_of_class(value, name), functools.cached_property)
            }
            state[0] = {name: one for name, one in state[0].items() if name not in cached}
        return [kind, self.value(make), self.value(arguments), self.value(state)]

    def no_content(self, kind: Any) -> Any:
        self.opaque += 1
        return ["no content", kind]


def _of_class(value: Any, name: str) -> Any:
    """The class's attribute of this name, itself and not what it gives."""
    return next((vars(one)[name] for one in type(value).__mro__ if name in vars(one)), None)
