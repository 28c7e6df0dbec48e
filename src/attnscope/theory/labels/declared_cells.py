"""Cells of a label that jets cannot follow: from what its author declares, or from a scan.

notation: x standard normal, t = place + unit x the projection, I the polynomial through the label
at the Gauss-Legendre points of a cell.

The label is asked on a grid of equal steps in x, far finer than the cells, and a cell is cut where
it differs from I at a point of the grid; kinks that the author declares are ends of cells.

    declared   `scale` is the width in t of the narrowest feature: steps of a quarter of it meet
               every feature, and nothing else is assumed
    scan       without it, steps of SCAN_STEP: what is wider is met. What is narrower is not, and
               counts as an explicit term of the error (moment_risk.py):
               SCAN_STEP 4 max_x phi(x) (|y| + rms)^2, one feature of twice the label's size

Neither is a bound, and the method of an estimate says which it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError
from attnscope.theory.labels.quadrature import (
    BASE,
    FINEST,
    MOST_CELLS,
    NODES,
    SHARE,
    TOLERANCE,
    Cells,
    Reading,
    called,
    cost_of,
    density,
    first_cells,
    lagrange,
    normal_mass,
    refuse_open,
)

__all__ = ["SCAN_STEP", "declared_cells", "unseen_square"]

SCANNED = 1 << 14  # points of the grid in a base cell
SCAN_STEP = BASE / SCANNED  # standard deviations: about 2^-16
MOST_SCANNED = 1 << 17  # points in a base cell at most: a few seconds for a simple label
# relative: a polynomial through 16 points multiplies rounding by less than this
INTERPOLATED = 256 * 2.0**-52


def declared_cells(reading: Reading, kinks: Any, scale: float | None) -> tuple[Cells, str]:
    """Cells, and "declared" or "scan"."""
    count = SCANNED
    if scale is not None:
        wanted = max(16.0, 4 * BASE * reading.unit / scale)
        count = 1 << int(np.ceil(np.log2(wanted)))
        if count > MOST_SCANNED:
            least = 4 * BASE * reading.unit / MOST_SCANNED
            raise AttnscopeError(
                f"scale of {reading.name} is {scale:.3g}, finer than {least:.2g}, which a scan can "
                "follow; write the label with NumPy functions that jets know, or declare kinks."
            )
    edges = (np.sort(np.asarray(kinks, dtype=np.float64)) - reading.place) / reading.unit
    centre, half, base = _cut_at(*first_cells(), edges)
    done: list[Cells] = []
    kept = 0
    first = True
    square = 0.0
    while True:
        x = centre[:, None] + half[:, None] * NODES
        y = called(reading, x.ravel()).reshape(-1, *x.shape)
        mass = normal_mass(centre, half)
        second = y[0] ** 2 if len(y) == 1 else y[1]
        with np.errstate(all="ignore"):
            each = np.where(mass > 0, mass * np.abs(second).max(1), 0.0)
        if first:
            square = float(each.sum()) / 4
            first = False
        off, top = _distances(reading, centre, half, y, count, each > 1e-12 * square)
        with np.errstate(all="ignore"):
            target = TOLERANCE * max(square, 1e-300)
            cost = cost_of(off, top, square)
            rounding = (off <= INTERPOLATED * top).all(0)
            good = (cost <= target) | (mass * cost <= SHARE * target) | rounding
        stop = good | (
            half <= FINEST * (np.abs(centre) + abs(reading.place / reading.unit) + 1e-3)
        )
        cells = Cells(centre, half, base, off, top)
        done.append(cells.take(stop))
        kept += int(stop.sum())
        if stop.all():
            break
        if kept + 2 * int((~stop).sum()) > MOST_CELLS:
            left = cells.take(~stop)
            refuse_open(reading, left, square)
            done.append(left)
            break
        halves = half[~stop] / 2
        centre = np.concatenate([centre[~stop] - halves, centre[~stop] + halves])
        half = np.concatenate([halves, halves])
        base = np.concatenate([base[~stop]] * 2)
    found = Cells(*(np.concatenate([x[i] for x in done], axis=-1) for i in range(5)))
    return found, "scan" if scale is None else "declared"


def _cut_at(
    centre: np.ndarray, half: np.ndarray, base: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Base cells, cut where the author says that the label has a kink."""
    left, right = centre - half, centre + half
    inside = edges[(edges > left[0]) & (edges < right[-1])]
    ends = np.unique(np.concatenate([left, right[-1:], inside]))
    middle = (ends[1:] + ends[:-1]) / 2
    at = np.clip(np.searchsorted(left, middle, side="right") - 1, 0, len(base) - 1)
    return middle, np.diff(ends) / 2, base[at]


def _distances(
    reading: Reading, centre: np.ndarray, half: np.ndarray, y: np.ndarray, count: int,
    scanned: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(k, n): the largest |y - I| on the grid and between the points, and the largest |y|."""
    size = np.abs(y).max(2)
    # the polynomial through every second point, at the others: for cells with no grid point left
    odd = _through_half()
    off = np.abs(y[:, :, 1::2] - y[:, :, ::2] @ odd).max(2)
    number = np.maximum(np.round(count * half * 2 / BASE).astype(int), 0)
    for n in np.unique(number[scanned & (number >= 8)]):
        which = np.flatnonzero(scanned & (number == n))
        s = (np.arange(n) + 0.5) * 2 / n - 1
        basis = lagrange(s)
        for part in np.array_split(which, max(1, len(which) * n // (1 << 20))):
            x = centre[part, None] + half[part, None] * s
            here = called(reading, x.ravel()).reshape(-1, *x.shape)
            apart = np.abs(here - y[:, part] @ basis.T).max(2)
            off[:, part] = apart
            size[:, part] = np.maximum(size[:, part], np.abs(here).max(2))
    return off, size


def _through_half() -> np.ndarray:
    """(POINTS/2, POINTS/2): from every second node to the others."""
    given, wanted = NODES[::2], NODES[1::2]
    out = np.ones((len(given), len(wanted)))
    for i, node in enumerate(given):
        others = np.delete(given, i)
        out[i] = np.prod((wanted[:, None] - others) / (node - others), axis=1)
    return out


def unseen_square(reading: Reading, points: np.ndarray, rms: float) -> float:
    """4 max_x phi(x) (|y| + rms)^2, per unit of width: what a feature may add that no point met."""
    y = np.abs(called(reading, points.ravel())[0])
    return float(4 * (density(points.ravel()) * (y + rms) ** 2).max())
