"""All commands. One file per group; importing them here is what adds them to `app`, in the order in
which `--help` lists them.
"""

from __future__ import annotations

from typing import Annotated

import typer

from attnscope.cli import theory, samples, training, tasks, new, check_plugin  # isort: skip
from attnscope.cli import bags
from attnscope.cli import long_jobs as work

from attnscope.cli import evidence, selftest  # isort: skip
from attnscope.cli.common import app

__all__ = [
    "app",
    "bags",
    "check_plugin",
    "evidence",
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
