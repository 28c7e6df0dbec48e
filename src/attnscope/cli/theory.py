"""`attnscope risk`, `attnscope train` and `attnscope tasks`: risks and training of every task of the catalogue, in words."""

from __future__ import annotations

import json
import math
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from attnscope.catalogue import PREDICTORS, TASKS, Argument, Entry
from attnscope.cli.common import Json, Seed, TaskWord, With, app, assignments, plain, table
from attnscope.errors import AttnscopeError
from attnscope.files import whole_file
from attnscope.theory.words import Pair, pair

# what is left out has the default of the task's row in the catalogue; those of single-location regression are shown
Dim = Annotated[int | None, typer.Option(help="Token dimension d.", show_default="400")]
Length = Annotated[int | None, typer.Option(help="Number of tokens L.", show_default="10")]
Gamma2 = Annotated[float | None, typer.Option(help="Variance gamma^2 of the informative token.", show_default="0.5")]
Noise = Annotated[float | None, typer.Option(help="Standard deviation of the label noise.", show_default="0")]
Signal = Annotated[float | None, typer.Option(help="Length of the informative token's mean; sqrt(dim/2) if left out.")]
PredictorName = Annotated[str, typer.Option(help=f"{', '.join(PREDICTORS)}.")]
Temperature = Annotated[float, typer.Option(help="Temperature lambda; it multiplies the scores.")]
SINGLE = "single-location"
TERMINAL = 80  # columns that every terminal has


def _chosen(task: str, predictor: str, given: dict[str, Any], more: list[str] | None, of: str) -> Pair:
    """Task and predictor of the options that were given."""
    named = {name: x for name, x in given.items() if x is not None}
    extra = assignments(more, of)
    for name in set(named) & set(extra):
        raise AttnscopeError(f"{name} of {of} must be given once, got --{name} and --with {name}=; try --{name}.")
    return pair(task, predictor, named | extra, of)


@app.command("risk")
def risk_command(
    task: TaskWord = SINGLE,
    more: With = None,
    dim: Dim = None,
    length: Length = None,
    gamma2: Gamma2 = None,
    noise: Noise = None,
    signal: Signal = None,
    predictor: PredictorName = "erf",
    temperature: Temperature = 0.1,
    as_json: Json = False,
) -> None:
    """Reference risks of a task, from predicting the mean to the Bayes optimum, each with its error."""
    from attnscope.theory.reference import task_risks

    given = {"dim": dim, "length": length, "gamma2": gamma2, "noise": noise, "signal": signal}
    chosen = _chosen(task, predictor, given | {"temperature": temperature}, more, "attnscope risk")
    made = chosen.make_task()
    rows, refused = task_risks(made, chosen.family, temperature, chosen.length)
    if chosen.task.word == SINGLE:
        _print_single(made, rows, as_json)
    else:
        _print_risks(chosen, rows, refused, as_json)


def _print_single(task: Any, rows: list[Any], as_json: bool) -> None:
    from attnscope.theory.reference import critical

    lambda_c = critical(task)
    if as_json:
        setting = {name: getattr(task, name) for name in ("dim", "length", "gamma", "noise", "signal")}
        out = {"task": setting, "critical_temperature": plain(lambda_c), "risks": _plain_rows(rows)}
        print(json.dumps(out, indent=1))
        return
    words = f"dim {task.dim}, length {task.length}, gamma^2 {task.gamma**2:g}, noise {task.noise:g}"
    print(f"single-location regression: {words}, signal {task.signal:.5g}\n")
    print(f"{'predictor':<37}{'temperature':>12}{'risk':>9}{'excess':>12}{'error':>8}  method")
    for name, temperature, risk in rows:
        lam = "" if temperature is None else f"{temperature:.5f}"
        print(f"{name:<37}{lam:>12}{risk.value:>9.5f}{_excess(risk):>12}{risk.error:>8.0e}  {risk.method}")
    if lambda_c is not None:
        print(f"\ncritical temperature of the erf oracle: {lambda_c:.4f} (a minimum below, a saddle above)")


def _print_risks(chosen: Pair, rows: list[Any], refused: list[str], as_json: bool) -> None:
    contexts = {} if chosen.task.planted else {"length": chosen.length}
    setting = chosen.task_values | contexts
    if as_json:
        about = {"task": {"word": chosen.task.word, **setting}, "predictor": chosen.predictor.word}
        print(json.dumps(about | {"risks": _plain_rows(rows), "refused": refused}, indent=1))
        return
    words = ", ".join(f"{name} {_shown(x)}" for name, x in setting.items() if x is not None)
    print(textwrap.fill(f"{chosen.task.word}, {chosen.task.label}: {words}", 100) + "\n")
    lines = []
    for name, temperature, risk in rows:
        lam = "" if temperature is None else f"{temperature:.5f}"
        lines.append([name, lam, f"{risk.value:.5g}", _excess(risk), f"{risk.error:.0e}", risk.method])
    named = ["predictor", "temperature", "risk"] if any(line[1] for line in lines) else ["", "", "value"]
    print(table([*named, "excess", "error", "method"], lines, width=100))
    for sentence in refused:
        print("\n" + textwrap.fill(f"left out: {sentence}", 100))


def _plain_rows(rows: list[Any]) -> list[dict[str, Any]]:
    fields = ("value", "error", "excess", "log_excess", "method")
    numbers = [{field: plain(getattr(row.risk, field)) for field in fields} for row in rows]
    return [{"name": row.name, "temperature": row.temperature, **x} for row, x in zip(rows, numbers)]


def _excess(risk: Any) -> str:
    """The excess, also where it underflows: exp(log_excess) as a power of ten."""
    if risk.excess > 0 or risk.log_excess == -float("inf"):
        return f"{risk.excess:.5g}"
    return f"10^{risk.log_excess / 2.302585092994046:.1f}"


def _shown(x: Any) -> str:
    """A flat argument as it is typed."""
    if isinstance(x, list | tuple):
        return ",".join(_shown(part) for part in x)
    return f"{x:g}" if isinstance(x, float) else str(x)


@app.command("train")
def train_command(
    task: TaskWord = SINGLE,
    more: With = None,
    dim: Dim = None,
    length: Length = None,
    gamma2: Gamma2 = None,
    noise: Noise = None,
    signal: Signal = None,
    predictor: PredictorName = "erf",
    temperature: Temperature = 0.1,
    rate: Annotated[float, typer.Option(help="Schedule temperature/(1 + rate step) if > 0.")] = 0.0,
    start: Annotated[str, typer.Option(help="sphere, manifold or moments.")] = "sphere",
    runs: Annotated[int, typer.Option(help="Independent runs.")] = 30,
    steps: Annotated[int, typer.Option(help="Updates per run.")] = 20_000,
    step_size: Annotated[float, typer.Option(help="Step size alpha.")] = 4e-3,
    log_every: Annotated[int | None, typer.Option(help="Steps between log points; steps/100 if left out.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="SGD on fresh batches of this size; population gradient if left out.")
    ] = None,
    engine: Annotated[str, typer.Option(help="reduced (overlaps, any dimension) or full (vectors).")] = "reduced",
    heads: Annotated[int | None, typer.Option(help="Train the sum of so many heads; needs --batch-size.")] = None,
    swap_move: Annotated[bool, typer.Option(help="Exchange k and v where the roles are swapped.")] = False,
    seed: Seed = 0,
    csv: Annotated[Path | None, typer.Option(help="Write the trajectories as CSV.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the four panels to .svg, .png or .pdf.")] = None,
    save: Annotated[Path | None, typer.Option(help="Save the run as .npz, to be extended from Python.")] = None,
    as_json: Json = False,
) -> None:
    """Train the predictor by exact low-dimensional dynamics and say where the runs end."""
    import attnscope as at
    from attnscope.dynamics.trajectory import at_temperature

    for path in (csv, plot, save):
        if path is not None and not path.resolve().parent.is_dir():
            raise AttnscopeError(
                f"the folder of {path} must exist, got no {path.resolve().parent.name}/; try another path."
            )
    given = {"dim": dim, "length": length, "gamma2": gamma2, "noise": noise, "signal": signal}
    chosen = _chosen(task, predictor, given | {"temperature": temperature}, more, "attnscope train")
    trained = chosen.family(temperature)
    if rate:
        trained = at_temperature(trained, at.InverseTime(temperature, rate))
    run = at.train(
        chosen.make_task(),
        trained if heads is None else at.MultiHead(trained, heads),
        start,
        runs=runs,
        steps=steps,
        step_size=step_size,
        log_every=max(1, steps // 100) if log_every is None else log_every,
        batch_size=batch_size,
        engine=engine,
        swap_move=swap_move,
        seed=seed,
    )
    if csv is not None:
        frame = run.to_frame()
        with whole_file(csv, "attnscope train", "--csv", ending=f".tmp{csv.suffix}") as part:
            frame.to_csv(part, index=False)  # .csv.gz and its like are packed by their ending
    if plot is not None:
        run.plot(plot)
    if save is not None:
        run.save(save)
    if hasattr(run, "form_cosine"):
        _print_heads(run, as_json)
    else:
        _print_run(run, as_json)


def _print_run(run: Any, as_json: bool) -> None:
    import numpy as np

    from attnscope.theory.reference import has_head

    counts = {name: int(np.sum(run.outcome == name)) for name in ("oracle", "swapped", "undecided", "diverged")}
    ends = {name: np.asarray(getattr(run.overlaps, name))[:, -1] for name in run.overlaps._fields}
    if as_json:
        last = {name: x.tolist() for name, x in ends.items()} | {"excess": run.excess[:, -1].tolist()}
        out = {"steps": int(run.step[-1]), "outcomes": counts, "outcome": run.outcome.tolist(), "end": last}
        print(json.dumps(out | {"diagnosis": run.diagnose()}, indent=1))
        return
    _print_counts(run, counts)
    names = "".join(f"{f'|{name}|':>10}" for name in ("kappa", "eta", "theta", "nu"))
    value = "excess" if has_head(run.setup.task) else "wrong"  # of a classifier: the share of wrong labels
    print(f"{'outcome':<12}{'runs':>6}{value:>12}{names}   (medians)")
    for name, n in counts.items():
        if n:
            here = run.outcome == name
            medians = [np.median(np.abs(ends[field][here])) for field in ("kappa", "eta", "theta", "nu")]
            print(f"{name:<12}{n:>6}{np.median(run.excess[here, -1]):>12.5f}" + "".join(f"{x:>10.4f}" for x in medians))
    for sentence in run.diagnose():
        print("\n" + textwrap.fill(sentence, 100), end="")
    print()


def _print_heads(run: Any, as_json: bool) -> None:
    """Runs of several heads, or on several directions: what the heads know together."""
    import numpy as np

    names = ("specialised", "swapped", "rotated", "unspecialised", "diverged")
    counts = {name: int(np.sum(run.outcome == name)) for name in names}
    found = run.risk_at(-1)
    cosine = run.form_cosine[:, -1]
    span = run.span[:, -1]
    if as_json:
        last = {"excess": found.excess, "error": np.broadcast_to(found.error, found.excess.shape)}
        last |= {"form_cosine": cosine, "span": span}
        out = {"steps": int(run.step[-1]), "outcomes": counts, "outcome": run.outcome.tolist()}
        print(json.dumps(out | {"end": {name: x.tolist() for name, x in last.items()}}, indent=1))
        return
    _print_counts(run, counts)
    print(f"{'outcome':<15}{'runs':>6}{'excess':>12}{'form cosine':>14}{'span':>8}   (medians)")
    for name, n in counts.items():
        if n:
            here = run.outcome == name
            medians = [float(np.median(x[here])) for x in (found.excess, cosine, span)]
            print(f"{name:<15}{n:>6}{medians[0]:>12.5f}{medians[1]:>14.4f}{medians[2]:>8.4f}")
    print(
        "\nform cosine: of the heads' sum of k v^T with the teachers'; span: share of k and v in that of the teachers"
    )


def _print_counts(run: Any, counts: dict[str, int]) -> None:
    ends = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
    print(f"{len(run.outcome)} runs, {run.step[-1]} steps: {ends}\n")


@app.command("tasks")
def tasks_command(as_json: Json = False) -> None:
    """The words of --task and --predictor, with the arguments of each, their ranges and defaults."""
    if as_json:
        out = {"tasks": [_entry(row) for row in TASKS.values()]}
        print(json.dumps(out | {"predictors": [_entry(row) for row in PREDICTORS.values()]}, indent=1))
        return
    planted = [row for row in TASKS.values() if row.planted]
    exchangeable = [row for row in TASKS.values() if not row.planted]
    groups = (
        ("tasks with planted directions: attnscope risk and train --task WORD", planted),
        ("tasks with exchangeable tokens: attnscope risk --task WORD --length L", exchangeable),
        ("predictors: --predictor WORD", list(PREDICTORS.values())),
    )
    for title, rows in groups:
        print(f"{title}\n")
        for row in rows:
            print(f"  {row.word}: {row.label}")
            lines = [[f"    {a.name}", _default(a), _range(a), a.label] for a in row.arguments]
            print(table(["    --with", "default", "range", ""], lines, 3, TERMINAL) + "\n")
    print("Short for --with: --dim, --length, --gamma2, --noise, --signal, --temperature.")


def _entry(row: Entry) -> dict[str, Any]:
    arguments = [vars(a) | {"low": plain(a.low), "high": plain(a.high)} for a in row.arguments]
    return {"word": row.word, "label": row.label, "planted": row.planted, "cost": row.cost, "arguments": arguments}


def _default(argument: Argument) -> str:
    return "left out" if argument.default is None else _shown(argument.default)


def _range(argument: Argument) -> str:
    """What may be typed, in a few letters."""
    if argument.options:
        return "|".join(argument.options)
    kind = "whole" if argument.whole else "number"
    ends = ["" if math.isinf(x) else f"{x:.3g}".replace("e+", "e") for x in (argument.low, argument.high)]
    within = f" {ends[0]}..{ends[1]}" if any(ends) else ""
    return f"{'list of ' if argument.many else ''}{kind}{within}"
