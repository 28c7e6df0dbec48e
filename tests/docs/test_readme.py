"""The README shows what the commands print, and its Python runs."""

import re
import shlex
import subprocess
import sys

from helpers.paths import ROOT

from attnscope.claims.registry import all_claims
from attnscope.report.coverage import sentence

README = ROOT / "README.md"


def without_errors(text):
    """Roundoff-sized error estimates may differ between machines; everything else may not."""
    return re.sub(r"\b\de-\d+\b", "E", text)


def test_transcripts_are_true():
    blocks = re.findall(
        r"<!-- transcript: attnscope (.*?) -->\n```text\n(.*?)```", README.read_text(), re.S
    )
    assert blocks
    for arguments, shown in blocks:
        command = [sys.executable, "-m", "attnscope.cli", *shlex.split(arguments)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert without_errors(shown) == without_errors(printed)


def test_counts_of_claims_come_from_their_provenance():
    (counted,) = re.findall(r"<!-- coverage --> (.*?) <!-- /coverage -->", README.read_text())
    assert counted == sentence(all_claims())


def test_python_runs():
    for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.S):
        exec(compile(block, "README.md", "exec"), {})
