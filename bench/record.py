"""Numbers that the documentation states and that take minutes to measure, kept as files:
docs/recorded/NAME.json holds the command, the version that ran it, and its results by name.
tests/docs/test_stated_numbers.py compares the documentation with them. Timings are not kept.
"""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

# options with a value that say where and in how many processes, not what is computed
HERE = ("--record", "--json", "--store", "--workers", "--folder")


def record(path: str, values: dict[str, float]) -> None:
    """Write the results of the running command to `path`."""
    script = Path(sys.argv[0]).resolve()
    place = script.relative_to(Path(__file__).resolve().parents[1])
    words = sys.argv[1:]
    for option in HERE:
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    content = {
        "command": f"python {place} {shlex.join(words)}".strip(),
        "version": version("attnscope"),
        "values": {name: float(value) for name, value in values.items()},
    }
    Path(path).write_text(json.dumps(content, indent=1) + "\n")
