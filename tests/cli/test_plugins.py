"""Packages that announce tasks, predictors and claims: a real little distribution on sys.path."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from helpers.papers import install, write_metadata
from typer.testing import CliRunner

import attnscope as at
from attnscope import plugins, registry
from attnscope.claims.registry import all_claims, listed_claims, one_claim, own_claims
from attnscope.cli import app
from attnscope.theory.plugin_entries import add_announced
from attnscope.theory.task_and_predictor import modules_of, pair


@pytest.fixture
def pack(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(install(tmp_path / "site"))])
    rows = {name: dict(table) for name, table in _tables().items()}
    yield
    for name, table in _tables().items():
        for word in set(table) - set(rows[name]):
            registry.remove(word, table)
    for name in [name for name in sys.modules if name.split(".")[0] == "sign_pack"]:
        del sys.modules[name]


def _tables():
    return {"tasks": registry.TASKS, "predictors": registry.PREDICTORS}


def run(*words):
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == 0, found.output
    return found


def test_a_word_of_a_package_is_a_word(pack):
    chosen = pair("packed-sign", "even", {"dim": "9", "signal": "1.5"}, "a test")
    task = chosen.make_task()
    assert (type(task).__name__, task.dim, task.signal) == ("SignLocation", 9, 1.5)
    assert type(chosen.family(0.5)).__name__ == "Even"
    assert chosen.task.origin == chosen.predictor.origin == "sign-pack 0.3"
    # an underscore serves for a hyphen, and stored cells follow the package's source
    assert pair("packed_sign", "erf", {}, "a test").task.word == "packed-sign"
    assert modules_of("packed-sign", "even", "erf") == [
        "sign_pack.tasks",
        "sign_pack.predictors",
    ]


def test_risk_takes_it_by_name(pack):
    setting = ("--task", "packed-sign", "--dim", "6", "--length", "2")
    rows = json.loads(run("risk", *setting, "--json").stdout)["risks"]
    assert any(row["name"].startswith("Bayes") for row in rows)


def test_lists_say_where_a_word_is_from_and_leave_broken_ones_out(pack):
    found = run("tasks")
    assert "from sign-pack 0.3: --task WORD" in found.stdout
    assert "from sign-pack 0.3: --predictor WORD" in found.stdout
    told = [line for line in found.stderr.splitlines() if line]
    assert [line.split(" of sign-pack")[0] for line in told] == [
        "left out: lost-task",
        "left out: no-predictor",
        "left out: softmax",
    ]
    assert "must be a class with a method weights" in told[1]
    assert "must be a word of its own, got 'softmax', which attnscope has" in told[2]
    listed = json.loads(run("tasks", "--json").stdout)
    origins = {row["word"]: row["origin"] for row in listed["tasks"] + listed["predictors"]}
    assert (origins["packed-sign"], origins["even"]) == ("sign-pack 0.3",) * 2
    assert origins["single-location"] == "attnscope"


def test_claims_of_a_package_are_listed_shown_and_run(pack, tmp_path):
    assert [claim.id for claim in all_claims()[len(own_claims()) :]] == [
        "sign-01-one-and-one"
    ]
    assert one_claim("sign").title == "One and one is two"
    found = run("claims")
    assert found.stdout.index("from sign-pack 0.3") > found.stdout.index("around-")
    told = found.stderr.strip().splitlines()
    assert len(told) == 2 and all("of sign-pack 0.3 (attnscope.claims" in x for x in told)
    assert "RuntimeError: out of order" in told[0] and "must be a Claim" in told[1]
    ids = {row["id"]: row["origin"] for row in json.loads(run("claims", "--json").stdout)}
    assert ids["sign-01-one-and-one"] == "sign-pack 0.3" and ids["slr-01-attention-reduces"]
    run("reproduce", "--only", "sign-*", "--out", tmp_path / "report")
    assert "One and one is two" in (tmp_path / "report" / "index.html").read_text()


def test_a_broken_word_that_is_asked_for_is_one_sentence(pack):
    with pytest.raises(
        at.AttnscopeError, match=r"lost-task of sign-pack 0.3 .*ModuleNotFound"
    ):
        pair("lost-task", "erf", {}, "a test")
    with pytest.raises(at.AttnscopeError, match="task of a test must be one of"):
        pair("nobodys", "erf", {}, "a test")


def test_an_id_is_taken_once(pack, tmp_path, monkeypatch):
    other = tmp_path / "other"
    write_metadata(other, "twin", "1", "[attnscope.claims]\nx = sign_pack.claims:CLAIM\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(other)])
    found = listed_claims()
    assert len(found.claims) == len(own_claims()) + 1
    assert any(
        "twin 1" in x and "sign-01-one-and-one, which is taken" in x for x in found.broken
    )


def test_asking_twice_adds_once(pack):
    assert add_announced() == add_announced()


def test_import_reads_no_entry_points():
    code = "import attnscope, sys; print('importlib.metadata' in sys.modules)"
    bare = "import sys; print('importlib.metadata' in sys.modules)"
    here, there = (
        subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=True
        ).stdout
        for text in (code, bare)
    )
    assert here == there


def test_groups_are_those_of_the_guide():
    groups = ("TASKS", "PREDICTORS", "CLAIMS", "PAPERS", "COMMANDS")
    assert [getattr(plugins, name) for name in groups] == [
        f"attnscope.{name.lower()}" for name in groups
    ]
