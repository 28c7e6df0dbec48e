"""Which share of the slow tests a run takes: `pytest --slow-share 2/5`, or `auto` for CI.

A slow test belongs to share 1 + h mod N, where h is the SHA-256 of its file and its parameters,
"tests/a/test_b.py[x-1]". So N shares hold every slow test exactly once, on every machine and with
every version of Python. Tests of one file with the same parameters stay together, because they
share what is expensive: a fixture of the module, or the run of one claim.

`auto` is the share of this commit, 1 + hash of the commit mod FIFTHS, so that consecutive commits
take different shares. Without git it is that of the version.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tomllib
from typing import NamedTuple

from helpers.paths import ROOT

FIFTHS = 5  # shares that CI divides the slow tests into: one fits into its 30 minutes
FORM = re.compile(r"(\d+)/(\d+)")


class Share(NamedTuple):
    """Share `number` of `of`, counted from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def holds(self, nodeid: str) -> bool:
        return _remainder(group(nodeid), self.of) == self.number - 1


def parse(text: str) -> Share:
    """From "2/5" or "auto"."""
    if text == "auto":
        return Share(1 + _remainder(commit() or version(), FIFTHS), FIFTHS)
    found = FORM.fullmatch(text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError(f'--slow-share takes "auto" or a share such as 2/5, not {text!r}')
    return Share(int(found[1]), int(found[2]))


def group(nodeid: str) -> str:
    """The file of a test and its parameters."""
    path, _, rest = nodeid.partition("::")
    _, bracket, parameters = rest.partition("[")
    return path + bracket + parameters


def _remainder(text: str, modulus: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()) % modulus


def commit() -> str:
    """The commit that is checked out, "" without git."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()


def version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
