"""The folder of a report: checked before any work, each file whole or absent.

A file is written under a temporary name in the same folder, synced, and renamed: a run killed at any instant leaves the
previous version or the new one. Trouble with the disk is one sentence.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attnscope.errors import AttnscopeError, bad

__all__ = ["prepare", "replace"]


def prepare(out: str | os.PathLike[str]) -> Path:
    """The folder and its `figures/`, made if need be and found writable."""
    if not isinstance(out, str | os.PathLike) or not os.fspath(out):
        raise bad("out", "reproduce", "the name of a folder", out, 'out="report/"')
    folder = Path(out)
    with _one_sentence(folder):
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        for place in (folder, folder / "figures"):
            probe = _temporary(place / "probe")
            probe.write_bytes(b"probe")  # not empty: on a full disk an empty file can still be made
            probe.unlink()
    return folder


def replace(path: Path, text: str) -> None:
    """Write the text as this file, whole or not at all."""
    temporary = _temporary(path)
    with _one_sentence(path.parent):
        try:
            with open(temporary, "x", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")


@contextmanager
def _one_sentence(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise AttnscopeError(
                f"out of reproduce must be on a disk with space left, got {folder} ({error.strerror}); "
                "what was written before is kept: free some space and run again."
            ) from None
        got = f"{folder} ({error.strerror})"
        raise bad("out", "reproduce", "a folder that can be written", got, "another out=") from None
