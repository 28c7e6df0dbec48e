"""What the parser of the command line refuses, in the one sentence of every error: what, of whom, must be,
got, try.

The parser (click, or typer's own copy of it) says "Invalid value for '--dim': ... integer". Here
the words for a type are found at the command's own parameters, and what was typed among the
arguments.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import typer

from attnscope.errors import AttnscopeError, bad

__all__ = ["TYPE_WORDS", "UsageError", "refusal"]

# of the parser that typer brought: its own or click's, whatever the version
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
TYPE_WORDS = {int: "a whole number", float: "a number", Path: "a path", str: "text"}
TYPED_LETTERS = 40  # letters of what was typed


def refusal(error: Any, root: Any, typed: Sequence[str]) -> AttnscopeError | None:
    """The sentence for an error of the parser; None where the parser only shows its help.

    root: the group of commands; typed: what came after `attnscope`.
    """
    kind = type(error).__name__
    if kind == "NoArgsIsHelpError":
        return None
    command, of = _command(error, root, typed)
    if kind == "NoSuchOption":
        near = ", ".join(sorted(error.possibilities or ())) or f"{of} --help"
        must = f"one that `{of} --help` lists"
        return bad("an option", of, must, _shortened_text(error.option_name), near)
    if kind == "BadOptionUsage":
        param = _parameter(command, error.option_name)
        if getattr(param, "is_flag", False):
            return bad(error.option_name, of, "alone", "a value", error.option_name)
        must = f"followed by {_type_words(command, param)}"
        return bad(error.option_name, of, must, "no value", _example(param))
    if isinstance(error, typer.BadParameter) and error.param is not None:
        return _value(error, command, of, typed, missing=kind == "MissingParameter")
    if command is root:
        close = difflib.get_close_matches(typed[0], root.commands, 1)
        must = f"one of {', '.join(root.commands)}"
        hint = f"{of} {close[0]}" if close else ""
        return bad("a command", of, must, repr(_shortened_text(typed[0])), hint)
    arguments = [_name(p) for p in command.params if p.param_type_name == "argument"]
    extra = re.search(r"\(([^()]*)\)\.?$", str(error.message))
    got = f"{_shortened_text(extra[1])!r} as well" if extra else "more"
    return bad("arguments", of, " ".join(arguments) or "options alone", got, f"{of} --help")


def _name(param: Any) -> str:
    """Of a parameter, as help shows it."""
    if param.param_type_name == "option":
        return max(param.opts, key=len)
    return str(param.metavar or param.name.upper())


def _value(
    error: Any, command: Any, of: str, typed: Sequence[str], missing: bool
) -> AttnscopeError:
    """A value that is not what its parameter is, or not there."""
    param = error.param
    name = _name(param)
    if missing:
        return bad(name, of, "given", "no value", f"{of} --help")
    given = _typed_value(param, typed)
    must = _type_words(command, param)
    return bad(
        name,
        of,
        must,
        "something else" if given is None else repr(_shortened_text(given)),
        _example(param),
    )


def _command(error: Any, root: Any, typed: Sequence[str]) -> tuple[Any, str]:
    """The command that was asked, and how it is called."""
    asked = error.ctx.command if error.ctx is not None else None
    named = (root.commands[word] for word in typed if word in root.commands)
    found = asked or next(named, root)
    return found, "attnscope" if found is root else f"attnscope {found.name}"


def _parameter(command: Any, option: str) -> Any:
    return next((p for p in command.params if option in (*p.opts, *p.secondary_opts)), None)


def _typed_value(param: Any, typed: Sequence[str]) -> str | None:
    """The last value that was given to an option."""
    found = None
    for i, word in enumerate(typed):
        name, equals, value = word.partition("=")
        if name in param.opts:
            found = value if equals else (typed[i + 1] if i + 1 < len(typed) else None)
    return found


def _type_words(command: Any, param: Any) -> str:
    """What a parameter must be: its type in words."""
    hints = get_type_hints(command.callback) if command.callback else {}
    hint = hints.get(getattr(param, "name", ""), str)
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not NoneType]
    inner = [kind for kind in kinds for kind in (get_args(kind) or (kind,))]
    return " or ".join(TYPE_WORDS.get(kind, "a value") for kind in inner)


def _example(param: Any) -> str:
    """The option with its default, where there is one."""
    shown = getattr(param, "show_default", None)
    value = shown if isinstance(shown, str) else getattr(param, "default", None)
    if value is None or callable(value) or isinstance(value, bool):
        return ""
    return f"{_name(param)} {value}"


def _shortened_text(text: str) -> str:
    return text if len(text) <= TYPED_LETTERS else f"{text[: TYPED_LETTERS - 3]}..."
