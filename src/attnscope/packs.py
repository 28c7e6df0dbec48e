"""Packages that bring tasks, predictors or claims of their own: entry points.

A package announces in its pyproject.toml

    [project.entry-points."attnscope.tasks"]
    sign-location = "my_pack.tasks:SignLocation"
    [project.entry-points."attnscope.predictors"]
    bump = "my_pack.bump:Bump"
    [project.entry-points."attnscope.claims"]
    sign-01-oracle = "my_pack.claims:CLAIM"

The name is the word on the command line. What is installed is read when a word is not known or a
list is asked for, never by `import attnscope`. A pack that cannot be loaded is one sentence, and
the others stay.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from attnscope.errors import AttnscopeError

__all__ = [
    "CLAIMS",
    "PREDICTORS",
    "TASKS",
    "Announced",
    "announced",
    "import_named",
    "said",
]

TASKS = "attnscope.tasks"
PREDICTORS = "attnscope.predictors"
CLAIMS = "attnscope.claims"
SAID = 120  # characters of somebody else's error message


@dataclass(frozen=True)
class Announced:
    """One entry point: its group and name, "module:object", and the package it comes from."""

    group: str
    name: str
    value: str
    origin: str
    point: Any

    @property
    def module(self) -> str:
        return self.value.partition(":")[0].strip()

    def load(self) -> Any:
        """The object, or one sentence that names the package."""
        try:
            return self.point.load()
        except Exception as error:  # whatever somebody else's module does
            raise self.refusal(said(error)) from error

    def refusal(
        self, got: str, must: str = "an object that can be imported"
    ) -> AttnscopeError:
        """One sentence on what is wrong with it."""
        return AttnscopeError(
            f"{self.name} of {self.origin} ({self.group}, {self.value}) must be {must}, got {got}; "
            f"try another version of {self.origin.split()[0]}."
        )


def import_named(module: str) -> ModuleType:
    """A module that is named by a file or a word; whatever comes of it is an ImportError."""
    try:
        return import_module(module)
    except (Exception, SystemExit) as error:
        raise ImportError(said(error)) from error


def said(error: BaseException) -> str:
    """Somebody else's error in one short line."""
    words = " ".join(str(error).split())[:SAID]
    return f"{type(error).__name__}: {words}"


def announced(group: str) -> tuple[Announced, ...]:
    """What the installed packages announce in a group, by origin and name."""
    return _announced(group, tuple(sys.path))


@lru_cache(maxsize=32)
def _announced(group: str, path: tuple[str, ...]) -> tuple[Announced, ...]:
    from importlib.metadata import entry_points

    found = {}
    for point in entry_points(group=group):
        dist = getattr(point, "dist", None)
        origin = "an unnamed package" if dist is None else f"{dist.name} {dist.version}"
        found[(origin, point.name)] = Announced(group, point.name, point.value, origin, point)
    return tuple(found[key] for key in sorted(found))
