"""Fill the last three columns of the tables of docs/accuracy.md from runs of the stress tests.

    make -s stress ARGS="--settings 10000 --seed 101 --json" > run.json
    python tools/accuracy_table.py run.json [more.json ...]

A row belongs to the subject in its first cell; several runs are added up. What no run has is left
as it is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"
COLUMNS = 6  # subject, promise, attacked by, settings, refused, worst


def added_up(runs: list[Path]) -> dict[str, tuple[int, int, float]]:
    """Settings, refusals and the worst ratio of each subject over all runs."""
    found: dict[str, tuple[int, int, float]] = {}
    for run in runs:
        for row in json.loads(run.read_text()):
            settings, refused, worst = found.get(row["subject"], (0, 0, 0.0))
            # JSON has no infinity
            worse = max(worst, float("inf") if row["worst"] is None else float(row["worst"]))
            found[row["subject"]] = (
                settings + row["settings"],
                refused + row["refused"],
                worse,
            )
    return found


def filled(page: str, found: dict[str, tuple[int, int, float]]) -> str:
    """The page with the numbers of the runs."""
    lines = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        name = cells[0].strip("`")
        if line.startswith("|") and len(cells) == COLUMNS and name in found:
            settings, refused, worst = found[name]
            line = (
                "| "
                + " | ".join([*cells[:3], str(settings), str(refused), f"{worst:.2g}"])
                + " |"
            )
        lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), added_up([Path(name) for name in sys.argv[1:]])))
