"""A folder of results that survives being killed.

`KEY.npz` holds one cell: an uncompressed npz (no pickle) with one array, `record`, the UTF-8 bytes
of a JSON object {key, function, identity, version, call, rows, seconds}; files of 0.1 and 0.2 lack
`identity` and `version`. Its last 64 bytes, in the place of the zip
comment, are the sha256 of all bytes before them, so any truncated or altered file is seen, counted
as damaged, and computed again.
`KEY.failed.json` holds the traceback of a cell that failed; never read as a result, gone when the
cell succeeds.

Writing: `files.whole_file` (temporary name in the same folder, fsync, os.replace, fsync of the
folder); the two syncs only for cells worth them (`SYNC_FROM_SECONDS`). Guaranteed:
  - after SIGKILL at any instant, a file is absent or whole (os.replace is atomic), and every cell
    whose write had returned is there;
  - after a power cut, every cell of `SYNC_FROM_SECONDS` seconds or more whose write had returned is there,
    if the disk honours fsync; cheaper ones of the last half minute or so may be gone or torn, which
    the checksum shows, and are computed again. No result is ever wrong;
  - two writers of one key are harmless: they write the same content, the last one stays.
Temporaries of killed writers are never read, and removed when an hour old (a write lasts
milliseconds).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError
from attnscope.files import is_full, reason, whole_file, writable_folder
from attnscope.sweeps.cell_locks import LOCK_ENDING, is_gone
from attnscope.sweeps.text import canonical

__all__ = ["Store"]

STALE_FILE_SECONDS = 3600.0  # seconds; see the module docstring
# Seconds of computing from which a cell is synced to disk. Two syncs take 0.4 ms on an idle machine
# with a fast disk but 10 ms on a busy one (measured): spent on cells of a millisecond they would be
# most of it.
SYNC_FROM_SECONDS = 0.1
RESULT_ENDING = ".npz"
FAILURE_ENDING = ".failed.json"
_DIGEST = 64  # hexadecimal characters of a sha256


class Store:
    """Results by key, in one folder. Opening writes nothing;
    call `prepare` before the first `put`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.damaged: set[str] = set()

    def prepare(self) -> None:
        """Make the folder, check that it can be written, and remove stale temporaries."""
        writable_folder(self.folder, self._refusal)
        self._remove_stale_files()

    def get(
        self, key: str, parameters: dict[str, Any] | None = None
    ) -> dict[str, Any] | None:
        """The record of a cell, or None if it is absent or damaged (then `key` joins
        `self.damaged`).

        parameters: of the cell, where they are known: a record of another call is damaged.
        """
        path = self._path(key)
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # a pipe or a device may have no end
                raise AttnscopeError(
                    f"store {self.folder} must hold files, got something else at {path.name}; "
                    "try another store=."
                )
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise AttnscopeError(
                f"store {self.folder} cannot be read: {reason(error)} ({path.name})."
            ) from None
        record = unpack(content)
        if (
            record is None
            or not _is_record(record)
            or record["key"] != key
            or not _is_call_of(record["call"], parameters or {})
        ):
            self.damaged.add(key)
            return None
        self.damaged.discard(key)
        return record

    def holds(self, key: str) -> bool:
        """Whether there is a file of the cell; `get` says whether it is whole."""
        return self._path(key).exists()

    def keys(self) -> set[str]:
        """Of the cells that have a file of results."""
        return self._keys_with_ending(RESULT_ENDING)

    def failed_keys(self) -> set[str]:
        """Of the cells that have an account of a failure."""
        return self._keys_with_ending(FAILURE_ENDING)

    def _keys_with_ending(self, ending: str) -> set[str]:
        """What stands before the ending in the names of files: one look at the folder."""
        try:
            with os.scandir(self.folder) as entries:
                return {x.name[: -len(ending)] for x in entries if x.name.endswith(ending)}
        except (FileNotFoundError, NotADirectoryError):
            return set()
        except OSError as error:
            raise AttnscopeError(
                f"store {self.folder} cannot be read: {reason(error)}."
            ) from None

    def put(self, key: str, record: dict[str, Any]) -> None:
        """Keep a result; the record's `seconds` decide whether it is synced to disk before
        returning.
        """
        self._replace(
            self._path(key),
            pack({**record, "key": key}),
            sync=record["seconds"] >= SYNC_FROM_SECONDS,
        )
        self.damaged.discard(key)
        with suppress(OSError):
            self._failure_path(key).unlink()

    def put_failure(self, key: str, failure: dict[str, Any]) -> None:
        """Keep the account of a failed cell beside the results."""
        self._replace(
            self._failure_path(key),
            json.dumps({**failure, "key": key}, indent=1).encode(),
            sync=False,
        )

    def failure(self, key: str) -> dict[str, Any] | None:
        """The account of the last failure of a cell, if it is readable."""
        try:
            failure = json.loads(self._failure_path(key).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return failure if isinstance(failure, dict) else None

    def durations(self, function: str, most: int = 1000) -> list[float]:
        """Seconds of up to `most` stored cells of the function of that name,
        whatever their version.
        """
        return [float(record["seconds"]) for record in self._records(function, most)]

    def written(self, key: str) -> float:
        """When the file of a cell was written; 0 if it is gone."""
        try:
            return self._path(key).stat().st_mtime
        except OSError:
            return 0.0

    def has_older(self, function: str, most: int = 100) -> bool:
        """Whether the first `most` files hold a result that attnscope 0.1 or 0.2 stored."""
        return any("version" not in record for record in self._records(function, most))

    def failure_file(self, key: str) -> str:
        """Where the account of a failed cell is."""
        return str(self._failure_path(key))

    def _records(self, function: str, most: int) -> Iterator[dict[str, Any]]:
        """Of the function of that name, among the first `most` files."""
        names = sorted(self.folder.glob(f"*{RESULT_ENDING}")) if self.folder.is_dir() else []
        records = (self.get(path.stem) for path in names[:most])
        return (x for x in records if x is not None and x["function"] == function)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{RESULT_ENDING}"

    def _failure_path(self, key: str) -> Path:
        return self.folder / f"{key}{FAILURE_ENDING}"

    def _replace(self, path: Path, content: bytes, sync: bool) -> None:
        with whole_file(path, "sweep", sync=sync, refusal=self._refusal) as part:
            _write(part, content)

    def _remove_stale_files(self) -> None:
        horizon = time.time() - STALE_FILE_SECONDS
        with suppress(OSError):  # another sweep may be cleaning too
            for path in self.folder.glob(".*.tmp"):
                if path.stat().st_mtime < horizon:
                    path.unlink()
            for path in self.folder.glob(f".*{LOCK_ENDING}"):
                if is_gone(path.read_text()):
                    path.unlink()

    def _refusal(self, error: OSError) -> AttnscopeError:
        if is_full(error):
            return AttnscopeError(
                f"store {self.folder} is on a full disk ({reason(error)}); what was stored is "
                "kept: "
                "free some space and run the same sweep again to resume."
            )
        return AttnscopeError(
            f"store of sweep must be a folder that can be written, got {self.folder} "
            f"({reason(error)}); "
            "try another store=."
        )


def pack(record: dict[str, Any]) -> bytes:
    """A record as the bytes of an npz file that ends in its own checksum."""
    array = io.BytesIO()
    file = io.BytesIO()
    # names unsorted: the order of a row's names is the order of the frame's columns
    np.save(
        array, np.frombuffer(json.dumps(record).encode(), dtype=np.uint8), allow_pickle=False
    )
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = b"0" * _DIGEST  # reserves the place
        archive.writestr(zipfile.ZipInfo("record.npy"), array.getvalue())
    body = file.getvalue()[:-_DIGEST]
    return body + hashlib.sha256(body).hexdigest().encode()


def unpack(content: bytes) -> dict[str, Any] | None:
    """The record in these bytes, or None if they are not exactly what `pack` wrote."""
    body = content[:-_DIGEST]
    checksum = content[-_DIGEST:]
    if hashlib.sha256(body).hexdigest().encode() != checksum:
        return None
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            record = json.loads(arrays["record"].tobytes())
    except Exception:
        # a whole file, but not one of ours: zip, npy and JSON readers raise more than ten kinds
        return None
    return record if isinstance(record, dict) else None


def _is_record(record: dict[str, Any]) -> bool:
    """Whether this is what a sweep keeps of a cell: every member there and of its kind."""
    rows = record.get("rows")
    return (
        isinstance(record.get("key"), str)
        and isinstance(record.get("function"), str)
        and isinstance(record.get("call"), dict)
        and _is_number(record.get("seconds"))
        and 0 <= record["seconds"] <= sys.float_info.max
        and isinstance(rows, list)
        and rows != []
        and all(_is_row(row, record["call"]) for row in rows)
    )


def _is_row(row: Any, call: dict[str, Any]) -> bool:
    """What `rows.flat_rows` lets through: scalars, and no other value of a parameter."""
    return isinstance(row, dict) and all(
        _is_storable(value) and call.get(name, value) == value for name, value in row.items()
    )


def _is_call_of(call: dict[str, Any], parameters: dict[str, Any]) -> bool:
    """Whether the call has these parameters (and perhaps its seed)."""
    return canonical({name: call.get(name) for name in parameters}) == canonical(parameters)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_storable(value: Any) -> bool:
    """A scalar, with None in the place of NaN."""
    plain = value is None or isinstance(value, bool | int | float | str)
    return plain and value == value


def _write(path: Path, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
