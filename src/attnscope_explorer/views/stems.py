"""A stem for each token: its number on a thin line from zero, with a point at the end."""

from __future__ import annotations

import numpy as np

from attnscope.figures.figure import Line, Mark, Points

__all__ = ["stems"]


def stems(x: np.ndarray, y: np.ndarray, label: str, color: int) -> list[Mark]:
    """The lines of all stems as one with gaps, and the points."""
    zero, gap = np.zeros(len(x)), np.full(len(x), np.nan)
    across, up = (np.stack(ends, axis=-1).ravel() for ends in ((x, x, gap), (zero, y, gap)))
    return [Line(across, up, "", color, thin=True), Points(x, y, label, color)]
