"""Datasets of an HDF5 file that are in the file itself.

An HDF5 file can name other files of the machine: by an external link, as a source of a virtual
dataset, as the place of a dataset's raw numbers. Whoever sends such a file would choose what is
read, so each is refused. A soft link leads to a path of the same file and is followed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnscope.errors import AttnscopeError, listed

__all__ = ["own_object"]

MAX_SOFT_LINKS = 16  # on the way to one object; more is a loop


def own_object(file: Any, name: str, path: Path, links_left: int = MAX_SOFT_LINKS) -> Any:
    """The dataset or group of this name, or None; refused if it would be read from another file.

    Args:
        file: the open file, or a group of it.
        name: names of groups and of the dataset, separated by slashes.
        path: of the file, for the error.
    """
    import h5py

    here = file
    for part in name.split("/"):
        if part in ("", "."):
            continue
        link = here.get(part, getlink=True) if isinstance(here, h5py.Group) else None
        if link is None:
            return None
        if isinstance(link, h5py.ExternalLink):
            raise _other_file(name, path, "an external link", link.filename)
        if isinstance(link, h5py.SoftLink):
            if links_left == 0:
                raise AttnscopeError(
                    f"{listed([name])} of {path} must be a dataset, got links in a circle."
                )
            start = here.file if link.path.startswith("/") else here
            here = own_object(start, link.path, path, links_left - 1)
        else:
            here = here[part]
    if isinstance(here, h5py.Dataset):
        if here.is_virtual:
            sources = [source.file_name for source in here.virtual_sources()]
            raise _other_file(name, path, "a virtual dataset", *sources)
        if here.external:
            sources = [source[0] for source in here.external]
            raise _other_file(name, path, "external raw storage", *sources)
    return here


def _other_file(name: str, path: Path, what: str, *others: str) -> AttnscopeError:
    return AttnscopeError(
        f"{listed([name])} of {path} must be in that file itself, got {what} to {listed(others)}; try "
        "a copy of the dataset (h5py: new[name] = old[name][()])."
    )
