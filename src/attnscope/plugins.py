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
plugin that cannot be loaded becomes one sentence, and everything else works: whatever a plugin raises
is caught (Ctrl-C apart), and what it prints while it is loaded is kept from stdout, which may be JSON.
"""

from __future__ import annotations

import io
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from attnscope.errors import AttnscopeError, listed
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
    "metadata_points",
    "normalised_name",
    "report_once",
]

TASKS = "attnscope.tasks"
PREDICTORS = "attnscope.predictors"
CLAIMS = "attnscope.claims"
PAPERS = "attnscope.papers"
COMMANDS = "attnscope.commands"
TOURS = "attnscope.tours"  # steps of tours that show a claim: the explorer's, for reports
TYPED_GROUPS = (TASKS, PREDICTORS, COMMANDS)  # whose names people type
OWN_GROUPS = "attnscope."  # how the name of every group begins
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
        with self.guarded("an object that can be imported", own_refusals=False):
            return self.point.load()

    @contextmanager
    def guarded(self, must: str, own_refusals: bool = True) -> Iterator[None]:
        """Run code of the package: what it raises becomes one sentence, `must` says about what; what
        it prints is named in the log. own_refusals: an AttnscopeError is such a sentence already.
        """
        try:
            with _printing_elsewhere() as printed:
                yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever somebody else's module does
            if own_refusals and isinstance(error, AttnscopeError):
                raise
            raise self.refusal(error_line(error), must) from error
        finally:
            if printed.getvalue().strip():
                words = listed([" ".join(printed.getvalue().split())])
                report_once(
                    f"{listed([self.name])} of {self.origin} ({self.group}, {self.value}) printed while it was "
                    f"loaded: {words}"
                )

    def refusal(
        self, got: str, must: str = "an object that can be imported"
    ) -> AttnscopeError:
        """One sentence on what is wrong with it."""
        return AttnscopeError(
            f"{listed([self.name])} of {self.origin} ({self.group}, {self.value}) must be {must}, "
            f"got {got}; "
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
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ImportError(error_line(error)) from error


def error_line(error: BaseException) -> str:
    """Somebody else's error in one short line, without the letters that a terminal would obey."""
    try:
        text = str(error)
    except Exception:
        text = "an error without words"
    words = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    return f"{type(error).__name__}: {words[:ERROR_CHARACTERS]}"


@contextmanager
def _printing_elsewhere() -> Iterator[io.StringIO]:
    """What Python code prints meanwhile. What is written to the process's stdout itself, by a
    subprocess or a compiled library, goes to stderr.
    """
    printed = io.StringIO()
    direct = sys.stdout is sys.__stdout__ and sys.stdout is not None
    try:
        kept = os.dup(1) if direct else None
    except OSError:  # there is no stdout
        kept = None
    try:
        if kept is not None:
            sys.stdout.flush()
            os.dup2(2, 1)
        with redirect_stdout(printed):
            yield printed
    finally:
        if kept is not None:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)


@cache
def report_once(sentence: str) -> None:
    """Say on stderr, by the log, what is wrong with a package while everything else goes on."""
    logging.getLogger("attnscope").warning("%s", sentence)


def normalised_name(name: str) -> str:
    """A distribution's name as pip compares it.

    >>> normalised_name("My_Plugin")
    'my-plugin'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def announced(group: str, odd_names: bool = False) -> tuple[EntryPoint, ...]:
    """What the installed packages announce in a group, attnscope first, then by origin and name; a name
    that people could not type, such as --json, is left out unless odd_names.
    """
    found = {}
    for origin, point in metadata_points():
        if point.group != group:
            continue
        entry = EntryPoint(group, point.name, point.value, origin, point)
        if odd_names or group not in TYPED_GROUPS or _is_typed(entry):
            found[(not origin.startswith("attnscope "), origin, point.name)] = entry
        else:
            must = "a name of lower-case letters, digits and hyphens"
            report_once(f"left out: {entry.refusal(repr(point.name), must)}")
    return tuple(found[key] for key in sorted(found))


def _is_typed(entry: EntryPoint) -> bool:
    # for a task or a predictor an underscore serves for a hyphen
    name = entry.name if entry.group == COMMANDS else entry.name.replace("_", "-")
    return PLAIN_WORD.fullmatch(name) is not None


def metadata_points() -> tuple[tuple[str, Any], ...]:
    """(origin, entry point) of every group of attnscope's; of two distributions of one name those of
    the first on the path. A distribution whose metadata cannot be read is left out.
    """
    return _points_on_path(tuple(sys.path))


@lru_cache(maxsize=PATHS_KEPT)
def _points_on_path(path: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    from importlib.metadata import distributions

    found: dict[str, list[tuple[str, Any]]] = {}
    for dist in distributions():
        try:
            name = _distribution_name(dist)
            if name in found:
                continue
            points = [p for p in dist.entry_points if p.group.startswith(OWN_GROUPS)]
            origin = f"{_one_word(dist.name)} {_one_word(dist.version)}" if points else ""
            found[name] = [(origin, point) for point in points]
        except Exception as error:
            report_once(
                f"left out: the metadata of {_one_word(_folder_name(dist))} must be readable, got "
                f"{error_line(error)}; try installing that package again."
            )
    return tuple(point for points in found.values() for point in points)


def _distribution_name(dist: Any) -> str:
    """The normalised name, from the folder's name where it has one: METADATA is slow to read."""
    stem, dot, ending = _folder_name(dist).rpartition(".")
    if dot and ending in ("dist-info", "egg-info"):
        return normalised_name(stem.partition("-")[0])
    return normalised_name(dist.name)


def _folder_name(dist: Any) -> str:
    """The folder or file of a distribution's metadata."""
    return os.path.basename(str(getattr(dist, "_path", "a package without a folder")))


def _one_word(text: Any) -> str:
    """A name or version from metadata, without spaces and letters that a terminal would obey."""
    return "".join(c if c.isprintable() and c != " " else "-" for c in str(text))
