"""Machine code that numba has stored for attnscope's functions, checked before it is loaded.

numba unpickles whatever its cache files hold: an empty or cut file ends the command, and altered
machine code would be executed. Here every file ends with a checksum of its contents, the version of
attnscope, the source and the signature that it belongs to. A file whose checksum is wrong is ignored:
the function is compiled again and the file replaced. A folder that cannot be written costs time only,
and one line in the log says so. Without its checksum a file is as numba writes it.

`check_caches` does this for functions of attnscope; the functions of others keep numba's cache.
"""

from __future__ import annotations

import logging
import pickle
import sys
from hashlib import sha256
from itertools import count
from typing import Any

from numba.core import dispatcher
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

__all__ = ["check_caches"]

OWN_PACKAGES = ("attnscope", "attnscope_claims", "attnscope_explorer")
CHECKSUM_BYTES = sha256().digest_size
reported_reasons: list[str] = []  # why code cannot be stored; at most one is said


def check_caches() -> None:
    """Let functions of attnscope that are decorated from now on use checked caches."""
    dispatcher.FunctionCache = cache_for  # type: ignore[attr-defined]


def cache_for(function: Any) -> Any:
    """The cache of a compiled function: checked where the function is ours."""
    if (function.__module__ or "").partition(".")[0] not in OWN_PACKAGES:
        return FunctionCache(function)
    try:
        return CheckedCache(function)
    except (OSError, RuntimeError) as error:  # no folder that can be written
        report_unwritable(str(error))
        return NullCache()


class CheckedCache(FunctionCache):
    """numba's cache of a function, whose files cannot end a command."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = CheckedFiles(
            self._cache_path, self._impl.filename_base, locator.get_source_stamp()
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The stored code for a signature, or None: then numba compiles it."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever stored code causes, compiling anew is the answer
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store compiled code, if the folder can be written."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            report_unwritable(str(error))


class CheckedFiles(IndexDataCacheFile):
    """The index and the data files of one function, each with a checksum at its end.

    The data of a signature are written before the index names them, so a process that is killed
    leaves no index that points to data of another signature.
    """

    def load(self, key: Any) -> Any:
        """The stored data of a key, or None."""
        name = self._load_index().get(key)
        content = None if name is None else self._read(self._data_path(name), repr(key))
        return None if content is None else pickle.loads(content)

    def save(self, key: Any, data: Any) -> None:
        """Store data under a key."""
        index = self._load_index()
        taken = set(index.values())
        free = (name for i in count(1) if (name := self._data_name(i)) not in taken)
        name = index.get(key) or next(free)
        self._write(self._data_path(name), self._dump(data), repr(key))
        self._save_index({**index, key: name})

    def _load_index(self) -> dict[Any, str]:
        content = self._read(self._index_path, "index")
        if content is None:
            return {}
        version = pickle.dumps(self._version, -1)
        return dict(pickle.loads(content[len(version) :])[1])

    def _save_index(self, overloads: dict[Any, str]) -> None:
        version = pickle.dumps(self._version, -1)
        rest = self._dump((self._source_stamp, overloads))
        self._write(self._index_path, version + rest, "index")

    def _read(self, path: str, belongs_to: str) -> bytes | None:
        """What a file holds before its checksum; None if it is absent or its checksum is wrong."""
        try:
            with open(path, "rb") as file:
                whole = file.read()
        except OSError:
            return None
        content = whole[:-CHECKSUM_BYTES]
        right = whole[-CHECKSUM_BYTES:] == self._checksum(content, belongs_to)
        return content if right else None

    def _write(self, path: str, content: bytes, belongs_to: str) -> None:
        with self._open_for_write(path) as file:
            file.write(content + self._checksum(content, belongs_to))

    def _checksum(self, content: bytes, belongs_to: str) -> bytes:
        # not imported, because the package is above this module
        ours = sys.modules["attnscope"].__version__
        facts = (ours, self._version, self._source_stamp, belongs_to)
        return sha256(repr(facts).encode() + content).digest()


def report_unwritable(why: str) -> None:
    """Say once that compiled code cannot be stored."""
    if reported_reasons:
        return
    reported_reasons.append(" ".join(why.split()))
    logging.getLogger("attnscope").warning(
        "attnscope compiles its functions again in every process, because their code cannot be "
        "stored (%s); try NUMBA_CACHE_DIR with a folder that can be written.",
        reported_reasons[0],
    )
