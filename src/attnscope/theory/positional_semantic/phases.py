"""The phase diagram in (w, c): whose minimum is lowest, and which phases are stable at all.

notation: of minima.py; W = 1 - w, V = w A: the loss is constant + 2 h - 4 W f - 4 V g, so on the
skeleton, whose points do not depend on (w, c), all losses of a diagram are one matrix product.

The lowest point of the skeleton is moved to the minimum next to it by Newton's method along its
curve (from 1/650 two steps reach 1e-9), and the phases at the two ends of the arc are decided by
their curvatures, as in minima.py. Borders of stability are straight lines in (W, V):

    semantic stable      W (P^2 f_ee - f_m) + V P^2 g'' < P^2 h''/2     at (0, 1)
    positional stable    W (f_mm - P f_e) - V P g' < -P h'/2  (and L_e <= 0)   at (P, 0),
                         or a minimum inside the axis
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from attnscope.errors import bad
from attnscope.figures.figure import Figure, Heat, Panel
from attnscope.numerics.border import validation as check
from attnscope.tasks.planted.positional_semantic import LARGEST_POSITION
from attnscope.theory.positional_semantic.minima import ARC_END_ANGLE, PHASE_NAMES
from attnscope.theory.positional_semantic.skeleton import (
    ARC_INTERVALS,
    AXIS_INTERVALS,
    Skeleton,
    skeleton,
)
from attnscope.theory.positional_semantic.table import Table, partials

__all__ = ["PositionalPhases", "positional_phases"]

PAIRS_PER_BLOCK = 4096  # pairs (w, c): their losses on the skeleton are 50 MB
ARC_END_INDEX = ARC_INTERVALS  # of (P, 0) on the skeleton: the end of the arc
PHASE_NEWTON_STEPS = 3  # from the nearest point of the skeleton
# names in the figure; at strong mixes a thin wedge has only a mixed minimum
STABLE_PHASES = ("semantic", "positional", "both", "mixed alone")


@dataclass(frozen=True, eq=False)
class PositionalPhases:
    """The lowest minimum over mixes and contrasts: arrays (r, c), a row for each mix.

    Attributes:
        mixes, contrasts: (r,) and (c,).
        position: P, the length of the position vector.
        phase: 0 semantic, 1 positional, 2 mixed.
        e, m, loss: of the lowest minimum.
        semantic_stable: whether (0, 1) is a minimum.
        positional_stable: whether a minimum has m = 0.
        names: words for the phases.

    >>> import attnscope as at
    >>> found = at.positional_phases([0.3, 0.9], [0.5, 2.0])
    >>> found.phase, found.semantic_stable
    (array([[0, 0],
           [0, 1]]), array([[ True,  True],
           [ True, False]]))
    """

    mixes: np.ndarray
    contrasts: np.ndarray
    position: float
    phase: np.ndarray
    e: np.ndarray
    m: np.ndarray
    loss: np.ndarray
    semantic_stable: np.ndarray
    positional_stable: np.ndarray
    names: tuple[str, ...] = PHASE_NAMES

    def figure(self) -> Figure:
        """The overlap m of the lowest minimum, and which of the two phases are stable."""
        both = self.semantic_stable & self.positional_stable
        one = np.where(self.semantic_stable, 0, np.where(self.positional_stable, 1, 3))
        lowest = Panel(
            "meaning: m at the lowest minimum",
            "contrast c",
            "positional share w",
            (Heat(self.contrasts, self.mixes, self.m, "m"),),
        )
        minima = Panel(
            "which minima exist",
            "contrast c",
            "positional share w",
            (
                Heat(
                    self.contrasts,
                    self.mixes,
                    np.where(both, 2, one),
                    "minima",
                    names=STABLE_PHASES,
                ),
            ),
        )
        title = f"Positional or semantic, P = {self.position:g}"
        return Figure(title, (lowest, minima), columns=2)


def positional_phases(mixes: Any, contrasts: Any, position: float = 1.0) -> PositionalPhases:
    """The diagram over mixes and contrasts: which minimum is the lowest, and what is stable.

    Args:
        mixes: (r,), w in [0, 1).
        contrasts: (c,), numbers c.
        position: P in (0, 4], the length of the position vector.

    >>> found = positional_phases([0.3, 0.6, 0.9], [0.5, 1.0, 2.0])
    >>> [[found.names[i] for i in row] for row in found.phase]  # doctest: +NORMALIZE_WHITESPACE
    [['semantic', 'semantic', 'semantic'], ['semantic', 'semantic', 'positional'],
     ['semantic', 'positional', 'positional']]
    """
    of = "positional_phases"
    w = check.array(mixes, "mixes", of, (None,)).astype(np.float64)
    c = check.array(contrasts, "contrasts", of, (None,)).astype(np.float64)
    position = check.real(position, "position", of, 0, LARGEST_POSITION, strict=True)
    if not (w.min() >= 0 and w.max() < 1):
        got = f"{w.min():.6g} to {w.max():.6g}"
        raise bad("mixes", of, "in [0, 1): at 1 the loss does not depend on m", got)
    frame = skeleton(position)
    weight = expit(2 * np.minimum(c**2, 1e4))
    keep = np.repeat(1 - w, len(c))
    other = (w[:, None] * weight).ravel()
    parts = [
        _lowest_minima(frame, keep[i : i + PAIRS_PER_BLOCK], other[i : i + PAIRS_PER_BLOCK])
        for i in range(0, len(keep), PAIRS_PER_BLOCK)
    ]
    found = [np.concatenate(column).reshape(len(w), len(c)) for column in zip(*parts)]
    phase, e, m, varying, semantic, positional = found
    table = frame.table
    a = weight[None, :]
    u = 1 - w[:, None]
    constant = (
        u**2 * table.square + 2 * w[:, None] * u * a * table.mean + (w[:, None] * a) ** 2
    )
    loss = np.maximum(2 * constant + varying, 0.0)
    return PositionalPhases(w, c, position, phase, e, m, loss, semantic, positional)


def _lowest_minima(
    frame: Skeleton, keep: np.ndarray, other: np.ndarray
) -> tuple[np.ndarray, ...]:
    """phase, e, m, loss without its constant, and the two stabilities, for pairs (W, V)."""
    position = frame.table.position
    f = frame.at.f
    g = frame.at.g
    h = frame.at.h
    losses = 2 * h[0] - 4 * (keep[:, None] * f[0] + other[:, None] * g[0])
    at = np.argmin(losses, axis=1)
    last = ARC_END_INDEX  # (P, 0); (0, 1) is the first

    def derivative(row: int, place: int, order: int | None) -> np.ndarray:
        """A derivative of the loss for all pairs: row of f, and the order in e alone."""
        of_e = 0.0 if order is None else 2 * h[order, place] - 4 * other * g[order, place]
        return of_e - 4 * keep * f[row, place]

    semantic = position**2 * derivative(3, 0, 2) - derivative(2, 0, None) > 0
    outward = derivative(1, last, 1)
    positional = (derivative(5, last, None) - position * outward > 0) & (outward <= 0)
    e = frame.e[at]
    m = frame.m[at]
    # where the loss rises towards (P, 0) along the axis, the minimum is before it on the axis
    kind = np.where((at == last) & (outward > 0), 1, frame.kinds[at])
    for which, move in ((0, _along_arc), (1, _along_axis), (2, _interior_minima)):
        rows = np.flatnonzero(kind == which) if which < 2 else np.flatnonzero(kind >= 2)
        if which == 0:
            settled = (semantic & (at == 0)) | (positional & (at == last))
            rows = rows[~settled[rows]]
        if len(rows):
            e[rows], m[rows] = move(frame.table, e[rows], m[rows], keep[rows], other[rows])
    there = partials(frame.table, e, m)
    varying = 2 * there.h[0] - 4 * (keep * there.f[0] + other * there.g[0])
    phase = np.where(m == 0, 1, np.where(e == 0, 0, 2))
    return phase, e, m, varying, semantic, positional | _axis_minimum(frame, keep, other)


def _axis_minimum(frame: Skeleton, keep: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether some point m = 0, e < P is a minimum: L_e rises through 0 where L_mm > 0."""
    axis = np.append(np.flatnonzero(frame.kinds == 1), ARC_END_INDEX)
    f = frame.at.f[:, axis]
    by_e = 2 * frame.at.h[1, axis] - 4 * other[:, None] * frame.at.g[1, axis]
    by_e = by_e - 4 * keep[:, None] * f[1]
    rising = (by_e[:, :-1] < 0) & (by_e[:, 1:] >= 0) & (f[5, :-1] < 0)
    return rising.any(axis=1)


def _loss_derivatives(
    table: Table, e: np.ndarray, m: np.ndarray, keep: np.ndarray, other: np.ndarray
) -> np.ndarray:
    p = partials(table, e, m)
    out = -4 * keep * p.f
    for order, row in enumerate((0, 1, 3)):
        out[row] += 2 * p.h[order] - 4 * other * p.g[order]
    return out


def _along_arc(
    table: Table, e: np.ndarray, m: np.ndarray, keep: np.ndarray, other: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    position = table.position
    angle = np.arctan2(e / position, m)
    spacing = np.pi / 2 / ARC_INTERVALS
    # an end of the arc that is not stable: the minimum is inside the first interval
    angle = np.clip(angle, spacing / 2, np.pi / 2 - spacing / 2)
    low = np.maximum(angle - spacing, ARC_END_ANGLE)
    high = np.minimum(angle + spacing, np.pi / 2 - ARC_END_ANGLE)
    for _ in range(PHASE_NEWTON_STEPS):
        y = np.sin(angle)
        m = np.cos(angle)
        _, l_e, l_m, l_ee, l_em, l_mm = _loss_derivatives(table, position * y, m, keep, other)
        slope = position * m * l_e - y * l_m
        bend = (position * m) ** 2 * l_ee - 2 * position * m * y * l_em + y**2 * l_mm
        bend -= position * y * l_e + m * l_m
        step = np.where(bend > 0, slope / np.where(bend > 0, bend, 1.0), 0.0)
        angle = np.clip(angle - step, low, high)
    return position * np.sin(angle), np.cos(angle)


def _along_axis(
    table: Table, e: np.ndarray, m: np.ndarray, keep: np.ndarray, other: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    start = e
    spacing = table.position / AXIS_INTERVALS
    for _ in range(PHASE_NEWTON_STEPS):
        _, l_e, _, l_ee, _, _ = _loss_derivatives(table, e, m, keep, other)
        step = np.where(l_ee > 0, l_e / np.where(l_ee > 0, l_ee, 1.0), 0.0)
        e = np.clip(e - step, start - spacing, np.minimum(start + spacing, table.position))
    return e, m


def _interior_minima(
    table: Table, e: np.ndarray, m: np.ndarray, keep: np.ndarray, other: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    for _ in range(PHASE_NEWTON_STEPS):
        _, l_e, l_m, l_ee, l_em, l_mm = _loss_derivatives(table, e, m, keep, other)
        determinant = l_ee * l_mm - l_em**2
        good = (determinant > 0) & (l_ee > 0)
        safe = np.where(good, determinant, 1.0)
        to_e = e - np.where(good, (l_mm * l_e - l_em * l_m) / safe, 0.0)
        to_m = m - np.where(good, (l_ee * l_m - l_em * l_e) / safe, 0.0)
        fine = ((to_e / table.position) ** 2 + to_m**2 < 1) & (to_m > 0) & (to_e > 0)
        e = np.where(fine, to_e, e)
        m = np.where(fine, to_m, m)
    return e, m
