"""Where minima can be: three kinds of curves that depend on P alone, not on (w, c).

notation: of loss.py; q = m^2, y = e/P, f = F(e, q).

The loss is -4 (1 - w) F + (a function of e), so that L_m = -8 (1 - w) m F_q. For w < 1 a minimum
with e, m >= 0 lies

    on the arc       y = sin a, m = cos a, 0 <= a <= pi/2,
    on the axis      m = 0, 0 < e < P, or
    on a branch      F_q(e, q) = 0, 0 < q < 1 - y^2, with F_qq < 0: inside, both overlaps non-zero.

At P = 1 F_q > 0 on the whole set: there is no branch, and no minimum but on the arc. A branch is
found by the change of sign of F_q from + to - along q; it ends on the axis, where c_2(e) = 0, or
on the arc: both ends are roots of one variable and are put among its points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from attnscope.theory.positional_semantic.table import (
    Partials,
    Table,
    coefficients,
    partials,
    semantic_table,
)

__all__ = ["ARC_INTERVALS", "AXIS_INTERVALS", "Skeleton", "skeleton"]

ARC_INTERVALS = 1024  # minima closer than 1/650 count as one
AXIS_INTERVALS = 512  # of e, on the axis and on branches
Q_INTERVALS = 64  # of q, each searched for a change of sign
BRANCH_END_GAP = 1e-7  # smallest distance from the end of a branch that can be resolved


@dataclass(frozen=True, eq=False)
class Skeleton:
    """The curves of one P as points with all derivatives there; `kinds` (n,): 0 arc, 1 axis,
    2 and on: branches. Points of a kind are in the order of their parameter.
    """

    table: Table
    e: np.ndarray
    m: np.ndarray
    kinds: np.ndarray
    at: Partials


@lru_cache(maxsize=8)
def skeleton(position: float) -> Skeleton:
    """The curves of one P, cached."""
    table = semantic_table(position)
    angle = np.linspace(0, np.pi / 2, ARC_INTERVALS + 1)
    e = position * np.sin(angle)
    m = np.cos(angle)
    m[-1] = 0.0  # exactly
    axis = np.linspace(0, position, AXIS_INTERVALS + 1)[1:-1]
    curves = [(e, m), (axis, np.zeros_like(axis)), *_branches(table)]
    kinds = np.concatenate([np.full(len(c[0]), i) for i, c in enumerate(curves)])
    all_e = np.concatenate([c[0] for c in curves])
    all_m = np.concatenate([c[1] for c in curves])
    return Skeleton(table, all_e, all_m, kinds, partials(table, all_e, all_m))


def _branches(table: Table) -> list[tuple[np.ndarray, np.ndarray]]:
    """(e, m) along each branch, in the order of e."""
    position = table.position
    grid = np.linspace(0, position, AXIS_INTERVALS + 1)[1:-1]
    ends = np.array([*_axis_ends(table), *_arc_ends(table)])
    e = np.unique(np.concatenate([grid, ends - BRANCH_END_GAP, ends + BRANCH_END_GAP]))
    e = e[(e > 0) & (e < position)]
    top = 1 - (e / position) ** 2
    shares = np.linspace(0, 1, Q_INTERVALS + 1)
    q = top[:, None] * shares
    slope = _slope_in_q(table, e, q)
    crossing = (slope[:, :-1] > 0) & (slope[:, 1:] <= 0)
    found = []
    for rank in range(int(crossing.sum(1).max(initial=0))):
        has = crossing.sum(1) > rank
        order = np.cumsum(crossing, axis=1)
        cell = np.argmax(order == rank + 1, axis=1)
        rows = np.flatnonzero(has)
        low = q[rows, cell[rows]]
        high = q[rows, cell[rows] + 1]
        root = _root_by_bisection(table, e[rows], low, high)
        # one curve for every run of neighbouring rows
        for run in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows) > 1) + 1):
            found.append((e[rows][run], np.sqrt(root[run])))
    return found


def _slope_in_q(table: Table, e: np.ndarray, q: np.ndarray) -> np.ndarray:
    """F_q at rows e (n,) and q (n, l)."""
    c = coefficients(table, e)[0][1:-2]
    total = np.zeros_like(q)
    for n in range(len(c), 0, -1):
        total = total * q + n * c[n - 1][:, None]
    return total


def _root_by_bisection(
    table: Table, e: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """The root of F_q between low and high: bisection, 50 halvings of an interval below 1/64."""
    for _ in range(50):
        middle = (low + high) / 2
        positive = _slope_in_q(table, e, middle[:, None])[:, 0] > 0
        low = np.where(positive, middle, low)
        high = np.where(positive, high, middle)
    return (low + high) / 2


def _axis_ends(table: Table) -> list[float]:
    """e in (0, P) with c_2(e) = 0."""
    return _root_positions(
        lambda e: _slope_in_q(table, e, np.zeros((len(e), 1)))[:, 0], table.position
    )


def _arc_ends(table: Table) -> list[float]:
    """e in (0, P) with F_q = 0 on the arc."""

    def along(e: np.ndarray) -> np.ndarray:
        return _slope_in_q(table, e, (1 - (e / table.position) ** 2)[:, None])[:, 0]

    return _root_positions(along, table.position)


def _root_positions(
    function: Callable[[np.ndarray], np.ndarray], position: float
) -> list[float]:
    grid = np.linspace(0, position, AXIS_INTERVALS + 1)
    seen = function(grid)
    one = lambda x: float(function(np.array([x]))[0])
    return [
        float(brentq(one, grid[i], grid[i + 1], xtol=1e-14))
        for i in np.flatnonzero(np.diff(np.sign(seen)))
    ]
