"""The numbers that steps state, from the library: each is a function without arguments.

`shown("landscape", "seed=1")` has the names that the lines under that view compute, so a number read
off a view is computed by the very lines that the page runs. A test evaluates all of them; the page
never does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any, ParamSpec

import numpy as np

__all__ = [
    "bag_value",
    "bags_per_dimension",
    "best_inverse_temperature",
    "best_risk",
    "curve_value",
    "default_value",
    "held_out_result",
    "path_count",
    "point_value",
    "prediction_or_label",
    "recovery_threshold",
    "risk_at",
    "run_count",
    "swapped_and_oracle_cross",
    "token_number",
    "token_weight",
    "view_values",
]

Arguments = ParamSpec("Arguments")


def deferred(number: Callable[Arguments, float]) -> Callable[Arguments, Callable[[], float]]:
    """The function with the same arguments that computes nothing before its result is called."""

    @wraps(number)
    def later(*args: Arguments.args, **more: Arguments.kwargs) -> Callable[[], float]:
        return partial(number, *args, **more)

    return later


@cache
def view_values(view: str, query: str) -> dict[str, Any]:
    """The names that the view's lines compute."""
    from attnscope_explorer.live import run_lines, total_steps
    from attnscope_explorer.python_lines import computed
    from attnscope_explorer.state import from_query
    from attnscope_explorer.views import bags, landscape, posterior, risk, samples

    state, _ = from_query(view, query)
    if view == "bags":
        return computed(bags.lines(state, None))
    if view == "training":
        return computed(run_lines(state, total_steps(state)))
    lines = {"landscape": landscape, "posterior": posterior, "risk": risk, "samples": samples}
    return computed(lines[view].lines(state))


@deferred
def path_count(query: str, outcome: str) -> float:
    """How many of a landscape's paths end so."""
    return float((view_values("landscape", query)["outcome"] == outcome).sum())


@deferred
def run_count(query: str, outcome: str) -> float:
    """How many runs of the training view end so."""
    return float((view_values("training", query)["run"].outcome == outcome).sum())


def default_value(view: str, name: str) -> float:
    """What a knob is when nobody turned it."""
    from attnscope_explorer.state import default_state

    return float(getattr(default_state(view), name))


@deferred
def point_value(query: str, name: str, what: str) -> float:
    """The risk or an overlap of a landscape's stationary point."""
    points = {p.name: p for p in view_values("landscape", query)["points"]}
    point = points[name]
    return float(point.risk.value if what == "risk" else getattr(point.overlaps, what))


def swapped_and_oracle_cross() -> float:
    """The inverse temperature at which both minima have one risk, at d = 400 and L = 10."""
    from scipy.optimize import brentq

    import attnscope as at

    task = at.SingleLocation(dim=400, length=10)

    def gap(inverse_temperature: float) -> float:
        points = at.stationary_points(task, at.Erf(inverse_temperature))
        risks = {p.name: p.risk.value for p in points}
        return float(np.subtract(risks["oracle"], risks["swapped"]))

    return float(brentq(gap, 0.05, 0.15, xtol=1e-10))


# -- the risk view ---------------------------------------------------------------------------------


@deferred
def best_inverse_temperature(query: str, name: str) -> float:
    """Of a predictor, in the risk view."""
    return float(view_values("risk", query)["optima"][name][0])


@deferred
def best_risk(query: str, name: str) -> float:
    """At its best inverse temperature."""
    return float(np.exp(view_values("risk", query)["optima"][name][1]))


@deferred
def risk_at(query: str, name: str, x: float | None = None) -> float:
    """Of a curve of the risk view, at x on its axis; at the chosen inverse temperature without x."""
    names = view_values("risk", query)
    if x is None:
        return float(np.exp(names["at_chosen"][name]))
    place = int(np.argmin(np.abs(names["xs"] - x)))
    return float(np.exp(names["curves"][name][place]))


# -- the posterior view ----------------------------------------------------------------------------


@deferred
def token_number(query: str, name: str = "") -> float:
    """The number of the token that decided, or of the one with the predictor's largest weight."""
    names = view_values("posterior", query)
    if name == "posterior":
        return float(np.argmax(names["posterior"]) + 1)
    return float((np.argmax(names["weights"][name]) if name else names["location"]) + 1)


@deferred
def token_weight(query: str, name: str) -> float:
    """Of the deciding token: attention weight, exact posterior, or score."""
    names = view_values("posterior", query)
    every = names["weights"] | {"posterior": names["posterior"], "score": names["scores"]}
    return float(every[name][names["location"]])


@deferred
def prediction_or_label(query: str, name: str) -> float:
    """A prediction in the posterior view, that of Bayes, or the label."""
    names = view_values("posterior", query)
    more = {"label": names["label"], "bayes": names["bayes"]}
    return float((names["predictions"] | more)[name])


# -- the views of samples and bags -----------------------------------------------------------------


@deferred
def curve_value(query: str, alpha: float, what: str = "excess", curve: int = 0) -> float:
    """Of the samples view at alpha bags per dimension: risk or an overlap of one of its curves."""
    c = view_values("samples", query)["curves"][curve]
    return float(c.values[what][int(np.argmin(np.abs(c.alpha - alpha)))])


@deferred
def bags_per_dimension(alpha: float) -> float:
    """The point of the samples view's grid that is nearest to alpha."""
    return float(min(view_values("samples", "")["grid"], key=lambda x: abs(x - alpha)))


@deferred
def recovery_threshold(query: str, what: str) -> float:
    """From how many bags per dimension recovery is possible, or reachable."""
    return float(getattr(view_values("samples", query)["thresholds"], what).value)


@deferred
def held_out_result(query: str, what: str) -> float:
    """Of the bags view: share located, share explained or right, in per cent; losses."""
    names = view_values("bags", query)
    y, d = names["test_y"], names["diagnosis"]
    null = float(np.mean((y - names["fit_y"].mean()) ** 2))
    found = {
        "located": lambda: 100 * np.mean(names["located"] == names["truth"]),
        "right": lambda: 100 * np.mean(names["prediction"] == y),
        "explained": lambda: 100 * (1 - d.loss / null),
        "pooled": lambda: 100 * (1 - d.mean_pool_loss / null),
        "bags": lambda: len(y),
        "fitted": lambda: len(names["fit_y"]),
    }
    return float(found[what]())


@deferred
def bag_value(query: str, bag: int, what: str) -> float:
    """Of one bag held out: the chosen token, its weight, the digit on it, label and prediction."""
    names = view_values("bags", query)
    i = bag - 1
    chosen = int(names["located"][i])
    found = {
        "token": lambda: chosen + 1,
        "weight": lambda: np.asarray(names["attention"][i])[chosen],
        "digit": lambda: names["test"].digit[i][chosen],
        "label": lambda: names["test_y"][i],
        "prediction": lambda: names["prediction"][i],
    }
    return float(found[what]())
