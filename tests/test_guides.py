"""The documentation works when followed literally: its Python runs, and a claim put where it says is found and checked."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import attnscope
from attnscope.claims.pages import docs_page
from attnscope.claims.registry import all_claims

DOCS = Path(__file__).parent.parent / "docs"


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.S | re.M)


def test_the_tour_runs(capsys):
    names = {}
    for block in blocks("tour.md"):
        exec(compile(block, "tour.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "swapped" in printed and "oracle" in printed


@pytest.mark.parametrize("block", blocks("add_your_own.md"), ids=lambda block: block.split()[1])
def test_own_predictors_and_tasks(block, tmp_path):
    name = block.split()[1]
    (tmp_path / name).write_text(block)
    done = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 2


def test_two_routes_of_the_guide_agree():
    names = {}
    exec(compile(blocks("add_your_own.md")[2].split("\nmodel =")[0], "guide", "exec"), names)
    estimate = names["task"].bayes_risk()
    squares = (names["task"].bayes_predict(names["batch"].tokens) - names["batch"].target) ** 2
    error = (estimate.error**2 + squares.var() / len(squares)) ** 0.5
    assert abs(estimate.value - squares.mean()) < 4 * error  # false alarm 6e-5


def test_own_claim(tmp_path):
    package = tmp_path / "attnscope"
    shutil.copytree(Path(attnscope.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "claims" / "slr_21_your_words.py").write_text(blocks("claims.md")[-1])
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = lambda *a: subprocess.run(
        [sys.executable, "-m", "attnscope.cli", *a], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert "slr-21-your-words" in [c["id"] for c in json.loads(run("claims", "--json").stdout)]
    done = run("reproduce", "--only", "slr-21*", "--out", "report")
    assert done.returncode == 0, done.stderr
    assert "Uniform numbers have mean 1/2" in (tmp_path / "report" / "index.html").read_text()


def test_every_claim_has_its_page():
    assert not [c.id for c in all_claims() if not (DOCS / f"{docs_page(c.id)}.md").exists()]
