"""What a figure is made of: marks (lines, bands, points, maps), the panels they stand in, and the
sheet of panels that is drawn.

Arrays are float64; a non-finite entry is a gap. `figure` writes them as JSON and CSV, `render_*`
draw them: both stand on this file, and it on neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnscope.errors import bad

__all__ = ["Band", "Heat", "Line", "Mark", "Panel", "Points", "Sheet"]

Range = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Line:
    """y against x, both (n,); a non-finite entry is a gap.

    `color` counts through the palette; `thin` is for one of many.
    """

    x: Any
    y: Any
    label: str = ""
    color: int = 0
    dashed: bool = False
    thin: bool = False

    def __post_init__(self) -> None:
        _to_arrays(self, ("x", "y"))


@dataclass(frozen=True, eq=False)
class Band:
    """The region between low and high over x, all (n,)."""

    x: Any
    low: Any
    high: Any
    label: str = ""
    color: int = 0

    def __post_init__(self) -> None:
        _to_arrays(self, ("x", "low", "high"))


@dataclass(frozen=True, eq=False)
class Points:
    """Markers at (x, y), both (n,); `error` (n,) draws vertical bars y +- error, with `below` (n,)
    from y - below to y + error (an interval that is not symmetric, as of a share near 1).
    """

    x: Any
    y: Any
    label: str = ""
    color: int = 0
    error: Any = None
    below: Any = None

    def __post_init__(self) -> None:
        bars = [name for name in ("error", "below") if getattr(self, name) is not None]
        if bars == ["below"]:
            raise bad("below", "Points", "given together with error", "alone")
        _to_arrays(self, ("x", "y", *bars))

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the bars, the points themselves where there are none."""
        if self.error is None:
            return self.y, self.y
        return self.y - (
            self.error if self.below is None else self.below
        ), self.y + self.error


@dataclass(frozen=True, eq=False)
class Heat:
    """Values z (len(y), len(x)) on a grid, with a colour bar named `label`.

    `names` are words for z = 0, 1, 2, ...: kinds, a colour of the palette each, instead of a scale.
    """

    x: Any
    y: Any
    z: Any
    label: str = ""
    log_z: bool = False
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _to_arrays(self, ("x", "y"))
        z = np.asarray(self.z, dtype=np.float64)
        if z.shape != (len(self.y), len(self.x)):
            raise bad(
                "z", "Heat", f"of shape ({len(self.y)}, {len(self.x)})", f"shape {z.shape}"
            )
        kinds = z[np.isfinite(z)]
        if self.names and not np.isin(kinds, np.arange(len(self.names))).all():
            must = f"places of its {len(self.names)} names, 0, 1, ..."
            raise bad("z", "Heat", must, f"{kinds.min():g} to {kinds.max():g}")
        object.__setattr__(self, "z", z)


Mark = Line | Band | Points | Heat


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes; `x_names` and `y_names` are words for the places 0, 1, 2, ...
    of an axis, instead of numbers.
    """

    title: str
    x_label: str
    y_label: str
    marks: tuple[Mark, ...]
    log_x: bool = False
    log_y: bool = False
    x_range: Range | None = None
    y_range: Range | None = None
    x_names: tuple[str, ...] = ()
    y_names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Sheet:
    """Panels in reading order under one title, `columns` per row; `meanings` of the colours as in
    `Figure`.
    """

    title: str
    panels: tuple[Panel, ...]
    columns: int = 1
    meanings: tuple[str, ...] = ()


def _to_arrays(mark: Any, names: tuple[str, ...]) -> None:
    """Replace the named fields by float64 arrays of one length."""
    arrays = [np.asarray(getattr(mark, name), dtype=np.float64) for name in names]
    if any(a.ndim != 1 for a in arrays) or (
        not isinstance(mark, Heat) and len({a.size for a in arrays}) > 1
    ):
        shapes = ", ".join(f"{name} {a.shape}" for name, a in zip(names, arrays))
        raise bad(
            " and ".join(names),
            type(mark).__name__,
            "one-dimensional and of one length",
            shapes,
        )
    for name, a in zip(names, arrays):
        object.__setattr__(mark, name, a)
