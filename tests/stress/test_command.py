"""`make stress` as a person types it, and references that know nothing of the project."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from stress.__main__ import main

REFERENCES = Path(__file__).parent / "references"


def test_prints_the_worst_of_each_function(capsys):
    assert main(["--only", "density_bias", "--settings", "20", "--seed", "3"]) == 0
    page = capsys.readouterr().out
    assert "density_bias" in page and "20 settings, 0 wrong" in page
    assert max(map(len, page.splitlines())) <= 80


def test_json(capsys):
    assert main(["--only", "bottleneck_law", "--settings", "5", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["subject"] == "bottleneck_law" and row["settings"] == row["judged"] == 5
    assert 0 <= row["worst"] <= 1 and row["troubles"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--settings", "0"], "at least 1"),
        (["--only", "nobody"], "--only risk"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_refuses_in_a_sentence(arguments, words, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def imported(path: Path) -> set[str]:
    """The modules that a file imports, by their full names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_references_share_no_code_with_the_project():
    files = sorted(REFERENCES.rglob("*.py"))
    assert len(files) > 10
    for path in files:
        ours = {
            name
            for name in imported(path)
            if name.split(".")[0].startswith("attnscope")
            or (name.startswith("stress") and not name.startswith("stress.references"))
        }
        assert not ours, (path.name, ours)
