"""Whether a file still says what Python loaded from it.

A key names the source in files. Were a file edited after this Python imported it, the old code would
run under the new key. So the functions that are loaded are compared with those that the file gives
now, and constants with what is written there. Values that are computed, and those that the file
itself changes, are not looked at.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from attnscope.errors import AttnscopeError
from attnscope.sweeps.definitions import changed_names

__all__ = ["refuse_edited"]

LITERAL_TYPES = {int, float, complex, str, bytes, bool, type(None), tuple, list, dict, set}


def refuse_edited(
    module: str, content: bytes, names: set[str] | None = None, file: Path | None = None
) -> None:
    """Raise if the module is loaded and differs from its file, in these names or at all.

    file: where the content is, if the module may have been loaded from another file.
    """
    loaded = sys.modules.get(module)
    # others may change the code that they load (pytest does)
    if loaded is None or type(getattr(loaded, "__loader__", None)) is not SourceFileLoader:
        return
    if file is not None and Path(str(loaded.__file__)).resolve() != file.resolve():
        return
    tree = ast.parse(content)
    nodes = list(ast.walk(tree))
    moving = {name for one in nodes if isinstance(one, ast.Global) for name in one.names}
    moving |= {name for one in tree.body for name in changed_names(one)}
    codes = list(_codes(compile(content, "", "exec", dont_inherit=True)))
    for name in _changed_definitions(tree, vars(loaded), codes):
        if name not in moving and (names is None or name.partition(".")[0] in names):
            raise AttnscopeError(
                f"{module}.{name} is not what its file says by now, so that no key can name what "
                "is computed; try a new Python process, or importlib.reload."
            )


def _changed_definitions(
    tree: ast.Module | ast.ClassDef, space: Mapping[str, Any], codes: list[CodeType]
) -> Iterator[str]:
    """Names of the definitions that are loaded otherwise; of one name, the last definition counts."""
    for name, node in {_name(one): one for one in tree.body}.items():
        value = space.get(name)
        if isinstance(node, ast.ClassDef):
            if isinstance(value, type):
                yield from (
                    f"{name}.{one}" for one in _changed_definitions(node, vars(value), codes)
                )
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not _is_same_function(node, _function(value), codes):
                yield name
        elif not isinstance(node, ast.Assign) or name not in space:
            continue
        elif not _is_same_value(node.value, value):
            yield name


def _name(node: Any) -> str:
    """What a statement defines; "" for one that is not looked at."""
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        return getattr(target, "id", "")
    return getattr(node, "name", "")


def _function(value: Any) -> Any:
    """The function that decorators wrap."""
    for name in ("py_func", "__wrapped__", "__func__", "fget"):
        if inner := getattr(value, name, None):
            return _function(inner)
    return value


def _is_same_function(node: Any, function: Any, codes: list[CodeType]) -> bool:
    if not isinstance(function, FunctionType) or function.__code__.co_name != node.name:
        return True  # a decorator has put another thing there
    shape = _shape(function.__code__)
    defaults = zip(reversed(node.args.defaults), reversed(function.__defaults__ or ()))
    return any(_shape(code) == shape for code in codes if code.co_name == node.name) and all(
        _is_same_value(written, value) for written, value in defaults
    )


def _is_same_value(written: ast.expr, value: Any) -> bool:
    """Whether the value is that of the literal. An empty container may have been filled, and an
    enumeration makes members of its values.
    """
    try:
        literal = ast.literal_eval(written)
    except (ValueError, TypeError, SyntaxError):
        return True  # computed
    if literal in ([], {}) or type(value) not in LITERAL_TYPES:
        return True
    return type(value) is type(literal) and value == literal


def _codes(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes(inner)


def _shape(code: CodeType) -> Any:
    """What a code object computes, without its lines."""
    constants = [
        _shape(one)
        if isinstance(one, CodeType)
        else one
        if isinstance(one, frozenset)
        else repr(one)
        for one in code.co_consts
    ]
    return code.co_qualname, code.co_code, constants, code.co_names, code.co_varnames
