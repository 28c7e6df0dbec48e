"""attnscope fit --groups, --interval and --assumption, predict --interval for classes, locate --set."""

import json

import numpy as np
import pandas as pd
import pytest
from helpers.commands import run

import attnscope as at

# EM alone
QUICK = ("--loss", "mixture", "--alpha", "inf,1", "--n-starts", "1", "--regress")
BATCH = at.SingleLocation(dim=5, length=4, signal=5.0, noise=0.1).sample(120, seed=1)
GROUPS = np.array([f"p{i // 4}" for i in range(120)])
NAMES = [f"b{i:03d}" for i in range(120)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Bags in an array, a table and a folder, with groups in each and in a file of their own."""
    path = tmp_path_factory.mktemp("groups")
    np.savez(path / "data.npz", bags=BATCH.tokens, y=BATCH.target, patient=GROUPS)
    frame = pd.DataFrame(BATCH.tokens.reshape(480, 5), columns=list("abcde"))
    frame.insert(0, "bag", np.repeat(NAMES, 4))
    frame["y"] = np.repeat(BATCH.target, 4)
    frame["patient"] = np.repeat(np.arange(120) // 4, 4)
    frame.to_csv(path / "data.csv", index=False)
    (path / "bags").mkdir()
    for name, bag in zip(NAMES, BATCH.tokens):
        np.save(path / "bags" / f"{name}.npy", bag)
    table = pd.DataFrame({"bag": NAMES, "y": BATCH.target, "patient": GROUPS})
    table.to_csv(path / "labels.csv", index=False)
    table[["bag", "patient"]].to_csv(path / "groups.csv", index=False)
    return path


@pytest.fixture(scope="module")
def reference():
    model = at.SingleLocationRegressor(loss="mixture", alpha=(np.inf, 1.0), n_starts=1)
    model.fit(BATCH.tokens, BATCH.target, groups=GROUPS)
    return model.predict_interval(BATCH.tokens)


@pytest.mark.parametrize(
    "given",
    [
        ("data.npz", "--groups", "patient"),
        ("data.csv", "--groups", "patient"),
        ("data.csv", "--groups", "groups.csv"),
        ("bags", "--labels", "labels.csv", "--groups", "patient", "--target", "y"),
        ("bags", "--labels", "labels.csv", "--groups", "groups.csv", "--target", "y"),
    ],
)
def test_groups_from_anywhere_are_the_same(given, folder, reference, tmp_path):
    paths = [
        folder / word if word.endswith((".npz", ".csv", "bags")) else word for word in given
    ]
    if given[:3] == (
        "data.csv",
        "--groups",
        "groups.csv",
    ):  # there patient would be a feature
        frame = pd.read_csv(folder / "data.csv").drop(columns="patient")
        frame.to_csv(tmp_path / "data.csv", index=False)
        paths[0] = tmp_path / "data.csv"
    code, out, err = run("fit", *paths, "--out", tmp_path / "m.npz", *QUICK)
    assert code == 0 and "30 groups, each held out as a whole" in out, err
    ends = at.load_model(tmp_path / "m.npz").predict_interval(BATCH.tokens)
    np.testing.assert_allclose(ends, reference, rtol=1e-6)


def test_the_kind_of_interval_and_sets(folder, tmp_path):
    fit = ("fit", folder / "data.npz", "--groups", "patient", "--interval", "split")
    code, out, err = run(*fit, "--out", tmp_path / "m.npz", *QUICK)
    assert code == 0 and "split, a promise of what is asked for" in out, err
    facts = json.loads(run(*fit, "--out", tmp_path / "m.npz", *QUICK, "--json")[1])
    assert facts["groups"] == 30 and facts["interval"] == "split"
    model = at.load_model(tmp_path / "m.npz")
    ask = (tmp_path / "m.npz", folder / "data.npz", "--json")
    rows = json.loads(run("predict", *ask, "--interval", "0.9")[1])["rows"]
    low, high = model.predict_interval(BATCH.tokens).T
    assert [row["low"] for row in rows] == low.tolist()
    assert [row["high"] for row in rows] == high.tolist()
    code, _, err = run("predict", *ask, "--interval", "0.99")
    assert code == 2 and "at most 15/16 with 15 held-out groups" in err
    code, out, err = run("locate", *ask, "--set", "0.9")
    assert "the model's own posterior" in err
    sets = model.locate_set(BATCH.tokens)
    found = [row["set"].split() for row in json.loads(out)["rows"]]
    assert found == [[str(i) for i in np.flatnonzero(own)] for own in sets]
    model.calibrate_locations(BATCH.tokens, BATCH.location).save(tmp_path / "m.npz")
    assert "posterior" not in run("locate", *ask, "--set", "0.9")[2]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--groups", "nobody"), "must hold an array nobody"),
        (("--groups", "nowhere.csv"), "the table of groups nowhere.csv must exist"),
        (("--groups", "patient", "--stream"), "must be left out with --stream"),
        (
            ("--interval", "jackknife"),
            "interval of SingleLocationRegressor.fit must be one of",
        ),
    ],
)
def test_sentences(more, words, folder, tmp_path):
    code, _, err = run("fit", folder / "data.npz", "--out", tmp_path / "m.npz", *QUICK, *more)
    assert code == 2 and words in err, err


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """Bags of class 1 hold a token that says so."""
    rng = np.random.default_rng(8)
    y = np.arange(60) % 2
    bags = rng.standard_normal((60, 5, 4))
    bags[y == 1, 0, 0] += 6
    path = tmp_path_factory.mktemp("spoken")
    np.savez(path / "data.npz", bags=bags, y=y)
    return path


@pytest.mark.parametrize("word", ["single", "witness"])
def test_a_reading_may_be_named(spoken, tmp_path, word):
    out = tmp_path / "m.npz"
    starts = ("--n-starts", "2", "--gate", "linear")
    code, said, err = run(
        "fit", spoken / "data.npz", "--out", out, "--assumption", word, *starts, "--json"
    )
    assert code == 0, err
    assert json.loads(said)["assumption"] == word
    assert at.load_model(out).assumption == word


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            ("--assumption", "wittness"),
            "must be one of 'single', 'witness', 'auto', got 'wittness'",
        ),
        (("--assumption", "witness", "--regress"), '"single" or "auto" for numbers'),
    ],
)
def test_a_reading_that_cannot_be_is_refused(spoken, tmp_path, given, words):
    code, _, err = run("fit", spoken / "data.npz", "--out", tmp_path / "m.npz", *given)
    assert code == 2 and words in err, err
    assert not (tmp_path / "m.npz").exists()
