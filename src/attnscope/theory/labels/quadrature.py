"""The moments of a label that reads one projection, cell by cell, with a bound.

notation: x standard normal with density phi, t = mean + scale x the projection that is read, y(t)
the label, c a cell of width 2 h, m_c its mass; P = ORDER.

On every cell the label is y = p + r with p a polynomial of degree below P and |r| <= e_c
(taylor_jets.py: e_c = min_k max|c_k|, the Taylor coefficients in units of h, over the whole cell).
Cells are cut until

    e_c (2 max|y| + 2 rms) <= CELL_TOLERANCE E y^2       or  m_c times that is below a share of it,

rms = (E y^2)^(1/2); a jump is cut down to rounding. CELL_POINTS-point Gauss-Legendre sums on the
cells then give E y^2 and E[y l(x)] for smooth l. Since p phi l is a polynomial of low degree times
a Gaussian that varies by e^2 over a cell, what the rule itself misses is below rounding, and

    |error of E y^2|  <= 2 sum_c m_c e_c (2 max_c|y| + e_c),
    |error of E[y l]| <= 2 sum_c m_c e_c max_c|l|.

These are bounds. Where jets cannot follow the label, cells of a given width take their place (the
width that the author declared, or that of a scan; declared_cells.py), and e_c is the largest
distance of the label from its interpolant on a fine grid: an estimate, and named so in the method.

The weights are kept on base cells of width BASE_CELL_SIGMAS: y w is folded onto CELL_POINTS
Gauss-Legendre points p of each base cell by the Lagrange polynomials l_k, so that E[y g] = sum V_k
g(p_k) for every g that a polynomial of degree CELL_POINTS - 1 follows on a base cell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.theory.labels.intervals import Series

__all__ = [
    "BASE_CELL_SIGMAS",
    "CELL_POINTS",
    "LABEL_EDGE_SIGMAS",
    "LabelWeights",
    "Reading",
    "bounded_cells",
    "folded_weights",
]

LABEL_EDGE_SIGMAS = 38.0  # standard deviations: the normal density beyond is below 1e-313
BASE_CELL_COUNT = 334
# width of a base cell, in standard deviations
BASE_CELL_SIGMAS = 2 * LABEL_EDGE_SIGMAS / BASE_CELL_COUNT
CELL_POINTS = 16  # of the Gauss-Legendre rule of a cell
CELL_TOLERANCE = 1e-14  # relative to E y^2: cells are cut until they reach it
# of CELL_TOLERANCE: what a cell may add whatever its mass; there are some 10^4 cells
CELL_TOLERANCE_SHARE = 1e-4
LARGEST_CELL_COUNT = 60_000  # cells of one label: about a second
LARGEST_PIECE_COUNT = 32  # into which a cell is cut in one round
FINEST_CELL = 2.0**-50  # half width, relative to the place: a jump is not placed better
# relative to E y^2: if open cells may hold more, the label is refused
LARGEST_OPEN_ERROR = 1e-5
LARGEST_OUTER_SHARE = 1e-12  # of E y^2: what the outermost standard deviation may hold
# relative error of sums of products: values of the author's function are taken as good to 4 units
LABEL_SUM_ROUNDING = 16 * 2.0**-52
# of E y^2: base cells with less in them are left out of the weights
SMALLEST_CELL_SHARE = 1e-20


class Reading(NamedTuple):
    """A label as a function of one standard normal.

    values: x (n,) -> (k, n): k = 1 the label, k = 2 the means of a label and of its square.
    enclosures: centre, half (n,) -> k Series on these cells; None where jets cannot be used.
    place, unit: t = place + unit x. name: for error messages.
    """

    values: Callable[[np.ndarray], np.ndarray]
    enclosures: Callable[[np.ndarray, np.ndarray], list[Series]] | None
    place: float
    unit: float
    name: str


class LabelWeights(NamedTuple):
    """What a label contributes to a risk; `points`, `weights` (b, CELL_POINTS), `slack` (b,).

    square: E y^2 and its error. E[y g] = sum weights g(points), up to 2 sum slack max|g| over each
    base cell. centres (b,) of the base cells. mean_size: E|y|. cells: how many were needed.
    how: "bound", "declared" or "scan". unseen: what a scan may have missed of E y^2.
    """

    points: np.ndarray
    weights: np.ndarray
    slack: np.ndarray
    centres: np.ndarray
    square: float
    square_error: float
    mean_size: float
    reach: float
    cells: int
    how: str
    unseen: float = 0.0

    @property
    def doubt_per_unit(self) -> float:
        """By how much E[y l] may be off, per unit of l: by the slack, and by what a scan missed."""
        missed = self.unseen / (2 * max(self.square, 1e-300) ** 0.5)
        return 2 * float(self.slack.sum()) + missed


class Cells(NamedTuple):
    """centre, half, base (n,); off, top (k, n): distance from a polynomial, largest value."""

    centre: np.ndarray
    half: np.ndarray
    base: np.ndarray
    off: np.ndarray
    top: np.ndarray

    def take(self, which: np.ndarray) -> Cells:
        return Cells(
            self.centre[which], self.half[which], self.base[which], self.off[:, which],
            self.top[:, which],
        )  # fmt: skip


def normal_mass(centre: np.ndarray, half: np.ndarray) -> np.ndarray:
    """At least the mass of cells: width times the largest density."""
    nearest = np.maximum(np.abs(centre) - half, 0.0)
    return 2 * half * np.exp(-nearest * nearest / 2) / np.sqrt(2 * np.pi)


def _cell_rule() -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.legendre.leggauss(CELL_POINTS)
    return x, w


CELL_NODES, CELL_WEIGHTS = _cell_rule()
# barycentric weights of the Legendre nodes
CELL_HEFT = (-1.0) ** np.arange(CELL_POINTS) * np.sqrt((1 - CELL_NODES**2) * CELL_WEIGHTS)


def first_cells() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centres and half widths of the base cells, and their numbers."""
    edges = np.linspace(-LABEL_EDGE_SIGMAS, LABEL_EDGE_SIGMAS, BASE_CELL_COUNT + 1)
    centre = (edges[1:] + edges[:-1]) / 2
    return centre, np.full(BASE_CELL_COUNT, BASE_CELL_SIGMAS / 2), np.arange(BASE_CELL_COUNT)


def density(x: np.ndarray) -> np.ndarray:
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


# -- jets ------------------------------------------------------------------------------------------


def bounded_cells(reading: Reading) -> Cells:
    """Cells on which the label is a polynomial to CELL_TOLERANCE."""

    def inspected(centre: np.ndarray, half: np.ndarray) -> Inspected:
        found = [_polynomial_distance(x) for x in _cell_enclosures(reading, centre, half)]
        off, top, least = (np.stack([x[i] for x in found]) for i in range(3))
        return Inspected(off, top, least[0] ** 2 if len(least) == 1 else least[1])

    first = first_cells()
    return cut_cells(reading, first, scanned_square(reading, *first[:2]), inspected)


# -- cutting ---------------------------------------------------------------------------------------


class Inspected(NamedTuple):
    """off, top (k, n): distance from a polynomial, largest value; least (n,): y^2 at least."""

    off: np.ndarray
    top: np.ndarray
    least: np.ndarray


def cut_cells(
    reading: Reading, first: tuple[np.ndarray, ...], scanned: float,
    inspected: Callable[[np.ndarray, np.ndarray], Inspected], rounding: float = 0.0,
    largest_pieces: int = LARGEST_PIECE_COUNT,
) -> Cells:  # fmt: skip
    """Cells that are cut until the label is a polynomial to CELL_TOLERANCE on each.

    Args:
        first: centres, half widths and base cells to begin with.
        scanned: E y^2 at least.
        rounding: distance from a polynomial, relative to the largest value, that is rounding.
        largest_pieces: into which a cell is cut in one round.
    """
    centre, half, base = first
    done: list[Cells] = []
    kept = 0
    sure = 0.0  # E y^2 on the cells that are done, at least
    while True:
        off, top, least = inspected(centre, half)
        mass = normal_mass(centre, half)
        with np.errstate(all="ignore"):
            here = mass * least
            square = max(sure + float(np.nansum(here)), scanned)
            target = CELL_TOLERANCE * max(square, 1e-300)
            cost = cost_of(off, top, square)
            good = (cost <= target) | (mass * cost <= CELL_TOLERANCE_SHARE * target)
            good |= ((off == 0) | (off <= rounding * top)).all(0)
        place = np.abs(centre) + abs(reading.place / reading.unit) + 1e-3
        stop = good | (half <= FINEST_CELL * place)
        cells = Cells(centre, half, base, off, top)
        done.append(cells.take(stop))
        kept += int(stop.sum())
        sure += float(here[stop].sum())
        open_ = ~stop
        if not open_.any():
            break
        pieces = _piece_counts(cost[open_] / target, int(open_.sum()), largest_pieces)
        if kept + int(pieces.sum()) > LARGEST_CELL_COUNT:
            left = cells.take(open_)
            refuse_open(reading, left, square)
            done.append(left)
            break
        centre, half, base = _split_cells(centre[open_], half[open_], base[open_], pieces)
    return Cells(*(np.concatenate([x[i] for x in done], axis=-1) for i in range(5)))


def cost_of(off: np.ndarray, top: np.ndarray, square: float) -> np.ndarray:
    """What the distance from a polynomial moves E y^2 - 2 E[y g] by, g of the label's size."""
    rms = np.sqrt(square)
    if len(off) == 1:
        return np.asarray(off[0] * (2 * top[0] + 2 * rms + off[0]))
    return np.asarray(off[1] + 2 * rms * off[0])


def _cell_enclosures(reading: Reading, centre: np.ndarray, half: np.ndarray) -> list[Series]:
    """Enclosures on all cells, computed in pieces so that the jets fit in a few MB."""
    assert reading.enclosures is not None
    size = 2048
    parts = [
        reading.enclosures(centre[i : i + size], half[i : i + size])
        for i in range(0, len(centre), size)
    ]
    if len(parts) == 1:
        return parts[0]
    joined = []
    for each in zip(*parts):
        orders = max(len(x.mid) for x in each)
        long = [x.longer(orders) for x in each]
        mid, rad = (np.concatenate([x[i] for x in long], axis=1) for i in (0, 1))
        joined.append(Series(mid, rad))
    return joined


def _polynomial_distance(found: Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distance from a polynomial of degree below CELL_POINTS, largest and least size of the value."""
    largest = found.largest
    off = found.rad[0]
    if len(largest) > 1:
        off = np.minimum(off, largest[1:].min(0)) if len(largest) > CELL_POINTS else 0 * off
    with np.errstate(all="ignore"):
        least = np.maximum(np.abs(found.mid[0]) - found.rad[0], 0.0)
    return off, largest[0], np.where(np.isfinite(least), least, 0.0)


def _piece_counts(ratio: np.ndarray, count: int, largest: int) -> np.ndarray:
    """(n,) into how many pieces each cell is cut, from its order of convergence."""
    with np.errstate(all="ignore"):
        wanted = np.ceil(ratio ** (1 / CELL_POINTS))
    limit = max(2, min(largest, 1024 // max(count, 1)))
    wanted = np.where(np.isfinite(wanted), wanted, limit)
    return np.clip(2 ** np.ceil(np.log2(np.maximum(wanted, 2))), 2, limit).astype(int)


def _split_cells(
    centre: np.ndarray, half: np.ndarray, base: np.ndarray, pieces: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    parent = np.repeat(np.arange(len(centre)), pieces)
    first = np.repeat(np.cumsum(pieces) - pieces, pieces)
    at = np.arange(len(parent)) - first
    n = pieces[parent]
    new = half[parent] / n
    return centre[parent] - half[parent] + (2 * at + 1) * new, new, base[parent]


def scanned_square(reading: Reading, centre: np.ndarray, half: np.ndarray) -> float:
    """A quarter of E y^2 as the base cells' points show it: the scale of a first tolerance."""
    x = centre[:, None] + half[:, None] * CELL_NODES
    y = label_values(reading, x.ravel())
    square = y[0] ** 2 if len(y) == 1 else y[1]
    with np.errstate(all="ignore"):
        weight = (half[:, None] * CELL_WEIGHTS * density(x)).ravel()
        total = float(np.nansum(np.where(weight > 0, weight * square, 0.0)))
    return total / 4 if np.isfinite(total) else 0.0


# -- sums ------------------------------------------------------------------------------------------


def label_values(reading: Reading, x: np.ndarray) -> np.ndarray:
    """The label at x; raises if it is not a number."""
    y = reading.values(x)
    if np.isnan(y).any():
        at = reading.place + reading.unit * float(x[np.isnan(y).any(0)][0])
        what = reading.name.rpartition(".")[2]
        raise bad(what, reading.name, "finite", f"NaN at a projection of {at:.6g}")
    return y


def folded_weights(reading: Reading, cells: Cells, how: str) -> LabelWeights:
    """The moments over all cells, and the weights on the points of base cells."""
    x = cells.centre[:, None] + cells.half[:, None] * CELL_NODES
    y = label_values(reading, x.ravel()).reshape(-1, *x.shape)
    w = cells.half[:, None] * CELL_WEIGHTS * density(x)
    mass = normal_mass(cells.centre, cells.half)
    with np.errstate(all="ignore"):
        second = y[0] ** 2 if len(y) == 1 else y[1]
        each = np.where(w > 0, w * second, 0.0).sum(1)
        square = float(each.sum())
    _check_finite_square(reading, cells, each, square)
    off, top = cells.off, cells.top
    with np.errstate(all="ignore"):
        if len(y) == 1:
            loss = mass * off[0] * (2 * top[0] + off[0])
        else:
            loss = mass * off[1]
        loss = np.where(mass > 0, loss, 0.0)
        slack = np.where(mass > 0, mass * off[0], 0.0)
    error = 2 * float(loss.sum()) + LABEL_SUM_ROUNDING * square
    if not np.isfinite(error) or (
        error > LARGEST_OPEN_ERROR * max(square, 1e-300) and how == "bound"
    ):
        worst = int(np.argmax(np.where(np.isnan(loss), np.inf, loss)))
        at = reading.place + reading.unit * cells.centre[worst]
        raise AttnscopeError(
            f"{reading.name} is not bounded near a projection of {at:.6g}: its square has no mean "
            "that can be bounded there. Give the risk by exact_risk, or a label that is bounded."
        )
    size = np.where(w > 0, w * np.abs(y[0]), 0.0)
    used, place = _used_base_cells(cells, each, square)
    here = used[place]  # of each cell: whether its base cell is kept
    row = np.cumsum(used) - 1
    centre, half, _ = first_cells()
    points = centre[used, None] + half[used, None] * CELL_NODES
    weights = np.zeros_like(points)
    inside = np.flatnonzero(here)
    for part in np.array_split(inside, max(1, len(inside) // 4096)):
        whole = cells.half[part] >= BASE_CELL_SIGMAS / 2
        at = row[cells.base[part]]
        wy = (w * y[0])[part]
        np.add.at(weights, at[whole], wy[whole])
        cut = part[~whole]
        s = (x[cut] - centre[cells.base[cut], None]) / (BASE_CELL_SIGMAS / 2)
        np.add.at(
            weights,
            at[~whole],
            np.einsum("cn,cnk->ck", wy[~whole], lagrange_basis(s, CELL_NODES, CELL_HEFT)),
        )
    slacks = np.zeros(int(used.sum()))
    np.add.at(slacks, row[cells.base[inside]], slack[inside])
    reach = float(np.abs(centre[used]).max() + BASE_CELL_SIGMAS / 2)
    return LabelWeights(
        points, weights, slacks, centre[used], square, error, float(size.sum()), reach,
        len(cells.centre), how,
    )  # fmt: skip


def lagrange_basis(x: np.ndarray, nodes: np.ndarray, heft: np.ndarray) -> np.ndarray:
    """(..., n): the Lagrange polynomials of nodes (n,) with barycentric weights `heft` at x."""
    apart = x[..., None] - nodes
    exact = apart == 0
    ratio = heft / np.where(exact, 1.0, apart)
    out = ratio / ratio.sum(-1, keepdims=True)
    return np.where(exact.any(-1, keepdims=True), exact * 1.0, out)


def _used_base_cells(
    cells: Cells, each: np.ndarray, square: float
) -> tuple[np.ndarray, np.ndarray]:
    """Which base cells matter: those within 9 standard deviations, or with a share of E y^2."""
    total = np.zeros(BASE_CELL_COUNT)
    np.add.at(total, cells.base, each)
    centre, _, _ = first_cells()
    used = (np.abs(centre) <= 9) | (total > SMALLEST_CELL_SHARE * square)
    between = np.flatnonzero(used)
    used[between[0] : between[-1] + 1] = True
    return used, cells.base


def _check_finite_square(
    reading: Reading, cells: Cells, each: np.ndarray, square: float
) -> None:
    outer = float(each[np.abs(cells.centre) > LABEL_EDGE_SIGMAS - 1].sum())
    if not np.isfinite(square) or outer > LARGEST_OUTER_SHARE * square:
        raise AttnscopeError(
            f"the mean square of {reading.name} is infinite, or not settled within {LABEL_EDGE_SIGMAS:g} "
            "standard deviations; a squared risk needs a finite one."
        )


def refuse_open(reading: Reading, left: Cells, square: float) -> None:
    """Raise if the cells that are left open hold more than LARGEST_OPEN_ERROR of E y^2."""
    mass = normal_mass(left.centre, left.half)
    with np.errstate(all="ignore"):
        loss = float((mass * cost_of(left.off, left.top, square)).sum())
    if np.isfinite(loss) and loss <= LARGEST_OPEN_ERROR * square:
        return
    finest = float(left.half.min()) * 2 * reading.unit
    raise AttnscopeError(
        f"{reading.name} varies on more than {LARGEST_CELL_COUNT:,} cells (the finest {finest:.2g} wide in "
        "the projection), too many to bound its mean square. Give a smoother label, or the risk "
        "by exact_risk."
    )
