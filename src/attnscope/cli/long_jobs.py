"""The long jobs: `attnscope sweep` and `reproduce`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from attnscope.cli.common import (
    Json,
    Scheduler,
    Seed,
    Workers,
    app,
    interruptible,
    print_left_out,
)
from attnscope.cli.completion import claims
from attnscope.cli.json_text import json_text, print_json
from attnscope.errors import AttnscopeError
from attnscope.files import whole_file, write_csv
from attnscope.optional import needs


@app.command("sweep")
def sweep_command(
    file: Annotated[
        Path,
        typer.Argument(help="A study as TOML: function, \\[grid], \\[fixed], \\[figure]."),
    ],
    store: Annotated[
        Path, typer.Option(help="Folder of results; what is there is not computed again.")
    ] = Path("runs"),
    out: Annotated[
        Path, typer.Option(help="Folder for the table (CSV) and the figure (SVG).")
    ] = Path("."),
    workers: Workers = None,
    scheduler: Scheduler = None,
    status: Annotated[bool, typer.Option("--status", help="Only say how far it is.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only say what would be computed and for how long."),
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="Seconds after which a cell is ended; with --workers or --scheduler."
        ),
    ] = None,
    accept_code: Annotated[
        bool,
        typer.Option(
            "--accept-code", help="Keep stored cells although code or packages have changed."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a parameter study; killed at any time, the same command resumes."""
    from dataclasses import asdict

    from attnscope.studies.study import load_study

    study = load_study(file)
    if status or dry_run:
        look = study.status if status else study.dry_run
        with interruptible():
            account: Any = look(store, progress=not as_json)
        print(json_text(asdict(account)) if as_json else _sentence(account))
        return
    if not out.is_dir():
        raise AttnscopeError(
            f"--out of attnscope sweep must be an existing folder, got {str(out)!r}; try --out ."
        )
    if study.figure:
        needs("matplotlib", f"the figure of {file.name}")
    with interruptible():
        report = study.run(store, workers, scheduler, not as_json, timeout, accept_code)
    table = out / f"{study.name}.csv"
    with whole_file(table, "attnscope sweep", "--out") as part:
        write_csv(report.frame, part)
    figure = study.draw(report.frame)
    if figure is not None:
        from attnscope.figures.render_matplotlib import svg

        drawing = svg(figure)
        with whole_file(out / f"{study.name}.svg", "attnscope sweep", "--out") as part:
            part.write_text(drawing, encoding="utf-8", newline="\n")
    if as_json:
        print_json(report.frame.to_dict(orient="records"))
    else:
        drawn = f" and {study.name}.svg" if figure is not None else ""
        print(
            f"{report.cells} cells, {report.reused} from the store, {report.computed} computed in "
            f"{report.seconds:.1f} s: {table}{drawn}"
        )
    if report.troubles():
        print(report.troubles(), file=sys.stderr)
        raise typer.Exit(1 if report.failures else 0)


def _sentence(account: Any) -> str:
    if hasattr(account, "todo"):
        time = (
            "unknown time"
            if account.seconds is None
            else f"about {account.seconds:.0f} s on one worker"
        )
        return (
            f"{account.cells} cells: {account.done} done, {account.todo} to compute, {time}"
        )
    return (
        f"{account.cells} cells: {account.done} done, {account.failed} failed, "
        f"{account.missing} missing"
    )


@app.command("reproduce")
def reproduce_command(
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Pattern of claim ids, as 'slr-0*'; may be repeated.", autocompletion=claims
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Raise runs and sizes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("report"),
    seed: Seed = 0,
    workers: Workers = None,
    scheduler: Scheduler = None,
    site: Annotated[
        bool,
        typer.Option(
            "--site", help="Claims link to the explorer's plain files at ../explorer."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Re-check the papers' claims: a verdict and a figure each, and a report in DIR/index.html."""
    from attnscope.claims.registry import listed_claims
    from attnscope.report.build import verdicts_json
    from attnscope.reproduction import exit_code, reproduce

    print_left_out(listed_claims().broken)

    with interruptible():
        verdicts = reproduce(
            only, out, seed, full, workers, scheduler, progress=not as_json, site=site
        )
    if as_json:
        from attnscope import __version__

        print(verdicts_json(verdicts, seed, __version__))
    raise typer.Exit(exit_code(verdicts))
