"""`attnscope risk`: risks of every task of the catalogue, in words;
and the options that `attnscope train` shares.
"""

from __future__ import annotations

import textwrap
from importlib import import_module
from typing import Annotated, Any

import typer

from attnscope.cli.common import (
    COLUMNS,
    Json,
    TaskName,
    With,
    app,
    as_typed,
    assignments,
    table,
)
from attnscope.cli.completion import predictors
from attnscope.cli.json_text import print_json
from attnscope.errors import AttnscopeError
from attnscope.registry import PREDICTORS
from attnscope.theory.task_and_predictor import Pair, pair

# what is left out has the default of the task's row in the catalogue; those of single-location
# regression are shown
Dim = Annotated[int | None, typer.Option(help="Token dimension d.", show_default="400")]
Length = Annotated[int | None, typer.Option(help="Number of tokens L.", show_default="10")]
Gamma2 = Annotated[
    float | None,
    typer.Option(help="Variance gamma^2 of the informative token.", show_default="0.5"),
]
Noise = Annotated[
    float | None,
    typer.Option(help="Standard deviation of the label noise.", show_default="0"),
]
Signal = Annotated[
    float | None,
    typer.Option(help="Length of the informative token's mean; sqrt(dim/2) if left out."),
]
PredictorName = Annotated[
    str, typer.Option(help=f"{', '.join(PREDICTORS)}.", autocompletion=predictors)
]
InverseTemperature = Annotated[
    float, typer.Option(help="Inverse temperature lambda; it multiplies the scores.")
]
SINGLE_LOCATION = "single-location"


def chosen_pair(
    task: str, predictor: str, given: dict[str, Any], more: list[str] | None, of: str
) -> Pair:
    """Task and predictor of the options that were given."""
    named = {name: x for name, x in given.items() if x is not None}
    extra = assignments(more, of)
    for name in set(named) & set(extra):
        raise AttnscopeError(
            f"{name} of {of} must be given once, got --{name} and --with {name}=; try --{name}."
        )
    chosen = pair(task, predictor, named | extra, of)
    # stored machine code is checked from here on, before theory loads functions that are compiled
    import_module("attnscope.numerics.compiled")
    return chosen


@app.command("risk")
def risk_command(
    task: TaskName = SINGLE_LOCATION, more: With = None,
    dim: Dim = None, length: Length = None,
    gamma2: Gamma2 = None, noise: Noise = None, signal: Signal = None,
    predictor: PredictorName = "erf", inverse_temperature: InverseTemperature = 0.1,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Reference risks of a task, from predicting the mean to the Bayes optimum,
    each with its error.
    """
    from attnscope.theory.reference_risks import task_risks

    given = {"dim": dim, "length": length, "gamma2": gamma2, "noise": noise, "signal": signal}
    chosen = chosen_pair(
        task,
        predictor,
        given | {"inverse_temperature": inverse_temperature},
        more,
        "attnscope risk",
    )
    made = chosen.make_task()
    rows, refused = task_risks(made, chosen.family, inverse_temperature, chosen.length)
    if chosen.task.word == SINGLE_LOCATION:
        _print_single(made, rows, as_json)
    else:
        _print_risks(chosen, rows, refused, as_json)


def _print_single(task: Any, rows: list[Any], as_json: bool) -> None:
    from attnscope.theory.reference_risks import critical

    lambda_c = critical(task)
    if as_json:
        setting = {
            name: getattr(task, name)
            for name in ("dim", "length", "gamma", "noise", "signal")
        }
        out = {
            "task": setting,
            "critical_inverse_temperature": lambda_c,
            "risks": _plain_rows(rows),
        }
        print_json(out)
        return
    words = f"dim {task.dim}, length {task.length}, gamma^2 {task.gamma**2:g}, noise {task.noise:g}"
    told = f"single-location regression: {words}, signal {task.signal:.5g}"
    print(textwrap.fill(told, COLUMNS) + "\n")
    print(_risk_table(rows, ".5f"))
    if lambda_c is not None:
        told = f"critical inverse temperature of the erf oracle: {lambda_c:.4f} (a minimum below, a saddle above)"
        print("\n" + textwrap.fill(told, COLUMNS))


def _print_risks(chosen: Pair, rows: list[Any], refused: list[str], as_json: bool) -> None:
    contexts = {} if chosen.task.planted else {"length": chosen.length}
    setting = chosen.task_values | contexts
    if as_json:
        about = {
            "task": {"word": chosen.task.word, **setting},
            "predictor": chosen.predictor.word,
        }
        print_json(about | {"risks": _plain_rows(rows), "refused": refused})
        return
    words = ", ".join(f"{name} {as_typed(x)}" for name, x in setting.items() if x is not None)
    print(textwrap.fill(f"{chosen.task.word}, {chosen.task.label}: {words}", COLUMNS) + "\n")
    print(_risk_table(rows, ".5g"))
    for sentence in refused:
        print("\n" + textwrap.fill(f"left out: {sentence}", COLUMNS))


def _risk_table(rows: list[Any], form: str) -> str:
    """A line each; risks are printed in this form."""
    from attnscope.theory.reference_risks import risk_cells

    return table(*risk_cells(rows, form), width=COLUMNS)


def _plain_rows(rows: list[Any]) -> list[dict[str, Any]]:
    fields = ("value", "error", "excess", "log_excess", "method")
    numbers = [{field: getattr(row.risk, field) for field in fields} for row in rows]
    return [
        {"name": row.name, "inverse_temperature": row.inverse_temperature, **x}
        for row, x in zip(rows, numbers)
    ]
