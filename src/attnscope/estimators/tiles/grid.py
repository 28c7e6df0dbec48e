"""Tiles on a grid: the mean over a tile's neighbours, and log det(I - rho W).

notation: A the symmetric 0/1 matrix of neighbours, D its row sums, W = D^-1 A.

Neighbours of a tile are the other tiles within `radius` steps of a king (queen contiguity: the
larger of the two distances counts) or of a walker along the axes (rook: their sum). A tile without
neighbours has a row of zeros. W is similar to the symmetric D^-1/2 A D^-1/2, so its eigenvalues lam
are real, at most 1, and

    log det(I - rho W) = sum log(1 - rho lam),   1/lam_min < rho < 1.

They come from a Fourier transform if the grid is a torus, and from a dense decomposition for up to
MAX_DENSE_TILES tiles. For more tiles each rho costs one sparse LU factorisation. All three are exact
up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import eigsh, splu

from attnscope.errors import bad
from attnscope.numerics.border.whole_values import array_of

__all__ = [
    "CONTIGUITY_NAMES",
    "Tiles",
    "centred",
    "log_determinant",
    "neighbour_means",
    "tiles_of",
]

# up to here all eigenvalues cost less than the factorisations they replace
MAX_DENSE_TILES = 1200
MAX_COORDINATE = 10**9  # two coordinates then fit in a key of 64 bits
CONTIGUITY_NAMES = ("queen", "rook")


@dataclass(frozen=True, eq=False)
class Tiles:
    """One map: W (n, n) with its counts D (n,), the positions of the tiles (n, 2), and the eigenvalues
    of W if already computed.
    """

    mean: sparse.csr_array
    counts: np.ndarray
    places: np.ndarray
    fourier: np.ndarray | None

    @cached_property
    def symmetric(self) -> sparse.csr_array:
        """D^-1/2 A D^-1/2, similar to W."""
        root = np.sqrt(np.maximum(self.counts, 1))
        left = sparse.diags_array(root)
        right = sparse.diags_array(1 / root)
        return sparse.csr_array(left @ self.mean @ right)

    @cached_property
    def eigenvalues(self) -> np.ndarray | None:
        """All eigenvalues of W, or None if there are too many tiles."""
        if self.fourier is not None:
            return self.fourier
        if len(self.counts) > MAX_DENSE_TILES:
            return None
        return np.linalg.eigvalsh(self.symmetric.toarray())

    @cached_property
    def smallest(self) -> float:
        """The smallest eigenvalue: at most 0, as the trace is 0."""
        if self.eigenvalues is not None:
            return float(self.eigenvalues.min())
        start = np.random.default_rng(0).standard_normal(len(self.counts))
        found = eigsh(self.symmetric, 1, which="SA", v0=start, return_eigenvectors=False)
        return float(found[0])


def tiles_of(
    grid: Any, count: int, radius: int, contiguity: str, wrap: bool, of: str
) -> Tiles:
    """The neighbourhoods of `count` tiles; grid: (rows, columns), or positions (count, 2)."""
    places = _check_grid(grid, count, of)
    whole = np.ndim(grid) == 1  # (rows, columns)
    if wrap and not whole:
        got = f"places of shape {np.shape(grid)}"
        raise bad("grid", of, "(rows, columns) where wrap=True", got, "wrap=False")
    steps = _neighbour_steps(radius, contiguity)
    sizes = np.asarray(grid, dtype=np.int64) if whole else None
    if wrap and sizes is not None and sizes.min() <= 2 * radius:
        must = f"more than {2 * radius} rows and columns where wrap=True"
        raise bad("grid", of, must, tuple(map(int, sizes)), "a smaller radius")
    pairs = [_neighbour_pairs(places, step, sizes if wrap else None) for step in steps]
    i = np.concatenate([a for a, _ in pairs])
    j = np.concatenate([b for _, b in pairs])
    counts = np.bincount(i, minlength=count).astype(float)
    mean = sparse.csr_array((1 / counts[i], (i, j)), shape=(count, count))
    fourier = _torus_eigenvalues(steps, sizes) if wrap and sizes is not None else None
    return Tiles(mean, counts, places, fourier)


def _check_grid(grid: Any, count: int, of: str) -> np.ndarray:
    """Positions (count, 2) in whole numbers, refused if two are equal."""
    must = f"(rows, columns) with rows * columns = {count}, or whole places ({count}, 2)"
    a = array_of(grid, "grid", of, must)
    if a.dtype.kind not in "iuf" or a.shape not in ((2,), (count, 2)):
        raise bad("grid", of, must, f"dtype {a.dtype}, shape {a.shape}")
    if not (np.isfinite(a).all() and (a == np.round(a)).all()):
        hint = "positions in pixels // the size of a tile"
        raise bad("grid", of, must, "entries that are no whole numbers", hint)
    if np.abs(a).max(initial=0) > MAX_COORDINATE:
        raise bad("grid", of, f"of entries up to {MAX_COORDINATE}", f"{np.abs(a).max():g}")
    a = a.astype(np.int64)
    if a.ndim == 1:
        if a.min() < 1 or int(a[0]) * int(a[1]) != count:
            raise bad("grid", of, must, tuple(map(int, a)))
        return np.indices(tuple(a)).reshape(2, -1).T
    if len(np.unique(a, axis=0)) < count:
        raise bad("grid", of, "places of which no two are the same", "a repeated place")
    return a


def _neighbour_steps(radius: int, contiguity: str) -> np.ndarray:
    """All steps to neighbours, (m, 2)."""
    window = np.arange(-radius, radius + 1)
    steps = np.stack(np.meshgrid(window, window, indexing="ij"), axis=-1).reshape(-1, 2)
    far = np.abs(steps).sum(axis=1) if contiguity == "rook" else np.abs(steps).max(axis=1)
    return steps[(far > 0) & (far <= radius)]


def _neighbour_pairs(
    places: np.ndarray, step: np.ndarray, sizes: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Tiles i that have a tile j one step away."""
    low = places.min(axis=0)
    other = places + step
    if sizes is not None:
        other = other % sizes
    high = np.maximum(places.max(axis=0), other.max(axis=0))
    least = np.minimum(low, other.min(axis=0))
    stride = int(high[1] - least[1]) + 1
    key = (places[:, 0] - least[0]) * stride + places[:, 1] - least[1]
    wanted = (other[:, 0] - least[0]) * stride + other[:, 1] - least[1]
    order = np.argsort(key)
    at = np.minimum(np.searchsorted(key[order], wanted), len(key) - 1)
    found = key[order][at] == wanted
    return np.flatnonzero(found), order[at[found]]


def _torus_eigenvalues(steps: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Eigenvalues of W on the torus: the mean of cos over the steps."""
    kernel = np.zeros(tuple(sizes))
    np.add.at(kernel, (steps[:, 0] % sizes[0], steps[:, 1] % sizes[1]), 1 / len(steps))
    return np.fft.fft2(kernel).real.ravel()


def neighbour_means(maps: list[Tiles], columns: np.ndarray) -> np.ndarray:
    """The mean over neighbours, (n, c), map by map."""
    out = np.empty_like(columns)
    for tiles, part in zip(maps, _map_slices(maps)):
        out[part] = tiles.mean @ columns[part]
    return out


def centred(maps: list[Tiles], columns: np.ndarray) -> np.ndarray:
    """Columns (n, c) minus their mean in each map."""
    out = np.empty_like(columns)
    for part in _map_slices(maps):
        out[part] = columns[part] - columns[part].mean(axis=0)
    return out


def _map_slices(maps: list[Tiles]) -> list[slice]:
    ends = np.cumsum([len(tiles.counts) for tiles in maps])
    starts = [0, *ends[:-1]]
    return [slice(int(a), int(b)) for a, b in zip(starts, ends)]


def log_determinant(maps: list[Tiles]) -> tuple[Callable[[float], float], float]:
    """(rho -> log det(I - rho W) over all maps together, the lower end 1/lam_min of its range).

    Maps that are the same object are decomposed once.
    """
    distinct = {id(tiles): tiles for tiles in maps}
    times = {key: sum(tiles is m for m in maps) for key, tiles in distinct.items()}
    low = 1 / min(tiles.smallest for tiles in distinct.values())
    seen: dict[float, float] = {}

    def total(rho: float) -> float:
        if rho not in seen:
            seen[rho] = sum(
                times[key] * _map_log_determinant(tiles, rho)
                for key, tiles in distinct.items()
            )
        return seen[rho]

    return total, low


def _map_log_determinant(tiles: Tiles, rho: float) -> float:
    if tiles.eigenvalues is not None:
        return float(np.log1p(-rho * tiles.eigenvalues).sum())
    n = len(tiles.counts)
    system = sparse.csc_array(sparse.eye_array(n) - rho * tiles.symmetric)
    # positive definite in this range of rho: no pivots are needed
    options = {"SymmetricMode": True}
    factors = splu(system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    return float(np.log(np.abs(factors.U.diagonal())).sum())
