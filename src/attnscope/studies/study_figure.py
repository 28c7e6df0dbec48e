"""The figure that a study file asks for: its check before anything runs, its drawing afterwards.

"heat" shows the mean of `value` over x and y, "line" over x, with one curve per `group`. An axis is
logarithmic as the file says (`log_x`, `log_y`, `log_value`), else where positive values span a
factor of 30.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.figures.figure import Figure, Heat, Line, Panel

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_figure", "draw"]

NEEDED_FIELDS = {"heat": ("x", "y", "value"), "line": ("x", "value")}
COLUMNS = ("x", "y", "value", "group")
FLAGS = ("log_x", "log_y", "log_value")
LOG_AXIS_RATIO = (
    30  # largest over smallest from which an axis is logarithmic: a decade and a half
)


def check_figure(figure: dict[str, Any], of: str) -> None:
    """Refuse a table [figure] that nothing can be drawn from, whatever the results will be."""
    if not figure:
        return
    known = {"kind", *COLUMNS, *FLAGS}
    for name in figure:
        if name not in known:
            raise bad("a name", f"{of}, [figure]", f"one of {', '.join(sorted(known))}", name)
    kind = figure.get("kind")
    needed = NEEDED_FIELDS.get(kind) if isinstance(kind, str) else None
    if needed is None or any(name not in figure for name in needed):
        must = "kind 'heat' with x, y and value, or kind 'line' with x and value"
        raise bad("[figure]", of, must, figure)
    for name in FLAGS:
        if not isinstance(figure.get(name, False), bool):
            raise bad(f"{name} of [figure]", of, "true or false", figure[name])
    named = [figure[name] for name in COLUMNS if name in figure]
    if not all(isinstance(name, str) for name in named) or len(set(named)) < len(named):
        raise bad("[figure]", of, "made of different columns, by name", figure)


def draw(title: str, frame: pd.DataFrame, figure: dict[str, Any]) -> Figure | None:
    """The figure, from the rows of a finished sweep; None if the file asks for none."""
    if not figure:
        return None
    for name in COLUMNS:
        if name in figure:
            _check_column(frame, figure[name], name)
    panel = _heat(frame, figure) if figure["kind"] == "heat" else _lines(frame, figure)
    return Figure(title, (panel,))


def _check_column(frame: pd.DataFrame, column: str, name: str) -> None:
    """A group may be words; what is drawn along an axis is numbers."""
    if column not in frame:
        must = f"a column of the result ({', '.join(map(str, frame.columns))})"
        raise bad(name, "[figure]", must, column)
    if name == "group":
        return
    try:
        some = np.isfinite(frame[column].to_numpy(float, na_value=np.nan)).any()
    except (TypeError, ValueError):
        raise bad(
            name, "[figure]", "a column of numbers", f"{column}, which has others"
        ) from None
    if not some:
        raise AttnscopeError(
            f"{name} of [figure] must be a column with a number in it, got {column}, which has none."
        )


def _heat(frame: pd.DataFrame, figure: dict[str, Any]) -> Panel:
    x = figure["x"]
    y = figure["y"]
    value = figure["value"]
    table = frame.pivot_table(index=y, columns=x, values=value, aggfunc="mean", observed=True)
    xs = table.columns.to_numpy(float)
    ys = table.index.to_numpy(float)
    heat = Heat(
        xs, ys, table.to_numpy(float), label=value, log_z=bool(figure.get("log_value"))
    )
    return Panel(
        "",
        x,
        y,
        (heat,),
        log_x=_is_log_axis(xs, figure, "log_x"),
        log_y=_is_log_axis(ys, figure, "log_y"),
    )


def _lines(frame: pd.DataFrame, figure: dict[str, Any]) -> Panel:
    x = figure["x"]
    value = figure["value"]
    group = figure.get("group")
    parts = list(frame.groupby(group, observed=True)) if group else [("", frame)]
    marks = []
    for color, (name, part) in enumerate(parts):
        means = part.groupby(x, observed=True)[value].mean()
        marks.append(
            Line(
                means.index.to_numpy(float),
                means.to_numpy(float),
                f"{group} {name}" if group else "",
                color,
            )
        )
    xs = frame[x].to_numpy(float)
    return Panel(
        "",
        x,
        value,
        tuple(marks),
        log_x=_is_log_axis(xs, figure, "log_x"),
        log_y=bool(figure.get("log_value")),
    )


def _is_log_axis(values: np.ndarray, figure: dict[str, Any], name: str) -> bool:
    """Whether an axis is logarithmic."""
    return bool(
        figure.get(name, values.min() > 0 and values.max() > LOG_AXIS_RATIO * values.min())
    )
