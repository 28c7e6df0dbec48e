"""A parameter study as a TOML file: which function, over which grid, drawn how.

    title = "Best inverse temperature over dimension and length"
    function = "optimal_inverse_temperature"      # of studies/functions.py, or
    "package.module:function" seed = 0

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
    value = "optimal_inverse_temperature"

The engine that runs it (grid, content key, crash-safe store, processes, Dask) is the package sweeps/;
nothing here knows how cells are executed.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnscope.deprecated import new_study
from attnscope.errors import AttnscopeError, bad
from attnscope.figures.figure import Figure
from attnscope.plugins import import_named
from attnscope.studies.functions import FUNCTIONS, check_cell
from attnscope.studies.study_figure import check_figure, draw
from attnscope.sweeps import run as engine
from attnscope.sweeps.grid import Product, check_fits, expand
from attnscope.sweeps.source import code_version
from attnscope.theory.task_and_predictor import modules_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Study", "load_study"]

# cells that are each checked before anything runs, in a second or two; of larger products the
# values are, one axis at a time
CHECKED_CELLS = 20_000
# bytes of a study file: a list of 10^6 numbers, written out, has some 10 MB
FILE_BYTES = 2**24
# values of one axis: a million cells are a day's work at 0.1 s each
MOST_AXIS_VALUES = 10**7
STUDY_KEYS = {"title", "function", "seed", "grid", "fixed", "figure"}
RANGE_KEYS = {"from", "to", "count", "scale", "whole"}


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
        accept_code: bool = False,
    ) -> engine.Report:
        """Compute what the store does not hold yet."""
        return engine.run(
            self.function,
            self.cells,
            store,
            workers,
            scheduler,
            accept_code=accept_code,
            timeout=timeout,
            **self._options(progress),
        )

    def status(self, store: str | os.PathLike[str], progress: bool = False) -> engine.Status:
        return engine.status(self.function, self.cells, store, **self._options(progress))

    def dry_run(self, store: str | os.PathLike[str], progress: bool = False) -> engine.Plan:
        return engine.dry_run(self.function, self.cells, store, **self._options(progress))

    def _options(self, progress: bool) -> dict[str, Any]:
        return {"seed": self.seed, "version": self.version(), "progress": progress}

    def version(self) -> str:
        """The source of the modules that your own names refer to ("module:word"):
        edited, their cells are computed anew.
        """
        named = modules_of(
            *(
                cell.get(name, "")
                for cell in _one_axis_cells(self.cells)
                for name in ("task", "predictor")
            )
        )
        return code_version(named) if named and self.function in FUNCTIONS.values() else ""

    def draw(self, frame: pd.DataFrame) -> Figure | None:
        """The figure the file asks for, from the rows of a finished sweep;
        None if it asks for none.
        """
        return draw(self.title, frame, self.figure)


def load_study(path: str | os.PathLike[str]) -> Study:
    """Read and check a study file; every mistake is one sentence, before anything runs."""
    of = str(path)
    data = _read_toml(path)
    _check_keys(data, STUDY_KEYS, of)
    data = new_study(data, FUNCTIONS, of)
    grid, fixed, figure = (_table(data, name, of) for name in ("grid", "fixed", "figure"))
    check_figure(figure, of)
    function = _function(data.get("function"), of)
    axes = {name: _axis(values, name, of) for name, values in grid.items()}
    both = sorted(set(axes) & set(fixed))
    if both:
        raise bad("[fixed]", of, "parameters that [grid] does not have", ", ".join(both))
    cells = expand(axes | {name: [value] for name, value in fixed.items()})
    check_fits(function, cells)
    for cell in cells if len(cells) <= CHECKED_CELLS else _one_axis_cells(cells):
        check_cell(function, cell)
    seed = data.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise bad("seed", of, "an integer >= 0", seed)
    title = data.get("title", Path(path).stem)
    if not isinstance(title, str):
        raise bad("title", of, "text", title)
    return Study(Path(path).stem, title, function, cells, seed, figure)


def _read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    of = f"the study file {path}"
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_BYTES + 1)  # not to the end: /dev/zero has none
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        words = getattr(error, "strerror", None) or error
        raise AttnscopeError(
            f"{of} must be readable, got {words}; try its full path."
        ) from None
    if len(content) > FILE_BYTES:
        raise AttnscopeError(
            f"{of} must be a text of at most {FILE_BYTES} bytes, got more; try ranges in [grid]."
        )
    try:
        return tomllib.loads(content.decode("utf-8"))
    except RecursionError:
        raise AttnscopeError(f"{of} must be valid TOML, got lists within lists.") from None
    except ValueError as error:  # of TOML, of UTF-8, of a number with thousands of digits
        words = " ".join(str(error).split())
        raise AttnscopeError(f"{of} must be valid TOML in UTF-8, got: {words}.") from None


def _one_axis_cells(cells: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of a product: cells in which every value of every axis occurs once, the others at their
    first. Else all.
    """
    if not isinstance(cells, Product):
        yield from cells
        return
    for name, values in cells.axes.items():
        yield from (cells[0] | {name: value} for value in values)


def _check_keys(table: dict[str, Any], known: set[str], of: str) -> None:
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
        return getattr(import_named(module), attribute)
    except (ImportError, AttributeError) as error:
        hint = "python -m pip install -e . of your own package"
        raise bad("function", of, "importable", f"{name} ({error})", hint) from None


def _axis(values: Any, name: str, of: str) -> list[Any]:
    """A list unchanged, a single value as a list of one, or a range {from, to, count, scale,
    whole}.
    """
    if not isinstance(values, dict):
        return values if isinstance(values, list) else [values]
    _check_keys(values, RANGE_KEYS, f"{of}, [grid] {name}")
    try:
        low = float(values["from"])
        high = float(values["to"])
        count = int(values["count"])
    except (KeyError, TypeError, ValueError, OverflowError):
        must = "a list, or a range with numbers from, to and count"
        raise bad(f"[grid] {name}", of, must, values) from None
    scale = values.get("scale", "linear")
    if (
        scale not in ("linear", "log")
        or not np.isfinite([low, high, high - low]).all()
        or not 1 <= count <= MOST_AXIS_VALUES
        or (scale == "log" and min(low, high) <= 0)
    ):
        must = (
            f"a range with finite ends, count from 1 to {MOST_AXIS_VALUES} and scale 'linear' or 'log' "
            "(ends > 0)"
        )
        raise bad(f"[grid] {name}", of, must, values)
    points = (
        np.geomspace(low, high, count) if scale == "log" else np.linspace(low, high, count)
    )
    return (
        [int(round(x)) for x in points]
        if values.get("whole")
        else [float(f"{x:.12g}") for x in points]
    )
