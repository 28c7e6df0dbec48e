"""The first lines of the command `attnscope`: from here on Ctrl-C and SIGTERM end it in one sentence.

Importing attnscope takes tens of milliseconds, on a busy machine more. Python answers Ctrl-C in that
time with a traceback, unless a handler is there before the package is imported. This module is
outside of the package for that reason and imports nothing of it at its top. `attnscope.cli` takes
over (cli/stopping.py) as soon as it is loaded.
"""

from __future__ import annotations

# the C module: `signal` itself loads enum, re and others first
import _signal as signal
import os

__all__ = ["main"]

STOPPED = 130  # the exit code that shells report for Ctrl-C


def main() -> None:
    """Entry point of the command."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # what a shell has set for a job in the background is kept
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    from attnscope.cli import main as command

    command()


def _end(*signalled: object) -> None:
    """End the process: nothing has been written yet."""
    try:
        os.write(2, b"Stopped; nothing was written.\n")
    finally:
        os._exit(STOPPED)
