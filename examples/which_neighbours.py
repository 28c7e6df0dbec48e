"""
Which neighbours matter: attention on a grid of tiles
=====================================================

A slide is a bag of 12 x 12 tiles; one tile, at a random place, decides the slide's number. Two
models are fitted: one sees every tile alone, one sees tiles whose embedding overlaps with its
neighbours'. Their attention is a map, and ``spatial_context`` asks what explains it besides a
tile's own features: its neighbours' features, scores or residuals.
"""

import sys

import numpy as np

import attnscope as at
from attnscope.figures.figure import Figure, Heat, Panel, Points

SIDE = 12
DIM = 4
NAMES = ("features", "scores", "residuals")


def slides(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Replace this by your tiles, listed row by row: (n, tiles, features), and a number each."""
    rng = np.random.default_rng(seed)
    tiles = rng.standard_normal((n, SIDE * SIDE, DIM))
    decides = rng.integers(SIDE * SIDE, size=n)
    tiles[np.arange(n), decides, 0] += 4.0
    said = tiles[np.arange(n), decides, 1]
    return tiles, said + 0.1 * rng.standard_normal(n)


def overlapping(tiles: np.ndarray) -> np.ndarray:
    """Embeddings that see half of what lies above, below, left and right as well."""
    grid = tiles.reshape(-1, SIDE, SIDE, DIM)
    seen = np.pad(grid, ((0, 0), (1, 1), (1, 1), (0, 0)))
    around = seen[:, 2:, 1:-1] + seen[:, :-2, 1:-1] + seen[:, 1:-1, 2:] + seen[:, 1:-1, :-2]
    return (grid + 0.5 * around).reshape(tiles.shape)


def context(bags: np.ndarray, tiles: np.ndarray, y: np.ndarray) -> tuple:
    """A fitted model's map of the first slide, and what explains its maps of all slides."""
    model = at.SingleLocationRegressor(random_state=0).fit(bags, y)
    scores = np.log(np.maximum(model.attention(bags), 1e-15))  # less rounds to 0
    return scores[0], at.spatial_context(scores, tiles, (SIDE, SIDE), contiguity="rook")


def main(out: str = "which_neighbours.png", n: int = 80) -> None:
    tiles, y = slides(n, seed=1)
    panels = []
    found = {}
    for name, bags in {
        "tiles alone": tiles,
        "tiles that overlap": overlapping(tiles),
    }.items():
        first, found[name] = context(bags, tiles, y)
        sure = [g for g, e in found[name].gains.items() if e.value > 3 * e.error]
        print(f"{name}: {found[name]}\ngains beyond 3 errors: {', '.join(sure) or 'none'}\n")
        heat = Heat(range(SIDE), range(SIDE), first.reshape(SIDE, SIDE), "log attention")
        panels.append(Panel(name, "column", "row", (heat,)))
    bars = tuple(
        Points(
            np.arange(3) + 0.1 * i,
            [c.gains[g].value for g in NAMES],
            name,
            i,
            [1.96 * c.gains[g].error for g in NAMES],
        )
        for i, (name, c) in enumerate(found.items())
    )
    last = Panel("what neighbours add", "neighbours'", "gain in R^2", bars, x_names=NAMES)
    Figure("Attention on tiles", (*panels, last), columns=3).save(out)
    print(f"wrote {out}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
