"""Cells of a label that jets cannot enclose: from what its author declares, or from a scan.

notation: x standard normal, t = place + unit x the projection, I the polynomial through the label
at the Gauss-Legendre points of a cell.

The label is evaluated on a grid of equal steps in x, far finer than the cells, and a cell is cut
where the label differs from I at a grid point; kinks that the author declares are ends of cells.

    declared   `scale` is the width in t of the narrowest feature: steps of a quarter of it meet
               every feature, and nothing else is assumed
    scan       without it, steps of SCAN_STEP_SIGMAS: what is wider is met. What is narrower is not, and
               counts as an explicit term of the error (moment_risk.py):
               SCAN_STEP_SIGMAS 4 max_x phi(x) (|y| + rms)^2, one feature of twice the label's size

Neither is a bound; the method of an estimate names which of them was used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError
from attnscope.theory.labels.quadrature import (
    BASE_CELL_SIGMAS,
    CELL_HEFT,
    CELL_NODES,
    Cells,
    Inspected,
    Reading,
    cut_cells,
    density,
    first_cells,
    label_values,
    lagrange_basis,
    normal_mass,
    scanned_square,
)

__all__ = ["SCAN_STEP_SIGMAS", "declared_cells", "unseen_square"]

SCAN_POINTS_PER_CELL = 1 << 14  # points of the grid in a base cell
SCAN_STEP_SIGMAS = BASE_CELL_SIGMAS / SCAN_POINTS_PER_CELL  # standard deviations: about 2^-16
# points in a base cell at most: a few seconds for a simple label
LARGEST_SCAN_POINTS = 1 << 17
# relative: a polynomial through 16 points multiplies rounding by less than this
INTERPOLATION_ROUNDING = 256 * 2.0**-52


def declared_cells(reading: Reading, kinks: Any, scale: float | None) -> tuple[Cells, str]:
    """Cells, and "declared" or "scan"."""
    count = SCAN_POINTS_PER_CELL
    if scale is not None:
        wanted = max(16.0, 4 * BASE_CELL_SIGMAS * reading.unit / scale)
        count = 1 << int(np.ceil(np.log2(wanted)))
        if count > LARGEST_SCAN_POINTS:
            least = 4 * BASE_CELL_SIGMAS * reading.unit / LARGEST_SCAN_POINTS
            raise AttnscopeError(
                f"scale of {reading.name} is {scale:.3g}, finer than {least:.2g}, which a scan can "
                "follow; write the label with NumPy functions that jets know, or declare kinks."
            )
    edges = (np.sort(np.asarray(kinks, dtype=np.float64)) - reading.place) / reading.unit
    first = _cells_cut_at_kinks(*first_cells(), edges)
    square = scanned_square(reading, *first[:2])

    def inspected(centre: np.ndarray, half: np.ndarray) -> Inspected:
        x = centre[:, None] + half[:, None] * CELL_NODES
        y = label_values(reading, x.ravel()).reshape(-1, *x.shape)
        second = y[0] ** 2 if len(y) == 1 else y[1]
        mass = normal_mass(centre, half)
        with np.errstate(all="ignore"):
            here = np.where(mass > 0, mass * np.abs(second).max(1), 0.0)
        off, top = _interpolation_distances(
            reading, centre, half, y, count, here > 1e-12 * square
        )
        return Inspected(off, top, np.zeros(len(centre)))

    found = cut_cells(reading, first, square, inspected, INTERPOLATION_ROUNDING, 2)
    return found, "scan" if scale is None else "declared"


def _cells_cut_at_kinks(
    centre: np.ndarray, half: np.ndarray, base: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Base cells, cut where the author declares a kink of the label."""
    left, right = centre - half, centre + half
    inside = edges[(edges > left[0]) & (edges < right[-1])]
    ends = np.unique(np.concatenate([left, right[-1:], inside]))
    middle = (ends[1:] + ends[:-1]) / 2
    at = np.clip(np.searchsorted(left, middle, side="right") - 1, 0, len(base) - 1)
    return middle, np.diff(ends) / 2, base[at]


def _interpolation_distances(
    reading: Reading, centre: np.ndarray, half: np.ndarray, y: np.ndarray, count: int,
    scanned: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(k, n): the largest |y - I| on the grid and between the points, and the largest |y|."""
    size = np.abs(y).max(2)
    # the polynomial through every second point, at the others: for cells with no grid point left
    even = CELL_NODES[::2]
    heft = 1 / np.prod(even[:, None] - even + np.eye(len(even)), axis=1)
    odd = lagrange_basis(CELL_NODES[1::2], even, heft)
    off = np.abs(y[:, :, 1::2] - y[:, :, ::2] @ odd.T).max(2)
    number = np.maximum(np.round(count * half * 2 / BASE_CELL_SIGMAS).astype(int), 0)
    for n in np.unique(number[scanned & (number >= 8)]):
        which = np.flatnonzero(scanned & (number == n))
        s = (np.arange(n) + 0.5) * 2 / n - 1
        basis = lagrange_basis(s, CELL_NODES, CELL_HEFT)
        for part in np.array_split(which, max(1, len(which) * n // (1 << 20))):
            x = centre[part, None] + half[part, None] * s
            here = label_values(reading, x.ravel()).reshape(-1, *x.shape)
            apart = np.abs(here - y[:, part] @ basis.T).max(2)
            off[:, part] = apart
            size[:, part] = np.maximum(size[:, part], np.abs(here).max(2))
    return off, size


def unseen_square(reading: Reading, points: np.ndarray, rms: float) -> float:
    """4 max_x phi(x) (|y| + rms)^2, per unit of width: what a feature may add that no point met."""
    y = np.abs(label_values(reading, points.ravel())[0])
    return float(4 * (density(points.ravel()) * (y + rms) ** 2).max())
