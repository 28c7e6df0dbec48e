"""`attnscope check-plugin`: a good plugin passes, and each wrong one gets one clear sentence. The
plugins are real distributions in a folder of sys.path.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from helpers.papers import PREDICTOR, SIGN_LOCATION, write_metadata
from typer.testing import CliRunner

import attnscope
import attnscope as at
from attnscope import registry
from attnscope.cli import app
from attnscope.plugin_checks import check_plugin

# the exact risk by plain sampling of projections, and 10 % more
WRONG_RISK = (
    SIGN_LOCATION
    + """
    def exact_risk(self, predictor, overlaps, inverse_temperature):
        right = at.risk(SignLocation(self.dim, self.length, signal=self.signal), predictor, overlaps)
        return 1.1 * right.excess, right.error


class SignLocation(at.Planted):
    teachers = ("key", "value")
    signal: float = 2.0
    latents, means, label = WrongRisk.latents, WrongRisk.means, WrongRisk.label
"""
).replace("class SignLocation", "class WrongRisk", 1)

CLAIM = """
from attnscope.claims.claim import Claim, Comparison, Evidence
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Panel


def check(context):
    line = Line([0, 1], [0, 1], "identity")
    figure = Figure("one and one", (Panel("a line", "x", "y", (line,)),))
    two = Comparison("1 + 1", 2, 1 + 1, 1e-12, why="rounding", key="sum")
    return Evidence((two,), figure, "Two.")


CLAIM = Claim(
    id="wrong-01-one-and-one",
    title="One and one is two",
    statement=("[One and one is two](sum).",),
    headline="sum",
    provenance=Provenance("new here"),
    hypotheses="none",
    routes=("by heart", "by machine"),
    check=check,
    snippet="print(1 + 1)",
)
"""
PAPERS = """
from attnscope.claims.paper import Paper, Statement

PAPERS = {"wrong": Paper("Somebody 2030", "A title", "draft")}
STATEMENTS = {"wrong/one": Statement("wrong", "Section 1", "by its author", "One is one.")}
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder at the end of sys.path, in which a plugin can be put."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    tables = (registry.TASKS, registry.PREDICTORS)
    before = [set(table) for table in tables]
    modules = set(sys.modules)
    yield folder
    for table, kept in zip(tables, before):
        for word in set(table) - kept:
            registry.remove(word, table)
    for name in set(sys.modules) - modules:
        if name.split(".")[0] in ("wrong", "fresh_plugin"):
            del sys.modules[name]


def put(site, points, **files):
    """A distribution `wrong 1.0` with these modules and entry points."""
    (site / "wrong").mkdir()
    for name, text in {"__init__": "", **files}.items():
        (site / "wrong" / f"{name}.py").write_text(text)
    write_metadata(site, "wrong", "1.0", points)


def run(*words):
    return CliRunner().invoke(app, ["check-plugin", *map(str, words)])


def only_failure(*words):
    """The one record that fails; the table and the exit code agree."""
    found = run("wrong", "--settings", 1, "--json", *words)
    assert found.exit_code == 1, found.output
    failed = [r for r in json.loads(found.stdout)["records"] if r["verdict"] == "fails"]
    assert len(failed) == 1, failed
    return failed[0]


def generated(site, leave_out=()):
    """A generated plugin as pip would install it."""
    CliRunner().invoke(app, ["new", "plugin", "fresh-plugin", "--out", str(site)])
    folder = site / "fresh-plugin"
    (folder / "src" / "fresh_plugin").rename(site / "fresh_plugin")
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    points = {g: x for g, x in project["entry-points"].items() if g not in leave_out}
    text = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in rows.items())
        for group, rows in points.items()
    )
    write_metadata(site, project["name"], project["version"], text)
    return folder


def test_a_generated_plugin_passes(site):
    """All but its task, which trains for some seconds."""
    generated(site, leave_out=("attnscope.tasks",))
    found = run("Fresh_Plugin", "--settings", 1)
    assert found.exit_code == 0, found.output
    assert max(map(len, found.stdout.splitlines())) <= 80
    assert found.stdout.startswith("fresh-plugin 0.1.0\n")
    assert "fails" not in found.stdout and "skipped" not in found.stdout
    assert "freshplugin-01-first-claim" in found.stdout
    assert "probability below 1e-4" in " ".join(found.stdout.split())


@pytest.mark.slow  # JAX compiles two engines, in two processes
def test_the_tests_of_a_generated_plugin_pass(site):
    folder = generated(site)
    source = str(Path(attnscope.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(site), source])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    records = check_plugin("fresh-plugin", settings=2)
    assert {record.verdict for record in records} == {"passes"}
    assert records == check_plugin("fresh-plugin", settings=2)


def test_a_wrong_exact_risk_is_found(site):
    put(site, "[attnscope.tasks]\nwrong-risk = wrong.tasks:WrongRisk\n", tasks=WRONG_RISK)
    failed = only_failure()
    assert failed["name"] == "wrong-risk" and failed["worst"] > 1
    assert failed["checked"] == "risk against sampled tokens"
    assert (
        "(exact_risk) but" in failed["reason"]
        and "by sampled tokens at dim=" in failed["reason"]
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('headline="sum"', 'headline="total"', "the headline is 'total', but the keys"),
        ("](sum).", "](total).", "a sentence names the comparison 'total'"),
        ('"[One and one is two](sum)."', '"One and one is two."', "no comparison tests"),
        ("2, 1 + 1,", "2, 1 + 2,", "at seed 0 the claim fails (1 + 1)."),
        ("2, 1 + 1,", "2, 1 / 0,", "the check broke off: ZeroDivisionError"),
        ("(line,)", '(line, Line([0, 1], [0, 1], "copy", 1))', "is hidden"),
        ('why="rounding"', 'why=""', "gives no reason for its tolerance"),
    ],
)
def test_a_wrong_claim_is_found(site, old, new, said):
    assert old in CLAIM
    put(site, "[attnscope.claims]\nx = wrong.one:CLAIM\n", one=CLAIM.replace(old, new))
    failed = only_failure()
    assert failed["name"] == "wrong-01-one-and-one"
    assert said in failed["reason"], failed


def test_a_file_and_its_id_must_agree(site):
    put(site, "[attnscope.claims]\nx = wrong\n", wrong_02_another=CLAIM)
    failed = only_failure()
    assert "file for wrong-02-another has a Claim with that id" in failed["reason"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('PAPERS = {"wrong"', 'PAPERS = {"A"', "is of 'wrong', which PAPERS lacks"),
        ('"wrong/one"', '"one"', "must begin with 'wrong/'"),
        ('"A title"', '""', "has an empty title"),
    ],
)
def test_wrong_papers_are_found(site, old, new, said):
    put(site, "[attnscope.papers]\nx = wrong.papers\n", papers=PAPERS.replace(old, new))
    assert said in only_failure()["reason"]


def test_a_paper_whose_key_is_taken_is_found(site):
    text = PAPERS.replace('"wrong', '"A')
    put(site, "[attnscope.papers]\nx = wrong.papers\n", papers=text)
    assert "must be papers with new keys, got A, which is taken" in only_failure()["reason"]
    assert CliRunner().invoke(app, ["claims"]).exit_code == 0


def test_a_plugin_that_ends_python_is_found(site):
    put(
        site,
        "[attnscope.tasks]\nlast = wrong.tasks:Last\n",
        tasks="raise SystemExit('bye')\n",
    )
    assert "SystemExit: bye" in only_failure()["reason"]
    found = run("wrong")
    assert found.exit_code == 1
    sentence = " ".join(found.stdout.split())
    assert "last fails: last of wrong 1.0" in sentence and "1 checks: 1 fail" in sentence
    assert CliRunner().invoke(app, ["tasks"]).exit_code == 0


def test_wrong_predictors_are_found(site):
    """Weights by place, and weights on masked tokens."""
    by_place = PREDICTOR.replace(
        "real / real.sum", "np.arange(real.shape[-1]) * real / real.sum"
    )
    masked = PREDICTOR.replace("if mask is None else mask.astype(float)", "")
    points = (
        "[attnscope.predictors]\nplace = wrong.place:Even\nunmasked = wrong.unmasked:Even\n"
    )
    put(site, points, place=by_place, unmasked=masked)
    records = [r for r in check_plugin("wrong", 0) if r.verdict == "fails"]
    assert [r.name for r in records] == ["place", "unmasked"]
    assert "where the tokens change places" in records[0].reason
    assert "masked tokens have weight" in records[1].reason


def test_names_groups_and_commands(site):
    points = (
        "[attnscope.tasks]\nA b = wrong.code:one\n"
        "[attnscope.commands]\nrisk = wrong.code:one\nmute = wrong.code:mute\nfine = wrong.code:one\n"
        "[attnscope.task]\nlost = wrong.code:one\n"
    )
    put(site, points, code="def one():\n    '''One.'''\n\n\ndef mute():\n    pass\n")
    found = json.loads(run("--json").stdout)["records"]
    failed = {r["name"]: r["reason"] for r in found if r["verdict"] == "fails"}
    assert set(failed) == {"A b", "risk", "mute", "lost"}
    assert "lower-case letters" in failed["A b"]
    assert "'risk', which attnscope has" in failed["risk"]
    assert "no docstring" in failed["mute"]
    assert "attnscope.task is no group" in failed["lost"]


def test_bad_words_get_one_sentence(site):
    assert run().stdout == "no plugin is installed.\n"
    for words, said in (
        (("absent",), "no installed package 'absent' announces anything"),
        (("--settings", -1), "settings of check_plugin must be"),
    ):
        error = run(*words).exception
        assert isinstance(error, at.AttnscopeError) and said in str(error)
