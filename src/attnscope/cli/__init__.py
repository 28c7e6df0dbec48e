"""The command line: parses, calls the library, prints. Exit codes: 0 fine, 1 a claim failed, 2 bad
input, 130 stopped (Ctrl-C, or SIGTERM, which ends a command in the same way).

One file per group of commands; importing them here is what adds them to `app`, in the order in
which `--help` lists them.
"""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from attnscope.cli import theory, samples, training, tasks, new  # isort: skip
from attnscope.cli import bags
from attnscope.cli import long_jobs as work

from attnscope.cli import evidence, selftest  # isort: skip
from attnscope.cli.common import app
from attnscope.cli.streams import plain_streams
from attnscope.errors import AttnscopeError

__all__ = [
    "app",
    "bags",
    "evidence",
    "main",
    "new",
    "samples",
    "selftest",
    "tasks",
    "theory",
    "training",
    "work",
]


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from attnscope import __version__

        print(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point: library refusals become one line on stderr and exit code 2."""
    plain_streams()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app(standalone_mode=True)
    except AttnscopeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
