"""Commands that installed packages bring (plugins.py, group attnscope.commands).

An entry point is a function with Typer's annotations; its name is the command. It is loaded when it is
typed or when help lists the commands. A plugin that cannot be loaded has a command that says so, so
that it never breaks another one; a name that is no plain word is left out with a sentence on stderr,
one of ours is not taken.
"""

from __future__ import annotations

from typing import Any

import typer

from attnscope import plugins
from attnscope.errors import AttnscopeError

__all__ = ["plugin_command", "plugin_command_names"]


def plugin_command_names() -> list[str]:
    """Names of the commands that plugins bring, in the order of their packages."""
    return [point.name for point in plugins.announced(plugins.COMMANDS)]


def plugin_command(name: str) -> Any | None:
    """The command of this name as Click knows it; None if no plugin brings it."""
    if not plugins.PLAIN_WORD.fullmatch(name):
        return None
    points = [point for point in plugins.announced(plugins.COMMANDS) if point.name == name]
    if not points:
        return None
    try:
        function = points[0].load()
        if not callable(function):
            raise points[0].refusal(
                type(function).__name__, "a function that Typer understands"
            )
        with points[0].guarded("a function that Typer understands"):
            return _click_command(name, function)
    except AttnscopeError as error:
        return _click_command(name, _refusing_command(error))


def _click_command(name: str, function: Any) -> Any:
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(function)
    return typer.main.get_command(alone)


def _refusing_command(error: AttnscopeError) -> Any:
    def refuse() -> None:
        """Cannot be loaded."""
        raise error

    return refuse
