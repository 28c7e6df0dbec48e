"""What the commands share: the application, options that mean the same everywhere, Ctrl-C, and progress on the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="attnscope: an instrument for what attention provably does.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Workers = Annotated[int | None, typer.Option(help="Worker processes; in this process if left out.")]
Scheduler = Annotated[str | None, typer.Option(help="Address of a running Dask scheduler, tcp://host:port.")]


def plain(x: Any) -> Any:
    """JSON has no infinity: null says 'none'."""
    return None if isinstance(x, float) and not abs(x) < float("inf") else x


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C: print the sentence that says what is kept and how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        print(str(stop) or "Stopped; nothing was written.", file=sys.stderr)
        raise typer.Exit(130) from None  # what shells report for Ctrl-C


@contextmanager
def working(description: str, verbose: bool, quiet: bool = False) -> Iterator[None]:
    """While the block runs, show on stderr that it does and what it last printed; with `verbose` every line, also where no terminal is."""
    if verbose or quiet or not sys.stderr.isatty():
        with redirect_stdout(sys.stderr if verbose else _Nowhere()):
            yield
        return
    from rich.console import Console

    with Console(stderr=True).status(description) as status, redirect_stdout(_Status(status, description)):
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
            self.status.update(f"{self.description}, {time.monotonic() - self.start:.0f} s: {text.strip()}")
        return len(text)
