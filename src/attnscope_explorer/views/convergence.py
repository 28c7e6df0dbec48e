"""Attention in the length of its context: exact and sampled errors of softmax and CME attention,
and one sequence read token by token.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.figures.figure import Figure, Line, Mark, Panel, Points
from attnscope.figures.render_plotly import plotly_dict
from attnscope_explorer.python_lines import HEADER, computed
from attnscope_explorer.stage_data import ORACLE, WEIGHTS_TITLE, add_stage, given, setting
from attnscope_explorer.state import State
from attnscope_explorer.view_result import ViewResult, number

__all__ = ["convergence"]

MEAN_READOUT = "No token decides: the answer is a weighted mean of values."
BAR_STANDARD_ERRORS = 2.0  # standard errors shown as bars
STAGE_TOKENS = 12  # tokens on stage: a bar of each is wide enough to be pointed at
CURVE_COLOURS = {"softmax": 1, "CME": 0, "Bayes": 5, "truth": 2}


def convergence(state: State) -> ViewResult:
    """The view. Keys uniform on the sphere, values a random linear function of them plus noise."""
    code = lines(state)
    names = computed(code)
    figure = _figure(state, names)
    hidden = frozenset({"bandwidth"} if state.rule == "shrinking" else ())
    header = ("L", "softmax, exact", "sampled", "CME, equivalent", "sampled", "Bayes", "±")
    plotly = _add_stage(plotly_dict(figure), state, names)
    return ViewResult(figure, plotly, header, _rows(names), code, _note(state, names), hidden)


def _add_stage(plotly: dict[str, Any], state: State, names: dict[str, Any]) -> dict[str, Any]:
    """The first tokens of the growing sequence, and the weights of the operator under the mouse."""
    found = {name: _token_rows(names, name) for name in names["weights"]}
    for trace in plotly["data"]:
        name = trace["name"].split(",")[0]
        if name in found:
            meta = {"setting": {"given": found[name]}, "choice": name, "label": _label(name)}
            trace["meta"] = trace.get("meta", {}) | meta
    first = setting(state, given=found["softmax"], readout=MEAN_READOUT)
    return add_stage(plotly, first, ORACLE, _label("softmax"))


def _label(name: str) -> str:
    return f"{name} on the first {STAGE_TOKENS} tokens of one sequence"


def _token_rows(names: dict[str, Any], name: str) -> dict[str, Any]:
    weights = names["weights"][name]
    values = names["v"][:STAGE_TOKENS, 0]
    scores = names["k"][:STAGE_TOKENS] @ names["q"]
    answer = float(weights @ values)
    top = int(np.argmax(np.abs(weights)))
    said = (
        f"{name[0].upper()}{name[1:]} attention gives its largest weight, {weights[top]:.2f}, to token "
        f"{top + 1}; it answers {answer:.2f}, the function itself has {names['truth']:.2f} there."
    )
    rows = {
        "key along the query": scores,
        WEIGHTS_TITLE: weights,
        "value, with noise": values,
    }
    return given(rows, said, answer=(answer, names["truth"]))


def lines(state: State) -> str:
    bandwidth = (
        f"L ** (-2 / {state.keys + 3})"
        if state.rule == "shrinking"
        else repr(state.bandwidth)
    )
    return f"""{HEADER}from attnscope_claims.sphere_errors import sampled_curve
from attnscope.theory.exchangeable.learning_curves import softmax_expansion

dim, noise, ridge = {state.keys}, {state.noise!r}, {state.ridge!r}
# keys uniform on the sphere, values w.key + noise, w standard normal
task = at.SphereRegression(dim=dim, noise=noise)


def bandwidth(L):
    return {bandwidth}


def softmax(q, k, v, L):
    return at.softmax_attention(q, k, v, bandwidth(L))


def cme(q, k, v, L):
    return at.cme_attention(q, k, v, kernel="rbf", bandwidth=1.0, ridge=ridge)


# mean squared error at a new key: exact for softmax, the deterministic equivalent for CME,
# Monte Carlo over keys for Bayes
lengths = np.array([2, 4, 8, 16, 32, 64, 128, 256, 512, 1024])
curves = {{
    "softmax": np.array([at.softmax_curve(dim, int(L), bandwidth(L), noise).value for L in lengths]),
    "CME": np.array([at.cme_curve(dim, int(L), ridge, 1.0, noise) for L in lengths]),
}}
plateau = softmax_expansion(dim, np.inf, bandwidth(lengths[-1]), noise)  # of the last bandwidth
bayes = [task.bayes_risk(int(L), samples=100) for L in lengths]

# the operators themselves on drawn contexts, with standard errors
drawn, contexts = np.array([4, 16, 64, 256]), (200, 100, 50, 20)
rng = np.random.default_rng({state.seed})
operators = {{"softmax": softmax, "CME": cme}}
sampled = {{
    name: sampled_curve(f, dim, drawn, contexts, 8, noise, rng) for name, f in operators.items()
}}

# one function, one query, a context that grows: both head for the value w.q that no noise touches
one = task.sample(1, length=1024, seed={state.seed})
q, k, v = one.query[0], one.keys[0], one.values[0]
truth = float((task.features(q) @ one.latent[0].T)[0])
# what each of the first tokens counts: the answer to values that are 1 there and 0 elsewhere
weights = {{
    name: f(q, k[:{STAGE_TOKENS}], np.eye({STAGE_TOKENS}), {STAGE_TOKENS}) for name, f in operators.items()
}}
grown = np.unique(np.geomspace(1, 1024, 41).round().astype(int))
read = {{
    "softmax": np.array([softmax(q, k[:L], v[:L], L)[0] for L in grown]),
    "CME": np.array([cme(q, k[:L], v[:L], L)[0] for L in grown]),
    "Bayes": np.array([task.bayes_predict(q, k[:L], v[:L])[0] for L in grown]),
}}
"""


def _figure(state: State, names: dict[str, Any]) -> Figure:
    L = names["lengths"]
    error: list[Mark] = [
        Line(L, y, f"{name}, theory", CURVE_COLOURS[name])
        for name, y in names["curves"].items()
    ]
    for name, (mean, spread) in names["sampled"].items():
        error.append(
            Points(
                names["drawn"],
                mean,
                f"{name}, drawn contexts",
                CURVE_COLOURS[name],
                BAR_STANDARD_ERRORS * spread,
            )
        )
    error.append(
        Line(
            L,
            [e.excess for e in names["bayes"]],
            "Bayes",
            CURVE_COLOURS["Bayes"],
            dashed=True,
        )
    )
    if state.rule == "fixed":
        error.append(
            Line(
                L[[0, -1]],
                [names["plateau"]] * 2,
                "plateau of this bandwidth",
                6,
                dashed=True,
            )
        )
    grown = names["grown"]
    path: list[Mark] = [
        Line(grown, y, name, CURVE_COLOURS[name], name == "Bayes")
        for name, y in names["read"].items()
    ]
    path.append(
        Line(
            grown[[0, -1]],
            [names["truth"]] * 2,
            "truth w.q",
            CURVE_COLOURS["truth"],
            dashed=True,
        )
    )
    panels = (
        Panel(
            "error against length",
            "tokens L",
            "mean squared error",
            tuple(error),
            log_x=True,
            log_y=True,
        ),
        Panel("one growing sequence", "tokens L", "answer at q", tuple(path), log_x=True),
    )
    return Figure("attention in the length of its context", panels, columns=2)


def _rows(names: dict[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for i, L in enumerate(names["lengths"]):
        found = np.flatnonzero(names["drawn"] == L)
        seen = {
            name: f"{number(mean[found[0]])} ± {spread[found[0]]:.1g}" if len(found) else ""
            for name, (mean, spread) in names["sampled"].items()
        }
        exact = {name: number(y[i]) for name, y in names["curves"].items()}
        bayes = names["bayes"][i]
        cells = (exact["softmax"], seen["softmax"], exact["CME"], seen["CME"])
        rows.append((str(L), *cells, number(bayes.excess), f"{bayes.error:.1g}"))
    return rows


def _note(state: State, names: dict[str, Any]) -> str:
    off = {
        name: np.max(
            np.abs(
                mean
                - names["curves"][name][np.searchsorted(names["lengths"], names["drawn"])]
            )
            / spread
        )
        for name, (mean, spread) in names["sampled"].items()
    }
    rule = (
        f"A fixed bandwidth stops at {number(names['plateau'])}, however long the context: softmax "
        "keeps only part of the function."
        if state.rule == "fixed"
        else f"The bandwidth shrinks as L^(-2/{state.keys + 3}), and the error goes to zero like a power of L."
    )
    return (
        f"{rule} Softmax theory is exact for every L; drawn contexts (bars: {BAR_STANDARD_ERRORS:g} standard "
        "errors) lie within "
        f"{off['softmax']:.1f} standard errors of it, and within {off['CME']:.1f} of CME's "
        "deterministic equivalent, an approximation "
        "that is meant for long contexts. All errors are over the noise of the values."
    )
