"""Training: risk, distance, overlaps and paths of exact population descent or SGD on fresh batches,
by outcome, to play through step by step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnscope.dynamics.experiments import EXPERIMENTS, Experiment
from attnscope.dynamics.overlap_runs import SAMPLED_SEQUENCES
from attnscope.dynamics.trajectory import Trajectory
from attnscope.figures.figure import Figure, Heat, Panel
from attnscope.figures.render_plotly import plotly_dict
from attnscope.predictors.inverse_temperature import InverseTime
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.route import find_route
from attnscope_explorer.knobs import SINGLE_LOCATION, unused_knobs
from attnscope_explorer.live import run_lines, total_steps
from attnscope_explorer.python_lines import computed
from attnscope_explorer.stable_steps import (
    limit_of,
    step_advice,
    training_advice,
)
from attnscope_explorer.stage_data import add_stage, head, setting
from attnscope_explorer.state import FIELDS, State, default_state, to_query
from attnscope_explorer.view_result import Advice, ViewResult, number

__all__ = ["presets", "training"]


def training(state: State, run: Trajectory | None = None) -> ViewResult:
    """The view of a run that may still be on its way (None: all of it).

    Every trace has one point per logged step, so that the page can cut them all at one frame.
    """
    total = total_steps(state)
    if run is None:
        run = computed(run_lines(state, total))["run"]
    done = int(run.step[-1])
    figure = _with_ranges(run.figure(ended=done == total), total)
    header = ("outcome", "runs", "|kappa|", "|eta|", "|theta|", "|nu|", "excess risk", "risk")
    hidden = set(unused_knobs("training", state.task))
    if state.predictor == "sigma":
        hidden |= {"inverse_temperature", "decay"}
    if not state.batch:
        # it adds its square to the risk and leaves the population gradient alone
        hidden.add("noise")
    plotly = plotly_dict(figure)
    plotly["layout"]["meta"] |= {"steps": [int(s) for s in run.step], "going": done < total}
    if state.task == SINGLE_LOCATION:
        _add_stage(plotly, state, run, done == total)
    return ViewResult(
        figure,
        plotly,
        header,
        _rows(run, done == total),
        lines(state, done, "sampled" if _has_sampled_risks(run) else "exact"),
        _note(state, run),
        frozenset(hidden),
        len(run.step),
        done,
        total,
        advice=tuple(_advice(state, run, done == total)),
    )


def _typical_run(run: Trajectory, group: np.ndarray) -> int:
    """The run of median excess risk at the end."""
    order = np.argsort(run.excess[group, -1], kind="stable")
    return int(group[order[(len(group) - 1) // 2]])


def _add_stage(plotly: dict[str, Any], state: State, run: Trajectory, ended: bool) -> None:
    """A typical run of each group for the stage, at every logged step."""
    outcome = run.outcome if ended else np.full(run.runs, "on the way")
    groups = {}
    for name in dict.fromkeys(outcome):
        i = _typical_run(run, np.flatnonzero(outcome == name))
        groups[str(name)] = [head(o) for o in run.log[:, i].T]
    first = next(iter(groups))
    more = {
        "groups": groups,
        "inverse_temperatures": [float(x) for x in run.inverse_temperature],
    }
    add_stage(plotly, setting(state), groups[first][-1], f"a typical run, {first}", **more)


def _advice(state: State, run: Trajectory, ended: bool) -> list[Advice]:
    if not ended:
        return step_advice(state, limit_of(state), run.setup.step_size)
    most = total_steps(state.changed(steps=int(FIELDS["steps"].high)))
    return training_advice(state, limit_of(state), run, most)


def presets() -> dict[str, str]:
    """The paper's five experiments: name -> query of this view that repeats it."""
    return {name.replace("_", " "): to_query(_preset(e)) for name, e in EXPERIMENTS.items()}


def _preset(e: Experiment) -> State:
    schedule = e.inverse_temperature
    first, decay = (
        (schedule.start, schedule.rate)
        if isinstance(schedule, InverseTime)
        else (float(schedule), 0.0)  # type: ignore[arg-type]
    )
    names = ("dim", "length", "noise", "step_size", "steps", "start")
    knobs: dict[str, Any] = {name: getattr(e, name) for name in names}
    return default_state("training").changed(
        inverse_temperature=first,
        decay=decay,
        gamma2=round(e.gamma**2, 12),
        batch=e.batch_size or 0,
        **knobs,
    )


def lines(state: State, steps: int, how: str) -> str:
    drawn = (
        "run.figure()  # by outcome: medians and the central 95 % of each group"
        if steps == total_steps(state)
        else "run.figure(ended=False)  # on the way: the runs one by one"
    )
    return f"""{run_lines(state, steps)}figure = {drawn}
outcome, excess = run.outcome, run.excess  # excess (runs, logs) is {how}
sentences = run.diagnose()
"""


def _has_sampled_risks(run: Trajectory) -> bool:
    """Whether the risks are sampled: no exact route serves the pair at all overlaps."""
    route = find_route(run.setup.task, run.setup.predictor)
    somewhere = Overlaps(0.0, 0.0, 0.0, 0.0, 0.0)
    return route is None or bool(
        route.missing(run.setup.task, run.setup.predictor, somewhere)
    )


def _with_ranges(figure: Figure, steps: int) -> Figure:
    """The same figure with every range fixed, so that axes stand still while it plays;
    those of steps show all there will be.
    """
    return replace(
        figure, panels=tuple(_fixed_panel(panel, steps) for panel in figure.panels)
    )


def _fixed_panel(panel: Panel, steps: int) -> Panel:
    marks = [mark for mark in panel.marks if not isinstance(mark, Heat)]
    x = np.concatenate([mark.x for mark in marks])
    y = np.concatenate(
        [
            getattr(mark, name)
            for mark in marks
            for name in ("y", "low", "high")
            if hasattr(mark, name)
        ]
    )
    y = y[np.isfinite(y) & ((y > 0) | (not panel.log_y))]
    x_range = panel.x_range or (
        (0.0, float(steps)) if panel.x_label == "step" else (float(x.min()), float(x.max()))
    )
    if panel.y_range is not None:
        return replace(panel, x_range=x_range)
    low, high = (float(y.min()), float(y.max())) if y.size else (0.0, 1.0)
    if panel.log_y:
        return replace(panel, x_range=x_range, y_range=(low / 1.3, high * 1.3))
    return replace(panel, x_range=x_range, y_range=(low - 0.05, high + 0.05))


def _rows(run: Any, ended_all: bool) -> list[tuple[str, ...]]:
    """Medians by outcome, or of all runs as long as they have none:
    for softmax the outcome takes seconds.
    """
    rows = []
    outcome = run.outcome if ended_all else np.full(run.runs, "on the way")
    for name in ("oracle", "swapped", "undecided", "diverged", "on the way"):
        ended = outcome == name
        if ended.any():
            kappa, eta, theta, nu = np.median(np.abs(run.log[:4, ended, -1]), axis=1)
            excess, risk = (float(np.median(a[ended, -1])) for a in (run.excess, run.risk))
            rows.append(
                (
                    name,
                    str(int(ended.sum())),
                    *(number(float(v)) for v in (kappa, eta, theta, nu, excess, risk)),
                )
            )
    return rows


def _note(state: State, run: Any) -> str:
    how = (
        f"SGD on fresh batches of {state.batch}"
        if state.batch
        else "Exact population gradient"
    )
    done = int(run.step[-1])
    total = total_steps(state)
    if _has_sampled_risks(run):
        how += f", risks sampled from {SAMPLED_SEQUENCES} sequences a point"
    slow = (
        ""
        if total == state.steps
        else f"Exact steps of this predictor are slow: {total} of them at most. "
    )
    if done < total:
        return f"{how}. {slow}Step {done} of {total}: it goes on. Rows show medians at this step."
    return f"{how}. {slow}{' '.join(run.diagnose())} Rows show medians at the last step."
