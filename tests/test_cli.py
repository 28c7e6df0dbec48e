"""The command line, as a user types it."""

import json
import subprocess
import sys

import pytest


def attnscope(*arguments):
    command = [sys.executable, "-m", "attnscope.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_risk_table_fits_100_columns_and_has_every_row():
    run = attnscope(
        "risk",
        "--dim",
        "400",
        "--length",
        "10",
        "--gamma2",
        "0.5",
        "--predictor",
        "erf",
        "--temperature",
        "0.1",
    )
    assert run.returncode == 0, run.stderr
    assert max(map(len, run.stdout.splitlines())) <= 100
    for words in (
        "null",
        "best linear",
        "erf oracle (k*, v*)",
        "swapped minimum",
        "optimal sigma",
        "softmax",
        "Bayes",
        "critical temperature",
    ):
        assert words in run.stdout
    for number in ("0.50000", "0.47368", "0.11350", "0.06377", "0.06710", "0.04221", "0.05749", "0.8924"):
        assert number in run.stdout


@pytest.mark.parametrize("predictor", ["erf", "softmax", "linear"])
def test_risk_json(predictor):
    run = attnscope("risk", "--dim", "50", "--predictor", predictor, "--temperature", "0.5", "--json")
    assert run.returncode == 0, run.stderr
    out = json.loads(run.stdout)
    assert out["task"]["dim"] == 50
    rows = {row["name"]: row["value"] for row in out["risks"]}
    assert rows["Bayes: E[Y | X]"] <= min(v for k, v in rows.items() if "Bayes" not in k)


def test_length_one_prints_what_exists():
    run = attnscope("risk", "--length", "1")
    assert run.returncode == 0, run.stderr
    assert "Bayes" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["risk", "--dim", "1"], "dim of SingleLocation must be an integer >= 2, got 1"),
        (["risk", "--predictor", "gpt"], "--predictor must be one of erf, softmax, linear"),
        (["risk", "--gamma2", "-1"], "--gamma2 must be > 0"),
        (["risk", "--temperature", "-1"], "temperature of Erf must be a finite number >= 0"),
        (["risk", "--nonsense"], "No such option"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, words):
    run = attnscope(*arguments)
    assert run.returncode == 2
    assert words in run.stderr
    assert "Traceback" not in run.stderr


def test_every_command_has_help():
    top = attnscope("--help")
    assert top.returncode == 0
    from attnscope.cli import app

    for command in app.registered_commands:
        assert command.name in top.stdout
        page = attnscope(command.name, "--help")
        assert page.returncode == 0
        assert "--json" in page.stdout


def test_selftest_prints_the_worst_of_each_function():
    run = attnscope("selftest", "--only", "density_bias", "--settings", "20", "--seed", "3")
    assert run.returncode == 0, run.stderr
    assert "density_bias" in run.stdout and "20 settings, 0 wrong" in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 100


def test_selftest_json():
    run = attnscope("selftest", "--only", "bottleneck_law", "--settings", "5", "--json")
    assert run.returncode == 0, run.stderr
    (row,) = json.loads(run.stdout)
    assert row["subject"] == "bottleneck_law" and row["settings"] == row["judged"] == 5
    assert 0 <= row["worst"] <= 1 and row["troubles"] == []


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--settings", "0"], "at least 1"), (["--only", "nobody"], "--only")]
)
def test_selftest_refuses_in_a_sentence(arguments, words):
    run = attnscope("selftest", *arguments)
    assert run.returncode == 2
    assert words in run.stderr and "Traceback" not in run.stderr
