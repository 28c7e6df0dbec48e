"""A figure is plain data: panels of marks (marks.py) with labels and scales.

Whoever draws it (render_*.py, a browser) computes nothing. Arrays are float64; the JSON form holds
numbers, text and null (for a gap in a line: NaN and infinity do not exist in JSON); the CSV form is
one row per point, for people who redraw with their own tools.

>>> median = Line([0, 1], [1.0, 0.5], "median")
>>> figure = Figure("a title", (Panel("a panel", "step", "risk", (median,), log_y=True),))
>>> Figure.from_json(figure.to_json()).to_json() == figure.to_json()
True
>>> print(figure.to_csv().splitlines()[1])
a panel,line,median,0,0.0,1.0,,,
"""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.figures.marks import Band, Heat, Line, Mark, Panel, Points, Sheet
from attnscope.optional import installed, needs

__all__ = ["Band", "Figure", "Heat", "Line", "Mark", "Panel", "Points"]

_KINDS: dict[str, type[Any]] = {"line": Line, "band": Band, "points": Points, "heat": Heat}


@dataclass(frozen=True, eq=False)
class Figure(Sheet):
    """Panels in reading order, as plain data that is drawn, written and read back.

    Args:
        title: in words; above all panels.
        panels: of marks.py.
        columns: panels per row.
        meanings: what colour 0, 1, 2, ... stands for in every panel, where one word covers all its
            labels ("prediction", "simulation"; "" for the others): `check` then lets the labels of
            such a colour differ from panel to panel.

    >>> import attnscope as at
    >>> run = at.train(at.SingleLocation(dim=40, length=5), at.Erf(0.1), steps=200, step_size=1e-3)
    >>> figure = run.figure()
    >>> type(figure).__name__, len(figure.panels)
    ('Figure', 8)
    """

    def to_json(self) -> str:
        """The figure as JSON text; the same figure gives the same text."""
        panels = [
            _plain_fields(panel) | {"marks": [_plain_mark(mark) for mark in panel.marks]}
            for panel in self.panels
        ]
        head = {"title": self.title, "columns": self.columns}
        meanings = {"meanings": list(self.meanings)} if self.meanings else {}
        return json.dumps(head | meanings | {"panels": panels}, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Figure:
        """The figure of the text that `to_json` wrote."""
        try:
            data = json.loads(text)
            panels = tuple(_panel(panel) for panel in data["panels"])
            meanings = tuple(data.get("meanings", ()))
            return Figure(data["title"], panels, data["columns"], meanings)
        except (ValueError, KeyError, TypeError) as error:
            raise bad(
                "text",
                "Figure.from_json",
                "what Figure.to_json wrote",
                f"{type(error).__name__}: {error}",
            ) from None

    def to_csv(self) -> str:
        """One row per point: panel, kind, label, color, x, y, low, high, z."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("panel", "kind", "label", "color", "x", "y", "low", "high", "z"))
        for panel in self.panels:
            for mark in panel.marks:
                head = (panel.title, _kind(mark), mark.label, getattr(mark, "color", ""))
                writer.writerows((*head, *row) for row in _rows(mark))
        return out.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Draw it into a file: .svg, .png or .pdf."""
        needs("matplotlib", "Figure.save")
        from attnscope.figures.render_matplotlib import write

        write(self, path)

    def _repr_svg_(self) -> str | None:
        """What a notebook shows; without Matplotlib, the repr."""
        if not installed("matplotlib"):
            return None
        from attnscope.figures.render_matplotlib import svg

        return svg(self)


def _kind(mark: Mark) -> str:
    return next(name for name, kind in _KINDS.items() if type(mark) is kind)


def _plain_fields(thing: Any) -> dict[str, Any]:
    """Fields of a panel or mark as JSON values."""
    return {f.name: _json(getattr(thing, f.name)) for f in fields(thing) if f.name != "marks"}


def _plain_mark(mark: Mark) -> dict[str, Any]:
    """A mark with its kind; a map of numbers has no names."""
    plain = {"kind": _kind(mark)} | _plain_fields(mark)
    if not plain.get("names", True):
        del plain["names"]
    return plain


def _json(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return (
            [_json(row) for row in x]
            if x.ndim > 1
            else [float(v) if np.isfinite(v) else None for v in x]
        )
    return list(x) if isinstance(x, tuple) else x


def _panel(data: dict[str, Any]) -> Panel:
    data = dict(data)
    marks = tuple(_mark(dict(mark)) for mark in data.pop("marks"))
    ranges = {
        name: None if data[name] is None else tuple(data[name])
        for name in ("x_range", "y_range")
    }
    names = {name: tuple(data.get(name, ())) for name in ("x_names", "y_names")}
    return Panel(**{**data, **ranges, **names, "marks": marks})


def _mark(data: dict[str, Any]) -> Mark:
    kind = _KINDS[data.pop("kind")]
    names = {"names": tuple(data.pop("names"))} if "names" in data else {}
    numbers = {name: _numbers(x) if isinstance(x, list) else x for name, x in data.items()}
    return kind(**numbers, **names)


def _numbers(x: list[Any]) -> np.ndarray:
    return np.array(x, dtype=np.float64)  # None becomes NaN


def _rows(mark: Mark) -> list[tuple[Any, ...]]:
    """(x, y, low, high, z) of every point, blank where a mark has no such value."""
    if isinstance(mark, Heat):
        return [
            (float(x), float(y), "", "", float(mark.z[i, j]))
            for i, y in enumerate(mark.y)
            for j, x in enumerate(mark.x)
        ]
    if isinstance(mark, Band):
        return [
            (float(x), "", float(low), float(high), "")
            for x, low, high in zip(mark.x, mark.low, mark.high)
        ]
    if isinstance(mark, Points) and mark.error is not None:
        return [
            (float(x), float(y), float(low), float(high), "")
            for x, y, low, high in zip(mark.x, mark.y, *mark.ends)
        ]
    return [(float(x), float(y), "", "", "") for x, y in zip(mark.x, mark.y)]
