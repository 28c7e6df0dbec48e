"""A room as a lazy namespace: `at.theory.risk_gradient`, `at.tasks.SingleLocation`, whatever was
imported before.

A room's files come first, then its public names (the list in attnscope/__init__.py), each imported
when it is first asked for. A file wins over a name because importing the file anywhere puts it
there: `at.theory.risk` is always the file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["door"]


def door(room: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """(__getattr__, __dir__) of the package `room`, its full name."""

    def find(name: str) -> Any:
        if not name.startswith("__") and find_spec(f"{room}.{name}") is not None:
            return import_module(f"{room}.{name}")
        home = _homes(room).get(name)
        if home is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[room]), *_homes(room)})

    return find, listed


def _homes(room: str) -> dict[str, str]:
    """The room's public names, each with its file."""
    listed: dict[str, str] = vars(sys.modules["attnscope"])["_MODULE_OF"]
    homes = {name: f"attnscope.{home}" for name, home in listed.items()}
    return {name: home for name, home in homes.items() if home.startswith(f"{room}.")}
