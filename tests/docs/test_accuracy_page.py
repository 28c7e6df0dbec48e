"""docs/accuracy.md speaks of every subject of the stress tests,
and its transcript is what the command prints.
"""

import importlib.util
import re
import shlex

from helpers.paths import ROOT
from stress.__main__ import main as stress
from stress.attack import all_subjects

PAGE = (ROOT / "docs" / "accuracy.md").read_text()


def _rows():
    cells = [
        line.strip().strip("|").split(" | ")
        for line in PAGE.splitlines()
        if line.startswith("| `")
    ]
    return {row[0].strip().strip("`"): [cell.strip() for cell in row[1:]] for row in cells}


def test_a_row_for_each_subject_and_none_besides():
    assert set(_rows()) == {subject.name for subject in all_subjects()}


def test_every_row_has_its_numbers():
    for name, (promised, attacked_by, settings, refused, worst) in _rows().items():
        assert promised and attacked_by, name
        assert int(settings) > 0 and int(refused) <= int(settings), name
        assert float(worst) >= 0, name


def test_what_is_above_1_is_said_to_be_open():
    above = {name for name, row in _rows().items() if not float(row[-1]) <= 1}
    section = PAGE.split("## Open")[1] if "## Open" in PAGE else ""
    assert above <= set(re.findall(r"^- `(.*?)`", section, re.M))


def test_the_transcript_is_true(capsys):
    arguments, shown = re.search(
        r"<!-- transcript: make stress ARGS=\"(.*?)\" -->\n```text\n(.*?)```", PAGE, re.S
    ).groups()
    assert stress(shlex.split(arguments)) == 0
    printed = capsys.readouterr().out
    untimed = lambda text: re.sub(r"\d\.\d s\.", "s.", text)
    assert untimed(printed).split() == untimed(shown).split()


def test_the_tool_fills_a_row():
    where = ROOT / "tools" / "accuracy_table.py"
    spec = importlib.util.spec_from_file_location("accuracy_table", where)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = "| `risk(Erf)` | bound | digits | – | – | – |\nother | text\n"
    assert tool.filled(page, {"risk(Erf)": (30, 2, 0.1234)}) == (
        "| `risk(Erf)` | bound | digits | 30 | 2 | 0.12 |\nother | text\n"
    )
