"""Read maps of tiles, and divide them into the blocks of tiles from which errors are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.estimators.tiles.grid import Tiles, tiles_of
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.sampled_estimate import GROUP_COUNTS
from attnscope.numerics.border.whole_values import refuse_lost

__all__ = ["blocks_of", "dependence_reach", "read_maps"]

# blocks are as wide as possible with this many of them; 36 blocks widen the error by 23 %
TARGET_BLOCK_COUNT = 36
# width of a block over the reach of the dependence, if the map is large enough
BLOCK_WIDTH_REACHES = 3.0
# with more neighbours, the mean over them is mostly minus the tile itself
MAX_NEIGHBOUR_SHARE = 0.5


def read_maps(
    scores: Any,
    features: Any,
    grid: Any,
    radius: int,
    contiguity: str,
    wrap: bool,
    of: str,
) -> tuple[np.ndarray, np.ndarray, list[Tiles]]:
    """All scores (n,), all features (n, p), and the tiles of every map."""
    for x, name in ((scores, "scores"), (features, "features"), (grid, "grid")):
        refuse_lost(x, name, of)
    several = _has_several_maps(scores, of)
    ys = list(scores) if several else [scores]
    xs = _part_per_map(features, "features", len(ys), of) if several else [features]
    shared = not several or _is_rectangle(grid)
    grids = [grid] * len(ys) if shared else _part_per_map(grid, "grid", len(ys), of)
    maps: list[Tiles] = []
    known: dict[tuple[int, ...], Tiles] = {}
    for i, g in enumerate(grids):
        ys[i] = check.array(ys[i], "scores", of, (None,)).astype(np.float64)
        n = len(ys[i])
        p = None if i == 0 else xs[0].shape[1]
        xs[i] = check.array(xs[i], "features", of, (n, p)).astype(np.float64)
        key = (n, int(g[0]), int(g[1])) if _is_rectangle(g) else (-1 - i,)
        if key not in known:
            known[key] = tiles_of(g, n, radius, contiguity, wrap, of)
            _check_neighbours(known[key], radius, of)
        maps.append(known[key])
    return np.concatenate(ys), np.concatenate(xs), maps


def _part_per_map(parts: Any, name: str, count: int, of: str) -> list[Any]:
    """A list of `count` parts, one for each map."""
    must = f"one for each of {count} maps"
    try:
        found = list(parts)
    except TypeError:
        raise bad(name, of, must, parts) from None
    if len(found) != count:
        raise bad(name, of, must, f"{len(found)}")
    return found


def _is_rectangle(grid: Any) -> bool:
    """Whether this is (rows, columns)."""
    whole = lambda g: isinstance(g, int | np.integer) and not isinstance(g, bool)
    listed = isinstance(grid, Sequence | np.ndarray) and not isinstance(grid, str)
    return listed and len(grid) == 2 and all(whole(g) for g in grid)


def _has_several_maps(scores: Any, of: str) -> bool:
    """Whether these are the scores of several maps."""
    if isinstance(scores, np.ndarray):
        return scores.ndim > 1
    if not isinstance(scores, Sequence) or isinstance(scores, str):
        raise bad("scores", of, "an array (n,) or a list of arrays", type(scores).__name__)
    return len(scores) > 0 and np.ndim(scores[0]) > 0


def _check_neighbours(tiles: Tiles, radius: int, of: str) -> None:
    """Refuse maps without neighbours, and neighbourhoods of half the map."""
    n = len(tiles.counts)
    if not tiles.counts.any():
        hint = "positions // the size of a tile, or a larger radius"
        raise bad("grid", of, "of tiles that have neighbours", f"none among {n}", hint)
    most = float(tiles.counts.mean())
    if most > MAX_NEIGHBOUR_SHARE * (n - 1):
        must = f"small enough that neighbourhoods are less than half of a map of {n} tiles"
        raise bad(
            "radius", of, must, f"{radius}: {most:.1f} neighbours each", "a smaller one"
        )


def dependence_reach(maps: list[Tiles], rho: float) -> float:
    """How far, in tiles, a dependence of this size reaches; see spatial_context.py."""
    links = max((tiles.mean for tiles in maps), key=lambda mean: mean.nnz).tocoo()
    largest = max(maps, key=lambda tiles: tiles.mean.nnz)
    steps = largest.places[links.coords[0]] - largest.places[links.coords[1]]
    v = (
        float(np.median(np.sum(steps**2, axis=1))) / 2
    )  # the median, because steps across the edge of a torus are long
    return float(np.sqrt(max(rho, 0.0) * v / (2 * (1 - min(rho, 1 - 1e-9)))))


def blocks_of(maps: list[Tiles], radius: int, reach: float, of: str) -> np.ndarray:
    """The block of every tile: its map if there are enough maps, otherwise a square."""
    if len(maps) >= TARGET_BLOCK_COUNT:
        return np.repeat(np.arange(len(maps)), [len(tiles.counts) for tiles in maps])
    side = 4 * radius + 1
    best = _square_blocks(maps, side)
    while True:
        wider = _square_blocks(maps, side + 1)
        if wider.max() + 1 < (
            GROUP_COUNTS[0] if side < BLOCK_WIDTH_REACHES * reach else TARGET_BLOCK_COUNT
        ):
            break
        side += 1
        best = wider
    if best.max() + 1 < GROUP_COUNTS[0]:
        must = f"of at least {GROUP_COUNTS[0]} blocks of {side} x {side} tiles: its errors need them"
        hint = "a larger map, several maps, or a smaller radius"
        raise bad("grid", of, must, f"{int(best.max()) + 1}", hint)
    return best


def _square_blocks(maps: list[Tiles], side: int) -> np.ndarray:
    keys = []
    start = 0
    for tiles in maps:
        square = (tiles.places - tiles.places.min(axis=0)) // side
        wide = int(square[:, 1].max()) + 1
        found = np.unique(square[:, 0] * wide + square[:, 1], return_inverse=True)[1].ravel()
        keys.append(start + found)
        start += int(found.max()) + 1
    return np.concatenate(keys)
