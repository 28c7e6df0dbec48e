"""`attnscope claims`, `show` and `diff`: what is claimed, one claim, and what moved between two
reports.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from attnscope.cli.common import Json, Seed, app, interruptible, print_left_out
from attnscope.cli.completion import claims
from attnscope.cli.json_text import json_text, print_json
from attnscope.errors import bad

Folder = Annotated[Path, typer.Argument(help="Folder of a report, or its verdicts.json.")]


@app.command("claims")
def claims_command(as_json: Json = False) -> None:
    """List every claim that `attnscope reproduce` checks."""
    from attnscope.claims.registry import listed_claims, selected_claims
    from attnscope.report.terminal import claims_json, claims_table

    known = listed_claims()
    claims = selected_claims()
    origins = {name: row.origin for name, row in known.claims.items()}
    if as_json:
        print_json(claims_json(claims, origins))
    else:
        print(claims_table(claims, origins))
    print_left_out(known.broken)


@app.command("show")
def show_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="A claim: its id, its beginning or a pattern.",
            autocompletion=claims,
        ),
    ],
    report: Annotated[
        Path | None,
        typer.Option(help="Folder of a report: what it found, with its numbers."),
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Run the claim now.")] = False,
    seed: Seed = 0,
    browser: Annotated[
        bool,
        typer.Option("--browser", help="Open its section of the report in a browser."),
    ] = False,
    as_json: Json = False,
) -> None:
    """One claim: its statement, where it is from, and, with --report or --run, what came of it."""
    from attnscope.claims.registry import listed_claims, one_claim
    from attnscope.report.cards import claim_card, claim_record
    from attnscope.reproduction import reason_without_step, tour_steps

    claim = one_claim(name)
    if run and (report is not None or browser):
        got = "--run with " + ("--report" if report is not None else "--browser")
        raise bad("options", "attnscope show", "--run or a report's, not both", got)
    if browser:
        _open_section(claim.id, report or Path("report"))
    verdict, seen, code = _verdict(claim.id, report, run, seed)
    origin = listed_claims().claims[claim.id].origin
    steps = tour_steps(claim.id)
    if as_json:
        print_json(claim_record(claim, verdict, steps, origin), ensure_ascii=False)
    else:
        reason = reason_without_step(claim.id)
        print(claim_card(claim, verdict, seen, steps, reason, origin))
    raise typer.Exit(code)


def _verdict(
    name: str, report: Path | None, run: bool, seed: int
) -> tuple[dict[str, Any] | None, str, int]:
    """The claim's entry of verdicts.json, where it is from, and the exit code."""
    if run:
        from attnscope.reproduction import exit_code, reproduce

        with interruptible():
            verdicts = reproduce([name], seed=seed, progress=False)
        return verdicts[0].record(), f"run now, seed {seed}", exit_code(verdicts)
    if report is None:
        return None, "Its numbers: --run, or --report with the folder of a report.", 0
    from attnscope.report.difference import read_saved

    saved = read_saved(report)
    seen = f"of {report}, seed {saved.seed}"
    if name not in saved.records:
        return None, f"It is not in {report}.", 0
    return saved.records[name], seen, 0


def _open_section(name: str, report: Path) -> None:
    """Open index.html at the claim's section."""
    import webbrowser

    page = (report / "index.html").resolve()
    if not page.is_file():
        must = "the folder of a report with its index.html"
        hint = "attnscope reproduce --out report first"
        raise bad("--report", "attnscope show", must, f"{report} (none there)", hint)
    address = f"{page.as_uri()}#{name}"
    if not webbrowser.open(address):
        print(f"no browser found; open {address}", file=sys.stderr)  # stdout may be JSON


@app.command("diff")
def diff_command(first: Folder, second: Folder, as_json: Json = False) -> None:
    """What moved between two reports; exit code 1 if a state changed or a claim is gone."""
    from attnscope.report.cards import difference_text
    from attnscope.report.difference import difference, read_saved

    found = difference(read_saved(first), read_saved(second))
    print(json_text(found.record()) if as_json else difference_text(found))
    raise typer.Exit(1 if found.states or found.gone else 0)
