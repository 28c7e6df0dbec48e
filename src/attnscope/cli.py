"""The command line: parses, calls the library, prints. Exit codes: 0 fine, 1 a claim failed, 2 bad input."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from attnscope.errors import AttnscopeError

app = typer.Typer(
    help="attnscope: an instrument for what attention provably does.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Dim = Annotated[int, typer.Option(help="Token dimension d, at least 2.")]
Length = Annotated[int, typer.Option(help="Number of tokens L, at least 1.")]
Gamma2 = Annotated[float, typer.Option(help="Variance gamma^2 of the informative token.")]
Noise = Annotated[float, typer.Option(help="Standard deviation of the label noise.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Workers = Annotated[int | None, typer.Option(help="Worker processes; in this process if left out.")]
Scheduler = Annotated[str | None, typer.Option(help="Address of a running Dask scheduler, tcp://host:port.")]
PredictorName = Annotated[str, typer.Option(help="erf, softmax or linear.")]
Temperature = Annotated[float, typer.Option(help="Temperature lambda; it multiplies the scores.")]
Signal = Annotated[float | None, typer.Option(help="Length of the informative token's mean; sqrt(dim/2) if left out.")]


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from attnscope import __version__

        print(__version__)
        raise typer.Exit


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
        numbers = [{field: _plain(getattr(row.risk, field)) for field in fields} for row in rows]
        table = [{"name": row.name, "temperature": row.temperature, **x} for row, x in zip(rows, numbers)]
        print(json.dumps({"task": setting, "critical_temperature": _plain(lambda_c), "risks": table}, indent=1))
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


def _plain(x: Any) -> Any:
    """JSON has no infinity: null says 'none'."""
    return None if isinstance(x, float) and not abs(x) < float("inf") else x


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
        run.to_frame().to_csv(csv, index=False)
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


@app.command("sweep")
def sweep_command(
    file: Annotated[Path, typer.Argument(help="A study as TOML: function, [grid], [fixed], [figure].")],
    store: Annotated[Path, typer.Option(help="Folder of results; what is there is not computed again.")] = Path("runs"),
    out: Annotated[Path, typer.Option(help="Folder for the table (CSV) and the figure (SVG).")] = Path("."),
    workers: Workers = None,
    scheduler: Scheduler = None,
    status: Annotated[bool, typer.Option("--status", help="Only say how far it is.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be computed and for how long.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a parameter study; killed at any time, the same command resumes."""
    from dataclasses import asdict

    from attnscope.studies.study import load_study

    study = load_study(file)
    if status or dry_run:
        account = study.status(store) if status else study.dry_run(store)
        print(json.dumps(asdict(account), indent=1) if as_json else _sentence(account))
        return
    if not out.is_dir():
        raise AttnscopeError(f"--out of attnscope sweep must be an existing folder, got {str(out)!r}; try --out .")
    with _interruptible():
        report = study.run(store, workers, scheduler, progress=not as_json)
    table = out / f"{study.name}.csv"
    report.frame.to_csv(table, index=False)
    figure = study.draw(report.frame)
    if figure is not None:
        from attnscope.figures.render_matplotlib import svg

        (out / f"{study.name}.svg").write_text(svg(figure))
    if as_json:
        print(report.frame.to_json(orient="records", indent=1))
    else:
        drawn = f" and {study.name}.svg" if figure is not None else ""
        print(
            f"{report.cells} cells, {report.reused} from the store, {report.computed} computed in {report.seconds:.1f} s: {table}{drawn}"
        )
    if report.troubles():
        print(report.troubles(), file=sys.stderr)
        raise typer.Exit(1 if report.failures else 0)


def _sentence(account: Any) -> str:
    if hasattr(account, "todo"):
        time = "unknown time" if account.seconds is None else f"about {account.seconds:.0f} s on one worker"
        return f"{account.cells} cells: {account.done} done, {account.todo} to compute, {time}"
    return f"{account.cells} cells: {account.done} done, {account.failed} failed, {account.missing} missing"


@app.command("claims")
def claims_command(as_json: Json = False) -> None:
    """List every claim that `attnscope reproduce` checks."""
    from attnscope.claims.registry import all_claims
    from attnscope.report.terminal import claims_json, claims_table

    claims = all_claims()
    print(json.dumps(claims_json(claims), indent=1) if as_json else claims_table(claims))


@app.command("reproduce")
def reproduce_command(
    only: Annotated[list[str] | None, typer.Option(help="Pattern of claim ids, as 'slr-0*'; may be repeated.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Raise runs and sizes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("report"),
    seed: Seed = 0,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Re-check the papers' claims: a verdict and a figure each, and a report in DIR/index.html."""
    from attnscope.report.build import verdicts_json
    from attnscope.reproduce import exit_code, reproduce

    with _interruptible():
        verdicts = reproduce(only, out, seed, full, workers, scheduler, progress=not as_json)
    if as_json:
        from attnscope import __version__

        print(verdicts_json(verdicts, seed, __version__))
    raise typer.Exit(exit_code(verdicts))


@app.command("explore")
def explore_command(
    host: Annotated[
        str, typer.Option(help="Address to listen on; anything but the default is open to your network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 picks a free one.")] = 8050,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Open the explorer, a local page with exact risks, landscapes and training at the turn of a knob."""
    try:
        from attnscope.explorer.app import serve
    except ImportError as error:
        raise AttnscopeError(
            f"attnscope explore needs {error.name}, which is not installed; try pip install 'attnscope[explorer]'."
        ) from None

    if as_json:
        print(json.dumps({"url": f"http://{host}:{port}/"}), flush=True)
    serve(host, port, open_browser=not (no_browser or as_json))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C: print the sentence that says what is kept and how to go on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        print(stop, file=sys.stderr)
        raise typer.Exit(130) from None  # what shells report for Ctrl-C


def main() -> None:
    """Entry point: library refusals become one line on stderr and exit code 2."""
    try:
        app(standalone_mode=True)
    except AttnscopeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
