"""Positional or semantic attention: the table against a 4-D rule, the diagram, and SGD of a whole
diagram as a resumable sweep.

    python bench/bench_positional.py [--sweep FOLDER]

E[t s] on 200 x 200 points (e, m), table included, against a Gauss-Hermite rule of 19 nodes in four
dimensions, whose time is extrapolated from 20 points; the diagram of 200 x 200 pairs (w, c), table
included, within 15 s. Nothing is printed unless an 80-node rule agrees to 1e-6 at 5 points. With
--sweep: 2,624 runs (41 w x 64 c) of 3e5 steps in d = 1000, batch 1, at most 6 minutes on 2 cores;
stored in FOLDER cell by cell (a second call resumes), with the phase map as a picture.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from scipy.special import expit
from table import heading, limit, row

import attnscope as at
from attnscope.figures.figure import Figure, Heat, Panel
from attnscope.theory.positional_semantic.skeleton import skeleton
from attnscope.theory.positional_semantic.table import semantic_table, values

SAME = 1e-6
POINTS = ((0.5, 0.5), (0.1, 0.9), (0.9, 0.2), (0.0, 1.0), (0.6, 0.7))
CONTRASTS = tuple(np.linspace(0, 2, 64))
MIXES = tuple(np.linspace(0.02, 0.98, 41))
STEPS = 300_000


def product_rule(nodes: int, e: float, m: float) -> float:
    """E[t s] by Gauss-Hermite in four dimensions."""
    x, weight = np.polynomial.hermite_e.hermegauss(nodes)
    weight = weight / weight.sum()
    t = expit(x[:, None] * (x[:, None] - x))
    rest = np.sqrt(max(1 - m * m, 0.0))
    a = m * x[:, None] + rest * x  # (u, first)
    total = 0.0
    for i in range(nodes):  # over v
        for j in range(nodes):
            b = a[i, j]
            s = expit((e + a) * (2 * e + a - b))
            total += weight[i] * weight[j] * float((weight * t[:, i]) @ s @ weight)
    return total


def fresh_grid() -> np.ndarray:
    e = np.linspace(0, 1, 200)[:, None]
    m = np.sqrt(1 - e**2) * np.linspace(0, 1, 200)
    return values(semantic_table.__wrapped__(1.0), e, m)[0]


def fresh_diagram() -> at.PositionalPhases:
    semantic_table.cache_clear()
    skeleton.cache_clear()
    return at.positional_phases(np.linspace(0, 0.995, 200), np.linspace(0, 3, 200))


def train_row(mix: float, seed: int = 0, steps: int = STEPS) -> list[dict[str, float]]:
    """A row of the diagram: 64 runs from random starts, one for each contrast."""
    tasks = [at.PositionalSemantic(1000, mix, c) for c in CONTRASTS]
    runs = at.positional_sgd(tasks, steps=steps, step_size=5e-4, seed=seed)
    return [
        {"contrast": float(c), "e": float(e), "m": float(m)}
        for c, e, m in zip(CONTRASTS, runs.e, runs.m)
    ]


def phase_map(folder: Path) -> None:
    fresh = not list(folder.glob("*.npz"))  # a resumed sweep has no time to show
    started = perf_counter()
    frame = at.sweep(train_row, {"mix": [float(w) for w in MIXES]}, folder)
    spent = perf_counter() - started
    if fresh:
        limit("SGD, 2,624 runs x 3e5 steps, d = 1000 (wall)", spent, 360)
    ends = np.abs(frame.sort_values(["mix", "contrast"])["m"].to_numpy().reshape(41, 64))
    theory = at.positional_phases(MIXES, CONTRASTS)
    panels = (
        Panel("SGD from a random start", "c", "w", (Heat(CONTRASTS, MIXES, ends, "|m|"),)),
        Panel("lowest minimum", "c", "w", (Heat(CONTRASTS, MIXES, theory.m, "m"),)),
    )
    figure = Figure("Meaning learned after 3e5 steps, d = 1000", panels, columns=2)
    figure.save(folder / "phase_map.png")


def main() -> None:
    table = semantic_table(1.0)
    for e, m in POINTS:
        away = abs(product_rule(80, e, m) - values(table, np.array(e), np.array(m))[0])
        assert away < SAME, (e, m, away)
    heading("positional or semantic attention")
    fresh_grid()
    started = process_time()
    fresh_grid()
    ours = process_time() - started
    rng = np.random.default_rng(0)
    started = process_time()
    for _ in range(20):
        product_rule(19, 0.7 * rng.random(), 0.7 * rng.random())
    theirs = (process_time() - started) / 20 * 200 * 200
    row("E[t s] on 200 x 200, table included, vs 19^4 nodes", ours, theirs, 1000)
    started = process_time()
    fresh_diagram()
    limit("diagram of 200 x 200 pairs, table included", process_time() - started, 15)
    at.positional_sgd(at.PositionalSemantic(1000), steps=1)
    started = process_time()
    at.positional_sgd(at.PositionalSemantic(1000), runs=64, steps=20_000)
    per_step = (process_time() - started) / 64 / 20_000
    limit("SGD, a step of a run, d = 1000", per_step, 2 * 360 / (41 * 64 * STEPS))
    if "--sweep" in sys.argv:
        phase_map(Path(sys.argv[sys.argv.index("--sweep") + 1]))


if __name__ == "__main__":
    main()
