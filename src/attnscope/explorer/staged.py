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
and in a trace's `meta`: heads, overlaps of each of its points; setting, what differs on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnscope.explorer.state import OVERLAPS, State

__all__ = ["ORACLE", "head", "plane", "setting", "staged"]

ORACLE = [1.0, 0.0, 0.0, 1.0, 0.0]
DIGITS = 4  # of an overlap: less than a pixel of a bar
SEED = 0  # of the drawn sequence: the same in every view, so that heads can be compared


def setting(state: State, **changed: Any) -> dict[str, Any]:
    """The state's task and predictor for the stage."""
    values = {
        "dim": state.dim,
        "length": state.length,
        "gamma": math.sqrt(state.gamma2),
        "signal": state.signal,
        "noise": state.noise,
        "predictor": state.predictor,
        "temperature": state.temperature,
        "seed": SEED,
    }
    return values | changed


def head(overlaps: Sequence[Any] | np.ndarray) -> list[float]:
    """Five overlaps as short numbers; those of unit vectors do not leave [-1, 1] by rounding."""
    # towards zero: rounded up, a unit vector might be longer than one
    scale = 10**DIGITS
    return [math.trunc(scale * float(x)) / scale for x in overlaps]


def staged(
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
