"""What n bags buy: the Bayes-optimal risk against bags per dimension, ridge fits beside it, and where
recovery is impossible, hard and reachable in (strength, alpha).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.figures.figure import Figure
from attnscope.figures.render_plotly import plotly_dict
from attnscope.theory.samples.compared import comparison_figure, phase_panel
from attnscope_explorer.python_lines import HEADER, computed
from attnscope_explorer.stage_data import add_stage, head, setting
from attnscope_explorer.state import State
from attnscope_explorer.view_result import ViewResult, number

__all__ = ["samples"]

MOST_FIT_TOKENS = (
    5  # tokens: a fit of more takes minutes a curve, and its theory was not tried there
)


def samples(state: State) -> ViewResult:
    """The view."""
    code = lines(state)
    names = computed(code)
    curves = names["curves"]
    drawn = comparison_figure(
        curves, names["population"].excess, names["best"], names["thresholds"]
    )
    phases = phase_panel(names["strengths"], names["phases"])
    panels = drawn.panels if phases is None else (*drawn.panels, phases)
    figure = Figure(drawn.title, panels, columns=2)
    header = ("alpha", "reached", "best", "k.k*", "v.v*", *(c.word for c in curves[1:]))
    hidden = frozenset({"penalty"} if len(curves) == 1 else ())
    plotly = _add_stage(plotly_dict(figure), state, names)
    return ViewResult(figure, plotly, header, _rows(names), code, _note(state, names), hidden)


def _add_stage(plotly: dict[str, Any], state: State, names: dict[str, Any]) -> dict[str, Any]:
    """The head that message passing finds from the bags under the mouse. The informative tokens
    differ by their mean alone, so that softmax at the inverse temperature `signal` is the posterior
    of its key.
    """
    task = names["task"]
    reached = names["curves"][0]
    own = {
        name: getattr(task, name) for name in ("dim", "length", "gamma", "signal", "noise")
    }
    found = setting(state, **own, predictor="softmax", inverse_temperature=task.signal)
    pairs = zip(reached.values["key_overlap"], reached.values["value_overlap"])
    heads = [head((a, 0.0, 0.0, b, 0.0)) for a, b in pairs]
    curve = {"x": [float(a) for a in reached.alpha], "heads": heads}
    return add_stage(
        plotly, found, heads[-1], "the head that 16 bags per dimension buy", curve=curve
    )


def lines(state: State) -> str:
    fits = {"none": (), "both": ("softmax", "linear")}.get(state.fits, (state.fits,))
    fits = fits if state.length <= MOST_FIT_TOKENS else ()
    return f"""{HEADER}from attnscope.theory.samples.compared import compared

task = at.SingleLocation.spiked(1000, {state.length}, {state.spike!r}, noise={state.noise!r})
# from how many bags per dimension the truth is found, here and at other strengths
thresholds = at.recovery_threshold({state.length}, {state.spike!r}, {state.noise!r})
strengths = np.geomspace(0.25, 16.0, 7)
phases = [at.recovery_threshold({state.length}, float(s), {state.noise!r}) for s in strengths]

grid = np.geomspace(0.25, 16.0, 25)  # bags per dimension, n = alpha d
jumps = [x.value for x in thresholds if x is not None]
alpha = np.union1d(grid, [near * x for x in jumps for near in (0.999, 1.001)])

# the least risk that message passing reaches, and the least that there is
curves = [compared(task, alpha, "bayes")]
best = compared(task, alpha, "bayes", branch="best")
population = task.bayes_risk()  # with key and value known
# minimisers of the squared error with a ridge, where replica symmetry holds
curves += [compared(task, grid[::4], word, ridge={state.penalty!r}) for word in {fits!r}]
"""


def _rows(names: dict[str, Any]) -> list[tuple[str, ...]]:
    reached, *fits = names["curves"]
    rows = []
    for i, a in enumerate(reached.alpha):
        cells = [number(float(reached.values["excess"][i]))]
        cells.append(number(float(names["best"].values["excess"][i])))
        cells += [number(float(reached.values[f"{x}_overlap"][i])) for x in ("key", "value")]
        for fit in fits:
            at = np.flatnonzero(fit.alpha == a)
            value = float(fit.values["excess"][at[0]]) if len(at) else np.nan
            cells.append(number(value) if np.isfinite(value) else "")
        rows.append((number(float(a)), *cells))
    return rows


def _note(state: State, names: dict[str, Any]) -> str:
    found = names["thresholds"]
    if found.reachable is None:
        phases = "One solution serves every number of bags: the risk falls without a jump."
    else:
        phases = (
            f"Recovery is possible from alpha = {number(found.possible.value)} and reached by "
            f"message passing from {number(found.reachable.value)}: between them lies the hard phase."
        )
    long = (
        ""
        if state.fits == "none" or state.length <= MOST_FIT_TOKENS
        else f" Fits are shown up to {MOST_FIT_TOKENS} tokens."
    )
    refused = " ".join(sentence for c in names["curves"] for sentence in c.refused)
    return (
        f"{phases} Risks are without the label noise, at d -> infinity; the curve is a replica "
        f"formula, checked by message passing (claims samples-01 to 04).{long} {refused}"
    ).strip()
