"""`--task my_paper.py:MyTask`: a task in a file anywhere on disk, and the sentences that refuse."""

import json
import sys

import pytest
from helpers.papers import SIGN_LOCATION
from typer.testing import CliRunner

import attnscope as at
from attnscope import registry
from attnscope.cli import app
from attnscope.theory.task_and_predictor import modules_of, pair
from attnscope.theory.task_files import task_of_file
from attnscope_explorer.knobs import arguments_of

PAPER = SIGN_LOCATION.replace("SignLocation", "SignPaper")


@pytest.fixture
def paper(tmp_path, monkeypatch):
    path = tmp_path / "my_sign_paper.py"
    path.write_text(PAPER)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield path
    sys.modules.pop("my_sign_paper", None)
    registry.remove("sign-paper", registry.TASKS)


def test_risk_and_train_take_a_task_file(paper):
    word = f"{paper}:SignPaper"
    run = CliRunner().invoke(
        app, ["risk", "--task", word, "--dim", "10", "--length", "3", "--json"]
    )
    assert run.exit_code == 0, run.output
    rows = {row["name"]: row for row in json.loads(run.output)["risks"]}
    assert {"null: predict the mean", "erf oracle (k*, v*)", "Bayes: E[Y | X]"} <= set(rows)
    assert rows["Bayes: E[Y | X]"]["value"] < rows["null: predict the mean"]["value"]
    options = ["--runs", "2", "--steps", "4", "--batch-size", "2", "--dim", "10", "--json"]
    run = CliRunner().invoke(app, ["train", "--task", word, *options])
    assert run.exit_code == 0, run.output
    assert set(arguments_of("sign-paper")) >= {"dim", "length", "signal"}
    assert modules_of(word) == ["my_sign_paper"]
    made = pair(word, "softmax", {"dim": "9", "signal": "1.5"}, "a test").make_task()
    assert (made.dim, made.signal) == (9, 1.5)


def test_wrong_files_get_one_sentence(paper, tmp_path):
    of = "attnscope risk"
    with pytest.raises(at.AttnscopeError, match=r"got no file absent\.py"):
        task_of_file(tmp_path / "absent.py", of)
    broken = tmp_path / "my_broken_paper.py"
    broken.write_text("import nothing_of_that_name")
    with pytest.raises(at.AttnscopeError, match=r"my_broken_paper\.py \(ModuleNotFoundError"):
        task_of_file(f"{broken}:A", of)
    two = tmp_path / "my_two_papers.py"
    two.write_text(PAPER + PAPER.replace("SignPaper", "OtherPaper"))
    with pytest.raises(
        at.AttnscopeError, match=r"one planted task.*got SignPaper, OtherPaper"
    ):
        task_of_file(two, of)
    with pytest.raises(
        at.AttnscopeError, match=r"must be a planted task that .*got 'Absent'"
    ):
        task_of_file(f"{paper}:Absent", of)
    assert task_of_file(paper, of) == "sign-paper"


@pytest.mark.parametrize("command", ["risk", "train", "explore"])
def test_a_shipped_task_that_is_no_word_says_what_serves_it(command):
    rest = ["--no-browser"] if command == "explore" else []
    done = CliRunner().invoke(app, [command, "--task", "positional-semantic", *rest])
    words = str(done.exception)
    assert f"task of attnscope {command} must be a task with heads or contexts" in words
    assert "positional_loss" in words and "docs/positional_semantic.md" in words
