"""What the training claims share: the paper's four panels with predictions drawn in, and the vector
route beside the five overlaps.

The reduced engine follows five numbers; engine="full" follows the vectors k, v in R^d with
gradients by automatic differentiation. Both start at the same overlaps, so their paths differ by
rounding alone. How much rounding may grow is measured, not assumed: a start moved by NUDGE moves
the path by `amplification` times that, and every step rounds by about EPS, so after t steps

    |difference| <= EPS * t * amplification.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnscope.claims.claim import Comparison
from attnscope.dynamics.experiments import EXPERIMENTS
from attnscope.dynamics.train import train
from attnscope.dynamics.trajectory import Trajectory
from attnscope.figures.figure import Band, Figure, Line, Mark, Panel
from attnscope.predictors.attention import Erf
from attnscope.theory.overlaps import Overlaps

__all__ = [
    "COUNT",
    "EPS",
    "EXACT_COUNT",
    "TWO_SHARES",
    "counted",
    "four_panels",
    "same_path",
    "spread",
]

EPS = float(np.finfo(np.float64).eps)
NUDGE = 1e-9  # far above rounding, far below where the paths bend
COUNT = 0.5  # tolerance of an exact count
EXACT_COUNT = "an exact count: half a run"
TWO_SHARES = "5 standard errors of a difference of two shares; false alarm 6e-7"
SMALLEST = 1e-17  # a logarithmic axis ends here; distances of exactly 0 are drawn here
PATHS = 60  # runs drawn one by one
FULL_RUNS = 16  # the vector engine works on 16 runs at a time: fewer would cost the same


def four_panels(
    run: Trajectory,
    title: str,
    levels: Sequence[tuple[str, float]],
    off: Trajectory | None = None,
    risk_range: tuple[float, float] | None = None,
) -> Figure:
    """The paper's four panels, median and central 95 % of the runs by outcome; predicted excess
    risks are dashed.

    `off`: the run whose distance to the manifold is drawn, if not the same; risk_range: a linear
    axis for the risk, instead of logarithmic.
    """
    groups = [
        (name, run.outcome == name)
        for name in ("oracle", "swapped", "undecided")
        if (run.outcome == name).any()
    ]
    alone = len(groups) == 1
    label = lambda name, what: what if alone else f"{what}, {name}" if what else name
    ends = [float(run.step[0]), float(run.step[-1])]
    excess: list[Mark] = [
        Line(ends, [y, y], text, color=5 - i, dashed=True)
        for i, (text, y) in enumerate(levels)
    ]
    aligned: list[Mark] = []
    paths: list[Mark] = []
    for i, (name, use) in enumerate(groups):
        excess += spread(run.step, run.excess[use], label(name, "excess" if alone else ""), i)
        for j, what in enumerate(("kappa", "nu")):
            aligned += spread(
                run.step,
                np.abs(getattr(run.overlaps, what)[use]),
                label(name, f"|{what}|"),
                2 * i + j,
                dashed=i > 0,
            )
        lines = np.flatnonzero(use)[:PATHS]
        paths += [
            Line(
                run.overlaps.kappa[r],
                run.overlaps.nu[r],
                name if r == lines[0] and not alone else "",
                i,
                thin=True,
            )
            for r in lines
        ]
    away = []
    off = off or run
    for i, (name, use) in enumerate(
        groups if off is run else [("", np.ones(off.runs, dtype=bool))]
    ):
        away += spread(
            off.step, np.maximum(off.distance[use], SMALLEST), "" if alone else name, i
        )
    lowest = max(SMALLEST, float(off.distance.min()) / 3)
    square = (-1.05, 1.05)
    panels = (
        Panel(
            "excess risk",
            "step",
            "excess risk",
            tuple(excess),
            log_y=risk_range is None,
            y_range=risk_range,
        ),
        Panel("alignment", "step", "|overlap|", tuple(aligned), y_range=(0.0, 1.05)),
        Panel("paths", "kappa", "nu", tuple(paths), x_range=square, y_range=square),
        Panel(
            "off the manifold",
            "step",
            "distance to the manifold",
            tuple(away),
            log_y=True,
            y_range=(lowest, 3.0),
        ),
    )
    return Figure(f"{title} (bands: 95 % of the runs)", panels, columns=2)


def spread(
    step: np.ndarray, values: np.ndarray, label: str, color: int, dashed: bool = False
) -> list[Mark]:
    """Median over runs (rows of values) with the band of the central 95 % of them."""
    low, median, high = np.quantile(values, (0.025, 0.5, 0.975), axis=0)
    return [Band(step, low, high, "", color), Line(step, median, label, color, dashed)]


def same_path(name: str, seed: int, steps: int) -> tuple[Comparison, Trajectory]:
    """Largest difference, over 16 runs of an experiment and `steps` steps, between five overlaps
    and vectors in R^d; and the vectors' run.
    """
    e = EXPERIMENTS[name]

    def path(engine: str, start: str | Overlaps) -> Trajectory:
        every = max(1, steps // 20)
        return train(
            e.task(),
            Erf(e.temperature),
            start,
            FULL_RUNS,
            steps,
            e.step_size,
            every,
            seed,
            engine=engine,
            progress=False,
        )

    reduced = path("reduced", e.start).log
    vectors = path("full", e.start)
    nudged = reduced[:, :, 0] * (1 + NUDGE)
    growth = (
        np.abs(path("reduced", Overlaps(*nudged)).log - reduced).max()
        / np.abs(nudged - reduced[:, :, 0]).max()
    )
    what = f"overlaps against vectors in R^{e.dim}, {steps} steps of {FULL_RUNS} runs"
    difference = float(np.abs(vectors.log - reduced).max())
    why = "roundoff: eps a step, times the growth of a start moved by 1e-9 (measured)"
    return Comparison(what, 0.0, difference, EPS * steps * growth, why=why), vectors


def counted(what: str, predicted: float, outcome: np.ndarray, *names: str) -> Comparison:
    """How many runs ended at one of the named limits."""
    reached = int(np.isin(outcome, names).sum())
    return Comparison(what, predicted, reached, COUNT, why=EXACT_COUNT)
