"""Who computes which cell, when several sweeps work on one store.

A sweep that is about to compute a cell claims it: `.KEY.claim` in the store, made with O_EXCL, so
that of two sweeps one gets it. The holder renews its claims every `RENEWAL_SECONDS` seconds and removes them
when the cell is stored or failed. A claim belongs to a sweep that was killed, and may be taken, if
it names a process of this machine that is no more, or if nobody has renewed it for `STALE_LOCK_SECONDS` seconds.
A claim is a courtesy, not a lock: where two sweeps hold the
same one after all (clocks of two machines that differ by minutes), both compute the cell and write
the same content.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

__all__ = ["LOCK_ENDING", "STALE_LOCK_SECONDS", "CellLocks"]

LOCK_ENDING = ".claim"
RENEWAL_SECONDS = (
    10.0  # seconds: far less than STALE_LOCK_SECONDS, and no burden on a network disk
)
# seconds: six renewals may be missed, by a process that is held up or a disk that is slow
STALE_LOCK_SECONDS = 60.0
UNSIGNED_SECONDS = 1.0  # seconds: signing takes microseconds


class CellLocks:
    """The cells that this process is computing; a context that lets go of all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held: set[str] = set()
        self.ended = threading.Event()

    def __enter__(self) -> CellLocks:
        threading.Thread(target=self._renew, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ended.set()
        for key in list(self.held):
            self.release(key)

    def take(self, key: str) -> bool:
        """Whether the cell is ours to compute."""
        path = self._path(key)
        try:
            with open(path, "x") as file:
                file.write(_signature())
        except FileExistsError:
            if not self.is_stale(key):
                return False
            with suppress(OSError):
                path.write_text(_signature())
        except OSError:
            pass  # a store that cannot be written says so when the result comes
        self.held.add(key)
        return True

    def is_stale(self, key: str) -> bool:
        """Whether nobody holds the cell any more."""
        path = self._path(key)
        try:
            signature = path.read_text()
            age = time.time() - path.stat().st_mtime
            # unsigned: its maker was killed between two system calls, or is about to sign
            return _is_gone(signature) or age > (
                STALE_LOCK_SECONDS if signature else UNSIGNED_SECONDS
            )
        except OSError:
            return True

    def release(self, key: str) -> None:
        self.held.discard(key)
        with suppress(OSError):
            self._path(key).unlink()

    def _renew(self) -> None:
        while not self.ended.wait(RENEWAL_SECONDS):
            for key in list(self.held):
                self._touch(key)

    def _touch(self, key: str) -> None:
        with suppress(OSError):
            os.utime(self._path(key))

    def _path(self, key: str) -> Path:
        return self.folder / f".{key}{LOCK_ENDING}"


def _signature() -> str:
    return f"{os.getpid()} {socket.gethostname()}"


def _is_gone(signature: str) -> bool:
    """Whether it is that of a process of this machine that has ended."""
    number, _, machine = signature.partition(" ")
    if machine != socket.gethostname() or not number.isdigit() or os.name != "posix":
        return False  # os.kill means another thing on Windows
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # there, and somebody else's
    return False
