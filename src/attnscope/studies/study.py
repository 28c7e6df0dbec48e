"""A parameter study as a TOML file: which function, over which grid, drawn how.

    title = "Best temperature over dimension and length"
    function = "optimal_temperature"      # of studies/functions.py, or "package.module:function"
    seed = 0

    [grid]                                # every combination is one cell
    dim = { from = 10, to = 1e5, count = 9, scale = "log", whole = true }
    length = [2, 10, 100]

    [fixed]                               # the same in every cell
    gamma2 = 0.5   # task = "multi-location", predictor = "softmax" and their arguments:
        `attnscope tasks`

    [figure]   # "heat" needs x, y and value; "line" needs x and value, and may have one curve per
        `group`
    kind = "heat"
    x = "dim"
    y = "length"
    value = "optimal_temperature"

The engine that runs it (grid, content key, crash-safe store, processes, Dask) is the room sweeps/;
nothing here knows how cells are executed.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.figures.figure import Figure, Heat, Line, Panel
from attnscope.studies.functions import FUNCTIONS, check_cell
from attnscope.sweeps import run as engine
from attnscope.sweeps.grid import Product, check_fits, expand
from attnscope.sweeps.key import code_version
from attnscope.theory.words import modules_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Study", "load_study"]

# cells that are each checked before anything runs, in a second or two; of larger products the
# values are, one axis at a time
CHECKED = 20_000
KEYS = {"title", "function", "seed", "grid", "fixed", "figure"}
RANGE_KEYS = {"from", "to", "count", "scale", "whole"}
FIGURE_KEYS = {"kind", "x", "y", "value", "group", "log_x", "log_y", "log_value"}


@dataclass(frozen=True)
class Study:
    """A checked study, ready to run."""

    name: str
    title: str
    function: Callable[..., Any]
    cells: Sequence[dict[str, Any]]
    seed: int
    figure: dict[str, Any]

    def run(
        self,
        store: str | os.PathLike[str],
        workers: int | None = None,
        scheduler: str | None = None,
        progress: bool = True,
        timeout: float | None = None,
    ) -> engine.Report:
        """Compute what the store does not hold yet."""
        return engine.run(
            self.function,
            self.cells,
            store,
            workers,
            scheduler,
            seed=self.seed,
            version=self.version(),
            timeout=timeout,
            progress=progress,
        )

    def status(self, store: str | os.PathLike[str]) -> engine.Status:
        return engine.status(
            self.function, self.cells, store, seed=self.seed, version=self.version()
        )

    def dry_run(self, store: str | os.PathLike[str]) -> engine.Plan:
        return engine.dry_run(
            self.function, self.cells, store, seed=self.seed, version=self.version()
        )

    def version(self) -> str:
        """The source of the modules that words of yours name ("module:word"):
        edited, their cells are computed anew.
        """
        named = modules_of(
            *(
                cell.get(name, "")
                for cell in _star(self.cells)
                for name in ("task", "predictor")
            )
        )
        return code_version(named) if named and self.function in FUNCTIONS.values() else ""

    def draw(self, frame: pd.DataFrame) -> Figure | None:
        """The figure the file asks for, from the rows of a finished sweep;
        None if it asks for none.
        """
        if not self.figure:
            return None
        for name in ("x", "y", "value", "group"):
            if name in self.figure and self.figure[name] not in frame:
                raise bad(
                    name,
                    "[figure]",
                    f"a column of the result ({', '.join(map(str, frame.columns))})",
                    self.figure[name],
                )
        panel = (
            _heat(frame, self.figure)
            if self.figure["kind"] == "heat"
            else _lines(frame, self.figure)
        )
        return Figure(self.title, (panel,))


def load_study(path: str | os.PathLike[str]) -> Study:
    """Read and check a study file; every mistake is one sentence, before anything runs."""
    of = str(path)
    try:
        data = tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise AttnscopeError(
            f"the study file {of} must be readable, got {error.strerror or error}; try its full "
            "path."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AttnscopeError(
            f"the study file {of} must be valid TOML, got: {error}."
        ) from None
    _known(data, KEYS, of)
    grid, fixed, figure = (_table(data, name, of) for name in ("grid", "fixed", "figure"))
    function = _function(data.get("function"), of)
    axes = {name: _axis(values, name, of) for name, values in grid.items()}
    both = sorted(set(axes) & set(fixed))
    if both:
        raise bad("[fixed]", of, "parameters that [grid] does not have", ", ".join(both))
    cells = expand(axes | {name: [value] for name, value in fixed.items()})
    check_fits(function, cells)
    for cell in cells if len(cells) <= CHECKED else _star(cells):
        check_cell(function, cell)
    seed = data.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise bad("seed", of, "an integer >= 0", seed)
    title = data.get("title", Path(path).stem)
    if not isinstance(title, str):
        raise bad("title", of, "text", title)
    return Study(Path(path).stem, title, function, cells, seed, _checked_figure(figure, of))


def _star(cells: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of a product: cells in which every value of every axis occurs once, the others at their
    first. Else all.
    """
    if not isinstance(cells, Product):
        yield from cells
        return
    for name, values in cells.axes.items():
        yield from (cells[0] | {name: value} for value in values)


def _known(table: dict[str, Any], known: set[str], of: str) -> None:
    for name in table:
        if name not in known:
            raise bad("a name", of, f"one of {', '.join(sorted(known))}", name)


def _table(data: dict[str, Any], name: str, of: str) -> dict[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise bad(f"[{name}]", of, "a table", table)
    return table


def _function(name: Any, of: str) -> Callable[..., Any]:
    if isinstance(name, str) and name in FUNCTIONS:
        return FUNCTIONS[name]
    if not isinstance(name, str) or ":" not in name:
        must = f"one of {', '.join(FUNCTIONS)}, or 'package.module:function'"
        raise bad("function", of, must, "nothing" if name is None else name)
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise bad(
            "function",
            of,
            "importable",
            f"{name} ({error})",
            "python -m pip install -e . of your own package",
        ) from None


def _axis(values: Any, name: str, of: str) -> list[Any]:
    """A list as it is, a single value as a list of one, or a range {from, to, count, scale,
    whole}.
    """
    if not isinstance(values, dict):
        return values if isinstance(values, list) else [values]
    _known(values, RANGE_KEYS, f"{of}, [grid] {name}")
    try:
        low = float(values["from"])
        high = float(values["to"])
        count = int(values["count"])
    except (KeyError, TypeError, ValueError):
        raise bad(
            f"[grid] {name}", of, "a list, or a range with numbers from, to and count", values
        ) from None
    scale = values.get("scale", "linear")
    if (
        scale not in ("linear", "log")
        or count < 1
        or (scale == "log" and min(low, high) <= 0)
    ):
        raise bad(
            f"[grid] {name}",
            of,
            "a range with count >= 1 and scale 'linear' or 'log' (ends > 0)",
            values,
        )
    points = (
        np.geomspace(low, high, count) if scale == "log" else np.linspace(low, high, count)
    )
    return (
        [int(round(x)) for x in points]
        if values.get("whole")
        else [float(f"{x:.12g}") for x in points]
    )


def _checked_figure(figure: dict[str, Any], of: str) -> dict[str, Any]:
    if not figure:
        return figure
    _known(figure, FIGURE_KEYS, f"{of}, [figure]")
    needed = {"heat": ("x", "y", "value"), "line": ("x", "value")}.get(figure.get("kind", ""))
    if needed is None or any(name not in figure for name in needed):
        raise bad(
            "[figure]",
            of,
            "kind 'heat' with x, y and value, or kind 'line' with x and value",
            figure,
        )
    return figure


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
        log_x=_spans(xs, figure, "log_x"),
        log_y=_spans(ys, figure, "log_y"),
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
        log_x=_spans(xs, figure, "log_x"),
        log_y=bool(figure.get("log_value")),
    )


def _spans(values: np.ndarray, figure: dict[str, Any], name: str) -> bool:
    """Whether an axis is logarithmic: as the file says,
    otherwise when positive values span a factor of 30.
    """
    return bool(figure.get(name, values.min() > 0 and values.max() > 30 * values.min()))
