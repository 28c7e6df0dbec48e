"""The documentation works when followed literally:
its Python runs, and a claim put where it says is found and checked.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.paths import DOCS

import attnscope as at
import attnscope_claims
from attnscope import registry
from attnscope.claims.registry import all_claims, docs_page
from attnscope.predictors.attention import Componentwise, Normalised, Predictor
from attnscope.theory.route import Route, add_route, all_routes, remove_route


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.S | re.M)


def test_the_tour_runs(capsys):
    names = {}
    for block in blocks("tour.md"):
        exec(compile(block, "tour.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "swapped" in printed and "oracle" in printed


def with_marks(block):
    """Stationary points of a task of one's own take ten seconds: gradients compile. Blocks that
    run below, in this process or on the command line, have one of their own in `make test-all`.
    """
    name = block.split()[1]
    dear = name in ("sign_location.py", "mean_attention.py", "bump.py")
    return pytest.param(block, marks=[pytest.mark.slow] if dear else [], id=name)


@pytest.mark.parametrize("block", [with_marks(block) for block in blocks("add_your_own.md")])
def test_own_predictors_and_tasks(block, tmp_path):
    name = block.split()[1]
    (tmp_path / name).write_text(block)
    done = subprocess.run(
        [sys.executable, name], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 2


def guide(name):
    """A block of the guide, run as a module; its row is taken out again."""
    block = next(block for block in blocks("add_your_own.md") if block.split()[1] == name)
    module = {"__name__": name}
    before = (dict(registry.TASKS), dict(registry.PREDICTORS))
    routes = set(all_routes())
    try:
        exec(compile(block, name, "exec"), module)
    finally:
        for table, kept in zip((registry.TASKS, registry.PREDICTORS), before):
            for key in [key for key in table if key not in kept]:
                del table[key]
        for pair in set(all_routes()) - routes:
            remove_route(*pair)
    return module


def test_two_routes_of_the_guide_agree():
    task = guide("sign_location.py")["SignLocation"](dim=10, length=5, signal=2.0)
    batch = task.sample(20_000, seed=1)
    best = task.bayes_risk()
    squares = (task.bayes_predict(batch.tokens) - batch.target) ** 2
    error = (best.error**2 + squares.var() / len(squares)) ** 0.5
    assert abs(best.value - squares.mean()) < 4 * error  # false alarm 6e-5
    found = at.risk(task, at.Softmax(2.0), at.Overlaps.oracle())
    losses = (
        at.predict(at.Softmax(2.0), task.key, task.value, batch.tokens) - batch.target
    ) ** 2
    assert (
        abs(found.value - losses.mean())
        < 4 * (found.error**2 + losses.var() / len(losses)) ** 0.5
    )


def test_the_route_of_the_guide_is_exact():
    module = guide("mean_attention.py")
    v = np.array([0.6, 0.8, 0.0])
    oblique = at.SingleLocation(3, 4, signal=2.0, key=np.array([1.0, 0.0, 0.0]), value=v)
    for task in (oblique, at.SingleLocation(12, 4, signal=2.0)):
        o = at.Overlaps.of(task, *(np.roll(task.teachers, 1, axis=1)))
        exact = module["mean_excess"](task, None, o, 1.0)
        sampled = at.risk(
            task, module["MeanAttention"](1.0), o, "monte-carlo", samples=40_000
        )
        assert abs(exact.excess - sampled.excess) < 4 * sampled.error


COMMANDS = {
    "bump.py": ("risk --predictor bump:bump --dim 80", "bump oracle (k*, v*)"),
    "top_two.py": ("risk --predictor top_two:top-two --dim 80", "quasi-monte-"),
    "mean_attention.py": (
        "risk --predictor mean_attention:mean --dim 80",
        "mean oracle (k*, v*)",
    ),
    "sign_location.py": (
        "train --task sign_location.py:SignLocation --dim 10 --batch-size 5 --runs 2 --steps 20",
        "2 runs, 20 steps",
    ),
    "logistic_location.py": (
        "risk --task logistic_location.py:LogisticLocation --dim 10 --length 3",
        "quasi-monte-carlo",
    ),
}


# a process each: one predictor stands for the rest in `make test`, beside tests/cli/test_plugins.py
OWN_WORDS = [
    name if name == "bump.py" else pytest.param(name, marks=pytest.mark.slow)
    for name in COMMANDS
]


@pytest.mark.parametrize("name", OWN_WORDS)
def test_own_words_on_the_command_line(name, tmp_path):
    block = next(block for block in blocks("add_your_own.md") if block.split()[1] == name)
    (tmp_path / name).write_text(block)
    typed, words = COMMANDS[name]
    command = [sys.executable, "-m", "attnscope.cli", *typed.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


STUDY = """
function = "oracle_risk"
[grid]
predictor = ["erf", "mean_attention:mean"]
[fixed]
task = "sign_location.py:SignLocation"
dim = 10
length = 5
signal = 2.0
"""


@pytest.mark.slow
def test_own_words_in_a_study_are_followed_when_they_change(tmp_path):
    for name in ("mean_attention.py", "sign_location.py"):
        (tmp_path / name).write_text(
            next(b for b in blocks("add_your_own.md") if b.split()[1] == name)
        )
    (tmp_path / "study.toml").write_text(STUDY)
    command = [sys.executable, "-m", "attnscope.cli", "sweep", "study.toml"]
    run = lambda *more: subprocess.run(
        [*command, *more], cwd=tmp_path, capture_output=True, text=True
    )
    first = run("--workers", "2")
    assert "2 cells, 0 from the store, 2 computed" in first.stdout, first.stderr
    assert "2 cells, 2 from the store, 0 computed" in run().stdout
    task = tmp_path / "sign_location.py"
    text = task.read_text()
    task.write_text(f"{text}# a comment\n")
    assert "2 cells, 2 from the store, 0 computed" in run().stdout
    task.write_text(text.replace("np.sign(", "2 * np.sign("))
    assert "2 cells, 0 from the store, 2 computed" in run().stdout


def test_the_tables_of_tasks_are_what_the_code_says(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    import task_table

    assert task_table.page(task_table.PAGE.read_text()) == task_table.PAGE.read_text(), (
        "run python docs/_ext/task_table.py"
    )
    row = registry.TASKS["multi-location"]
    assert task_table.cells(row)["gradient"] == ""
    # a route that nobody has yet
    add_route(row.kind, Predictor, Route(lambda *a: None, gradient=lambda *a: None))
    try:
        for kind in (Componentwise, Normalised):
            remove_route(row.kind, kind)
        assert task_table.cells(row)["gradient"] == "all"
    finally:
        for kind in (Componentwise, Normalised):
            add_route(row.kind, kind, all_routes()[at.MaxLocation, kind])
        remove_route(row.kind, Predictor)


@pytest.mark.slow
def test_own_claim(tmp_path):
    package = tmp_path / "attnscope_claims"
    shutil.copytree(
        Path(attnscope_claims.__file__).parent,
        package,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (package / "slr" / "slr_99_your_words.py").write_text(blocks("claims.md")[-1])
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = lambda *a: subprocess.run(
        [sys.executable, "-m", "attnscope.cli", *a],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "slr-99-your-words" in [
        c["id"] for c in json.loads(run("claims", "--json").stdout)
    ]
    done = run("reproduce", "--only", "slr-99*", "--out", "report")
    assert done.returncode == 0, done.stderr
    assert "Uniform numbers have mean 1/2" in (tmp_path / "report" / "index.html").read_text()


def test_every_claim_has_its_page():
    assert not [c.id for c in all_claims() if not (DOCS / f"{docs_page(c.id)}.md").exists()]
