"""What `attnscope fit`, `predict` and `locate` print: a table that fits 80 columns, or JSON."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from attnscope.cli.bag_files import token_size
from attnscope.cli.common import COLUMNS
from attnscope.cli.json_text import json_value, print_json

__all__ = ["class_text", "deliver", "member_text", "print_fit"]

SHOWN_ROWS = 20  # rows printed; the rest is in --out and --json
# longer names of bags are cut in the table: three of them and a number fit 80 columns
NAME_WIDTH = 20
INTERVAL_NOTES = {
    "split": "split, a promise of what is asked for",
    "cv+": "cv+, a promise of about 1 - 2a where 1 - a is asked for",
}


def print_fit(
    model: Any, table: Any, size: str, written: Path, replaced: bool, as_json: bool
) -> None:
    if not hasattr(model, "cv_losses_"):
        return _print_stream(model, size, written, replaced, as_json)
    diagnosis = model.diagnose(table.bags, table.target, table.groups)
    # with a model at hand it is loaded; on its own it would cost every command its start
    from attnscope.estimators.fit.stacking import BASELINES

    own = float(model.cv_losses_.mean())
    pooled = float(model.cv_mean_pool_losses_.mean())
    kind = type(model).__name__
    groups = None if table.groups is None else len(set(table.groups.tolist()))
    tokens, width = token_size(table)
    assumption = {"assumption": model.assumption_} if kind.endswith("Classifier") else {}
    facts = {
        "model": str(written),
        "kind": kind,
        "bags": len(table.bags),
        "tokens": tokens,
        "features": list(table.features) or width,
        "ignored": list(table.ignored),
        "held_out_loss": own,
        "mean_pool_loss": pooled,
        "stages": list(model.stages_),
        "components": model.components_,
        **assumption,
        **{f"{name}_share": getattr(model, f"{name}_share_", 0.0) for name in BASELINES},
        "verdict": diagnosis.verdict,
        "warnings": list(diagnosis.warnings),
        "groups": groups,
        "interval": model.interval,
    }
    if as_json:
        print_json(facts)
        return
    name = "squared error" if kind.endswith("Regressor") else "minus log probability"
    print(f"{kind}: {size}")
    print(
        f"held-out {name:<24}{own:>12.5g}\nthe same for mean pooling {'':<7}{pooled:>12.5g}"
    )
    print(
        textwrap.fill(f"stages: {', '.join(model.stages_)}", COLUMNS, subsequent_indent="  ")
    )
    if model.components_ is not None:
        print(f"in the tokens' {model.components_} widest directions")
    if facts.get("assumption") == "witness":
        print("read as witnesses: a token can only speak for the second class")
    for reader, said in BASELINES.items():
        if facts[f"{reader}_share"]:
            print(f"share of the prediction read from {said}: {facts[f'{reader}_share']:.2f}")
    if groups is not None:
        print(f"{groups} groups, each held out as a whole")
    if model.interval != "cross":
        print(f"intervals and sets: {INTERVAL_NOTES[model.interval]}")
    if table.ignored:
        print(
            textwrap.fill(
                f"columns without numbers, ignored: {', '.join(table.ignored)}",
                COLUMNS,
                subsequent_indent="  ",
            )
        )
    for sentence in diagnosis.warnings or ("This looks like a single-location problem.",):
        print(textwrap.fill(sentence, COLUMNS))
    print(f"{written} {'replaced' if replaced else 'written'}")


def _print_stream(
    model: Any, size: str, written: Path, replaced: bool, as_json: bool
) -> None:
    """After --stream: no bags were held out, so there is no loss to show."""
    kind = type(model).__name__
    directions = getattr(model, "components_", None)
    if as_json:
        facts = {"model": str(written), "kind": kind, "size": size, "directions": directions}
        print_json(facts)
        return
    print(f"{kind}: {size}")
    print("EM over pieces: no bags held out; score with attnscope predict on others")
    if directions is not None:
        print(f"fitted in {directions} directions of the tokens")
    print(f"{written} {'replaced' if replaced else 'written'}")


def member_text(sets: Any, names: Any = None) -> Any:
    """Each row's members as words side by side: their names, or their positions."""
    import numpy as np

    members = [np.flatnonzero(row) for row in sets]
    return np.array(
        [
            " ".join(str(i) if names is None else class_text(names[i]) for i in row)
            for row in members
        ]
    )


def class_text(name: Any) -> str:
    """A class's name in a column's name or among others: as Python writes it, bytes as text."""
    return str(json_value(name)) if isinstance(name, bytes) else str(name)


def deliver(
    columns: dict[str, Any], out: Path | None, as_json: bool, score: Any, wide: Any = ()
) -> None:
    """Write all rows to `out`; print them as JSON,
    or the first as a table without the `wide` columns.
    """
    from attnscope.estimators.bags.table_output import write_columns

    if out is not None:
        write_columns(out, columns)
    rows = [dict(zip(columns, row)) for row in zip(*map(_cells, columns.values()))]
    if as_json:
        print_json({"rows": rows, "score": score})
        return
    shown = [name for name in columns if name not in wide]
    width = {
        name: max(len(name), *(len(_cell(row[name])) for row in rows[:SHOWN_ROWS]))
        for name in shown
    }
    print("  ".join(f"{name:>{width[name]}}" for name in shown))
    for row in rows[:SHOWN_ROWS]:
        print("  ".join(f"{_cell(row[name]):>{width[name]}}" for name in shown))
    if len(rows) > SHOWN_ROWS and out is None:
        print(f"... and {len(rows) - SHOWN_ROWS} more; --out or --json for all of them")
    for name, value in (score or {}).items():
        print(f"{name} {value:.4f}")
    if out is not None:
        print(f"{len(rows)} rows in {out}")


def _cells(column: Any) -> list[Any]:
    """The values of a column; those that are neither numbers nor words as JSON has them."""
    plain = column.dtype.kind in "biufU" and column.dtype.itemsize <= 8
    return column.tolist() if plain or column.dtype.kind == "U" else json_value(column)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    text = str(value)
    return text if len(text) <= NAME_WIDTH else text[: NAME_WIDTH - 3] + "..."
