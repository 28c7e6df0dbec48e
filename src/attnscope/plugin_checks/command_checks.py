"""What a command of a plugin must satisfy: a function with a help text under a plain word that no
other command has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from inspect import getdoc

from attnscope.plugin_checks.record import CheckFailed, CheckRecord, checks
from attnscope.plugins import COMMANDS, PLAIN_WORD, EntryPoint, announced

__all__ = ["command_records"]


def command_records(point: EntryPoint, taken: Collection[str]) -> Iterator[CheckRecord]:
    """The checks of one command; `taken`: the names of attnscope's own commands."""
    steps = [
        ("has a name of its own", lambda: _new_word(point, taken)),
        ("has a help text", lambda: _has_help(point)),
    ]
    yield from checks(point.origin, "command", point.name, steps)


def _new_word(point: EntryPoint, taken: Collection[str]) -> None:
    if not PLAIN_WORD.fullmatch(point.name):
        must = "a word of lower-case letters, digits and hyphens"
        raise point.refusal(repr(point.name), must)
    first = next((p for p in announced(COMMANDS) if p.name == point.name), point)
    if point.name in taken or first.origin != point.origin:
        owner = "attnscope" if point.name in taken else first.origin
        raise point.refusal(f"{point.name!r}, which {owner} has", "a word of its own")


def _has_help(point: EntryPoint) -> None:
    function = point.load()
    if not callable(function):
        raise point.refusal(type(function).__name__, "a function that Typer understands")
    if not (getdoc(function) or "").strip():
        raise CheckFailed(
            f"{point.value} has no docstring, which would be the command's help."
        )
