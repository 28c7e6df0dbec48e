"""`at.reproduce`: every kind of verdict, where it runs, what is written,
and what is kept when it is stopped.
"""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import fake_claims as fake
from helpers.paths import ROOT
from helpers.patience import HANG

import attnscope as at
from attnscope.claims.claim import Claim, Context
from attnscope.claims.provenance import Provenance
from attnscope.claims.verdict import WORDS, run_claim
from attnscope.errors import AttnscopeError
from attnscope.report.build import without_times
from attnscope.report.terminal import (
    COLUMNS,
    STATE_COLUMNS,
    Live,
    claims_json,
    claims_table,
    summary,
)
from attnscope.reproduction import NotWritten, Run, exit_code, reproduce

KEYS = [
    "id",
    "title",
    "origin",
    "state",
    "expected",
    "holds",
    "condition",
    "reason",
    "provenance",
    "rests_on",
    "sentences",
    "headline",
    "predicted",
    "measured",
    "tolerance",
    "comparisons",
    "notes",
    "tables",
    "seconds",
]


def through(claims, out=None, seed=0, progress=False, **where):
    return Run(list(claims), seed, registry="helpers.fake_claims").through(
        out, progress=progress, **where
    )


def files_of(out):
    """Every file of a report, without the times."""
    found = {
        str(p.relative_to(out)): p.read_text("utf-8")
        for p in sorted(Path(out).rglob("*"))
        if p.is_file() and p.name != "report.zip"
    }
    found["index.html"] = without_times(found["index.html"])
    content = json.loads(found["verdicts.json"])
    for verdict in content["verdicts"]:
        verdict.pop("seconds")
    content.pop("environment")
    return {**found, "verdicts.json": content}


# one claim


@pytest.mark.parametrize(
    ("claim", "kind", "holds", "as_expected"),
    [
        (fake.HOLDS, "holds", True, True),
        (fake.DECLARED, "declared", False, True),
        (fake.SKIPPED, "skipped", None, True),
        (fake.RAISES, "error", False, False),
        (fake.FAILS, "unexpected", False, False),
        (fake.SURPRISE, "unexpected", True, False),
        (fake.CONDITION, "condition", True, True),
        # breaking off is not failing as declared
        (fake.RAISES_DECLARED, "error", False, False),
    ],
)
def test_kinds_of_verdict(claim, kind, holds, as_expected):
    verdict = run_claim(claim, Context())
    assert (verdict.kind, verdict.holds, verdict.as_expected) == (kind, holds, as_expected)
    assert exit_code([verdict]) == (0 if as_expected else 1)
    assert verdict.seconds >= 0 and verdict.word == WORDS[kind] and len(kind) <= STATE_COLUMNS


def test_a_verdict_carries_the_claim_and_its_headline():
    verdict = run_claim(fake.FAILS, Context())
    for name in (
        "id",
        "title",
        "source",
        "statement",
        "hypotheses",
        "routes",
        "snippet",
        "expected",
        "condition",
    ):
        assert getattr(verdict, name) == getattr(fake.FAILS, name)
    assert (verdict.predicted, verdict.measured, verdict.tolerance) == (2.0, 1.0, 0.01)
    assert [c.what for c in verdict.broken] == ["one"] and len(verdict.comparisons) == 2
    assert verdict.notes == "One is not two."


def test_a_raising_check_leaves_its_message_and_frames_without_folders():
    verdict = run_claim(fake.RAISES, Context())
    assert verdict.notes == "RuntimeError: no <luck> today"
    assert verdict.error.startswith("fake_claims.py:") and "in breaks" in verdict.error
    assert str(Path(fake.__file__).parent) not in verdict.error
    assert (verdict.predicted, verdict.figure, verdict.comparisons) == (None, None, ())


def test_a_skipped_check_says_why():
    verdict = run_claim(fake.SKIPPED, Context())
    assert "pip install" in verdict.skipped and not verdict.error
    assert verdict.record()["reason"] == verdict.skipped


# a run


def test_reproduce_selects_by_pattern_and_seed(monkeypatch, capsys):
    listed = fake.listed(fake.HARMLESS)
    monkeypatch.setattr("attnscope.claims.registry.listed_claims", lambda: listed)
    assert "<table>" in reproduce("slr-01*", progress=False)._repr_html_()
    assert [v.id for v in reproduce("slr-0[12]*", progress=False)] == [
        "slr-01-holds",
        "slr-02-declared",
    ]
    assert [v.id for v in at.reproduce(only=["slr-01*", "slr-03*"], progress=False)] == [
        "slr-01-holds",
        "slr-03-skipped",
    ]
    zero, one = (
        reproduce("slr-01*", seed=seed, progress=False)[0].measured for seed in (0, 1)
    )
    full = reproduce("slr-01*", full=True, progress=False)[0]
    assert zero != one and full.notes.startswith("4000 draws")
    assert capsys.readouterr().out == ""


def test_the_package_name_can_be_called_whoever_imported_the_module_first():
    code = (
        "from helpers import fake_claims; import attnscope as at, attnscope.claims.registry as r; "
        "r.listed_claims = lambda: fake_claims.listed(fake_claims.FINE);"
        "from attnscope.reproduction import exit_code; print(exit_code(at.reproduce('slr-01*', "
        "progress=False)))"
    )
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests")))
    environment = {**os.environ, "PYTHONPATH": path}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert run.stdout == "0\n", run.stderr


def test_plain_lines_fit_and_end_with_the_summary(capsys):
    verdicts = through(fake.HARMLESS, progress=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 + len(verdicts) and max(map(len, lines)) <= COLUMNS == 80
    for verdict, line in zip(verdicts, lines[1:]):
        assert line.startswith(verdict.id) and f" {verdict.kind} " in line
    assert lines[-2] == "declared: fails, as was declared beforehand"
    assert lines[-1].startswith("7 claims: 2 as expected, 4 not, 1 skipped, in ") and lines[
        -1
    ].endswith(" seconds")
    assert (
        summary(verdicts[:1], 1.0)
        == "1 claim: 1 as expected, 0 not, 0 skipped, in 1.0 seconds"
    )


def test_the_live_table_shows_what_runs_and_what_landed():
    from rich.console import Console

    console = Console(width=90, record=True, force_terminal=True, file=open(os.devnull, "w"))  # noqa: SIM115
    live = Live(console, width=16, total=3, at_once=1)
    live.started(fake.HOLDS)
    live.started(fake.DECLARED)  # handed out in advance: not running yet
    console.print(live)
    live.landed(run_claim(fake.HOLDS, Context()))
    live.say("a [word]")
    console.print(live)
    console.file.close()
    rows = [line for line in console.export_text().splitlines() if line.strip()]
    assert "slr-01-holds" in rows[0] and "0 of 3 claims" in rows[1]
    assert rows[2].startswith("slr-01-holds      holds") and rows[3] == "a [word]"
    assert "slr-02-declared" in rows[4] and "1 of 3 claims" in rows[5]


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A report on all kinds of verdict, made in this process."""
    out = tmp_path_factory.mktemp("report")
    return out, through(fake.HARMLESS, out)


@pytest.mark.slow
def test_two_workers_give_the_same_files(everything, tmp_path):
    out, here = everything
    there = through(fake.HARMLESS, tmp_path, workers=2)
    assert [v.id for v in there] == [v.id for v in here]
    assert files_of(out) == files_of(tmp_path)


def test_a_check_that_ends_its_process_fails_alone():
    verdicts = through([fake.HOLDS, fake.FATAL], workers=1)
    assert [v.kind for v in verdicts] == ["holds", "error"]
    assert "ended its worker process" in verdicts[1].notes


# test_sweeps_cluster.py has the scheduler. Dask leaves sockets and loops to the garbage collector
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_gives_the_same_files(tmp_path):
    distributed = pytest.importorskip("distributed")
    through(fake.FINE, tmp_path / "here")
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        through(fake.FINE, tmp_path / "there", scheduler=cluster.scheduler_address)
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there")


# files


def test_verdicts_json_is_as_promised(everything):
    out, verdicts = everything
    content = json.loads((out / "verdicts.json").read_text("utf-8"))
    assert list(content) == ["format", "seed", "version", "environment", "verdicts"]
    assert (content["seed"], content["version"]) == (0, at.__version__)
    assert [list(record) for record in content["verdicts"]] == [KEYS] * len(verdicts)
    for record in content["verdicts"]:
        assert record["holds"] in (True, False, None) and isinstance(record["expected"], bool)
        assert isinstance(record["seconds"], float) and isinstance(record["condition"], str)
        numbers = [record[name] for name in ("predicted", "measured", "tolerance")]
        assert all(isinstance(x, float) for x in numbers) or numbers == [None] * 3
    assert content["verdicts"][1]["condition"] == "one equals two"


def test_one_csv_per_figure(everything):
    out, verdicts = everything
    found = {p.name: p.read_text("utf-8") for p in (out / "figures").iterdir()}
    assert found == {f"{v.id}.csv": v.figure.to_csv() for v in verdicts if v.figure}
    whole = {"index.html", "verdicts.json", "figures", "report.zip"}
    assert {p.name for p in out.iterdir()} == whole


def never(context):
    raise AssertionError("nothing may run")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"out": "{file}"}, "out of reproduce must be a folder that can be written, got"),
        (
            {"out": "{file}/inside"},
            "out of reproduce must be a folder that can be written, got",
        ),
        (
            {"out": "/proc/attnscope"},
            "out of reproduce must be a folder that can be written, got",
        ),
        ({"out": ""}, "out of reproduce must be the name of a folder"),
        ({"out": 3}, "out of reproduce must be the name of a folder, got 3"),
        ({"seed": -1}, "seed of reproduce must be"),
        ({"seed": "one"}, "seed of reproduce must be"),
        ({"workers": 0}, "workers of reproduce must be a whole number >= 1"),
        ({"workers": 2, "scheduler": "tcp://here:1"}, "got both"),
        ({"only": "slr-99*"}, "only of reproduce must be a pattern that matches a claim"),
    ],
)
def test_bad_input_is_one_sentence_before_any_work(options, words, tmp_path, monkeypatch):
    listed = fake.listed([fake.fake("slr-01-never", never)])
    monkeypatch.setattr("attnscope.claims.registry.listed_claims", lambda: listed)
    (tmp_path / "file").write_text("precious")
    if isinstance(options.get("out"), str):
        options = {"out": options["out"].format(file=tmp_path / "file")}
    with pytest.raises(AttnscopeError, match=r"^[^\n]*$") as refusal:
        reproduce(progress=False, **options)
    assert words in str(refusal.value)
    assert (tmp_path / "file").read_text() == "precious"


def test_a_disk_that_fills_up_costs_no_verdict(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "verdicts.json").write_text("before")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(NotWritten, match="on a disk with space left") as refusal:
            through(fake.FINE, tmp_path, progress=True)
    assert [v.kind for v in refusal.value.verdicts] == ["holds", "declared", "skipped"]
    assert capsys.readouterr().out.count("not written yet") == 3
    assert (tmp_path / "verdicts.json").read_text() == "before"
    assert not [p for p in tmp_path.rglob("*") if p.suffix == ".tmp"]


def test_a_disk_that_fills_up_for_a_while_costs_nothing(tmp_path, monkeypatch):
    sync = os.fsync
    calls = []

    def once_full(descriptor):
        calls.append(descriptor)
        if len(calls) == 3:  # of the second file; the folder is synced between the two
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", once_full)
    through(fake.FINE, tmp_path)
    assert len(json.loads((tmp_path / "verdicts.json").read_text("utf-8"))["verdicts"]) == 3


def test_an_unreachable_scheduler_is_one_sentence(tmp_path):
    pytest.importorskip("distributed")
    with pytest.raises(
        AttnscopeError,
        match=r"scheduler of .* must be the address of a running Dask scheduler",
    ):
        through(fake.FINE, tmp_path, scheduler="nonsense://nowhere")
    assert not (tmp_path / "index.html").exists()


# stopping

INTERRUPTED = """
import sys, time
from helpers import fake_claims as fake
from attnscope.reproduction import Run
def waits(context):
    print("waiting", flush=True)
    time.sleep(3600)
claims = [fake.HOLDS, fake.DECLARED, fake.fake("slr-03-waits", waits)]
fake.listed_claims = lambda: fake.listed(claims)
Run(claims, 0, registry="helpers.fake_claims").through(sys.argv[1], progress=False)
"""


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_what_has_landed_is_kept_when_stopped(how, tmp_path):
    path = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests")))
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path)]
    run = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None and run.stdout.readline() == "waiting\n"
    run.send_signal(how)
    _, errors = run.communicate(timeout=HANG)
    assert run.returncode != 0
    kept = json.loads((tmp_path / "verdicts.json").read_text("utf-8"))["verdicts"]
    assert [record["id"] for record in kept] == ["slr-01-holds", "slr-02-declared"]
    if how == signal.SIGINT:
        assert f"stopped; 2 of 3 claims are checked and kept in {tmp_path}" in errors
        assert "1 further claim had not been checked" in (tmp_path / "index.html").read_text(
            "utf-8"
        )
        assert (tmp_path / "figures" / "slr-01-holds.csv").exists()


def test_stopping_before_the_first_verdict_leaves_an_older_report_alone(tmp_path):
    def stops(context):
        raise KeyboardInterrupt

    (tmp_path / "index.html").write_text("before")
    with pytest.MonkeyPatch.context() as patch:
        claims = [fake.fake("slr-01-stops", stops), fake.HOLDS]
        patch.setattr(fake, "listed_claims", lambda: fake.listed(claims))
        with pytest.raises(KeyboardInterrupt, match=r"stopped; 0 of 2 claims are checked\."):
            through(claims, tmp_path)
    assert (tmp_path / "index.html").read_text() == "before" and not (
        tmp_path / "verdicts.json"
    ).exists()


# lists of claims


def test_claims_table_fits_80_columns_and_loses_nothing():
    title = "A title of sixty characters, as long as titles are meant to be"
    told = Provenance("sharpened", ("A/corollary-2",), "what is said in many words")
    source = told.line
    long = Claim(
        "slr-12-" + "many-words-" * 3 + "end", title, "", told, "", ("", ""), never, ""
    )
    text = claims_table([*fake.HARMLESS, long])
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    for word in [
        *title.split(),
        *source.split(),
        long.id,
        *(claim.id for claim in fake.HARMLESS),
    ]:
        assert word in words
    assert claims_table([]).split()[:2] == ["claim", "title,"]


def test_claims_json():
    assert claims_json([fake.HOLDS]) == [
        {
            "id": "slr-01-holds",
            "title": "Title of slr-01-holds",
            "source": "new here",
            "origin": "attnscope",
        }
    ]


def test_verdicts_travel():
    verdict = run_claim(fake.HOLDS, Context())
    assert pickle.loads(pickle.dumps(verdict)).record() == verdict.record()
