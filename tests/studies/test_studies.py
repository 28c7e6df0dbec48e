"""Study files: what they expand to, every mistake in one sentence,
resuming through the command line.
"""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest
from helpers.commands import run as typed_here
from helpers.paths import ROOT

import attnscope as at
from attnscope import registry
from attnscope.studies.functions import (
    check_cell,
    learning_curve,
    optimal_inverse_temperature,
    oracle_risk,
    outcomes,
)
from attnscope.studies.study import load_study

EXAMPLES = ROOT / "examples" / "studies"
STUDY = """
title = "Risk over inverse temperature"
function = "oracle_risk"
[grid]
inverse_temperature = { from = 0.01, to = 1.0, count = 5, scale = "log" }
length = [2, 10]
[fixed]
dim = 50
[figure]
kind = "line"
x = "inverse_temperature"
value = "risk"
group = "length"
"""


@pytest.fixture
def study_file(tmp_path):
    path = tmp_path / "risks.toml"
    path.write_text(STUDY)
    return path


def attnscope(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "attnscope.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
    )


def test_functions_equal_the_library():
    task = at.SingleLocation(50, 7)
    row = oracle_risk(50, 7, inverse_temperature=0.2)
    assert row["risk"] == at.risk(task, at.Erf(0.2), at.Overlaps.oracle()).value
    assert row["bayes"] == task.bayes_risk().value
    assert (
        optimal_inverse_temperature(50, 7)["optimal_inverse_temperature"]
        == at.optimal_inverse_temperature(task, at.Erf)[0]
    )
    reached = outcomes(50, 0.1, runs=8, steps=4000, start="manifold", seed=3)
    assert (
        sum(reached[name] for name in ("oracle", "swapped", "undecided", "diverged")) == 1.0
    )


def test_learning_curve_equals_the_library_and_refuses_before_it_runs():
    task = at.SingleLocation.spiked(1000, 3, 5.0, noise=0.3)
    row = learning_curve(2.0)
    assert row["excess"] == at.learning_curve(task, [2.0]).risk.excess[0]
    assert row["key_overlap"] == at.learning_curve(task, [2.0]).key_overlap[0]
    for cell in ({}, {"alpha": 1.0, "dim": 3}, {"alpha": 1.0, "predictor": "erf"}):
        with pytest.raises(at.AttnscopeError, match="learning_curve must be"):
            check_cell(learning_curve, cell)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.stem)
def test_examples_load_and_one_cell_runs(path):
    study = load_study(path)
    small = {"runs": 2, "steps": 50} if "runs" in study.cells[0] else {}
    row = study.function(**study.cells[0] | small)
    assert study.figure["value"] in row


def test_ranges_expand(study_file):
    study = load_study(study_file)
    assert len(study.cells) == 10
    assert [cell["inverse_temperature"] for cell in study.cells[::2]] == pytest.approx(
        [0.01, 0.0316227766, 0.1, 0.316227766, 1.0]
    )
    assert all(cell["dim"] == 50 for cell in study.cells)


def test_run_resume_draw(study_file, tmp_path):
    study = load_study(study_file)
    first = study.run(tmp_path / "store", progress=False)
    assert (first.computed, first.reused) == (10, 0)
    again = study.run(tmp_path / "store", progress=False)
    assert (again.computed, again.reused) == (0, 10)
    pd.testing.assert_frame_equal(first.frame, again.frame)
    figure = study.draw(first.frame)
    assert len(figure.panels[0].marks) == 2
    assert figure.panels[0].log_x is True  # the inverse temperatures span two decades


MISTAKES = {
    "toml": ("title = ", "must be valid TOML"),
    "unknown name": ("colour = 1\n" + STUDY, "a name of .* must be one of"),
    "no function": (
        STUDY.replace('function = "oracle_risk"', ""),
        "function of .* must be one of oracle_risk",
    ),
    "wrong function": (
        STUDY.replace("oracle_risk", "nothing"),
        "function of .* must be one of",
    ),
    "not importable": (
        STUDY.replace("oracle_risk", "nowhere.module:f"),
        "must be importable",
    ),
    "unknown parameter": (STUDY.replace("dim = 50", "dim = 50\ncolour = 3"), "colour"),
    "missing parameter": (STUDY.replace("dim = 50", ""), "dim"),
    "range": (
        STUDY.replace("from = 0.01", "from = -1"),
        "a range with finite ends, count from 1",
    ),
    "range name": (STUDY.replace("count = 5", "number = 5"), "must be one of count"),
    "both": (
        STUDY.replace("dim = 50", "dim = 50\nlength = 3"),
        "parameters that \\[grid\\] does not have",
    ),
    "figure": (
        STUDY.replace('kind = "line"', 'kind = "pie"'),
        "kind 'heat' with x, y and value",
    ),
    "seed": ("seed = -1\n" + STUDY, "seed of .* must be an integer >= 0"),
    "unknown task": (
        STUDY.replace("dim = 50", 'dim = 50\ntask = "gpt"'),
        "task of a study must be one of single-location",
    ),
    "unknown predictor": (
        STUDY.replace("dim = 50", 'dim = 50\npredictor = "gpt"'),
        "predictor of a study must be one of erf",
    ),
    "another task's": (
        STUDY.replace("dim = 50", 'dim = 50\ntask = "max-location"\ngamma2 = 1.0'),
        "max-location must be one of dim, length, strength, .*got 'gamma2'",
    ),
    "out of range": (
        STUDY.replace("dim = 50", "dim = 50\ngamma2 = -1"),
        "gamma2 of a study, single-location must be a number",
    ),
    "word of an option": (
        STUDY.replace("dim = 50", 'dim = 50\ntask = "multi-location"\nweights = "blue"'),
        "weights of a study, multi-location must be one of equal, sum, dirichlet",
    ),
    "empty list": (STUDY.replace("[2, 10]", "[]"), "must be non-empty"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_one_sentence(name, tmp_path):
    text, words = MISTAKES[name]
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(at.AttnscopeError, match=words):
        load_study(path)


def test_missing_column_is_named(study_file, tmp_path):
    study_file.write_text(STUDY.replace('value = "risk"', 'value = "colour"'))
    study = load_study(study_file)
    frame = study.run(tmp_path / "store", progress=False).frame
    with pytest.raises(
        at.AttnscopeError, match="value of \\[figure\\] must be a column of the result"
    ):
        study.draw(frame)


def test_command_line(study_file, tmp_path, monkeypatch):
    """The sweep in a process of its own, what is asked before and after in this one."""
    monkeypatch.chdir(tmp_path)
    _, plan, _ = typed_here("sweep", study_file, "--dry-run", "--json")
    assert json.loads(plan)["todo"] == 10
    run = attnscope("sweep", study_file, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "10 cells, 0 from the store, 10 computed" in run.stdout
    assert len(pd.read_csv(tmp_path / "risks.csv")) == 10
    assert (tmp_path / "risks.svg").read_text().startswith("<?xml")
    _, status, _ = typed_here("sweep", study_file, "--status")
    assert status.strip() == "10 cells: 10 done, 0 failed, 0 missing"


def test_command_line_refusals(study_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cases = [
        (("sweep", tmp_path / "nothing.toml"), "must be readable"),
        (
            ("sweep", study_file, "--out", tmp_path / "nowhere"),
            "--out of attnscope sweep must be an existing folder",
        ),
        (("sweep", study_file, "--workers", "0"), "workers"),
    ]
    for arguments, words in cases:
        code, printed, said = typed_here(*arguments)
        assert code == 2, printed
        assert words in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_store(study_file, tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    run = attnscope("sweep", study_file, "--store", folder / "runs", cwd=tmp_path)
    assert run.returncode == 2


PLANTED = [word for word, row in registry.TASKS.items() if row.planted]
SMALL = {"dim": 12, "length": 4, "rows": 2, "columns": 2, "lengths": [2, 4], "strength": 2.0}


def small(word):
    names = {argument.name for argument in registry.TASKS[word].arguments}
    return {name: x for name, x in SMALL.items() if name in names}


@pytest.mark.parametrize("word", PLANTED)
def test_every_planted_task_is_a_study(word, tmp_path):
    """From a file: cells of two predictors, with what the task says of itself and, where it has a
    key and a value, the head's risk.
    """
    fixed = "".join(f"{name} = {x!r}\n" for name, x in small(word).items())
    path = tmp_path / "study.toml"
    path.write_text(
        f'function = "oracle_risk"\n[grid]\npredictor = ["erf", "linear"]\n[fixed]\ntask = "{word}"\n{fixed}'
    )
    frame = load_study(path).run(tmp_path / "store", progress=False).frame
    task = registry.TASKS[word].make(small(word))
    if word == "sparse-tokens":
        assert frame["bayes_error"].tolist() == [task.bayes_error().value] * 2
        return
    assert frame["bayes"].tolist() == [task.bayes_risk().value] * 2
    oracle = at.Overlaps.oracle(task.teacher_gram[0, 1])
    for i, predictor in enumerate((at.Erf(0.1), at.LinearAttention(0.1))):
        found = at.risk(task, predictor, oracle)
        slack = (
            0.0
            if "monte-carlo" not in found.method
            else 5 * (found.error + frame["error_of_risk"][i])
        )
        assert abs(frame["risk"][i] - found.value) <= slack


# population descent on nodes compiles two gradients each
@pytest.mark.parametrize(
    "word",
    [
        pytest.param("multi-location", marks=pytest.mark.slow),
        pytest.param("multi-direction", marks=pytest.mark.slow),
        "sparse-tokens",
    ],
)
def test_outcomes_of_planted_tasks(word):
    row = outcomes(
        inverse_temperature=0.5, task=word, runs=2, steps=3, batch_size=2, **small(word)
    )
    ends = {
        "specialised",
        "rotated",
        "unspecialised",
        "oracle",
        "swapped",
        "undecided",
        "diverged",
    }
    assert sum(x for name, x in row.items() if name in ends) == 1.0
    assert ("median_form_cosine" in row) == (word == "multi-direction")
    if word != "sparse-tokens":  # population descent, on nodes
        row = outcomes(inverse_temperature=0.5, task=word, runs=2, steps=3, **small(word))
        assert sum(x for name, x in row.items() if name in ends) == 1.0
        return
    with pytest.raises(at.AttnscopeError, match="batch_size of train must be an integer"):
        outcomes(inverse_temperature=0.5, task=word, runs=2, steps=3, **small(word))


def test_exchangeable_tasks_are_studies():
    row = oracle_risk(length=7, task="topics")
    task = registry.TASKS["topics"].make()
    assert (row["bayes"], row["topic_error"]) == (
        task.bayes_risk(7).value,
        task.topic_error(7).value,
    )
    assert "risk" not in row
    assert oracle_risk(length=7, task="order")["bayes_without_positions"] == 1.0


def test_a_row_from_outside_is_a_word_of_studies():
    row = registry.Entry(
        "quieter", at.MaxLocation, "quieter", (registry.DIM, registry.LENGTH)
    )
    registry.add(row, registry.TASKS)
    try:
        found = oracle_risk(12, 4, task="quieter")
        assert found["bayes"] == at.MaxLocation(12, 4).bayes_risk().value
    finally:
        registry.remove("quieter", registry.TASKS)


def test_seeds_of_directions_and_of_samples_are_two():
    task = registry.TASKS["correlated-background"].make({"dim": 12, "length": 4, "seed": 5})
    row = oracle_risk(12, 4, task="correlated-background", task_seed=5, seed=99)
    assert row["bayes"] == task.bayes_risk().value
    one, other = (oracle_risk(12, 4, task="multi-direction", seed=seed) for seed in (1, 2))
    assert one["risk"] != other["risk"]
    assert abs(one["risk"] - other["risk"]) < 5 * 2 * one["error_of_risk"]
