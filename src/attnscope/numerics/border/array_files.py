"""Arrays from .npz files of strangers: read whole, or refused with a reason in words.

A member's header says shape and type before its numbers are read; together with the sizes in the
archive's directory it shows what a file would take, so that one that promises more than there is,
or more than fits, is refused before anything of its size is made. Nothing is ever unpickled.
"""

from __future__ import annotations

import math
import os
import zipfile
from typing import IO, Any, NamedTuple

import numpy as np

__all__ = ["Header", "Unreadable", "array_headers", "memory", "parser_words", "read_arrays"]

SHARE = (
    8  # of memory that the arrays of one file may take: what is done with them takes the rest
)
SAID = 120  # characters of a parser's own words


class Unreadable(Exception):
    """What is wrong with the file, as the end of a sentence."""


class Header(NamedTuple):
    """Shape and type of an array in an archive, without the array."""

    shape: tuple[int, ...]
    dtype: np.dtype


def memory() -> float:
    """Bytes of memory that the machine has; infinite where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name. Raises Unreadable, or OSError where it cannot be opened."""
    with open(path, "rb") as source:
        _refuse_endless(source)
        try:
            _check(source)
            source.seek(0)
            with np.load(source, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except Unreadable:
            raise
        except MemoryError:
            raise Unreadable("more than fits into memory") from None
        except Exception as error:  # parsers raise what they like
            raise Unreadable(parser_words(error)) from None


def array_headers(source: Any) -> dict[str, Header]:
    """Shape and type of every array of an archive; raises what its parsers raise."""
    found = {}
    with zipfile.ZipFile(source) as archive:
        for info in archive.infolist():
            with archive.open(info) as file:
                header = _header(file)
            size = math.prod(header.shape) * header.dtype.itemsize
            if min(header.shape, default=0) < 0 or size > info.file_size:
                raise Unreadable(f"{info.filename[:40]}, which promises more than it holds")
            found[info.filename.removesuffix(".npy")] = header
    return found


def _header(file: IO[bytes]) -> Header:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    if dtype.hasobject:
        raise Unreadable("arrays of Python objects, which are never unpickled")
    return Header(shape, dtype)


def _check(source: IO[bytes]) -> None:
    with zipfile.ZipFile(source) as archive:
        size = sum(info.file_size for info in archive.infolist())
    if size > memory() / SHARE:
        raise Unreadable(f"{size / 2**30:.1f} GiB of arrays, more than fits into memory")
    array_headers(source)


def _refuse_endless(source: IO[bytes]) -> None:
    if not source.seekable():
        raise Unreadable("something that is no file")


def parser_words(error: Exception) -> str:
    """What a parser says, in one short line."""
    words = " ".join(str(error).split())[:SAID].rstrip(".")
    if "pickle" in words or "Python objects" in words:
        return "arrays of Python objects, which are never unpickled"
    return words or type(error).__name__
