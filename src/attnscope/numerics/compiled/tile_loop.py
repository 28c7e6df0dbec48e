"""What every compiled loop over runs does around its own steps.

notation: a tile is (rows, LANES) numbers of LANES runs, a seed tile (4, LANES) the states of their
generators (run_tiles.py, fast_normal.py).

A loop takes a tile into local arrays, advances it, and gives it back; `through_tiles` cuts columns
of numbers (rows, runs) into tiles and shares them among threads. Nothing is computed here, so the bits
of a run depend on the loop alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from attnscope.numerics.compiled.numba_flags import FUSED_FLAGS
from attnscope.numerics.compiled.run_tiles import LANES, from_tiles, share, to_tiles

__all__ = ["give_tile", "take_tile", "through_tiles"]

Array = np.ndarray


def through_tiles(
    advance: Callable[..., None],
    columns: Array,
    generators: Array,
    setting: tuple[Any, ...],
    seconds: float,
) -> tuple[Array, Array]:
    """Columns (rows, runs) and generator states (runs, 4) after advance(tiles, seeds, *setting,
    LANES), which works in place; `seconds` a tile decides only whether threads are worth starting.
    """
    tiles = to_tiles(np.ascontiguousarray(columns, dtype=np.float64))
    seeds = to_tiles(np.ascontiguousarray(generators.T))
    runs = columns.shape[1]

    def work(begin: int, end: int) -> None:
        advance(tiles[begin:end], seeds[begin:end], *setting, LANES)

    share(work, len(tiles), len(tiles) * seconds)
    return from_tiles(tiles, runs), np.ascontiguousarray(from_tiles(seeds, runs).T)


@njit(forceinline=True, **FUSED_FLAGS)
def take_tile(x: Array, g: Array, tile: Array, seeds: Array, lanes: int) -> None:
    """Rows of the tile (rows, LANES) into the first rows of x, its generators into g (4 LANES,)."""
    for i in range(lanes):
        for j in range(tile.shape[0]):
            x[j, i] = tile[j, i]
        for j in range(4):
            g[j * LANES + i] = seeds[j, i]


@njit(forceinline=True, **FUSED_FLAGS)
def give_tile(x: Array, g: Array, tile: Array, seeds: Array, lanes: int) -> None:
    """The inverse of `take_tile`."""
    for i in range(lanes):
        for j in range(tile.shape[0]):
            tile[j, i] = x[j, i]
        for j in range(4):
            seeds[j, i] = g[j * LANES + i]
