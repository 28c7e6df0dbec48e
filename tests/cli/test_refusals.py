"""What the parser refuses is one sentence in words, for every command and option."""

import re
from typing import get_args, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from attnscope.cli import app
from attnscope.errors import AttnscopeError


def said(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    assert isinstance(result.exception, AttnscopeError), result.output
    return str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["risk", "--dim", "abc"], "--dim of attnscope risk must be a whole number, got 'abc'; try --dim 400."),
        (["risk", "--inverse-temperature=x"], "--inverse-temperature of attnscope risk must be a number, got 'x'; try --inverse-temperature 0.1."),
        (["risk", "--dim"], "--dim of attnscope risk must be followed by a whole number, got no value; try --dim 400."),
        (["train", "--swap-move=3"], "--swap-move of attnscope train must be alone, got a value; try --swap-move."),
        (["show"], "ID of attnscope show must be given, got no value; try attnscope show --help."),
        (["diff", "a", "b", "c"], "arguments of attnscope diff must be FIRST SECOND, got 'c' as well; try attnscope diff --help."),
        (["risk", "more"], "arguments of attnscope risk must be options alone, got 'more' as well; try attnscope risk --help."),
        (["--bogus"], "an option of attnscope must be one that `attnscope --help` lists, got --bogus; try attnscope --help."),
    ],
)  # fmt: skip
def test_sentences(arguments, sentence):
    assert said(*arguments) == sentence


def test_a_command_that_is_none_names_those_there_are():
    text = said("trian")
    assert text.startswith("a command of attnscope must be one of risk, ")
    assert text.endswith("got 'trian'; try attnscope train.")


def test_no_option_names_a_type_of_python():
    """Every numeric option of every command, with a word in its place."""
    seen = 0
    for name, command in typer.main.get_command(app).commands.items():
        hints = get_type_hints(command.callback)
        asked = [p for p in command.params if p.required]
        needed = [
            x for p in asked for x in (*p.opts[:1], "x") if x.startswith("-") or x == "x"
        ]
        for option in command.params:
            kinds = {hints.get(option.name), *get_args(hints.get(option.name))}
            if option.param_type_name == "option" and kinds & {int, float}:
                text = said(name, *needed, option.opts[0], "word")
                assert re.search(
                    r"^--\S+ of attnscope \S+ must be a (whole )?number, got 'word'", text
                )
                seen += 1
    assert seen > 20


def test_no_arguments_show_the_help():
    result = CliRunner().invoke(app, [])
    assert not isinstance(result.exception, AttnscopeError)
    assert "Usage" in result.output
