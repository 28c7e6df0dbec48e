"""A package as a lazy namespace: `at.theory.risk_gradient`, `at.tasks.SingleLocation`, whatever was
imported before.

A package's modules come first, then its public names (the list in attnscope/__init__.py). Each is
imported when it is first used. A module wins over a public name of the same spelling, because
importing the module anywhere sets it as an attribute: `at.theory.risk` is always the module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["lazy_namespace"]


def lazy_namespace(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """(__getattr__, __dir__) of the package with this full name."""

    def attribute(name: str) -> Any:
        if not name.startswith("__") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        module = _module_by_name(package).get(name)
        if module is None:
            return vars(sys.modules["attnscope"])["_old_attribute"](package, name)
        return getattr(import_module(module), name)

    def attribute_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *_module_by_name(package)})

    return attribute, attribute_names


def _module_by_name(package: str) -> dict[str, str]:
    """The package's public names, each with the module that defines it."""
    names: dict[str, str] = vars(sys.modules["attnscope"])["_MODULE_OF"]
    modules = {name: f"attnscope.{module}" for name, module in names.items()}
    return {name: home for name, home in modules.items() if home.startswith(f"{package}.")}
