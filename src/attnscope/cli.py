"""The command line: parses, calls the library, prints. Exit codes: 0 fine, 1 a claim failed, 2 bad input."""

from __future__ import annotations

import json
import sys
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
    predictor: Annotated[str, typer.Option(help="erf, softmax or linear.")] = "erf",
    temperature: Annotated[float, typer.Option(help="Temperature lambda; it multiplies the scores.")] = 0.1,
    as_json: Json = False,
) -> None:
    """Exact reference risks of single-location regression, from predicting the mean to the Bayes optimum."""
    import attnscope as at

    families = {"erf": at.Erf, "softmax": at.Softmax, "linear": at.LinearAttention}
    if predictor not in families:
        raise AttnscopeError(f"--predictor of attnscope risk must be one of {', '.join(families)}, got {predictor!r}.")
    if not gamma2 > 0:
        raise AttnscopeError(f"--gamma2 of attnscope risk must be > 0, got {gamma2!r}; try --gamma2 0.5.")
    task = at.SingleLocation(dim=dim, length=length, gamma=gamma2**0.5, noise=noise, signal=signal)
    family = families[predictor]
    _print_risks(task, at.reference_risks(task, family(temperature), family), as_json)


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


@app.command("reproduce")
def reproduce_command(as_json: Json = False) -> None:
    """Print the exact reference table of the paper's setting (dim 400, length 10, gamma^2 1/2)."""
    import attnscope as at

    task = at.SingleLocation(dim=400, length=10, gamma=0.5**0.5)
    _print_risks(task, at.reference_risks(task, at.Erf(0.1), at.Erf), as_json)


def main() -> None:
    """Entry point: library refusals become one line on stderr and exit code 2."""
    try:
        app(standalone_mode=True)
    except AttnscopeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
