"""`attnscope curve`: what n bags buy, by the Bayes-optimal estimator and by fits with a ridge."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from attnscope.cli.common import COLUMNS, Json, app, table, working
from attnscope.cli.json_text import print_json
from attnscope.errors import AttnscopeError, bad
from attnscope.files import check_place
from attnscope.optional import needs

CURVE_COMMAND = "attnscope curve"
POINTS = 12  # of a range LOW:HIGH, evenly spaced in log alpha: a curve, in a table that fits a screen
MOST_POINTS = 1000
Alpha = Annotated[
    str,
    typer.Option(
        metavar="LOW:HIGH[:POINTS] or LIST",
        help="Bags per dimension: a range, evenly spaced in the logarithm, or 0.5,1,2.",
    ),
]


@app.command("curve")
def curve_command(
    length: Annotated[int, typer.Option(help="Number of tokens L.")] = 3,
    strength: Annotated[
        float, typer.Option(help="Squared length of the informative token's mean.")
    ] = 5.0,
    noise: Annotated[
        float, typer.Option(help="Standard deviation of the label noise.")
    ] = 0.316,
    alpha: Alpha = "0.25:8",
    predictors: Annotated[
        str, typer.Option(help="bayes, softmax, linear; several with commas.")
    ] = "bayes",
    ridge: Annotated[
        str, typer.Option(help="Penalty of the fits: a number, KEY,VALUE, or best (slow).")
    ] = "0.5",
    dim: Annotated[
        int | None, typer.Option(help="Show bags n = alpha d for this dimension as well.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the curves to .svg, .png or .pdf.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Risk against the number of bags n = alpha d: the least possible, and that of ridge fits."""
    from attnscope.tasks.planted.single_location import SingleLocation
    from attnscope.theory.samples.bayes_curve import SMALLEST_NOISE
    from attnscope.theory.samples.compared import BAYES_CURVE, compared, comparison_figure
    from attnscope.theory.samples.thresholds import recovery_threshold

    if 0 < noise < SMALLEST_NOISE:
        raise bad(
            "--noise", CURVE_COMMAND, f"0, or at least {SMALLEST_NOISE:g}", noise, "--noise 0"
        )
    values = _alphas(alpha)
    words = _predictor_names(predictors)
    penalty = _ridge(ridge)
    if plot is not None:
        check_place(plot, CURVE_COMMAND, "--plot")
        needs("matplotlib", f"{CURVE_COMMAND} --plot")
    task = SingleLocation.spiked(dim or 1000, length, strength, noise=noise)
    curves = []
    for word in words:
        with working(f"curve of {word}", verbose=False, quiet=as_json):
            curves.append(compared(task, values, word, penalty))
    population = task.bayes_risk()
    thresholds = recovery_threshold(length, strength, noise) if BAYES_CURVE in words else None
    refused = ""
    if plot is not None:
        best = (
            compared(task, values, BAYES_CURVE, branch="best")
            if BAYES_CURVE in words
            else None
        )
        try:
            comparison_figure(curves, population.excess, best, thresholds).save(plot)
        except AttnscopeError as error:
            refused = str(error)
    if as_json:
        setting = {"length": length, "strength": strength, "noise": noise}
        print_json(_record(setting, curves, population, thresholds))
    else:
        _print_curves(task, values, curves, population, thresholds, dim)
    if refused:
        raise AttnscopeError(refused)


def _alphas(text: str) -> Any:
    """The numbers of LOW:HIGH, LOW:HIGH:POINTS or a list."""
    import numpy as np

    try:
        if ":" not in text:
            return np.array([float(part) for part in text.split(",")])
        low, high, *points = text.split(":")
        count = int(points[0]) if points else POINTS
        ends = (float(low), float(high))
        if len(points) > 1 or not 0 < ends[0] < ends[1] or not 2 <= count <= MOST_POINTS:
            raise ValueError
        return np.geomspace(*ends, count)
    except ValueError:
        must = (
            f"LOW:HIGH with 0 < LOW < HIGH, LOW:HIGH:POINTS (2 to {MOST_POINTS}), or numbers"
        )
        raise bad("--alpha", CURVE_COMMAND, must, repr(text[:40]), "--alpha 0.25:8") from None


def _predictor_names(text: str) -> list[str]:
    from attnscope.theory.samples.compared import CURVE_NAMES

    words = [word.strip() for word in text.split(",")]
    if not set(words) <= set(CURVE_NAMES) or len(set(words)) < len(words):
        must = f"some of {', '.join(CURVE_NAMES)}, each once"
        raise bad(
            "--predictors", CURVE_COMMAND, must, repr(text[:40]), "--predictors bayes,softmax"
        )
    return words


def _ridge(text: str) -> Any:
    if text == "best":
        return text
    try:
        parts = tuple(float(part) for part in text.split(","))
        if len(parts) > 2 or min(parts) <= 0:
            raise ValueError
    except ValueError:
        must = "a positive number, two of them, or best"
        raise bad("--ridge", CURVE_COMMAND, must, repr(text[:40]), "--ridge 0.5") from None
    return parts[0] if len(parts) == 1 else parts


def _record(setting: Any, curves: list[Any], population: Any, thresholds: Any) -> Any:
    return {
        "task": setting,
        "population_bayes": {"excess": population.excess, "error": population.error},
        "thresholds": None
        if thresholds is None
        else {
            name: None if x is None else {"alpha": x.value, "error": x.error}
            for name, x in thresholds._asdict().items()
        },
        "curves": [
            {
                "predictor": c.word,
                "alpha": c.alpha,
                "ridge": c.ridge,
                **{name: list(x) for name, x in c.values.items()},
                "refused": c.refused,
            }
            for c in curves
        ],
    }


def _print_curves(
    task: Any,
    alpha: Any,
    curves: list[Any],
    population: Any,
    thresholds: Any,
    dim: int | None,
) -> None:
    words = f"length {task.length}, strength {task.signal**2:.5g}, noise {task.noise:g}"
    told = f"single-location regression, n = alpha d bags: {words}"
    print(textwrap.fill(told, COLUMNS) + "\n")
    head = ["alpha", "bags"]
    for c in curves:
        head += [c.word, "error"]
    head += ["k.k*", "v.v*"]
    rows = []
    for i, a in enumerate(alpha):
        row = [f"{a:.4g}", "" if dim is None else str(round(a * dim))]
        for c in curves:
            row += [
                _number_text(c.values["excess"][i], ".4f"),
                _number_text(c.values["error"][i], ".0e"),
            ]
        first = curves[0].values
        rows.append(
            row + [_number_text(first[f"{x}_overlap"][i], ".4f") for x in ("key", "value")]
        )
    print(table(head, rows, width=COLUMNS))
    known = f"with the truth known {population.excess:.4f}"
    print(f"\nexcess risks as d -> infinity; {known}; overlaps of {curves[0].word}")
    if thresholds is not None and thresholds.reachable is not None:
        told = (
            f"several solutions: informed from alpha {thresholds.informed.value:.4g}, Bayes-optimal "
            f"from {thresholds.possible.value:.4g}, reached by message passing from "
            f"{thresholds.reachable.value:.4g}"
        )
        print(textwrap.fill(told, COLUMNS))
    for c in curves:
        for sentence in c.refused:
            print("\n" + textwrap.fill(f"{c.word}: {sentence}", COLUMNS))


def _number_text(x: float, form: str) -> str:
    """Nothing where there is no number."""
    return "-" if x != x else f"{x:{form}}"
