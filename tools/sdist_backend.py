"""setuptools as it is, but for a source archive that has the same bytes whenever it is built.

setuptools writes the clock into the names it makes up and into the header of the compression. Where
SOURCE_DATE_EPOCH is set (reproducible-builds.org), the archive is written anew: members sorted by
name, all of that time and of nobody.
"""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 (the hooks of PEP 517 and 660)

__all__ = ["build_sdist"]


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Hook of PEP 517."""
    name = build_meta.build_sdist(sdist_directory, config_settings)
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is not None:
        write_anew(Path(sdist_directory) / name, int(epoch))
    return name


def write_anew(path: Path, epoch: int) -> None:
    part = path.with_name(f"{path.name}.part")
    with (
        tarfile.open(path) as old,
        open(part, "wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime = epoch
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    part.replace(path)
