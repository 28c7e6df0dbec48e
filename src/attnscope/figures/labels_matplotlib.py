"""Labels beside their lines instead of a legend, where they fit.

A panel with up to MOST_LABELS lines may name each where it is drawn: at its end, else along it, above or
below. A place is taken only if the words cover no data pixel and no other label, stay
within the axes, and lie near their own series and farther from every other one, so that nobody
needs to guess. Where one of them finds no such place the panel keeps its legend.

Pixels decide, as for legends: every series is drawn alone, and sums over rectangles come from
cumulative sums, so that a place costs nothing to try.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure as Canvas

from attnscope.figures.marks import Line

__all__ = ["LABEL_COLORS", "MOST_LABELS", "NamedSeries", "label_directly", "line_path"]

MOST_LABELS = 4  # series of a panel
LABEL_POINTS = 8.0  # points, as in legends
# of the series, made dark enough for words on white (contrast 4.5); none is a colour of a line, so
# that a page may give words another shade on dark paper
LABEL_COLORS = ("#0072B1", "#B84F00", "#007A59", "#A84F80", "#1C7CA8", "#8F6200", "#000000")
# pixels (of 1/100 inch): between a label and its line, kept free around it, and within which the
# own series must be and no other one may be
LABEL_OFFSET = 3.0
FREE_PIXELS = 1.0
NEAR_PIXELS = 6.0
# where along its series a label is tried, from the end to the beginning
LABEL_PLACES = (1.0, 0.97, 0.93, 0.88, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.12, 0.05, 0.0)
Box = tuple[float, float, float, float]  # left, bottom, right, top


@dataclass(frozen=True, eq=False)
class NamedSeries:
    """A series with its name: where it runs (pixels, (n, 2)) and which pixels it draws."""

    label: str
    color: int
    way: np.ndarray
    mask: np.ndarray


def label_directly(
    canvas: Canvas, axes: Any, series: list[NamedSeries], taken: np.ndarray
) -> list[Any] | None:
    """The labels as matplotlib's texts, in the order of `series`, or None where they do not fit.

    taken: all data pixels of the panel (row, column).
    """
    if not all(len(one.way) for one in series):
        return None
    agg: Any = canvas.canvas
    renderer = agg.get_renderer()
    room = axes.get_window_extent()
    inside = (
        room.x0 + FREE_PIXELS,
        room.y0 + FREE_PIXELS,
        room.x1 - FREE_PIXELS,
        room.y1 - FREE_PIXELS,
    )
    texts = [
        axes.text(
            0,
            0,
            one.label.replace("$", r"\$"),
            size=LABEL_POINTS,
            color=_label_colour(one),
            transform=None,
        )
        for one in series
    ]
    sizes = [text.get_window_extent(renderer) for text in texts]
    all_data = _Area(taken)
    others = [_Area(_other_pixels(series, i, taken)) for i in range(len(series))]
    own = [_Area(one.mask) for one in series]
    choices = [
        [
            box
            for box in _boxes(one.way, size.width, size.height)
            if _is_within(box, inside)
            and not all_data.touches(_grown_box(box, FREE_PIXELS))
            and own[i].touches(_grown_box(box, NEAR_PIXELS))
            and not others[i].touches(_grown_box(box, NEAR_PIXELS))
        ]
        for i, (one, size) in enumerate(zip(series, sizes))
    ]
    places = _separate_boxes(choices)
    if places is None:
        for text in texts:
            text.remove()
        return None
    for text, size, (left, bottom, *_) in zip(texts, sizes, places):
        # a text stands on its baseline, its box begins below
        x = (left - size.x0 - room.x0) / room.width
        y = (bottom - size.y0 - room.y0) / room.height
        text.set(transform=axes.transAxes, position=(x, y), in_layout=False)
    return texts


def _label_colour(one: NamedSeries) -> Any:
    """The colour of a label; that of the palette's black is whatever words are written in."""
    color = LABEL_COLORS[one.color % len(LABEL_COLORS)]
    return matplotlib.rcParams["text.color"] if color == LABEL_COLORS[-1] else color


class _Area:
    """How many pixels of a mask lie in a rectangle."""

    def __init__(self, mask: np.ndarray) -> None:
        self.height, self.width = mask.shape
        self.sums = np.zeros((self.height + 1, self.width + 1), dtype=np.int64)
        self.sums[1:, 1:] = np.cumsum(np.cumsum(mask, axis=0), axis=1)

    def touches(self, box: Box) -> bool:
        left = int(np.clip(np.floor(box[0]), 0, self.width))
        right = int(np.clip(np.ceil(box[2]), 0, self.width))
        top = int(np.clip(np.floor(self.height - box[3]), 0, self.height))
        bottom = int(np.clip(np.ceil(self.height - box[1]), 0, self.height))
        s = self.sums
        return bool(s[bottom, right] - s[top, right] - s[bottom, left] + s[top, left])


def _other_pixels(series: list[NamedSeries], i: int, taken: np.ndarray) -> np.ndarray:
    """Pixels of everything but series i."""
    named = [one.mask for j, one in enumerate(series) if j != i]
    return np.any([*named, taken & ~series[i].mask], axis=0)


def _boxes(way: np.ndarray, width: float, height: float) -> list[Box]:
    """Rectangles beside the way, the best place first."""
    out: list[Box] = []
    for x, y in (_point(way, share) for share in LABEL_PLACES):
        for up, back in product((True, False), (1.0, 0.5, 0.0)):
            left = x - back * width
            bottom = y + LABEL_OFFSET if up else y - LABEL_OFFSET - height
            out += [
                (left, bottom + lift, left + width, bottom + lift + height)
                for lift in ((0.0, 2.0) if up else (0.0, -2.0))
            ]
        # beside the end itself
        out.append(
            (x + LABEL_OFFSET, y - height / 2, x + LABEL_OFFSET + width, y + height / 2)
        )
    return out


def _point(way: np.ndarray, share: float) -> tuple[float, float]:
    """The point of a way at a share of its width, from left to right."""
    order = np.argsort(way[:, 0], kind="stable")
    x, y = way[order].T
    at = x[0] + share * (x[-1] - x[0])
    return float(at), float(np.interp(at, x, y))


def _separate_boxes(choices: list[list[Box]]) -> list[Box] | None:
    """One box of each list, no two of which meet; the first found when the series take turns."""
    for order in permutations(range(len(choices))):
        chosen: dict[int, Box] = {}
        for i in order:
            free = (
                b for b in choices[i] if not any(_boxes_meet(b, c) for c in chosen.values())
            )
            box = next(free, None)
            if box is None:
                break
            chosen[i] = box
        else:
            return [chosen[i] for i in range(len(choices))]
    return None


def _boxes_meet(a: Box, b: Box) -> bool:
    a = _grown_box(a, FREE_PIXELS)
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _grown_box(box: Box, by: float) -> Box:
    return box[0] - by, box[1] - by, box[2] + by, box[3] + by


def _is_within(box: Box, outer: Box) -> bool:
    return (
        box[0] >= outer[0]
        and box[1] >= outer[1]
        and box[2] <= outer[2]
        and box[3] <= outer[3]
    )


def line_path(axes: Any, mark: Line) -> np.ndarray:
    """Where a mark runs within its axes, in pixels (n, 2)."""
    at = np.column_stack([mark.x, mark.y])
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = axes.transData.transform(at[np.isfinite(at).all(axis=1)])
    room = axes.get_window_extent()
    seen = seen[np.isfinite(seen).all(axis=1)]
    low = (seen >= np.array([room.x0, room.y0]) - 0.5).all(axis=1)
    high = (seen <= np.array([room.x1, room.y1]) + 0.5).all(axis=1)
    return np.asarray(seen[low & high])
