"""The risk over two of the five overlaps, for any planted task with a key and a value, and its
figure.

    R(kappa, eta, theta, nu, rho) with two of them on a grid and the others held,

NaN where no unit vectors have these overlaps. Exact where the pair has a route, else on fixed
nodes, the same at every point of the grid, with a standard error each; the stationary points,
projected onto the two axes, are those of `stationary_points`. A projection: a minimum need not lie
where the risk on the plane is smallest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.figures.figure import Figure, Heat, Mark, Panel, Points
from attnscope.numerics.border import validation as check
from attnscope.predictors.attention import Predictor
from attnscope.predictors.inverse_temperature import constant_inverse_temperature
from attnscope.tasks.base import PlantedTask
from attnscope.theory.optima.landscape import stationary_points
from attnscope.theory.optima.stationary import StationaryPoint
from attnscope.theory.overlaps import Overlaps, alignment_of, checked_overlaps, gram
from attnscope.theory.risk import unchecked_risk
from attnscope.theory.route import checked_planted, checked_predictor

__all__ = ["Landscape", "risk_landscape"]

SMALLEST_GRAM_EIGENVALUE = -1e-9  # of unit vectors, up to rounding
NODES_PER_POINT = 1 << 13  # for a pair without a route: a few milliseconds, an error of 1 %
# a risk that varies by more than this factor is coloured by its logarithm
LOG_COLOUR_RATIO = 100.0
MARK_HALF_WIDTH = 0.04  # in overlaps: marks closer than this hide one another
OFF_PLANE_MARK = "*"  # after points outside the plane, whose colour there is not their risk
OVERLAP_LABELS = {"kappa": "k·k*", "eta": "k·v*", "theta": "v·k*", "nu": "v·v*", "rho": "k·v"}


@dataclass(frozen=True, eq=False)
class Landscape:
    """The risk of one head over two overlaps; what `risk_landscape` returns.

    Attributes:
        task, predictor: whose risk it is.
        x, y: the names of the two overlaps.
        axis: (n,), of both axes.
        risk, error: (n, n), rows along y; NaN where no vectors have such overlaps.
        overlaps: what the others are held at.
        points: the stationary ones.
        method: how the risks were computed.

    >>> import attnscope as at
    >>> found = at.risk_landscape(at.SingleLocation(dim=80, length=5), at.Erf(0.2), points=5)
    >>> found.x, found.y, found.axis.tolist()
    ('kappa', 'nu', [-1.0, -0.5, 0.0, 0.5, 1.0])
    """

    task: Any
    predictor: Any
    x: str
    y: str
    axis: np.ndarray
    risk: np.ndarray
    error: np.ndarray
    overlaps: Overlaps
    points: tuple[StationaryPoint, ...]
    method: str

    def figure(self) -> Figure:
        """The risk as colours, with the stationary points by kind."""
        low = float(np.nanmin(self.risk))
        log = low > 0 and float(np.nanmax(self.risk)) > LOG_COLOUR_RATIO * low
        marks: list[Mark] = [Heat(self.axis, self.axis, self.risk, "risk", log_z=log)]
        for color, here in enumerate(self._point_groups()):
            label = ", ".join(self._label_of(p) for p in here)
            a, b = (
                [float(getattr(p.overlaps, name)) for p in here] for name in (self.x, self.y)
            )
            marks.append(Points(a, b, label, color))
        held = ", ".join(
            f"{name} = {getattr(self.overlaps, name):g}"
            for name in OVERLAP_LABELS
            if name not in (self.x, self.y)
        )
        square = (-1.04, 1.04)
        across, up = (f"{name} = {OVERLAP_LABELS[name]}" for name in (self.x, self.y))
        off = any(self._is_off(p) for p in self.points)
        title = f"risk at {held}" + (f" ({OFF_PLANE_MARK} not on this plane)" if off else "")
        panel = Panel(title, across, up, tuple(marks), x_range=square, y_range=square)
        title = f"{type(self.predictor).__name__} on {type(self.task).__name__}"
        return Figure(title, (panel,))

    def _point_groups(self) -> list[list[StationaryPoint]]:
        """Points with the same projection, which share a mark so that none hides another."""
        places: list[list[StationaryPoint]] = []
        for p in self.points:
            at = self._position_of(p)
            near = (
                group
                for group in places
                if np.abs(self._position_of(group[0]) - at).max() < MARK_HALF_WIDTH
            )
            here = next(near, None)
            if here is None:
                places.append([p])
            else:
                here.append(p)
        return places

    def _position_of(self, p: StationaryPoint) -> np.ndarray:
        return np.array([float(getattr(p.overlaps, name)) for name in (self.x, self.y)])

    def _is_off(self, p: StationaryPoint) -> bool:
        """Whether the overlaps that are held have other values at this point."""
        others = [name for name in OVERLAP_LABELS if name not in (self.x, self.y)]
        gaps = (getattr(p.overlaps, n) - getattr(self.overlaps, n) for n in others)
        return max(abs(float(gap)) for gap in gaps) >= MARK_HALF_WIDTH

    def _label_of(self, p: StationaryPoint) -> str:
        return f"{p.name} {p.kind} {p.risk.value:.4g}" + OFF_PLANE_MARK * self._is_off(p)


def risk_landscape(
    task: PlantedTask,
    predictor: Predictor,
    x: str = "kappa",
    y: str = "nu",
    overlaps: Overlaps | None = None,
    points: int = 31,
    samples: int = NODES_PER_POINT,
    starts: int | None = 6,
    seed: int = 0,
) -> Landscape:
    """The risk of one head over two overlaps, with its stationary points; `.figure()` draws it.

    Args:
        task: any planted task with a key and a value: shipped, or your own Planted.
        predictor: one head, at an inverse temperature.
        x, y: which overlaps are the axes: kappa, eta, theta, nu or rho.
        overlaps: what the others are held at; 0 if left out. Those of the axes do not count.
        points: of each axis, from -1 to 1.
        samples: nodes, where the pair has no exact risk.
        starts: random descents of the search for stationary points (`stationary_points`); None
            leaves the search out.
        seed: of the nodes and of the random descents.

    >>> from attnscope.predictors.attention import Erf
    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> found = risk_landscape(SingleLocation(dim=80, length=5), Erf(0.2), points=5)
    >>> found.risk.shape, [p.name for p in found.points], found.method
    ((5, 5), ['oracle', 'swapped', 'degenerate'], 'closed form')
    """
    of = "risk_landscape"
    checked_planted(task, of)
    lam = constant_inverse_temperature(checked_predictor(predictor, of), of)
    for name, word in (("x", x), ("y", y)):
        if word not in OVERLAP_LABELS:
            raise bad(name, of, "one of " + ", ".join(OVERLAP_LABELS), word)
    if x == y:
        raise bad("y", of, "another overlap than x", y)
    held = Overlaps(0.0, 0.0, 0.0, 0.0, 0.0) if overlaps is None else overlaps
    held = Overlaps(
        *(check.real(v, n, of, -1, 1) for v, n in zip(held, OVERLAP_LABELS, strict=True))
    )
    n = check.integer(points, "points", of, 2)
    samples = check.integer(samples, "samples", of, 2)
    seed = check.seed_value(seed, of)
    axis = np.linspace(-1, 1, n)
    plane = _overlap_plane(held, x, y, axis)
    possible = (
        np.linalg.eigvalsh(gram(plane, alignment_of(task)))[..., 0]
        >= SMALLEST_GRAM_EIGENVALUE
    )
    if not possible.any():
        got = ", ".join(f"{name} = {value:g}" for name, value in held._asdict().items())
        raise bad("overlaps", of, "those of some unit vectors on this plane", got)
    risk = np.full((n, n), np.nan)
    error = np.full((n, n), np.nan)
    inside = checked_overlaps(Overlaps(*(v[possible] for v in plane)), task, of)
    found = unchecked_risk(task, predictor, inside, lam, samples=samples, seed=seed)
    risk[possible] = found.value
    error[possible] = found.error
    at = () if starts is None else tuple(stationary_points(task, predictor, starts, seed))
    return Landscape(task, predictor, x, y, axis, risk, error, held, at, found.method)


def _overlap_plane(held: Overlaps, x: str, y: str, axis: np.ndarray) -> Overlaps:
    """(n, n) arrays, x along the rows."""
    a, b = np.meshgrid(axis, axis)
    fixed = {name: np.full(a.shape, value) for name, value in held._asdict().items()}
    return Overlaps(**(fixed | {x: a, y: b}))
