"""Packages that bring tasks, predictors, claims, papers or commands: entry points.

A package announces in its pyproject.toml what it brings:

    [project.entry-points."attnscope.tasks"]
    sign-location = "my_plugin.tasks:SignLocation"
    [project.entry-points."attnscope.predictors"]
    bump = "my_plugin.bump:Bump"
    [project.entry-points."attnscope.claims"]
    my-plugin = "my_plugin.claims"
    [project.entry-points."attnscope.papers"]
    my-plugin = "my_plugin.papers"
    [project.entry-points."attnscope.commands"]
    greet = "my_plugin.command:greet"

The name of a task, a predictor or a command is what people type. Claims are a package with one file
per claim, a Claim, or a list of them (claims/registry.py); papers are a module with PAPERS and
STATEMENTS (claims/provenance.py); a command is a function that Typer understands. Our own claims,
papers and the explorer use the same groups.

Entry points are read when a name is not known or a list is asked for, never by `import attnscope`. A
plugin that cannot be loaded becomes one sentence, and everything else works.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from attnscope.errors import AttnscopeError
from attnscope.optional import absent

__all__ = [
    "CLAIMS",
    "COMMANDS",
    "PAPERS",
    "PLAIN_WORD",
    "PREDICTORS",
    "TASKS",
    "TOURS",
    "EntryPoint",
    "announced",
    "error_line",
    "import_named",
]

TASKS = "attnscope.tasks"
PREDICTORS = "attnscope.predictors"
CLAIMS = "attnscope.claims"
PAPERS = "attnscope.papers"
COMMANDS = "attnscope.commands"
TOURS = "attnscope.tours"  # steps of tours that show a claim: the explorer's, for reports
PLAIN_WORD = re.compile(r"[a-z][a-z0-9-]*")  # what a name that people type looks like
ERROR_CHARACTERS = 120  # of somebody else's error message
PATHS_KEPT = 32  # versions of sys.path whose entry points are remembered


@dataclass(frozen=True)
class EntryPoint:
    """One entry point: its group and name, "module:object", and the package it comes from, with its
    version.
    """

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
        except (Exception, SystemExit) as error:  # whatever somebody else's module does
            raise self.refusal(error_line(error)) from error

    def refusal(
        self, got: str, must: str = "an object that can be imported"
    ) -> AttnscopeError:
        """One sentence on what is wrong with it."""
        return AttnscopeError(
            f"{self.name} of {self.origin} ({self.group}, {self.value}) must be {must}, got {got}; "
            f"try another version of {self.origin.split()[0]}."
        )


def import_named(module: str) -> ModuleType:
    """A module that a file or a user names. Where it needs an optional package that is absent, the
    sentence about that package; whatever else goes wrong is an ImportError.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise absent(error, module) or ImportError(error_line(error)) from error
    except (Exception, SystemExit) as error:
        raise ImportError(error_line(error)) from error


def error_line(error: BaseException) -> str:
    """Somebody else's error in one short line."""
    words = " ".join(str(error).split())[:ERROR_CHARACTERS]
    return f"{type(error).__name__}: {words}"


def announced(group: str) -> tuple[EntryPoint, ...]:
    """What the installed packages announce in a group, attnscope first, then by origin and name."""
    return _announced_on_path(group, tuple(sys.path))


@lru_cache(maxsize=PATHS_KEPT)
def _announced_on_path(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points

    found = {}
    for point in entry_points(group=group):
        dist = getattr(point, "dist", None)
        origin = "an unnamed package" if dist is None else f"{dist.name} {dist.version}"
        ours = origin.startswith("attnscope ")
        entry = EntryPoint(group, point.name, point.value, origin, point)
        found[(not ours, origin, point.name)] = entry
    return tuple(found[key] for key in sorted(found))
