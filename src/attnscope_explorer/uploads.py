"""Files that a user hands to the page: size-limited, never unpickled, kept in a temporary folder of
this process and nowhere else.

An upload is known by a number, the first 31 bits of a hash of its name and contents; that number is
part of the address, so a link reopens it while this server runs. The last few are kept; the folder
goes when the process does.
"""

from __future__ import annotations

import atexit
import base64
import binascii
import hashlib
import shutil
import tempfile
import zipfile
from collections import OrderedDict
from pathlib import Path, PurePath

from attnscope.errors import AttnscopeError
from attnscope.estimators.bags.table_columns import Columns
from attnscope.estimators.bags.tables import read_table
from attnscope.files import whole_file

__all__ = ["UPLOAD_BYTES", "keep_upload", "upload_path"]

# bytes: half a million tokens of a few numbers each, and a fit that one can wait for
UPLOAD_BYTES = 16_000_000
MOST_NUMBERS = 4_000_000  # tokens times features, 32 MB in memory
KEPT_UPLOADS = 6

_uploads: OrderedDict[int, Path] = OrderedDict()
_folder: list[str] = []


def keep_upload(name: str, contents: str) -> int:
    """Check and keep an upload as the browser sends it, "data:...;base64,...";
    returns its number.
    """
    name = PurePath(name.replace("\\", "/")).name[:80] or "bags.npz"
    suffix = PurePath(name).suffix
    if suffix not in (".npz", ".csv"):
        raise AttnscopeError(f"the file must be an .npz or a .csv, got {name!r}.")
    if len(contents) > UPLOAD_BYTES * 4 // 3 + 200:
        raise AttnscopeError(
            f"the file must have at most {UPLOAD_BYTES // 1_000_000} MB, got a larger one; try "
            "attnscope fit."
        )
    try:
        content = base64.b64decode(contents.partition(",")[2], validate=True)
    except (binascii.Error, ValueError):
        raise AttnscopeError(f"the file {name!r} did not arrive whole; try again.") from None
    number = (
        int.from_bytes(hashlib.sha256(name.encode() + b"\0" + content).digest()[:4], "big")
        >> 1
        or 1
    )
    path = Path(
        _upload_folder(), f"{number}{suffix}"
    )  # a name of ours: theirs never touches the disk
    with whole_file(path, "the upload", "the file", sync=False) as part:
        part.write_bytes(content)
    try:
        _check_bags(path, name)
    except BaseException as error:
        path.unlink()  # what is not kept leaves nothing behind, whatever ended the check
        if isinstance(error, AttnscopeError):
            raise AttnscopeError(str(error).replace(str(path), name)) from None
        raise
    _uploads[number] = path
    _uploads.move_to_end(number)
    while len(_uploads) > KEPT_UPLOADS:
        _uploads.popitem(last=False)[1].unlink(missing_ok=True)
    return number


def upload_path(number: int) -> Path:
    if number not in _uploads:
        raise AttnscopeError(
            "Choose an .npz or .csv file of bags first."
            if number == 0
            else "This upload is no longer kept; choose the file again."
        )
    return _uploads[number]


def _check_bags(path: Path, name: str) -> None:
    if path.suffix == ".npz":
        _check_unpacked(path, name)
    table = read_table(path, Columns(target="y"))
    if table.bags.tokens.size > MOST_NUMBERS:
        raise AttnscopeError(
            f"{name} must hold at most {MOST_NUMBERS} numbers, got {table.bags.tokens.size}; try "
            "attnscope fit."
        )
    if len(table.bags) < 12:
        raise AttnscopeError(
            f"{name} must hold at least 12 bags, a third of which are held out, got "
            f"{len(table.bags)}."
        )


def _check_unpacked(path: Path, name: str) -> None:
    """A small .npz may unpack to a large one:
    its own list of sizes is read before anything else.
    """
    try:
        with zipfile.ZipFile(path) as file:
            size = sum(member.file_size for member in file.infolist())
    except (zipfile.BadZipFile, OSError):
        raise AttnscopeError(
            f"{name} must be an .npz file of plain arrays, got unreadable contents."
        ) from None
    if size > 8 * MOST_NUMBERS + 1_000_000:
        raise AttnscopeError(
            f"{name} must hold at most {MOST_NUMBERS} numbers, got {size // 1_000_000} MB "
            "unpacked; try attnscope fit."
        )


def _upload_folder() -> str:
    if not _folder:
        _folder.append(tempfile.mkdtemp(prefix="attnscope-explorer-"))
        atexit.register(shutil.rmtree, _folder[0], ignore_errors=True)
    return _folder[0]
