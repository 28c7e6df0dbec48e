"""Read arrays from untrusted .npz files, or explain why a file cannot be read.

The header of a member gives shape and type before its numbers are read. Together with the sizes in
the archive's directory it shows how much memory the file needs, so a file that declares more than it
holds, or more than fits, is rejected before any array is allocated. Nothing is ever unpickled.
"""

from __future__ import annotations

import math
import os
import zipfile
from typing import IO, Any, NamedTuple

import numpy as np

__all__ = ["Header", "Unreadable", "array_headers", "memory", "parser_words", "read_arrays"]

MEMORY_DIVISOR = 8  # the arrays of one file may take an eighth of the memory: working with them takes the rest
PARSER_MESSAGE_CHARS = 120  # characters of a parser's own message


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
            _check_size_and_headers(source)
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
                header = _read_header(file)
            size = math.prod(header.shape) * header.dtype.itemsize
            if min(header.shape, default=0) < 0 or size > info.file_size:
                raise Unreadable(f"{info.filename[:40]}, which promises more than it holds")
            found[info.filename.removesuffix(".npy")] = header
    return found


def _read_header(file: IO[bytes]) -> Header:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    if dtype.hasobject:
        raise Unreadable("arrays of Python objects, which are never unpickled")
    return Header(shape, dtype)


def _check_size_and_headers(source: IO[bytes]) -> None:
    with zipfile.ZipFile(source) as archive:
        size = sum(info.file_size for info in archive.infolist())
    if size > memory() / MEMORY_DIVISOR:
        raise Unreadable(f"{size / 2**30:.1f} GiB of arrays, more than fits into memory")
    array_headers(source)


def _refuse_endless(source: IO[bytes]) -> None:
    if not source.seekable():
        raise Unreadable("something that is no file")


def parser_words(error: Exception) -> str:
    """What a parser says, in one short line."""
    words = " ".join(str(error).split())[:PARSER_MESSAGE_CHARS].rstrip(".")
    if "pickle" in words or "Python objects" in words:
        return "arrays of Python objects, which are never unpickled"
    return words or type(error).__name__
