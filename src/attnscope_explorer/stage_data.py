"""What the stage of a view needs to know: the setting, the head that is shown at first, and the heads
that the figure's points stand for. Drawing is the page's (assets/stage.js, live_stage.js): no point
under the mouse asks the server.

In a figure's `layout.meta.stage`:
    setting   the task and the predictor, as attnscopeStage.draw wants them
    overlaps  of the head shown at first: kappa, eta, theta, nu, rho
    label     whose head that is
    plane     {"x", "y", "fixed"}: a point of the heat map is the head with these overlaps
    steps     {"groups": {name: [overlaps of each logged step]}}: a typical run of each group
    axis      the number of the setting that the horizontal axis stands for
    bags      what is given of each bag: a point or a row of the figure is one of them
A setting may hold on to a sequence that was drawn (`drawn`, of `sequence`), or to numbers of another
kind of sequence (`given`): rows of bars, weights, an answer and the truth.
and in a trace's `meta`: heads, overlaps of each of its points; setting, what differs on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attnscope_explorer.state import OVERLAPS, State

__all__ = [
    "ORACLE",
    "WEIGHTS_TITLE",
    "add_stage",
    "given",
    "head",
    "plane",
    "sequence",
    "setting",
]

ORACLE = [1.0, 0.0, 0.0, 1.0, 0.0]
OVERLAP_DIGITS = 4  # of an overlap: less than a pixel of a bar
WEIGHTS_TITLE = "attention weight"  # the row that tokens are chosen by where not all fit
SEQUENCE_SEED = (
    0  # of the drawn sequence: the same in every view, so that heads can be compared
)


def setting(state: State, **changed: Any) -> dict[str, Any]:
    """The state's task and predictor for the stage."""
    values = {
        "dim": state.dim,
        "length": state.length,
        "gamma": math.sqrt(state.gamma2),
        "signal": state.signal,
        "noise": state.noise,
        "predictor": state.predictor,
        "inverse_temperature": state.inverse_temperature,
        "seed": SEQUENCE_SEED,
    }
    return values | changed


def head(overlaps: Sequence[Any] | np.ndarray) -> list[float]:
    """Five overlaps as short numbers; those of unit vectors do not leave [-1, 1] by rounding."""
    # towards zero: rounded up, a unit vector might be longer than one
    scale = 10**OVERLAP_DIGITS
    return [math.trunc(scale * float(x)) / scale for x in overlaps]


def sequence(tokens: np.ndarray, task: Any, location: int, truth: float) -> dict[str, Any]:
    """One sequence (L, d) of the task for heads in the plane of its key and value: the tokens along
    k* and v*, the squared length of the rest of each, location and label.
    """
    inside = tokens @ np.stack([task.key, task.value], axis=1)
    rest = np.maximum(np.sum(tokens**2, axis=1) - np.sum(inside**2, axis=1), 0.0)
    return {
        "tokens": inside.tolist(),
        "rest": rest.tolist(),
        "location": int(location),
        "truth": float(truth),
    }


def given(
    rows: Mapping[str, Any],
    sentence: str,
    location: int | None = None,
    answer: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Numbers of a sequence that is not the task's: rows of bars by their titles, WEIGHTS_TITLE among
    them, the token that decides, and (prediction, truth) where they are numbers.
    """
    prediction, truth = (None, None) if answer is None else map(four_digits, answer)
    bars = {title: [four_digits(x) for x in numbers] for title, numbers in rows.items()}
    return {
        "rows": [list(row) for row in bars.items()],
        "location": location,
        "prediction": prediction,
        "truth": truth,
        "sentence": sentence,
    }


def four_digits(x: Any) -> float:
    """Four significant digits: more than a bar shows."""
    return float(f"{float(x):.{OVERLAP_DIGITS}g}")


def add_stage(
    plotly: dict[str, Any],
    of: dict[str, Any],
    first: Sequence[float],
    label: str,
    **more: Any,
) -> dict[str, Any]:
    """The figure with its stage."""
    stage = {"setting": of, "overlaps": head(first), "label": label} | more
    plotly["layout"]["meta"] |= {"stage": stage}
    return plotly


def plane(state: State) -> dict[str, Any]:
    """The overlaps that the landscape's axes stand for, and the others."""
    fixed = {
        name: getattr(state, name) for name in OVERLAPS if name not in (state.x, state.y)
    }
    return {"x": state.x, "y": state.y, "fixed": fixed}
