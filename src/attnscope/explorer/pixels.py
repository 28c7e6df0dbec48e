"""A small grey picture as a data URI, for pages that fetch nothing: PNG, 8 bits a pixel, one row after another.

A PNG file is a signature and chunks (length, name, data, CRC of name and data); every row of pixels begins with the number of its filter, 0 for none.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from typing import Any

import numpy as np

__all__ = ["data_uri"]

GREY = bytes((8, 0, 0, 0, 0))  # bits, colour type, and the only compression, filtering and interlacing there is need of


def data_uri(ink: Any) -> str:
    """`ink` (rows, columns) from 0, white, to 1, black; what lies outside is cut off."""
    dark = np.clip(np.asarray(ink, dtype=np.float64), 0.0, 1.0)
    rows, columns = dark.shape
    grey = np.rint(255 * (1 - dark)).astype(np.uint8)
    lines = np.hstack([np.zeros((rows, 1), dtype=np.uint8), grey]).tobytes()
    chunks = ((b"IHDR", struct.pack(">II", columns, rows) + GREY), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)
    return "data:image/png;base64," + b64encode(png).decode()


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
