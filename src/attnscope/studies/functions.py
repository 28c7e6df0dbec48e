"""The functions a study repeats over a grid: flat numbers and words in, one flat dict of numbers
out.

Each is a thin call of the library, importable by name (so that worker processes and Dask find it)
and free of state. Tasks, predictors and their arguments are those of the catalogue: `gamma2` is
gamma^2, `signal` None means sqrt(dim/2). `seed` is that of what is sampled in a cell, `task_seed`
that of the task's directions. Add a function here, or name your own as "package.module:function" in
the TOML file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

import numpy as np

from attnscope.deprecated import accept_old_keyword
from attnscope.dynamics.overlap_runs import at_inverse_temperature
from attnscope.dynamics.starts import StartName
from attnscope.dynamics.train import train
from attnscope.errors import AttnscopeError, bad
from attnscope.predictors.inverse_temperature import InverseTime
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima import optimum
from attnscope.theory.optima.oracle_saddle import critical_inverse_temperature
from attnscope.theory.overlaps import Overlaps, alignment_of
from attnscope.theory.reference_risks import has_head, known_values
from attnscope.theory.risk import risk
from attnscope.theory.samples.compared import BAYES_CURVE, CURVE_NAMES, compared
from attnscope.theory.task_and_predictor import Pair, pair

__all__ = [
    "FUNCTIONS",
    "check_cell",
    "learning_curve",
    "optimal_inverse_temperature",
    "oracle_risk",
    "outcomes",
]

SINGLE_LOCATION = "single-location"


@accept_old_keyword
def oracle_risk(
    dim: int | None = None,
    length: int | None = None,
    predictor: str = "erf",
    inverse_temperature: float = 0.1,
    task: str = SINGLE_LOCATION,
    seed: int = 0,
    task_seed: int | None = None,
    **arguments: Any,
) -> dict[str, float]:
    """Risk of a predictor at (k*, v*), beside what the task knows of itself: null, linear, Bayes,
    ...

    Exchangeable tasks have no such head: their Bayes risk and errors at `length`. `error_of_` says
    how far each may be off.
    """
    given = {
        "dim": dim,
        "length": length,
        "task_seed": task_seed,
        "inverse_temperature": inverse_temperature,
        **arguments,
    }
    chosen = _task_and_predictor(oracle_risk, task, predictor, given)
    made = chosen.make_task()
    out: dict[str, float] = {}
    errors: dict[str, float] = {}
    if has_head(made):
        found = risk(
            made,
            chosen.family(inverse_temperature),
            Overlaps.oracle(alignment_of(made)),
            seed=seed,
        )
        out |= {"risk": found.value, "excess": found.excess, "log_excess": found.log_excess}
        errors["error_of_risk"] = found.error
    for name, known in known_values(made, chosen.length).items():
        out[name] = known.value
        errors[f"error_of_{name}"] = known.error
        if name == "bayes":
            out["bayes_log_excess"] = known.log_excess
    return out | errors


def optimal_inverse_temperature(
    dim: int | None = None,
    length: int | None = None,
    predictor: str = "erf",
    task: str = SINGLE_LOCATION,
    task_seed: int | None = None,
    **arguments: Any,
) -> dict[str, float]:
    """Best inverse temperature of a predictor at (k*, v*), its risk,
    and the critical inverse temperature of the erf oracle.
    """
    arguments.pop("seed", None)  # nothing is sampled
    given = {"dim": dim, "length": length, "task_seed": task_seed, **arguments}
    chosen = _task_and_predictor(optimal_inverse_temperature, task, predictor, given)
    made = chosen.make_task()
    critical = critical_inverse_temperature(made)  # first: it refuses other tasks at once
    best, value = optimum.optimal_inverse_temperature(made, chosen.family)
    out = {
        "optimal_inverse_temperature": best,
        "risk": value.value,
        "log_excess": value.log_excess,
    }
    return out | ({"critical_inverse_temperature": critical} if np.isfinite(critical) else {})


@accept_old_keyword
def outcomes(
    dim: int | None = None,
    inverse_temperature: float | None = None,
    length: int | None = None,
    predictor: str = "erf",
    rate: float = 0.0,
    start: StartName = "sphere",
    runs: int = 30,
    steps: int = 20_000,
    step_size: float = 4e-3,
    batch_size: int | None = None,
    swap_move: bool = False,
    seed: int = 0,
    task: str = SINGLE_LOCATION,
    task_seed: int | None = None,
    **arguments: Any,
) -> dict[str, float]:
    """Fractions of training runs by where they end, and their median excess; `rate` > 0:
    lambda/(1 + rate t).

    One key and value: oracle, swapped, undecided, diverged. Several: specialised, swapped, rotated,
    unspecialised, diverged.
    """
    given = {
        "dim": dim,
        "length": length,
        "task_seed": task_seed,
        "inverse_temperature": inverse_temperature,
        **arguments,
    }
    chosen = _task_and_predictor(outcomes, task, predictor, given)
    lam = chosen.predictor_values["inverse_temperature"]
    trained = chosen.family(lam)
    # a Trajectory, or a HeadTrajectory where the task has several directions
    run: Any = train(
        chosen.make_task(),
        at_inverse_temperature(trained, InverseTime(lam, rate)) if rate else trained,
        start=start,
        runs=runs,
        steps=steps,
        step_size=step_size,
        log_every=steps,
        batch_size=batch_size,
        swap_move=swap_move,
        seed=seed,
        progress=False,
    )
    several = hasattr(run, "form_cosine")
    found = {
        name: float(np.mean(run.outcome == name))
        for name in (SEVERAL_PAIRS_OUTCOMES if several else ONE_PAIR_OUTCOMES)
    }
    found["median_excess"] = float(np.median(run.excess[:, -1]))
    return found | (
        {"median_form_cosine": float(np.median(run.form_cosine[:, -1]))} if several else {}
    )


def learning_curve(
    alpha: float,
    length: int = 3,
    strength: float = 5.0,
    noise: float = 0.3,
    predictor: str = BAYES_CURVE,
    ridge: float = 0.5,
    seed: int = 0,
) -> dict[str, float]:
    """Risk from n = alpha d bags of the spiked task, d -> inf: "bayes", or the ridge fit of
    "softmax" or "linear"; refused where replica symmetry fails. Nothing is sampled.
    """
    task = SingleLocation.spiked(1000, length, strength, noise=noise)
    found = compared(task, np.array([alpha], dtype=float), predictor, ridge)
    if found.refused:
        raise AttnscopeError(found.refused[0])
    return {name: float(x[0]) for name, x in found.values.items() if np.isfinite(x[0])}


ONE_PAIR_OUTCOMES = ("oracle", "swapped", "undecided", "diverged")
SEVERAL_PAIRS_OUTCOMES = ("specialised", "swapped", "rotated", "unspecialised", "diverged")
FUNCTIONS = {
    function.__name__: function
    for function in (oracle_risk, optimal_inverse_temperature, outcomes, learning_curve)
}
# what a cell must say where the task or the predictor has it: a forgotten line should not become a
# default
NEEDED_ARGUMENTS = {
    "oracle_risk": ("dim", "length"),
    "optimal_inverse_temperature": ("dim", "length"),
    "outcomes": ("dim", "inverse_temperature"),
}


def check_cell(function: Callable[..., Any], cell: Mapping[str, Any]) -> None:
    """Refuse, before anything runs, words and arguments that the catalogue does not have;
    your own functions check themselves.
    """
    if function not in FUNCTIONS.values():
        return
    if function is learning_curve:
        _check_curve(cell)
        return
    own = {
        name
        for name in signature(function).parameters
        if name not in ("dim", "length", "inverse_temperature", "task_seed")
    }
    given = {name: x for name, x in cell.items() if name not in own and name != "seed"}
    _task_and_predictor(
        function, cell.get("task", SINGLE_LOCATION), cell.get("predictor", "erf"), given
    )


def _check_curve(cell: Mapping[str, Any]) -> None:
    of = "a study, learning_curve"
    known = list(signature(learning_curve).parameters)
    for name in cell:
        if name not in known:
            raise bad("an argument", of, f"one of {', '.join(known)}", name)
    if "alpha" not in cell:
        raise bad("alpha", of, "given", "nothing", "alpha in [grid] or [fixed]")
    if cell.get("predictor", BAYES_CURVE) not in CURVE_NAMES:
        raise bad("predictor", of, f"one of {', '.join(CURVE_NAMES)}", cell["predictor"])


def _task_and_predictor(
    function: Callable[..., Any], task: str, predictor: str, given: Mapping[str, Any]
) -> Pair:
    """The words and arguments that were given;
    a seed of the directions is the task's own argument.
    """
    of = "a study"
    values = {name: x for name, x in given.items() if x is not None}
    if "task_seed" in values:
        values["seed"] = values.pop("task_seed")
    chosen = pair(task, predictor, values, of)
    for name in NEEDED_ARGUMENTS[function.__name__]:
        if name not in values and (
            name in chosen.task_values or name in chosen.predictor_values
        ):
            raise bad(
                name,
                f"{of}, {chosen.task.word}",
                "given",
                "nothing",
                f"{name} in [grid] or [fixed]",
            )
    return chosen
