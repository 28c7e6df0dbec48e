"""Who computes which cell, when several sweeps work on one store.

A sweep that is about to compute a cell takes a lease on it: `.KEY.claim` in the store, made with
O_EXCL, so that of two sweeps one gets it. The owner renews its leases every `RENEWAL_SECONDS`
seconds by a new modification time, and removes them when the cell is stored or failed. A lease may
be taken over if it names a process of this machine that has ended, or if it has not changed for
`STALE_LOCK_SECONDS` seconds while this sweep watched it. Only whether it changes is looked at,
never what time it states: the clocks of two machines need not agree.
A lease is a courtesy: where two sweeps hold the same one after all (an owner that was suspended for
minutes), both compute the cell and write the same content.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

__all__ = ["LOCK_ENDING", "STALE_LOCK_SECONDS", "CellLocks", "is_gone"]

LOCK_ENDING = ".claim"
RENEWAL_SECONDS = (
    10.0  # seconds: far less than STALE_LOCK_SECONDS, and no burden on a network disk
)
# seconds: six renewals may be missed, by a process that is held up or a disk that is slow
STALE_LOCK_SECONDS = 60.0
UNSIGNED_SECONDS = 1.0  # seconds: signing takes microseconds


class _Sight(NamedTuple):
    """What a look at a lease shows."""

    signature: str
    changed: int  # its modification time, compared only with itself


class CellLocks:
    """The cells that this process is computing; a context that lets go of all of them."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder
        self.clock = clock
        self.held: set[str] = set()
        self.watched: dict[str, tuple[_Sight, float]] = {}
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
        """Whether nobody holds the cell any more, as far as this process has watched."""
        try:
            # opened, not only looked at: a network disk then asks its server
            with open(self._path(key)) as file:
                sight = _Sight(file.read(), os.fstat(file.fileno()).st_mtime_ns)
        except OSError:
            return True
        before, since = self.watched.get(key, (None, 0.0))
        if sight != before:
            since = self.clock()
            self.watched[key] = sight, since
        # unsigned: its maker was killed between two system calls, or is about to sign
        patience = STALE_LOCK_SECONDS if sight.signature else UNSIGNED_SECONDS
        return is_gone(sight.signature) or self.clock() - since > patience

    def release(self, key: str) -> None:
        self.held.discard(key)
        self.watched.pop(key, None)
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


def is_gone(signature: str) -> bool:
    """Whether the signature is that of a process of this machine that has ended."""
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
