"""Tables of what the plain files cannot compute: log excess risks at the oracle directions.

notation: gam2 = gamma^2, s = signal, d = dim, L = length, lam = inverse temperature; x = the
coordinate in which an axis is interpolated.

    softmax   over (gam2, s, L, lam)      depends on d through s alone: the scores X.k* decide
    sigma     over (gam2, s, L)           the best activation, again through s alone
    bayes     over (gam2, d, L)           with s = sqrt(d/2), the default of the task

Between nodes each axis takes the cubic through the four nearest of them, in x = log gam2, s, sqrt(d),
log L and log lam, in which a log excess bends little. Values are float32. Nothing is extrapolated:
outside its nodes a table has no value, nor where one of those it needs is missing (a quadrature that
refused).

The error is measured when the page is built: at the middle of cells drawn at random, where a cubic
is worst, against the library. What is stated is ERROR_MARGIN times the largest found, separately by how
small the excess is (EXCESS_BANDS).
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import attnscope as at
from attnscope.progress import Bar, progress

__all__ = [
    "EXCESS_BANDS",
    "TABLE_AXES",
    "Axis",
    "Table",
    "interpolated_log_excess",
    "make_tables",
]

ERROR_MARGIN = (
    2.0  # the stated error over the largest measured one: cells that were not drawn
)
MEASURED_CELLS = 200  # cells at whose middles a table is compared with the library
CELL_SEED = 21  # of these cells
# Lower ends of log excess, each with an error of its own: excess above 1e-3, 1e-10, 1e-40, and what
# the picture does not show
EXCESS_BANDS = (-6.9, -23.0, -92.0, -np.inf)
SCALES: dict[str, Callable[[Any], Any]] = {
    "log": np.log,
    "root": np.sqrt,
    "plain": np.asarray,
}


@dataclass(frozen=True)
class Axis:
    """A knob, its nodes, and the coordinate (a word of SCALES) in which they are interpolated."""

    knob: str
    nodes: tuple[float, ...]
    scale: str
    whole: bool = False


@dataclass(frozen=True, eq=False)
class Table:
    """Log excess at the nodes (NaN where refused), and (lower end of log excess, error) by band."""

    name: str
    axes: tuple[Axis, ...]
    values: np.ndarray
    errors: tuple[tuple[float, float], ...] = ()
    measured: int = 0

    def record(self) -> dict[str, Any]:
        """Plain data; values are little-endian float32 in base64, the last axis fastest."""
        packed = base64.b64encode(self.values.astype("<f4").tobytes()).decode("ascii")
        axes = [{"knob": a.knob, "nodes": list(a.nodes), "scale": a.scale} for a in self.axes]
        errors = [
            [max(low, -1e9), error] for low, error in self.errors
        ]  # JSON has no infinity
        return {"axes": axes, "values": packed, "errors": errors, "measured": self.measured}


# Nodes include the defaults and what the tours show (d = 8, 20, 50, 100, 400: s = sqrt(d/2)), so that
# these are read between inverse temperatures alone
GAMMA2_NODES = (0.1, 0.13, 0.16, 0.2, 0.25, 0.32, 0.4, 0.5, 0.6, 0.72, 0.86, 1.0)
SIGNAL_NODES = (1.5, 2.0, 2.5, 3.0, 3.6, 4.2, 5.0, 6.0, 7.5, 9.0, 10.5, 12.5, 16.5)
TOUR_SIGNALS = tuple(math.sqrt(d / 2) for d in (20, 100, 400))
SIGNAL_AXIS = Axis("signal", tuple(sorted({*SIGNAL_NODES, *TOUR_SIGNALS})), "plain")
LENGTH_NODES = (2, 3, 4, 5, 7, 10, 15, 22, 33, 50, 70, 100, 150, 250, 500, 1000)
DIM_NODES = (5, 6, 8, 10, 14, 20, 28, 38, 50, 70, 100, 140, 200, 280, 400, 450)
INVERSE_TEMPERATURE_NODES = tuple(np.geomspace(1e-3, 1e2, 51).tolist())
TABLE_AXES: dict[str, tuple[Axis, ...]] = {
    "softmax": (
        Axis("gamma2", (0.1, 0.14, 0.2, 0.3, 0.5, 0.7, 1.0), "log"),
        SIGNAL_AXIS,
        Axis("length", (2, 3, 5, 10, 20, 45, 100, 300, 1000), "log", whole=True),
        Axis("inverse_temperature", INVERSE_TEMPERATURE_NODES, "log"),
    ),
    "sigma": (
        Axis("gamma2", GAMMA2_NODES, "log"),
        SIGNAL_AXIS,
        Axis("length", LENGTH_NODES, "log", whole=True),
    ),
    "bayes": (
        Axis("gamma2", GAMMA2_NODES, "log"),
        Axis("dim", DIM_NODES, "root", whole=True),
        Axis("length", (2, 3, 5, 10, 18, 35, 60, 100, 200, 450, 1000), "log", whole=True),
    ),
}


def make_tables(nodes: dict[str, tuple[Axis, ...]] = TABLE_AXES) -> dict[str, Table]:
    """Every table with its measured errors; about a minute."""
    total = sum(int(np.prod([len(a.nodes) for a in axes])) for axes in nodes.values())
    with progress(total, "tables") as bar:
        return {
            name: _with_errors(_exact_table(name, axes, bar)) for name, axes in nodes.items()
        }


def interpolated_log_excess(table: Table, place: Sequence[float]) -> float:
    """The table's log excess at a place, one number per axis; NaN where it has none.

    The page's tables.js does the same, and a test compares them.
    """
    values = table.values.astype(np.float32).astype(np.float64)
    for axis, at_knob in zip(table.axes, place):
        if not axis.nodes[0] <= at_knob <= axis.nodes[-1]:
            return float("nan")
        scale = SCALES[axis.scale]
        first, weights = _cubic_weights(
            scale(np.array(axis.nodes, float)), float(scale(at_knob))
        )
        values = np.tensordot(weights, values[first : first + len(weights)], 1)
    return float(values)


def _cubic_weights(nodes: np.ndarray, x: float) -> tuple[int, np.ndarray]:
    """(first node, weights) of the polynomial through the four nodes around x, or through all."""
    cell = int(np.clip(np.searchsorted(nodes, x) - 1, 0, max(len(nodes) - 2, 0)))
    first = int(np.clip(cell - 1, 0, max(len(nodes) - 4, 0)))
    near = nodes[first : first + 4]
    weights = [
        np.prod([(x - b) / (a - b) for j, b in enumerate(near) if j != i])
        for i, a in enumerate(near)
    ]
    return first, np.array(weights)


def _exact_table(name: str, axes: tuple[Axis, ...], bar: Bar) -> Table:
    values = np.empty([len(axis.nodes) for axis in axes])
    for index in itertools.product(*(range(n) for n in values.shape)):
        values[index] = _exact_log_excess(
            name, [axis.nodes[i] for axis, i in zip(axes, index)]
        )
        bar.advance()
    return Table(name, axes, values)


def _exact_log_excess(name: str, place: Sequence[float]) -> float:
    """The library's log excess; NaN where its quadrature refuses."""
    oracle = at.Overlaps.oracle()
    gamma2, size, length, *rest = place
    task = (
        at.SingleLocation(dim=int(size), length=int(length), gamma=gamma2**0.5)
        if name == "bayes"
        else at.SingleLocation(dim=4, length=int(length), gamma=gamma2**0.5, signal=size)
    )
    try:
        if name == "bayes":
            found = task.bayes_risk()
        else:
            head = at.Softmax(rest[0]) if name == "softmax" else at.optimal_sigma(task)
            found = at.risk(task, head, oracle)
    except at.AttnscopeError:
        return float("nan")
    log_excess = found.log_excess
    return float("nan") if log_excess is None else float(log_excess)


def _with_errors(table: Table) -> Table:
    """The table with the errors found at the middles of cells."""
    rng = np.random.default_rng(CELL_SEED)
    worst = dict.fromkeys(EXCESS_BANDS, 0.0)
    count = 0
    for _ in range(MEASURED_CELLS):
        place = [_cell_middle(axis, rng) for axis in table.axes]
        exact, near = (
            _exact_log_excess(table.name, place),
            interpolated_log_excess(table, place),
        )
        if np.isfinite(exact) and np.isfinite(near):
            band = next(low for low in EXCESS_BANDS if exact >= low)
            worst[band] = max(worst[band], abs(near - exact))
            count += 1
    largest = np.maximum.accumulate(
        [worst[low] for low in EXCESS_BANDS]
    )  # a deeper band is no better
    errors = tuple(
        (low, float(ERROR_MARGIN * error)) for low, error in zip(EXCESS_BANDS, largest)
    )
    return Table(table.name, table.axes, table.values, errors, count)


def _cell_middle(axis: Axis, rng: np.random.Generator) -> float:
    if len(axis.nodes) == 1:
        return axis.nodes[0]
    i = int(rng.integers(len(axis.nodes) - 1))
    middle = (axis.nodes[i] * axis.nodes[i + 1]) ** 0.5
    return float(round(middle)) if axis.whole else middle
