"""A comparison of learning curves: the Bayes-optimal one and those of fitted predictors, as numbers
and as a figure. The command line, studies and the explorer share it.

notation: alpha = bags per dimension; excess = risk without the label noise.

A fit where replica symmetry fails, or that is refused for its arguments, has no number (NaN here, a
gap in the figure, null in JSON) but a sentence with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.figures.figure import Band, Figure, Line, Mark, Panel
from attnscope.numerics.border.estimate import Estimate
from attnscope.predictors.attention import LinearAttention, Softmax
from attnscope.registry import PREDICTORS
from attnscope.theory.samples.bayes_curve import Branch
from attnscope.theory.samples.best_ridge import best_ridge
from attnscope.theory.samples.learning_curve import learning_curve
from attnscope.theory.samples.thresholds import Thresholds

__all__ = [
    "BAYES_CURVE",
    "CURVE_NAMES",
    "Compared",
    "compared",
    "comparison_figure",
    "phase_panel",
]

BAYES_CURVE = "bayes"
# inverse temperatures are absorbed in the key's length; linear weights are 1 + u, as in the theory
FITTED_PREDICTORS = {"softmax": Softmax(1.0), "linear": LinearAttention(1.0, offset=1.0)}
CURVE_NAMES = (BAYES_CURVE, *FITTED_PREDICTORS)
BAYES_COLOR = 5  # as in every figure of the package
POPULATION_COLOR = 6
THRESHOLD_COLOR = 4
CURVE_FIELDS = ("excess", "error", "key_overlap", "value_overlap", "stability", "two_minima")


@dataclass
class Compared:
    """One curve: arrays (n,) over alpha with NaN where there is no number, and the reasons."""

    word: str
    alpha: np.ndarray
    values: dict[str, np.ndarray]
    ridge: list[tuple[float, float] | None]
    refused: list[str] = field(default_factory=list)


def compared(
    task: Any, alpha: np.ndarray, word: str, ridge: Any = 0.5, branch: Branch = "reached"
) -> Compared:
    """The curve of this name; `ridge` is a number, a pair, or "best" (tuned at every alpha)."""
    if word not in CURVE_NAMES:
        must = f"one of {', '.join(CURVE_NAMES)}"
        raise bad("predictors", "a learning curve", must, word, "bayes,softmax")
    if word == BAYES_CURVE:
        curve = learning_curve(task, alpha, branch=branch)
        values = {name: np.full(len(alpha), np.nan) for name in CURVE_FIELDS}
        values |= {
            "excess": curve.risk.excess,
            "error": np.broadcast_to(curve.risk.error, alpha.shape),
            "key_overlap": curve.key_overlap,
            "value_overlap": curve.value_overlap,
        }
        return Compared(word, alpha, values, [None] * len(alpha))
    out = Compared(
        word, alpha, {name: np.full(len(alpha), np.nan) for name in CURVE_FIELDS}, []
    )
    predictor = FITTED_PREDICTORS[word]
    for i, a in enumerate(alpha):
        _add_fit(out, i, task, float(a), predictor, ridge)
    return out


def _add_fit(out: Compared, i: int, task: Any, a: float, predictor: Any, ridge: Any) -> None:
    """Add the fit at one alpha, or the reason for refusing it (each reason once)."""
    try:
        chosen = best_ridge(task, a, predictor)[:2] if ridge == "best" else ridge
        out.ridge.append(chosen if isinstance(chosen, tuple) else (chosen, chosen))
        curve = learning_curve(task, a, predictor, ridge=chosen)
    except AttnscopeError as error:
        if len(out.ridge) <= i:
            out.ridge.append(None)
        sentence = str(error)
        if sentence not in out.refused:
            out.refused.append(sentence)
        return
    out.values["excess"][i] = curve.risk.excess
    out.values["error"][i] = curve.risk.error
    for name in CURVE_FIELDS[2:]:
        out.values[name][i] = getattr(curve, name)


def comparison_figure(
    curves: Sequence[Compared],
    population: float,
    best: Compared | None = None,
    thresholds: Thresholds | None = None,
) -> Figure:
    """Risks against alpha, and the overlaps of the Bayes-optimal estimator.

    population: Bayes risk with the truth known. best: the Bayes-optimal curve on its best branch,
    drawn where it differs from what message passing reaches.
    """
    marks: list[Mark] = []
    if thresholds and thresholds.possible and thresholds.reachable:
        hard = [thresholds.possible.value, thresholds.reachable.value]
        top = max(float(np.nanmax(c.values["excess"])) for c in curves)
        low = [population] * 2
        marks.append(Band(hard, low, [top, top], "hard phase", POPULATION_COLOR))
    reachable = thresholds.reachable if thresholds else None
    possible = thresholds.possible if thresholds else None
    for c in curves:
        label = "Bayes-optimal, reached" if c.word == BAYES_CURVE else f"{c.word}, ridge fit"
        jump = reachable if c.word == BAYES_CURVE else None
        marks.append(Line(*_line_with_gap(c, "excess", jump), label, _curve_color(c.word)))
    if best is not None and not np.array_equal(
        best.values["excess"], curves[0].values["excess"]
    ):
        shown = _line_with_gap(best, "excess", possible)
        marks.append(Line(*shown, "Bayes-optimal", BAYES_COLOR, dashed=True))
    ends = curves[0].alpha[[0, -1]]
    marks.append(Line(ends, [population] * 2, "truth known", POPULATION_COLOR, dashed=True))
    panels = [
        Panel("risk", "bags per dimension", "excess risk", tuple(marks), log_x=True),
        *(_overlap_panel(c, reachable) for c in curves if c.word == BAYES_CURVE),
    ]
    return Figure("what n bags buy", tuple(panels), columns=2)


def _line_with_gap(
    c: Compared, name: str, jump: Estimate | None
) -> tuple[np.ndarray, np.ndarray]:
    """x and y of a line, with a gap at a jump: a slope between two points would be no curve."""
    alpha, y = c.alpha, c.values[name]
    if jump is None or not alpha[0] < jump.value < alpha[-1]:
        return alpha, y
    place = int(np.searchsorted(alpha, jump.value))
    return np.insert(alpha, place, jump.value), np.insert(y, place, np.nan)


def _overlap_panel(c: Compared, jump: Estimate | None) -> Panel:
    lines = (
        Line(*_line_with_gap(c, "key_overlap", jump), "key k.k*", 0),
        Line(*_line_with_gap(c, "value_overlap", jump), "value v.v*", 3),
    )
    return Panel(
        "overlaps, Bayes-optimal",
        "bags per dimension",
        "overlap with the truth",
        lines,
        log_x=True,
    )


def _curve_color(word: str) -> int:
    return BAYES_COLOR if word == BAYES_CURVE else PREDICTORS[word].colour


def phase_panel(strengths: np.ndarray, found: Sequence[Thresholds]) -> Panel | None:
    """Where recovery is impossible, hard and reachable, in (strength, alpha); None where nothing
    of it is seen at these strengths.
    """
    numbers = np.array(
        [[np.nan if x is None else x.value for x in thresholds] for thresholds in found]
    ).reshape(len(strengths), 3)
    if np.isfinite(numbers).all(axis=1).sum() < 2:
        return None
    reachable, possible, informed = numbers.T
    marks: tuple[Mark, ...] = (
        Band(strengths, possible, reachable, "hard phase", POPULATION_COLOR),
        Line(strengths, reachable, "reached by message passing from", THRESHOLD_COLOR),
        Line(strengths, possible, "possible from", THRESHOLD_COLOR, dashed=True),
        Line(strengths, informed, "known truth is kept from", THRESHOLD_COLOR, thin=True),
    )
    return Panel("phases", "strength", "bags per dimension", marks, log_x=True)
