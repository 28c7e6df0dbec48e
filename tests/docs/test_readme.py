"""The README shows what the commands print, and its Python runs."""

import re
import shlex

from helpers.commands import run
from helpers.paths import ROOT
from helpers.stated_values import wrong_comments

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
        code, printed, said = run(*shlex.split(arguments))
        assert code == 0, said
        assert without_errors(shown) == without_errors(printed)


def test_counts_of_claims_come_from_their_provenance():
    (counted,) = re.findall(r"<!-- coverage --> (.*?) <!-- /coverage -->", README.read_text())
    assert counted == sentence(all_claims())


def test_python_runs_and_yields_what_its_comments_say():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert [line for block in blocks for line in wrong_comments(block, {}, "README.md")] == []
