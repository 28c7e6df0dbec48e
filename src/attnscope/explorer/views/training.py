"""Training: the paper's four panels of exact population descent or SGD on fresh batches, to play through step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnscope.dynamics.experiments import EXPERIMENTS, Experiment
from attnscope.explorer.code import computed, predictor_lines, task_line, train_lines, training_limits
from attnscope.explorer.state import State, default_state, to_query
from attnscope.explorer.view import Shown, number
from attnscope.figures.figure import Figure, Heat, Panel
from attnscope.figures.render_plotly import plotly_dict
from attnscope.predictors.temperature import InverseTime

__all__ = ["presets", "training"]

LOGS = 100  # frames to play: at 10 a second, ten seconds


def training(state: State) -> Shown:
    """The view. Every trace of the figure has one point per logged step, so that the page can cut them all at one frame."""
    code = lines(state)
    names = computed(code)
    run = names["run"]
    figure = _with_ranges(names["figure"])
    header = ("outcome", "runs", "|kappa|", "|eta|", "|theta|", "|nu|", "excess risk", "risk")
    hidden = {"temperature", "decay"} if state.predictor == "sigma" else set()
    hidden |= (
        set() if state.batch else {"noise"}
    )  # it adds its square to the risk and leaves the population gradient alone
    plotly = plotly_dict(figure)
    plotly["layout"]["meta"] |= {"steps": [int(s) for s in run.step]}
    return Shown(figure, plotly, header, _rows(run), code, _note(state, names), frozenset(hidden), frames=len(run.step))


def presets() -> dict[str, str]:
    """The paper's five experiments: name -> query of this view that repeats it."""
    return {name.replace("_", " "): to_query(_preset(e)) for name, e in EXPERIMENTS.items()}


def _preset(e: Experiment) -> State:
    schedule = e.temperature
    first, decay = (schedule.start, schedule.rate) if isinstance(schedule, InverseTime) else (float(schedule), 0.0)  # type: ignore[arg-type]
    knobs: dict[str, Any] = {"temperature": first, "decay": decay, "dim": e.dim, "length": e.length, "noise": e.noise}
    knobs |= {"gamma2": round(e.gamma**2, 12), "step_size": e.step_size, "steps": e.steps, "start": e.start}
    return replace(default_state("training"), batch=e.batch_size or 0, **knobs)


def lines(state: State) -> str:
    return f"""import attnscope as at

task = {task_line(state)}
{predictor_lines(state)}
{train_lines(state, LOGS)}
figure = run.figure()  # the four panels: medians and the central 95 % of the runs
outcome, excess = run.outcome, run.excess  # excess (runs, logs) is exact
sentences = run.diagnose()
"""


def _with_ranges(figure: Figure) -> Figure:
    """The same figure with every range fixed, so that axes stand still while it plays."""
    return replace(figure, panels=tuple(_fixed(panel) for panel in figure.panels))


def _fixed(panel: Panel) -> Panel:
    marks = [mark for mark in panel.marks if not isinstance(mark, Heat)]
    x = np.concatenate([mark.x for mark in marks])
    y = np.concatenate([getattr(mark, name) for mark in marks for name in ("y", "low", "high") if hasattr(mark, name)])
    y = y[np.isfinite(y) & ((y > 0) | (not panel.log_y))]
    x_range = panel.x_range or (float(x.min()), float(x.max()))
    if panel.y_range is not None:
        return replace(panel, x_range=x_range)
    low, high = (float(y.min()), float(y.max())) if y.size else (0.0, 1.0)
    if panel.log_y:
        return replace(panel, x_range=x_range, y_range=(low / 1.3, high * 1.3))
    return replace(panel, x_range=x_range, y_range=(low - 0.05, high + 0.05))


def _rows(run: Any) -> list[tuple[str, ...]]:
    rows = []
    for name in ("oracle", "swapped", "undecided", "diverged"):
        ended = run.outcome == name
        if ended.any():
            kappa, eta, theta, nu = np.median(np.abs(run.log[:4, ended, -1]), axis=1)
            excess, risk = (float(np.median(a[ended, -1])) for a in (run.excess, run.risk))
            rows.append(
                (name, str(int(ended.sum())), *(number(float(v)) for v in (kappa, eta, theta, nu, excess, risk)))
            )
    return rows


def _note(state: State, names: dict[str, Any]) -> str:
    how = f"SGD on fresh batches of {state.batch}" if state.batch else "Exact population gradient"
    return f"{how}. {training_limits(state)[2]}{' '.join(names['sentences'])} Rows show medians at the last step."
