"""Files that are whole or absent, and the sentence when the disk refuses.

`whole_file` writes under a temporary name in the same folder, then fsync, os.replace, fsync of the
folder. Guaranteed: a reader meets the previous file or the whole new one, at every instant, also
after SIGKILL (os.replace is atomic) and, if the disk honours fsync, after a power cut; whatever
exception ends the writing, Ctrl-C included, the previous file is untouched and nothing is left
behind (only SIGKILL leaves a hidden `.NAME.HEX.tmp`). A symbolic link is written through; a device
or a pipe (/dev/stdout) is written directly: there is nothing to replace.

Trouble with the disk is one AttnscopeError: what, of whom, must be, got, try, and what is kept.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from attnscope.errors import AttnscopeError, bad

__all__ = [
    "check_file",
    "check_place",
    "is_full",
    "reason",
    "remove_temporaries",
    "temporary",
    "whole_file",
    "writable_folder",
    "write_csv",
]

Refusal = Callable[[OSError], AttnscopeError]

DISK_FULL_ERRORS = (
    errno.ENOSPC,
    errno.EDQUOT,
)  # no space left, on the disk or in the user's share of it
# Characters of the target's name in the temporary's: enough to recognise it; 4 bytes each, with the
# dots and 32 hex digits, stay below the 255 bytes that file systems allow.
NAME_LETTERS = 40
FORMULA_STARTS = "=+-@\t\r"  # beginnings that spreadsheets compute, or skip to find one
# Temporaries that are being written, for a process that must end at once
_UNDER_WAY: set[Path] = set()


@contextmanager
def whole_file(
    path: str | os.PathLike[str],
    of: str,
    what: str = "path",
    *,
    sync: bool = True,
    ending: str = ".tmp",
    refusal: Refusal | None = None,
) -> Iterator[Path]:
    """Yield a temporary path for the block to write; move it to `path` when the block ends well.

    The block holds the writing alone: any OSError in it is told as trouble with `path`.

    Args:
        path: the file to make or replace; its folder exists.
        of: who writes, for the sentence.
        what: how `of` calls the path, for the sentence.
        sync: wait for the disk. Without, whole after SIGKILL but not surely after a power cut.
        ending: of the temporary name, for writers that read the format from it.
        refusal: makes the error out of the OSError, in place of the usual sentence.
    """
    check_place(path, of, what, refusal)
    target = Path(os.path.realpath(path))
    with _disk_errors_as(refusal or partial(_write_refusal, path=path, of=of, what=what)):
        mode = _file_mode(target)
        if mode is not None and not stat.S_ISREG(mode):
            yield target
            return
        part = temporary(target, ending)
        _UNDER_WAY.add(part)
        try:
            yield part
            if sync:
                _sync(part, os.O_RDWR)  # Windows syncs only what may be written
            if mode is not None:
                os.chmod(part, stat.S_IMODE(mode))
            os.replace(part, target)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            _UNDER_WAY.discard(part)
        if sync:
            # Not every system can sync a folder (Windows, some network disks): the file itself is
            # synced.
            with suppress(OSError):
                _sync(target.parent, os.O_RDONLY)


def check_place(
    path: str | os.PathLike[str],
    of: str,
    what: str = "path",
    refusal: Refusal | None = None,
) -> None:
    """Refuse a path where no file can be, before long work; `whole_file` does so itself."""
    if not isinstance(path, str | os.PathLike) or "\0" in str(path):
        raise bad(
            what, of, "the name of a file", repr(path) if isinstance(path, str) else path
        )
    with _disk_errors_as(refusal or partial(_write_refusal, path=path, of=of, what=what)):
        target = Path(os.path.realpath(path))
        if refusal is None and not target.parent.is_dir():
            raise bad(
                what, of, "in a folder that exists", str(path), "making the folder first"
            )
        mode = _file_mode(target)
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if mode is not None and not os.access(target, os.W_OK):  # os.replace would not mind
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def check_file(path: str | os.PathLike[str], of: str, what: str) -> None:
    """`check_place`, for what is no stream: an archive cannot be written to a device."""
    check_place(path, of, what)
    if os.path.exists(path) and not os.path.isfile(path):
        raise bad(what, of, "a file", f"{path}, a device")


def writable_folder(folder: Path, refusal: Refusal) -> None:
    """Make the folder if need be, and find out by writing that it can be written."""
    with _disk_errors_as(refusal):
        folder.mkdir(parents=True, exist_ok=True)
        probe = temporary(folder / "probe")
        try:
            # not empty: on a full disk an empty file can still be made
            probe.write_bytes(b"probe")
        finally:
            with suppress(OSError):
                probe.unlink(missing_ok=True)


def remove_temporaries() -> None:
    """Remove what is being written; only for a process that ends at once."""
    for part in list(_UNDER_WAY):
        with suppress(OSError):
            part.unlink(missing_ok=True)


def write_csv(frame: Any, part: Path, **how: Any) -> None:
    """A data frame as CSV in which no text is a formula: what a spreadsheet would compute, a name
    that begins with =, +, - or @, stands behind an apostrophe.
    """
    words = [name for name in frame if frame[name].dtype.kind not in "biuf"]
    safe = frame.assign(**{name: frame[name].map(_no_formula) for name in words})
    safe.rename(columns=_no_formula).to_csv(part, index=False, encoding="utf-8", **how)


def _no_formula(cell: Any) -> Any:
    if not isinstance(cell, str) or cell[:1] not in FORMULA_STARTS or not cell:
        return cell
    try:
        float(cell)  # a number as text computes nothing
    except ValueError:
        return f"'{cell}"
    return cell


def temporary(path: Path, ending: str = ".tmp") -> Path:
    """A hidden name in the same folder that nobody else has."""
    return path.with_name(f".{path.name[:NAME_LETTERS]}.{uuid.uuid4().hex}{ending}")


def is_full(error: OSError) -> bool:
    """Whether it is the space that lacks."""
    return error.errno in DISK_FULL_ERRORS


def reason(error: OSError) -> str:
    """What the system says, in one line; some libraries leave only a text."""
    return error.strerror or " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _disk_errors_as(refusal: Refusal) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise refusal(error) from None


def _write_refusal(
    error: OSError, path: str | os.PathLike[str], of: str, what: str
) -> AttnscopeError:
    got = f"{path} ({reason(error)})"
    kept = (
        "the file that was there is kept" if os.path.isfile(path) else "nothing was written"
    )
    if is_full(error):
        must = "on a disk with space left"
        return bad(what, of, must, got, f"again with space freed, or another path: {kept}")
    return bad(what, of, "a file that can be written", got, f"another path: {kept}")


def _file_mode(target: Path) -> int | None:
    """Kind and permissions of what stands at the target, None if nothing does."""
    try:
        return target.stat().st_mode
    except FileNotFoundError:
        return None


def _sync(path: Path, how: int) -> None:
    descriptor = os.open(path, how)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
