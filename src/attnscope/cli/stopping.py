"""How a command is stopped: by Ctrl-C or SIGTERM, at any moment, with one sentence and code 130.

Both are a KeyboardInterrupt in the main thread, which commands catch to keep what was reached.
Three places do not hear it so: modules that are being loaded (some turn it into errors of their
own), destructors (Python prints and goes on), and compiled code, which hears it when it returns.
While modules load, the process ends at once: nothing is written yet. A destructor's is raised
again. Compiled code gets `PATIENCE_SECONDS` seconds, or until the second Ctrl-C: then a thread ends the
process, with the temporary files it was writing removed.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import sys
import threading
from typing import Any

from attnscope.files import remove_temporaries

__all__ = ["STOPPED", "Stopping"]

STOPPED = 130  # the exit code that shells report for Ctrl-C
# seconds: a step of training or a cell that takes longer is not worth waiting for
PATIENCE_SECONDS = 10.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """The signals of this process, from the loading of its modules to its last line."""

    def __init__(self) -> None:
        self.heard = 0
        # whether somebody catches a KeyboardInterrupt; until then a signal ends the process
        self.raises = False
        # what a shell has set for a job in the background is kept
        self.ours = [s for s in SIGNALS if signal.getsignal(s) is not signal.SIG_IGN]
        for number in self.ours:
            signal.signal(number, _exit_at_once)

    def begin(self) -> None:
        """From now on a signal is a KeyboardInterrupt, watched by a thread."""
        hear, tell = os.pipe()
        os.set_blocking(tell, False)
        signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(hear,), daemon=True).start()
        sys.unraisablehook = _interrupt_hook(sys.unraisablehook)
        for number in self.ours:
            signal.signal(number, self._raise)

    def end(self) -> None:
        """The command has ended: a signal has nothing left to stop."""
        for number in self.ours:
            signal.signal(number, signal.SIG_IGN)

    def _raise(self, number: int, frame: Any) -> None:
        self.heard += 1
        if not self.raises:
            _exit_at_once()
        raise KeyboardInterrupt

    def _watch(self, hear: int) -> None:
        told = 0
        while True:
            told += sum(number in self.ours for number in os.read(hear, 64))
            waited = 0.0
            # a second signal is there at once: the first one was not heard
            while self.heard < told and waited < PATIENCE_SECONDS and not _has_signal(hear):
                waited += POLL_SECONDS
            if self.heard < told:
                _exit_at_once()


POLL_SECONDS = 0.1  # seconds between two looks


def _has_signal(hear: int) -> bool:
    return bool(select.select([hear], [], [], POLL_SECONDS)[0])


def _exit_at_once(*signalled: Any) -> None:
    remove_temporaries()
    try:
        os.write(2, b"Stopped; nothing was written.\n")
    finally:
        os._exit(STOPPED)


def _interrupt_hook(usual: Any) -> Any:
    def hook(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _thread.interrupt_main()
        else:
            usual(unraisable)

    return hook
