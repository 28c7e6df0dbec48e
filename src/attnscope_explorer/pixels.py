"""A small grey picture as a data URI, for pages that fetch nothing."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

__all__ = ["data_uri"]


def data_uri(ink: Any) -> str:
    """`ink` (rows, columns) from 0, white, to 1, black; what lies outside is cut off.
    PNG, 8 bits a pixel.
    """
    file = BytesIO()
    Image.fromarray(np.rint(255 * (1 - np.clip(ink, 0.0, 1.0))).astype(np.uint8)).save(
        file, "png"
    )
    return "data:image/png;base64," + b64encode(file.getvalue()).decode()
