"""`attnscope check-plugin`: whether installed plugins keep the contract (plugin_checks/)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from attnscope.cli.common import COLUMNS, Json, app, table
from attnscope.cli.json_text import print_json

if TYPE_CHECKING:
    from attnscope.plugin_checks import CheckRecord

HEAD = ["what", "checked", "worst", "verdict"]
LEGEND = (
    "worst: the largest |difference| / allowed. Sampled numbers may differ by 5 standard errors: a "
    "correct task would fail with probability below 1e-4 if the seeds were not fixed."
)


@app.command("check-plugin")
def check_plugin_command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="An installed package; all plugins if left out."
        ),
    ] = None,
    settings: Annotated[
        int, typer.Option(help="Random settings of each task and predictor.")
    ] = 5,
    as_json: Json = False,
) -> None:
    """Check every task, predictor, claim, paper and command of a plugin;
    exit code 1 if a check fails.
    """
    from attnscope.plugin_checks import check_plugin

    own = [command.name or "" for command in app.registered_commands]
    records = check_plugin(name, settings, own, progress=not as_json)
    failed = [record for record in records if record.verdict == "fails"]
    if as_json:
        print_json(
            {
                "settings": settings,
                "passes": not failed,
                "records": [asdict(record) for record in records],
            }
        )
    elif records:
        print(_records_text(records, settings))
    else:
        print("no plugin is installed.")
    raise typer.Exit(1 if failed else 0)


def _records_text(records: Sequence[CheckRecord], settings: int) -> str:
    """A table for each plugin, the sentences about what fails or is skipped, and the counts."""
    parts = []
    for plugin in dict.fromkeys(record.plugin for record in records):
        theirs = [record for record in records if record.plugin == plugin]
        rows = [
            [
                _thing_name(r),
                r.checked,
                "" if r.worst is None else f"{r.worst:.2f}",
                r.verdict,
            ]
            for r in theirs
        ]
        for i in range(len(rows) - 1, 0, -1):  # each thing is named once
            if (theirs[i].kind, theirs[i].name) == (theirs[i - 1].kind, theirs[i - 1].name):
                rows[i][0] = ""
        parts.append(f"{plugin}\n\n{table(HEAD, rows, 2, COLUMNS)}")
    parts += [
        textwrap.fill(f"{r.name} {r.verdict}: {r.reason}", COLUMNS, subsequent_indent="  ")
        for r in records
        if r.reason
    ]
    counts = [
        f"{sum(r.verdict == verdict for r in records)} {words}"
        for verdict, words in (
            ("passes", "pass"),
            ("fails", "fail"),
            ("skipped", "are skipped"),
        )
        if any(r.verdict == verdict for r in records)
    ]
    at = f"Tasks and predictors at small defaults and {settings} random settings; {LEGEND}"
    parts.append(textwrap.fill(at, COLUMNS))
    parts.append(f"{len(records)} checks: {', '.join(counts)}")
    return "\n\n".join(parts)


def _thing_name(record: CheckRecord) -> str:
    """The kind and the name; the id of a claim says what it is."""
    return record.name if record.kind == "claim" else f"{record.kind} {record.name}"
