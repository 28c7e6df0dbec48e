"""What the training claims share: their panels by outcome with predictions drawn in, and the vector
route beside the five overlaps.

The reduced engine follows five numbers; engine="full" follows the vectors k, v in R^d with
gradients by automatic differentiation. Both start at the same overlaps, so their paths differ by
rounding alone. How much rounding may grow is measured, not assumed: a start moved by NUDGE moves
the path by `amplification` times that, and every step rounds by about EPS, so after t steps

    |difference| <= EPS * t * amplification.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attnscope.claims.claim import Comparison
from attnscope.claims.compare import exact_count
from attnscope.dynamics.experiments import EXPERIMENTS
from attnscope.dynamics.starts import StartName
from attnscope.dynamics.train import EngineName, train
from attnscope.dynamics.trajectory import Trajectory
from attnscope.figures.figure import Band, Figure, Line, Mark, Panel
from attnscope.figures.outcomes import BANDS, OUTCOMES, by_outcome, paths_by_outcome
from attnscope.predictors.attention import Erf
from attnscope.theory.overlaps import Overlaps
from attnscope_claims.drawing import level, panel

__all__ = [
    "AXIS_BEGIN",
    "EPS",
    "TWO_SHARES",
    "counted",
    "run_panels",
    "same_path",
    "settled",
    "spread",
]

EPS = float(np.finfo(np.float64).eps)
NUDGE = 1e-9  # far above rounding, far below where the paths bend
TWO_SHARES = "5 standard errors of a difference of two shares; false alarm 6e-7"
SMALLEST_DISTANCE = (
    1e-17  # a logarithmic axis ends here; distances of exactly 0 are drawn here
)
SMALL_OVERLAP = 0.3  # overlaps that stay below would be a flat line on an axis from 0 to 1
AXIS_BEGIN = -0.03  # axes of sizes begin here: a curve at 0 must not hide behind the axis
FULL_RUNS = 16  # the vector engine works on 16 runs at a time: fewer would cost the same


def run_panels(
    run: Trajectory,
    title: str,
    levels: Mapping[str, tuple[str, float]],
    off: Trajectory | None = None,
    risk_range: tuple[float, float] | None = None,
) -> Figure:
    """Excess risk, distance to the manifold, all five overlaps and the paths, split by outcome:
    a colour is an outcome in every panel (figures/outcomes.py).

    `levels`: outcome -> (words, predicted excess risk), dashed in that outcome's colour; `off`: the
    run whose distance to the manifold is drawn, if not the same; risk_range: a linear axis for the
    risk, instead of logarithmic.
    """
    ends = [float(run.step[0]), float(run.step[-1])]
    exact = tuple(
        level(ends, y, words, OUTCOMES[name], thin=True)
        for name, (words, y) in levels.items()
    )
    drawn = lambda values: by_outcome(run.step, values, run.outcome)
    overlaps = run.overlaps._asdict()
    names = ("kappa", "nu", "eta", "theta", "rho")
    square = (-1.05, 1.05)
    panels = (
        Panel(
            "excess risk",
            "step",
            "excess risk",
            (*drawn(run.excess), *exact),
            log_y=risk_range is None,
            y_range=risk_range,
        ),
        _off_the_manifold(run, off),
        *(_size(name, drawn(np.abs(overlaps[name]))) for name in names),
        panel(
            "paths",
            "kappa",
            "nu",
            *paths_by_outcome(run.overlaps.kappa, run.overlaps.nu, run.outcome),
            x_range=square,
            y_range=square,
        ),
    )
    banded = any(isinstance(mark, Band) for panel in panels for mark in panel.marks)
    return Figure(f"{title} ({BANDS})" if banded else title, panels, columns=2)


def _size(name: str, marks: tuple[Mark, ...]) -> Panel:
    """|overlap| over steps: from 0 to 1, or to the largest drawn where that is far below 1."""
    tops = [np.max(mark.high if isinstance(mark, Band) else mark.y) for mark in marks]
    top = float(max(tops))
    shown = (AXIS_BEGIN * top, 1.05 * top) if 0 < top < SMALL_OVERLAP else (AXIS_BEGIN, 1.05)
    return panel(f"|{name}|", "step", f"|{name}|", *marks, y_range=shown)


def _off_the_manifold(run: Trajectory, off: Trajectory | None) -> Panel:
    """Distances of the runs by outcome, or of another, shorter run, which has none yet."""
    outcome = run.outcome if off is None else np.full(off.runs, "on the way")
    off = off or run
    zero = bool((off.distance < SMALLEST_DISTANCE).any())
    distance = np.maximum(off.distance, SMALLEST_DISTANCE)
    shown = (float(distance.min()) / 1.3, float(distance.max()) * 1.3)
    return panel(
        "off the manifold",
        "step",
        "distance" + (", 0 drawn as 1e-17" if zero else ""),
        *by_outcome(off.step, distance, outcome),
        log="y",
        y_range=shown,
    )


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

    def path(engine: EngineName, start: StartName | Overlaps) -> Trajectory:
        every = max(1, steps // 20)
        return train(
            e.task(),
            Erf(e.inverse_temperature),
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
    return Comparison(
        what, 0.0, difference, EPS * steps * growth, why=why, key="paths", scale=1.0
    ), vectors


def counted(
    what: str, predicted: float, outcome: np.ndarray, *names: str, key: str = ""
) -> Comparison:
    """How many runs ended at one of the named limits."""
    reached = int(np.isin(outcome, names).sum())
    return exact_count(what, predicted, reached, key=key, scale=float(len(outcome)))


def settled(run: Trajectory) -> Comparison:
    """All runs end at one of the two limits."""
    what = f"runs at the oracle or swapped, of {run.runs}"
    return counted(what, run.runs, run.outcome, "oracle", "swapped", key="settled")
