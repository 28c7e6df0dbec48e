"""The stage of the view that fits bags: one bag at a time, with the model's attention, what each token
would answer alone, and which token decided.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope_explorer.stage_data import ORACLE, WEIGHTS_TITLE, add_stage, given, setting
from attnscope_explorer.state import State

__all__ = ["add_bag_stage", "single_token_answers", "true_class_probability"]

# of all bags on stage, some 40 kB; beyond that only the one that is looked at
MOST_STAGE_TOKENS = 4000
HELD_OUT_READOUT = "Bags that were held out; point at another one in the figure."


def add_bag_stage(
    plotly: dict[str, Any], state: State, names: dict[str, Any], i: int
) -> dict[str, Any]:
    """The bag that is looked at, and any other under the mouse."""
    few = sum(len(a) for a in names["attention"]) <= MOST_STAGE_TOKENS
    every = {j: _bag_rows(names, j) for j in (range(len(names["test_y"])) if few else [i])}
    for trace in plotly["data"]:
        if trace["xaxis"] == "x" and trace.get("mode") == "markers":
            trace["meta"] = trace.get("meta", {}) | {"bags": _bags_of(names, trace, i)}
    first = setting(state, given=every[i], readout=HELD_OUT_READOUT)
    return add_stage(plotly, first, ORACLE, f"bag {i + 1}", bags=every)


def _bags_of(names: dict[str, Any], trace: dict[str, Any], i: int) -> list[int]:
    """Whose a point of the first panel is: of the bag that is looked at, of all in their order, or
    of those that stand at these ranks.
    """
    if names["classes"]:
        order = np.argsort(-true_class_probability(names))
        return [int(order[int(rank) - 1]) for rank in trace["x"]]
    return [i] if len(trace["x"]) == 1 else list(range(len(trace["x"])))


def _bag_rows(names: dict[str, Any], i: int) -> dict[str, Any]:
    weights = np.asarray(names["attention"][i])
    chosen = int(names["located"][i])
    truth = names["truth"]
    decides = chosen if truth is None else int(truth[i])
    label = names["test_y"][i]
    p = names["prediction"][i]
    answer = None
    if not names["classes"]:
        answer = float(p), float(label)
        p, label = (f"{x:.2f}" for x in answer)
    answers, title = single_token_answers(names, i)
    rows = {WEIGHTS_TITLE: weights, title: answers}
    right = (
        "the one that decides" if decides == chosen else f"but token {decides + 1} decides"
    )
    known = "" if truth is None else f", {right},"
    said = (
        f"The model puts {weights[chosen]:.0%} of its attention on token {chosen + 1}{known} and "
        f"predicts {p}; the label is {label}."
    )
    return given(rows, said, decides, answer)


def single_token_answers(names: dict[str, Any], i: int) -> tuple[np.ndarray, str]:
    """What each token of a bag would answer as a bag of its own, and what that is called: of classes,
    the probability of the bag's own.
    """
    answers = np.asarray(names["alone"][i])
    if not names["classes"]:
        return answers, "each token's own answer"
    label = names["test_y"][i]
    column = int(np.searchsorted(names["model"].classes_, label))
    return answers[:, column], f"each token's own P(class {label})"


def true_class_probability(names: dict[str, Any]) -> np.ndarray:
    """The probability that each bag's own class gets."""
    y = names["test_y"]
    return names["spread"][np.arange(len(y)), np.searchsorted(names["model"].classes_, y)]
