"""report.zip: the page, the verdicts and the data of the figures in one file to attach.

The same contents give the same bytes: entries in order, without the time of writing.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

__all__ = ["archive"]

# the earliest time that the format knows: no time at all
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
FILE_MODE = 0o644  # of the files taken out


def archive(contents: Mapping[str, str]) -> bytes:
    """The bytes of a zip file with these texts by name.

    >>> archive({"a.txt": "a"}) == archive({"a.txt": "a"})
    True
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name, text in contents.items():
            entry = zipfile.ZipInfo(name, ZIP_TIME)
            entry.create_system = 3  # Unix, wherever it is made
            entry.external_attr = FILE_MODE << 16
            packed.writestr(entry, text.encode(), zipfile.ZIP_DEFLATED)
    return out.getvalue()
