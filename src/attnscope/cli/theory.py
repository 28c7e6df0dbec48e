"""`attnscope risk` and `attnscope train`: exact risks and exact training of single-location regression."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from attnscope.cli.common import Json, Seed, app, plain
from attnscope.errors import AttnscopeError
from attnscope.files import whole_file

Dim = Annotated[int, typer.Option(help="Token dimension d, at least 2.")]
Length = Annotated[int, typer.Option(help="Number of tokens L, at least 1.")]
Gamma2 = Annotated[float, typer.Option(help="Variance gamma^2 of the informative token.")]
Noise = Annotated[float, typer.Option(help="Standard deviation of the label noise.")]
PredictorName = Annotated[str, typer.Option(help="erf, softmax or linear.")]
Temperature = Annotated[float, typer.Option(help="Temperature lambda; it multiplies the scores.")]
Signal = Annotated[float | None, typer.Option(help="Length of the informative token's mean; sqrt(dim/2) if left out.")]


@app.command("risk")
def risk_command(
    dim: Dim = 400,
    length: Length = 10,
    gamma2: Gamma2 = 0.5,
    noise: Noise = 0.0,
    signal: Signal = None,
    predictor: PredictorName = "erf",
    temperature: Temperature = 0.1,
    as_json: Json = False,
) -> None:
    """Exact reference risks of single-location regression, from predicting the mean to the Bayes optimum."""
    import attnscope as at

    family, task = _family(predictor), _task(dim, length, gamma2, noise, signal)
    _print_risks(task, at.reference_risks(task, family(temperature), family), as_json)


def _task(dim: int, length: int, gamma2: float, noise: float, signal: float | None) -> Any:
    import attnscope as at

    if not gamma2 > 0:
        raise AttnscopeError(f"--gamma2 must be > 0, got {gamma2!r}; try --gamma2 0.5.")
    return at.SingleLocation(dim=dim, length=length, gamma=gamma2**0.5, noise=noise, signal=signal)


def _family(name: str) -> Any:
    import attnscope as at

    families = {"erf": at.Erf, "softmax": at.Softmax, "linear": at.LinearAttention}
    if name not in families:
        raise AttnscopeError(f"--predictor must be one of {', '.join(families)}, got {name!r}.")
    return families[name]


def _print_risks(task: Any, rows: list[Any], as_json: bool) -> None:
    from attnscope.theory.reference import critical

    lambda_c = critical(task)
    if as_json:
        setting = {name: getattr(task, name) for name in ("dim", "length", "gamma", "noise", "signal")}
        fields = ("value", "error", "excess", "log_excess", "method")
        numbers = [{field: plain(getattr(row.risk, field)) for field in fields} for row in rows]
        table = [{"name": row.name, "temperature": row.temperature, **x} for row, x in zip(rows, numbers)]
        print(json.dumps({"task": setting, "critical_temperature": plain(lambda_c), "risks": table}, indent=1))
        return
    words = f"dim {task.dim}, length {task.length}, gamma^2 {task.gamma**2:g}, noise {task.noise:g}, signal {task.signal:.5g}"
    print(f"single-location regression: {words}\n")
    print(f"{'predictor':<37}{'temperature':>12}{'risk':>9}{'excess':>12}{'error':>8}  method")
    for name, temperature, risk in rows:
        lam = "" if temperature is None else f"{temperature:.5f}"
        print(f"{name:<37}{lam:>12}{risk.value:>9.5f}{_excess(risk):>12}{risk.error:>8.0e}  {risk.method}")
    if lambda_c is not None:
        print(f"\ncritical temperature of the erf oracle: {lambda_c:.4f} (a minimum below, a saddle above)")


def _excess(risk: Any) -> str:
    """The excess, also where it underflows: exp(log_excess) as a power of ten."""
    if risk.excess > 0 or risk.log_excess == -float("inf"):
        return f"{risk.excess:.5g}"
    return f"10^{risk.log_excess / 2.302585092994046:.1f}"


@app.command("train")
def train_command(
    dim: Dim = 400,
    length: Length = 10,
    gamma2: Gamma2 = 0.5,
    noise: Noise = 0.0,
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
    swap_move: Annotated[bool, typer.Option(help="Exchange k and v where the roles are swapped.")] = False,
    seed: Seed = 0,
    csv: Annotated[Path | None, typer.Option(help="Write the trajectories as CSV.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the four panels to .svg, .png or .pdf.")] = None,
    save: Annotated[Path | None, typer.Option(help="Save the run as .npz, to be extended from Python.")] = None,
    as_json: Json = False,
) -> None:
    """Train the predictor by exact low-dimensional dynamics and say where the runs end."""
    import attnscope as at

    for path in (csv, plot, save):
        if path is not None and not path.resolve().parent.is_dir():
            raise AttnscopeError(
                f"the folder of {path} must exist, got no {path.resolve().parent.name}/; try another path."
            )
    task = _task(dim, length, gamma2, noise, signal)
    schedule = at.InverseTime(temperature, rate) if rate else temperature
    log_every = max(1, steps // 100) if log_every is None else log_every
    options = {"batch_size": batch_size, "engine": engine, "swap_move": swap_move, "seed": seed}
    run = at.train(
        task,
        _family(predictor)(schedule),
        start,
        runs=runs,
        steps=steps,
        step_size=step_size,
        log_every=log_every,
        **options,
    )
    if csv is not None:
        frame = run.to_frame()
        with whole_file(csv, "attnscope train", "--csv", ending=f".tmp{csv.suffix}") as part:
            frame.to_csv(part, index=False)  # .csv.gz and its like are packed by their ending
    if plot is not None:
        run.plot(plot)
    if save is not None:
        run.save(save)
    _print_run(run, as_json)


def _print_run(run: Any, as_json: bool) -> None:
    import numpy as np

    counts = {name: int(np.sum(run.outcome == name)) for name in ("oracle", "swapped", "undecided", "diverged")}
    ends = {name: np.asarray(getattr(run.overlaps, name))[:, -1] for name in run.overlaps._fields}
    if as_json:
        last = {name: x.tolist() for name, x in ends.items()} | {"excess": run.excess[:, -1].tolist()}
        out = {"steps": int(run.step[-1]), "outcomes": counts, "outcome": run.outcome.tolist(), "end": last}
        print(json.dumps(out | {"diagnosis": run.diagnose()}, indent=1))
        return
    print(
        f"{len(run.outcome)} runs, {run.step[-1]} steps: "
        + ", ".join(f"{n} {name}" for name, n in counts.items() if n)
        + "\n"
    )
    print(
        f"{'outcome':<12}{'runs':>6}{'excess':>12}{'|kappa|':>10}{'|eta|':>10}{'|theta|':>10}{'|nu|':>10}   (medians)"
    )
    for name, n in counts.items():
        if n:
            here = run.outcome == name
            medians = [np.median(np.abs(ends[field][here])) for field in ("kappa", "eta", "theta", "nu")]
            print(f"{name:<12}{n:>6}{np.median(run.excess[here, -1]):>12.5f}" + "".join(f"{x:>10.4f}" for x in medians))
    for sentence in run.diagnose():
        print("\n" + textwrap.fill(sentence, 100), end="")
    print()
