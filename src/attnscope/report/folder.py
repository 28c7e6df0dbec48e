"""The folder of a report: checked before any work, each file whole or absent (`files.whole_file`):
a run killed at any instant leaves the previous version or the new one. Trouble with the disk is one
sentence.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from attnscope.errors import AttnscopeError, bad
from attnscope.files import is_full, reason, whole_file, writable_folder

__all__ = ["prepare", "replace"]


def prepare(out: str | os.PathLike[str]) -> Path:
    """The folder and its `figures/`, made if need be and found writable."""
    if not isinstance(out, str | os.PathLike) or not os.fspath(out):
        raise bad("out", "reproduce", "the name of a folder", out, 'out="report/"')
    folder = Path(out)
    for place in (folder, folder / "figures"):
        writable_folder(place, partial(_refusal, folder))
    return folder


def replace(path: Path, content: str | bytes) -> None:
    """Write the content as this file, whole or not at all."""
    data = content.encode() if isinstance(content, str) else content
    with whole_file(path, "reproduce", refusal=partial(_refusal, path.parent)) as part:
        part.write_bytes(data)


def _refusal(folder: Path, error: OSError) -> AttnscopeError:
    if is_full(error):
        return AttnscopeError(
            f"out of reproduce must be on a disk with space left, got {folder} ({reason(error)}); "
            "what was written before is kept: free some space and run again."
        )
    got = f"{folder} ({reason(error)})"
    return bad("out", "reproduce", "a folder that can be written", got, "another out=")
