"""One sequence: its tokens' scores, who attends to which token,
the exact posterior of the location, and the truth.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.figures.figure import Figure, Line, Mark, Panel
from attnscope.figures.render_plotly import plotly_dict
from attnscope.registry import PREDICTORS
from attnscope_explorer.python_lines import (
    HEADER,
    PAPER_PREDICTORS,
    computed,
    families,
    task_line,
)
from attnscope_explorer.stage_data import ORACLE, add_stage, sequence, setting
from attnscope_explorer.state import State
from attnscope_explorer.view_result import Advice, ViewResult, number
from attnscope_explorer.views.stems import stems

__all__ = ["posterior"]

# numbers in the sequence that is drawn, 80 MB: more would make a page slow for no better picture
SEQUENCE_NUMBERS = 10_000_000
# colours of the background tokens and of the informative one
OTHER_COLOUR = 0
INFORMATIVE_COLOUR = 1
CERTAIN_PROBABILITY = 1 - 1e-9  # a posterior from here on leaves nothing in doubt
DOUBTFUL_DIM = 20  # a dimension at which it does


def posterior(state: State) -> ViewResult:
    """The view; attention looks along the true key k* and reads along the true value v*."""
    if state.dim * state.length > SEQUENCE_NUMBERS:
        got = f"{state.dim} times {state.length}"
        raise bad(
            "dimension times tokens",
            "the posterior view",
            f"at most {SEQUENCE_NUMBERS}",
            got,
            "a smaller dimension",
        )
    code = lines(state)
    names = computed(code)
    figure = _figure(names)
    hidden = frozenset({"inverse_temperature"} if state.tuning == "best" else ())
    header = (
        "predictor",
        "weight on the true token",
        "largest weight on token",
        "prediction",
        "squared error",
    )
    return ViewResult(
        figure,
        _add_stage(plotly_dict(figure), state, names),
        header,
        _rows(names),
        code,
        _note(names),
        hidden,
        advice=tuple(_advice(state, names)),
    )


def _add_stage(plotly: dict[str, Any], state: State, names: dict[str, Any]) -> dict[str, Any]:
    """The predictor of the panel under the mouse, on the sequence that is drawn."""
    words = {PREDICTORS[word].label: word for word in PAPER_PREDICTORS} | {
        "optimal sigma": "sigma"
    }
    for i, name in enumerate(names["weights"], start=4):  # after scores, values and posterior
        inverse_temperature = names["inverse_temperatures"].get(
            name, state.inverse_temperature
        )
        changed = {
            "predictor": words[name],
            "inverse_temperature": float(inverse_temperature),
        }
        for trace in plotly["data"]:
            if trace["xaxis"] == f"x{i}":
                meta = {"setting": changed, "choice": name}
                meta["label"] = f"{name} at the oracle directions"
                trace["meta"] = trace.get("meta", {}) | meta
    inverse_temperature = float(names["inverse_temperatures"]["softmax"])
    batch = names["batch"]
    drawn = sequence(batch.tokens[0], names["task"], names["location"], names["label"])
    first = setting(
        state, predictor="softmax", inverse_temperature=inverse_temperature, drawn=drawn
    )
    return add_stage(plotly, first, ORACLE, "softmax at the oracle directions")


def _advice(state: State, names: dict[str, Any]) -> list[Advice]:
    """Where nothing is in doubt there is nothing to see."""
    sure = float(names["posterior"][int(names["location"])])
    if sure < CERTAIN_PROBABILITY or state.dim <= DOUBTFUL_DIM:
        return []
    said = f"At d = {state.dim} the deciding token is beyond doubt."
    return [Advice(said, ((f"Look at d = {DOUBTFUL_DIM}", {"dim": str(DOUBTFUL_DIM)}),))]


def lines(state: State) -> str:
    how = (
        "at.optimal_inverse_temperature(task, family)[0]"
        if state.tuning == "best"
        else repr(state.inverse_temperature)
    )
    return f"""{HEADER}
task = {task_line(state)}
batch = task.sample(1, seed={state.seed})
location, label = batch.location[0], batch.target[0]  # locations count from 0

families = {families(PAPER_PREDICTORS)}
inverse_temperatures = {{name: {how} for name, family in families.items()}}
predictors = {{"optimal sigma": at.optimal_sigma(task)}}
predictors |= {{name: family(inverse_temperatures[name]) for name, family in families.items()}}

k, v = task.key, task.value
scores, values = batch.tokens[0] @ k, batch.tokens[0] @ v
weights = {{name: at.attention_weights(p, k, batch.tokens)[0] for name, p in predictors.items()}}
predictions = {{name: at.predict(p, k, v, batch.tokens)[0] for name, p in predictors.items()}}
posterior = task.location_posterior(batch.tokens)[0]  # exact P(J = l | X)
bayes = task.bayes_predict(batch.tokens)[0]  # exact E[Y | X]
"""


def _figure(names: dict[str, Any]) -> Figure:
    where = int(names["location"])
    panels = [_stems("score X·k*", "score", names["scores"], where)]
    panels.append(_values(names, where))
    panels.append(
        _stems(
            "exact posterior P(J | X)",
            "probability",
            names["posterior"],
            where,
            (-0.05, 1.08),
        )
    )
    for name, weights in names["weights"].items():
        inverse_temperature = names["inverse_temperatures"].get(name)
        title = (
            name
            if inverse_temperature is None
            else f"{name}, inverse temperature {inverse_temperature:.3g}"
        )
        panels.append(_stems(title, "weight", weights, where))
    return Figure("one sequence", tuple(panels), columns=2)


def _values(names: dict[str, Any], where: int) -> Panel:
    """What each token would answer, and the label."""
    panel = _stems("value X·v* and the label", "value", names["values"], where)
    label = Line(
        [0.3, len(names["values"]) + 0.7], [names["label"]] * 2, "label", color=2, dashed=True
    )
    return replace(panel, marks=(label, *panel.marks))


def _stems(
    title: str,
    y_label: str,
    values: np.ndarray,
    where: int,
    y_range: tuple[float, float] | None = None,
) -> Panel:
    """A stem per token, the informative one in another colour.
    Tokens count from 1 in the picture.
    """
    token = np.arange(1, len(values) + 1)
    true = np.arange(len(values)) == where
    marks: list[Mark] = []
    for chosen, label, color in (
        (~true, "background tokens", OTHER_COLOUR),
        (true, "informative token", INFORMATIVE_COLOUR),
    ):
        marks += stems(token[chosen], values[chosen], label, color)
    return Panel(
        title,
        "token",
        y_label,
        tuple(marks),
        x_range=(0.3, len(values) + 0.7),
        y_range=y_range,
    )


def _rows(names: dict[str, Any]) -> list[tuple[str, ...]]:
    where = int(names["location"])
    label = float(names["label"])
    every = {
        name: (w, float(names["predictions"][name])) for name, w in names["weights"].items()
    }
    every["Bayes: E[Y | X]"] = (names["posterior"], float(names["bayes"]))
    return [
        (
            name,
            number(float(w[where])),
            str(int(np.argmax(w)) + 1),
            number(p),
            number((p - label) ** 2),
        )
        for name, (w, p) in every.items()
    ]


def _note(names: dict[str, Any]) -> str:
    where = int(names["location"])
    label = float(names["label"])
    return (
        f"The label {number(label)} was decided by token {where + 1}; the exact posterior gives it "
        "probability "
        f"{number(float(names['posterior'][where]))}. Attention looks along the true key k*, so a "
        "weight is not a probability "
        "unless the predictor makes it one."
    )
