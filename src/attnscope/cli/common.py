"""What the commands share: the application, options that mean the same everywhere, Ctrl-C,
and progress on the terminal.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from attnscope.cli.completion import arguments, tasks
from attnscope.cli.plugin_commands import plugin_command, plugin_command_names
from attnscope.cli.refusals import UsageError, refusal
from attnscope.cli.stopping import STOPPED
from attnscope.deprecated import new_options
from attnscope.errors import bad, listed
from attnscope.files import reason


class Commands(TyperGroup):
    """The commands: one that is stopped ends with one sentence and the code of shells for Ctrl-C,
    and what the parser refuses is reported like every other error.
    """

    typed: Sequence[str] = ()

    def list_commands(self, ctx: Any) -> list[str]:
        """Ours, then those of plugins."""
        own = super().list_commands(ctx)
        return [*own, *(name for name in plugin_command_names() if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or plugin_command(cmd_name)

    def make_context(self, info_name: Any, args: list[str], *more: Any, **extra: Any) -> Any:
        args = new_options(args)
        self.typed = tuple(args)
        with interruptible(), self._parser_errors_as_sentences():
            return super().make_context(info_name, args, *more, **extra)

    def invoke(self, ctx: Any) -> Any:
        with interruptible(), self._parser_errors_as_sentences():
            return super().invoke(ctx)

    @contextmanager
    def _parser_errors_as_sentences(self) -> Iterator[None]:
        try:
            yield
        except UsageError as error:
            sentence = refusal(error, self, self.typed)
            if sentence is None:
                raise
            raise sentence from None
        except OSError as error:
            if not isinstance(error.filename, str):
                raise  # of a stream, not of a path
            must = "one that this machine can use"
            got = f"{listed([error.filename])} ({reason(error)})"
            raise bad("a path", "the command", must, got) from None


app = typer.Typer(
    cls=Commands,
    help="attnscope: an instrument for what attention provably does.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

COLUMNS = 80  # that every terminal has: tables and sentences fit them
LAST_COLUMN_WIDTH = 14  # least width of a last column that is broken: "2-D quadrature"

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Workers = Annotated[
    int | None, typer.Option(help="Worker processes; in this process if left out.")
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a running Dask scheduler, tcp://host:port.")
]
TaskName = Annotated[
    str,
    typer.Option(
        "--task",
        help="The task's word; `attnscope tasks` lists them.",
        autocompletion=tasks,
    ),
]
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="NAME=VALUE",
        help="An argument of the task or the predictor; may be repeated.",
        autocompletion=arguments,
    ),
]


def assignments(texts: list[str] | None, of: str) -> dict[str, str]:
    """The names and values of --with; whose they are, and whether they can be,
    the catalogue says.
    """
    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not (name and equals and value) or name in found:
            raise bad("--with", of, "name=value, each name once", text, "--with relevant=3")
        found[name.strip().replace("-", "_")] = value.strip()
    return found


def table(head: list[str], rows: list[list[str]], texts: int = 1, width: int = 0) -> str:
    """Columns as wide as what is in them, two spaces apart: the first `texts` and the last to the
    left, numbers to the right.

    A column without an entry is left out. Where a `width` is given, the last column, and where that
    is not enough the first, are broken so that lines fit it.
    """
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    lines = [[row[i] for i in kept] for row in (head, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(kept))]
    if width:
        room = width - sum(widths[1:-1]) - 2 * (len(widths) - 1)
        widths[0] = min(
            widths[0], max(room - min(widths[-1], LAST_COLUMN_WIDTH), LAST_COLUMN_WIDTH)
        )
        widths[-1] = min(widths[-1], max(room - widths[0], LAST_COLUMN_WIDTH))
    out = []
    for line in lines:
        first = _wrapped_lines(line[0], widths[0], "  ")
        last = _wrapped_lines(line[-1], widths[-1])
        for j in range(max(len(first), len(last))):
            shown = [
                first[j] if j < len(first) else "",
                *(x if j == 0 else "" for x in line[1:-1]),
                last[j] if j < len(last) else "",
            ]
            cells = [
                x.ljust(w) if i < texts or i == kept[-1] else x.rjust(w)
                for i, x, w in zip(kept, shown, widths)
            ]
            out.append("  ".join(cells).rstrip())
    return "\n".join(out)


def _wrapped_lines(text: str, width: int, hanging: str = "") -> list[str]:
    """The text in lines of this width; what begins with spaces keeps them."""
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        text.strip(), width, initial_indent=indent, subsequent_indent=indent + hanging
    ) or [text]


def print_left_out(sentences: list[str]) -> None:
    """What an installed package announces and does not have, on stderr: the rest goes on."""
    for sentence in sentences:
        print(f"left out: {sentence}", file=sys.stderr)


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C: print the sentence that says what is kept and how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        print(str(stop) or "Stopped; nothing was written.", file=sys.stderr)
        raise typer.Exit(STOPPED) from None


@contextmanager
def working(description: str, verbose: bool, quiet: bool = False) -> Iterator[None]:
    """While the block runs, show on stderr that it does and what it last printed; with `verbose`
    every line, also where no terminal is.
    """
    if verbose or quiet or not sys.stderr.isatty():
        with redirect_stdout(sys.stderr if verbose else _Nowhere()):
            yield
        return
    from rich.console import Console

    with (
        Console(stderr=True).status(description) as status,
        redirect_stdout(_Status(status, description)),
    ):
        yield


class _Nowhere:
    """A stream that forgets."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass


class _Status(_Nowhere):
    """A stream that shows the seconds and the last line beside a spinner."""

    def __init__(self, status: Any, description: str) -> None:
        self.status, self.description, self.start = status, description, time.monotonic()

    def write(self, text: str) -> int:
        if text.strip():
            self.status.update(
                f"{self.description}, {time.monotonic() - self.start:.0f} s: {text.strip()}"
            )
        return len(text)


def as_typed(x: Any) -> str:
    """A flat argument as typed."""
    if isinstance(x, list | tuple):
        return ",".join(as_typed(part) for part in x)
    return f"{x:g}" if isinstance(x, float) else str(x)
