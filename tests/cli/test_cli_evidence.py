"""`attnscope show` and `diff`, and what `reproduce` says of patterns: on claims that take no time,
through the same functions as the command line.
"""

import copy
import json

import pytest
from helpers import fake_claims as fake
from typer.testing import CliRunner

from attnscope.claims import registry
from attnscope.cli import app
from attnscope.errors import AttnscopeError
from attnscope.report.difference import NEAREST_COMPARISON, difference, read_saved

RUN = CliRunner()
FEW = fake.listed([*fake.HARMLESS, fake.CONDITION])


@pytest.fixture(autouse=True)
def _few_claims(monkeypatch):
    monkeypatch.setattr(registry, "listed_claims", lambda: FEW)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Two folders of reports with seeds 0 and 1."""
    folders = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "listed_claims", lambda: FEW)
        for seed in ("0", "1"):
            out = tmp_path_factory.mktemp("report")
            only = [
                "reproduce",
                "--only",
                "slr-0[123459]*",
                "--seed",
                seed,
                "--out",
                str(out),
            ]
            done = RUN.invoke(app, only)
            assert done.exit_code == 1  # two fail
            assert done.output.splitlines()[-1] == f"report: {out / 'index.html'}"
            folders.append(out)
    return folders


def lines(*arguments):
    """What a command prints, within 80 columns."""
    done = RUN.invoke(app, [str(part) for part in arguments])
    found = done.output.splitlines()
    assert not done.exception or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, found


def refusal(*arguments):
    done = RUN.invoke(app, [str(part) for part in arguments])
    assert isinstance(done.exception, AttnscopeError), done.output
    assert "\n" not in str(done.exception)
    return str(done.exception)


def test_show_without_numbers_says_how_to_get_them():
    code, found = lines("show", "slr-02")
    assert code == 0 and found[:2] == ["Title of slr-02-declared", "slr-02-declared"]
    text = " ".join(" ".join(found).split())
    assert "declared to fail as stated" in text and "--run" in text
    assert "condition one equals two" in text and "relation new here" in text
    assert "statement If a < b & c" in text
    assert max(map(len, found)) <= 80


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        (
            "slr-01-holds",
            0,
            ["holds (run now, seed 3)", "mean of uniforms: holds", "measured"],
        ),
        ("*condition", 0, ["holds under a condition (run now", "condition it rains"]),
        ("slr-03", 0, ["skipped (run now", "reason needs tokenizers"]),
        ("slr-04", 1, ["error (run now", "RuntimeError: no <luck> today"]),
        ("slr-05", 1, ["unexpected (run now", "one: fails", "100 times of the tolerance"]),
    ],
)
def test_show_run(name, code, words):
    got, found = lines("show", name, "--run", "--seed", "3")
    text = " ".join(" ".join(found).split())
    assert got == code and not [word for word in words if word not in text]


def test_show_of_a_report_has_its_numbers(reports):
    code, found = lines("show", "slr-01", "--report", reports[1], "--json")
    record = json.loads("\n".join(found))
    kept = json.loads((reports[1] / "verdicts.json").read_text("utf-8"))["verdicts"][0]
    assert code == 0 and record["verdict"] == kept and record["id"] == "slr-01-holds"
    assert record["routes"] == ["closed form", "simulation"]
    text = " ".join(lines("show", "slr-01", "--report", reports[1])[1])
    assert f"of {reports[1]}, seed 1" in " ".join(text.split())
    missing = " ".join(lines("show", "slr-06", "--report", reports[1])[1])
    assert "It is not in" in missing and "state       not run here" in missing


def test_show_opens_the_section(reports, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    assert lines("show", "slr-01", "--browser", "--report", reports[0])[0] == 0
    assert opened == [f"{(reports[0] / 'index.html').as_uri()}#slr-01-holds"]
    assert 'id="slr-01-holds"' in (reports[0] / "index.html").read_text("utf-8")
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    asked = ["show", "slr-01", "--browser", "--report", str(reports[0]), "--json"]
    done = RUN.invoke(app, asked)
    assert opened[0] in done.stderr
    assert json.loads(done.stdout)["id"] == "slr-01-holds"  # the note is not in it


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "holds"], "got 'holds'; try '*holds*' (slr-01-holds)."),
        (["show", "slr-02-declraed"], "try slr-02-declared"),
        (["show", "slr"], "got 'slr' (8 claims); try slr-01-holds, "),
        (["show", ""], "must be the id of one claim"),
        (["show", "?!"], "try attnscope claims for the list."),
        (["show", "slr-01", "--run", "--browser"], "got --run with --browser"),
        (["show", "slr-01", "--run", "--report", "x"], "got --run with --report"),
        (["show", "slr-01", "--report", "/nowhere"], "/nowhere (no such file or directory)"),
        (["show", "slr-01", "--browser", "--report", "/nowhere"], "(none there)"),
        (["reproduce", "--only", "raises"], "try '*raises*' (slr-04-raises or slr-07-raises"),
        (["reproduce", "--only", "sirl-04"], "got 'sirl-04'; try slr-0"),
        (["diff", "/nowhere", "/nowhere"], "REPORT of attnscope must be a folder with the"),
    ],
)
def test_wrong_words_get_one_sentence(arguments, words):
    assert words in refusal(*arguments)


# -- what moved ------------------------------------------------------------------------------------


def test_diff_of_a_report_with_itself_is_nothing(reports):
    code, found = lines("diff", reports[0], reports[0])
    assert code == 0
    last = "0 states changed, 0 claims with other numbers, 6 the same, 0 new, 0 gone"
    assert found[-1] == last


def test_diff_of_two_seeds_names_the_numbers_and_the_seed(reports):
    code, found = lines("diff", *reports)
    assert code == 0 and max(len(line) for line in found[1:]) <= 80
    text = "\n".join(found)
    assert "seed: 0 -> 1" in text and "mean of uniforms: " in text
    # the uniforms of slr-01 and slr-09 depend on the seed, the others do not
    assert found[-1].startswith("0 states changed, 2 claims with other numbers, 4 the same")
    first, second = (read_saved(folder) for folder in reports)
    change = difference(first, second).changes[0]
    a, b = (saved.records["slr-01-holds"]["comparisons"][0] for saved in (first, second))
    moved = change.moved[0]
    assert moved.measured == (a["measured"], b["measured"])
    assert moved.shift == abs(a["measured"] - b["measured"]) / a["tolerance"]


def edited(folder, change):
    """The folder's verdicts.json after `change`, beside it."""
    content = json.loads((folder / "verdicts.json").read_text("utf-8"))
    change(content)
    path = folder / "edited.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_diff_sees_states_new_and_gone_claims_and_comparisons(reports):
    def change(content):
        content["environment"]["numpy"] = "0.1"
        first, second, *rest = content["verdicts"]
        first["state"] = "unexpected"
        first["comparisons"][0]["holds"] = False
        first["comparisons"][0]["measured"] += 10 * first["comparisons"][0]["tolerance"]
        second["comparisons"] = second["comparisons"][:1]
        added = copy.deepcopy(rest[0]) | {"id": "slr-77-added"}
        content["verdicts"] = [first, second, *rest[1:], added]

    path = edited(reports[0], change)
    code, found = lines("diff", reports[0], path)
    text = " ".join(" ".join(found).split())
    assert code == 1
    assert "slr-01-holds holds -> unexpected" in text
    assert "new claims slr-77-added" in text and "gone claims slr-03-skipped" in text
    assert "mean of uniforms: 10, measured" in text and "holds -> fails" in text
    assert "two: comparison gone" in text and "-> 0.1" in text
    assert found[-1].startswith("1 states changed, 2 claims with other numbers, 3 the same")
    record = json.loads("\n".join(lines("diff", path, reports[0], "--json")[1]))
    assert record["new"] == ["slr-03-skipped"] and record["gone"] == ["slr-77-added"]
    assert record["changes"][0]["state"] == ["unexpected", "holds"]
    assert record["changes"][0]["moved"][0]["shift"] == pytest.approx(10)


def old(content):
    """As version 0.1.0 wrote it."""
    del content["format"], content["environment"]
    for record in content["verdicts"]:
        if record["state"] in ("skipped", "error"):
            record["condition"] = f"{record['state']}: {record['reason']}"
        for name in ("state", "reason", "provenance", "comparisons"):
            del record[name]


def test_format_1_is_read_with_a_sentence_on_what_it_lacks(reports):
    path = edited(reports[0], old)
    code, found = lines("diff", path, reports[0])
    text = " ".join(" ".join(found).split())
    assert code == 0 and "edited.json has format 1, which holds one comparison" in text
    assert found[-1].startswith("0 states changed, 0 claims with other numbers, 6 the same")
    moved = difference(read_saved(path), read_saved(reports[1])).changes[0].moved
    assert [m.what for m in moved] == [NEAREST_COMPARISON]
    shown = " ".join(" ".join(lines("show", "slr-05", "--report", path)[1]).split())
    assert f"{NEAREST_COMPARISON}: fails measured 1, predicted 2, tolerance 0.01" in shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "(no JSON)"),
        ("[]", "(other content)"),
        ('{"format": 2}', "(other content)"),
        ('{"format": 9, "verdicts": []}', "(format 9 of another version)"),
        ('{"seed": 0, "version": "", "verdicts": [{"id": "x"}]}', "(other content)"),
    ],
)
def test_other_files_are_refused_in_a_sentence(text, words, tmp_path):
    path = tmp_path / "file.json"
    path.write_text(text)
    assert words in refusal("diff", path, path)
