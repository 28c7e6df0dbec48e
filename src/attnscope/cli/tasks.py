"""`attnscope tasks`: the words of the catalogue, with the arguments of each."""

from __future__ import annotations

import math
from typing import Any

from attnscope.cli.common import COLUMNS, Json, app, as_typed, print_left_out, table
from attnscope.cli.json_text import print_json
from attnscope.registry import PREDICTORS, TASKS, Argument, Entry


@app.command("tasks")
def tasks_command(as_json: Json = False) -> None:
    """The words of --task and --predictor, with the arguments of each,
    their ranges and defaults.
    """
    from attnscope.theory.plugin_entries import add_announced

    broken = add_announced()
    if as_json:
        out = {"tasks": [_entry(row) for row in TASKS.values()]}
        print_json(out | {"predictors": [_entry(row) for row in PREDICTORS.values()]})
        print_left_out(broken)
        return
    own = [row for row in TASKS.values() if not row.origin]
    planted = [row for row in own if row.planted]
    exchangeable = [row for row in own if not row.planted]
    groups = [
        ("tasks with planted directions: attnscope risk and train --task WORD", planted),
        (
            "tasks with exchangeable tokens: attnscope risk --task WORD --length L",
            exchangeable,
        ),
        (
            "predictors: --predictor WORD",
            [row for row in PREDICTORS.values() if not row.origin],
        ),
    ]
    for option, words in (("--task", TASKS), ("--predictor", PREDICTORS)):
        for origin in sorted({row.origin for row in words.values()} - {""}):
            theirs = [row for row in words.values() if row.origin == origin]
            groups.append((f"from {origin}: {option} WORD", theirs))
    for title, rows in groups:
        print(f"{title}\n")
        for row in rows:
            print(f"  {row.word}: {row.label}")
            lines = [
                [f"    {a.name}", _default(a), _range(a), a.label] for a in row.arguments
            ]
            print(table(["    --with", "default", "range", ""], lines, 3, COLUMNS) + "\n")
    print(
        "Short for --with: --dim, --length, --gamma2, --noise, --signal,\n--inverse-temperature."
    )
    print_left_out(broken)


def _entry(row: Entry) -> dict[str, Any]:
    arguments = [vars(a) for a in row.arguments]
    return {
        "word": row.word,
        "label": row.label,
        "planted": row.planted,
        "origin": row.origin or "attnscope",
        "cost": row.cost,
        "arguments": arguments,
    }


def _default(argument: Argument) -> str:
    return "left out" if argument.default is None else as_typed(argument.default)


def _range(argument: Argument) -> str:
    """What may be typed, in a few letters."""
    if argument.options:
        return "|".join(argument.options)
    kind = "whole" if argument.whole else "number"
    ends = [
        "" if math.isinf(x) else f"{x:.3g}".replace("e+", "e")
        for x in (argument.low, argument.high)
    ]
    within = f" {ends[0]}..{ends[1]}" if any(ends) else ""
    return f"{'list of ' if argument.many else ''}{kind}{within}"
