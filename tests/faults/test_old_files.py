"""Files that earlier versions wrote: models and runs are read, and answer as they did; results of
sweeps are known as results, and computed anew because their code is another.

tests/data/version_X_Y_Z was written by that version (tools/make_release_files.py at the commit of its
tag): models of 40 bags of a task with 4 features and 3 tokens, runs of 8 steps, and what each
answered.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers.commands import run
from helpers.paths import ROOT

import attnscope as at
from attnscope.report.difference import read_saved
from attnscope.sweeps.store import Store

FOLDER = ROOT / "tests" / "data" / "version_0_1_0"
LAST = ROOT / "tests" / "data" / "version_0_2_0"
BAGS = np.load(FOLDER / "bags.npy")
FOLDERS = [
    pytest.param(folder, id=folder.name)
    for folder in sorted(FOLDER.parent.glob("version_*"))
    if folder.is_dir()
]
# what a study file of 0.1 or 0.2 is told
OLD_KEY = "temperature is now inverse_temperature"
# rounding of sums in another order since then
SAME = {"rtol": 1e-10, "atol": 1e-12}


def answers_of(folder):
    return json.loads((folder / "answers.json").read_text())


@pytest.mark.parametrize("folder", FOLDERS)
def test_models_answer_as_they_did(folder):
    answers = answers_of(folder)
    bags = np.load(folder / "bags.npy")
    model = at.load_model(folder / "regressor.npz")
    np.testing.assert_allclose(model.predict(bags), answers["regressor"], **SAME)
    np.testing.assert_allclose(model.predict_interval(bags), answers["interval"], **SAME)
    assert model.locate(bags).tolist() == answers["locate"]
    heads = at.load_model(folder / "heads.npz")
    np.testing.assert_allclose(heads.predict(bags), answers["heads"], **SAME)
    classes = at.load_model(folder / "classifier.npz")
    np.testing.assert_allclose(classes.predict_proba(bags), answers["classifier"], **SAME)
    assert set(classes.predict(bags)) <= {"yes", "no"}


def test_the_command_line_reads_them(tmp_path):
    np.savez(tmp_path / "data.npz", bags=BAGS)
    for name in ("regressor", "heads", "classifier"):
        for command in ("predict", "locate"):
            code, _, said = run(
                command, FOLDER / f"{name}.npz", tmp_path / "data.npz", "--json"
            )
            assert code == 0, said


def test_what_they_do_not_have_is_a_sentence():
    """A classifier of 0.1.0 kept no scores for sets of classes; everything else is asked for."""
    classes = at.load_model(FOLDER / "classifier.npz")
    with pytest.raises(at.AttnscopeError):
        classes.predict_set(BAGS)
    for name in ("regressor", "heads", "classifier"):
        model = at.load_model(FOLDER / f"{name}.npz")
        y = (
            np.array(["yes", "no", "yes", "no", "no"])
            if name == "classifier"
            else BAGS[:, 0, 0]
        )
        assert np.isfinite(model.score(BAGS, y))
        assert model.diagnose(BAGS, y).verdict


def test_a_model_that_is_saved_again_is_of_today(tmp_path):
    model = at.load_model(FOLDER / "regressor.npz")
    model.save(tmp_path / "new.npz")
    again = at.load_model(tmp_path / "new.npz")
    assert np.array_equal(again.predict(BAGS), model.predict(BAGS))


@pytest.mark.parametrize("name", ["erf", "sgd", "softmax"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_runs_are_read_and_go_on_as_they_did(folder, name):
    answers = answers_of(folder)
    old = at.Trajectory.load(folder / f"run_{name}.npz")
    ends = np.asarray(old.overlaps.kappa)[:, -1]
    assert ends.tolist() == answers[f"run_{name}"]
    assert np.isfinite(old.excess).all()
    new = np.asarray(old.extend(4, progress=False).overlaps.kappa)[:, -1]
    np.testing.assert_allclose(new, answers[f"extended_{name}"], **SAME)


def test_stored_cells_are_known_and_computed_anew(tmp_path):
    store = Store(FOLDER / "store")
    (key,) = store.keys()
    record = store.get(key)
    assert record["rows"][0]["risk"] >= 0
    study = tmp_path / "study.toml"
    dim = record["call"]["dim"]
    study.write_text(
        f'function = "oracle_risk"\n[grid]\ndim = [{dim}]\n[fixed]\nlength = 5\ntemperature = 0.1\n'
    )
    with pytest.warns(DeprecationWarning, match=OLD_KEY):
        code, printed, said = run(
            "sweep", study, "--store", FOLDER / "store", "--dry-run", "--json"
        )
    assert code == 0, said
    assert json.loads(printed)["todo"] == 1


def test_the_cells_of_a_stored_study_are_its_table():
    """The store of 0.2.0 is read cell by cell, and says what its table said."""
    store = Store(LAST / "store")
    rows = {
        record["call"]["dim"]: record["rows"][0]["risk"]
        for record in map(store.get, store.keys())
    }
    head, *lines = [line.split(",") for line in (LAST / "table.csv").read_text().split()]
    table = {int(line[0]): float(line[head.index("risk")]) for line in lines}
    assert rows == table
    assert sorted(rows) == [20, 40]


def test_a_study_file_computes_what_it_did(tmp_path):
    with pytest.warns(DeprecationWarning, match=OLD_KEY):
        code, printed, said = run(
            "sweep", LAST / "study.toml", "--store", tmp_path, "--out", tmp_path, "--json"
        )
    assert code == 0, said
    text = (LAST / "table.csv").read_text().split()
    column = text[0].split(",").index("risk")
    old = [float(line.split(",")[column]) for line in text[1:]]
    new = [row["risk"] for row in json.loads(printed)]
    np.testing.assert_allclose(new, old, **SAME)


@pytest.mark.parametrize("kind", ["task", "predictor", "claim"])
def test_files_that_new_wrote_pass_their_own_tests(kind, tmp_path):
    """In a process of their own: they add words to the registry."""
    for file in LAST.glob(f"new_*old_{kind}.txt"):
        (tmp_path / f"{file.stem.removeprefix('new_')}.py").write_text(file.read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_verdicts_are_read():
    saved = read_saved(LAST)
    assert saved.version == "0.2.0" and saved.seed == 0
    assert len(saved.records) == 81
    assert all(record["comparisons"] for record in saved.records.values())
