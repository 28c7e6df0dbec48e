"""`attnscope fit`, `predict`, `locate` and the files they read and write, as a user types them."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from helpers.bag_layouts import BATCH, PYARROW, QUICK, frame_of, write_layouts
from helpers.commands import run
from helpers.tolerances import INTEGRAL

import attnscope as at
from attnscope.estimators.bags.table_columns import Columns, recall, remember
from attnscope.estimators.bags.table_output import write_columns
from attnscope.estimators.bags.tables import is_classes, read_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_layouts(tmp_path_factory.mktemp("bags"))


@pytest.mark.parametrize(
    "name", ["data.npz", "masked.npz", "flat.npz", "named.npz", "data.csv", "data.parquet"]
)
def test_every_layout_gives_the_same_bags(folder, name):
    if name.endswith("parquet") and not PYARROW:
        pytest.skip("parquet needs pyarrow: pip install pyarrow")
    table = read_table(folder / name, Columns(target="y"))
    np.testing.assert_array_equal(table.bags.tokens.reshape(BATCH.tokens.shape), BATCH.tokens)
    np.testing.assert_array_equal(table.target, BATCH.target)
    assert len(table.names) == 120


def test_rows_of_a_bag_need_not_be_neighbours(folder, tmp_path):
    frame = frame_of(BATCH, shuffled=True)
    frame.to_csv(tmp_path / "shuffled.csv", index=False)
    table = read_table(tmp_path / "shuffled.csv", Columns(target="y"))
    for i, name in enumerate(table.names):
        rows = table.rows[table.bags.offsets[i] : table.bags.offsets[i + 1]]
        assert (frame["bag"].to_numpy()[rows] == name).all() and (np.diff(rows) > 0).all()
        np.testing.assert_array_equal(table.target[i], BATCH.target[int(name[1:])])
    assert list(table.names) == list(dict.fromkeys(frame["bag"]))
    assert table.ignored == ("word",)


def test_the_commands_say_what_the_library_says(folder, tmp_path):
    """The table, the JSON and the three kinds of file hold the numbers of the Python calls,
    to the last bit (CSV too).
    """
    model = at.load_model(folder / "data.npz.model.npz")
    expected = model.predict(BATCH.tokens)
    ends = model.predict_interval(BATCH.tokens, 0.8)
    code, out, _ = run(
        "predict",
        folder / "data.npz.model.npz",
        folder / "data.npz",
        "--interval",
        "0.8",
        "--json",
    )
    answer = json.loads(out)
    assert code == 0 and [row["prediction"] for row in answer["rows"]] == expected.tolist()
    assert [[row["low"], row["high"]] for row in answer["rows"]] == ends.tolist()
    assert answer["score"]["R2"] == pytest.approx(
        1 - np.mean((BATCH.target - expected) ** 2) / np.var(BATCH.target)
    )
    for suffix in ("csv", "npz", *(["parquet"] if PYARROW else [])):
        code, out, _ = run(
            "predict",
            folder / "data.npz.model.npz",
            folder / "data.npz",
            "--out",
            tmp_path / f"a.{suffix}",
        )
        assert code == 0 and "120 rows in" in out
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert (
        lines[0] == "bag,prediction,y"
        and [float(line.split(",")[1]) for line in lines[1:]] == expected.tolist()
    )
    if PYARROW:
        np.testing.assert_array_equal(
            pd.read_parquet(tmp_path / "a.parquet")["prediction"], expected
        )
    np.testing.assert_array_equal(np.load(tmp_path / "a.npz")["prediction"], expected)


def test_a_model_from_a_table_finds_its_columns_again(folder, tmp_path):
    """Columns in another order, without labels, with one more column: the same predictions;
    rows point into the file.
    """
    frame = frame_of(BATCH).drop(columns="y").assign(extra=1.0)
    frame[frame.columns[::-1]].to_csv(tmp_path / "other.csv", index=False)
    model = folder / "data.csv.model.npz"
    assert recall(model) == Columns("bag", "y", None, tuple(f"f{i}" for i in range(5)))
    both = [
        json.loads(run("predict", model, path, "--json")[1])
        for path in (folder / "data.csv", tmp_path / "other.csv")
    ]
    assert [r["prediction"] for r in both[0]["rows"]] == [
        r["prediction"] for r in both[1]["rows"]
    ]
    assert both[0]["score"]["R2"] > 0.9 and both[1]["score"] is None
    rows = json.loads(run("locate", model, tmp_path / "other.csv", "--json")[1])["rows"]
    assert [row["row"] - 4 * i for i, row in enumerate(rows)] == [
        row["token"] for row in rows
    ]
    assert np.mean([row["token"] for row in rows] == BATCH.location) > 0.95


def test_locate_without_and_with_labels(folder):
    model = at.load_model(folder / "data.npz.model.npz")
    for arguments, labels in (((), None), (("--target", "y"), BATCH.target)):
        out = run(
            "locate", folder / "data.npz.model.npz", folder / "data.npz", *arguments, "--json"
        )[1]
        assert [row["token"] for row in json.loads(out)["rows"]] == model.locate(
            BATCH.tokens, labels
        ).tolist()
    table = run("locate", folder / "masked.npz", folder / "masked.npz")
    assert table[0] == 2 and "a file written by save_model" in table[2]
    out = run("locate", folder / "data.npz.model.npz", folder / "masked.npz")[1].splitlines()
    assert out[0].split() == ["bag", "token", "attention"] and "100 more" in out[-1]
    assert max(map(len, out)) <= 80


def test_every_head_has_its_column(tmp_path):
    rng = np.random.default_rng(1)
    tokens = rng.standard_normal((200, 5, 4))
    first, second = rng.integers(0, 5, (2, 200))
    rows = np.arange(200)
    tokens[rows, first, 0] += 7
    tokens[rows, second, 1] += 7
    np.savez(
        tmp_path / "d.npz", bags=tokens, y=tokens[rows, first, 2] + tokens[rows, second, 3]
    )
    code, _, err = run("fit", tmp_path / "d.npz", "--heads", "2", "--out", tmp_path / "m.npz")
    assert code == 0, err
    answer = json.loads(run("locate", tmp_path / "m.npz", tmp_path / "d.npz", "--json")[1])[
        "rows"
    ]
    model = at.load_model(tmp_path / "m.npz")
    assert [[row["token_1"], row["token_2"]] for row in answer] == model.locate(
        tokens
    ).tolist()
    assert all(0 <= row["attention_1"] <= 1 for row in answer)


def test_words_are_classes_and_a_flag_can_say_so(folder, tmp_path):
    code, out, err = run(
        "fit", folder / "data.npz", "--target", "word", "--out", tmp_path / "m.npz", *QUICK
    )
    assert (
        code == 0 and out.startswith("SingleLocationClassifier") and "log probability" in out
    ), err
    assert max(map(len, out.splitlines()[:-1])) <= 100  # the last holds the path
    out = run("predict", tmp_path / "m.npz", folder / "data.npz", "--json")[1]
    answer = json.loads(out)
    assert answer["score"]["accuracy"] > 0.9
    assert all(row["p_up"] + row["p_down"] == pytest.approx(1) for row in answer["rows"])
    out = run(
        "predict", tmp_path / "m.npz", folder / "data.npz", "--json", "--interval", ".9"
    )
    sets = {row["set"] for row in json.loads(out[1])["rows"]}
    assert sets <= {"down", "up", "down up"}
    for values, classes in (
        ([0, 1, 1], True),
        ([0.0, 1.0], True),
        ([0, 1, 2], False),
        ([0.5, 1.0], False),
        (["a"], True),
    ):
        assert is_classes(np.array(values)) == classes
    code, out, _ = run(
        "fit", folder / "data.npz", "--classify", "--out", tmp_path / "m2.npz", *QUICK
    )
    assert code == 2  # fractions are no classes


def test_fit_is_reproducible_and_says_what_it_replaced(folder, tmp_path):
    first = run("fit", folder / "data.csv", "--out", tmp_path / "m.npz", *QUICK, "--json")[1]
    code, out, _ = run("fit", folder / "data.csv", "--out", tmp_path / "m.npz", *QUICK)
    assert code == 0 and "m.npz replaced" in out and "ignored: word" in out
    facts = json.loads(first)
    assert (
        facts["features"] == [f"f{i}" for i in range(5)]
        and facts["held_out_loss"] < 0.2 * facts["mean_pool_loss"]
    )
    assert not list(tmp_path.glob("*.new")) and not list(tmp_path.glob("*.part"))


def test_fit_says_how_much_the_mean_token_explains(folder, tmp_path):
    rng = np.random.default_rng(2)
    bags = rng.standard_normal((150, 3, 4)) + rng.standard_normal((150, 1, 4))
    np.savez(tmp_path / "mean.npz", bags=bags, y=bags.mean(axis=1).sum(axis=1))
    code, out, _ = run("fit", tmp_path / "mean.npz", "--out", tmp_path / "m.npz")
    share = re.search(r"share of the prediction read from the mean token: (\d\.\d\d)", out)
    assert code == 0 and share and float(share[1]) > 0.8 and "Most of the prediction" in out
    assert (
        json.loads(
            run("fit", folder / "data.npz", "--out", tmp_path / "m.npz", *QUICK, "--json")[1]
        )["mean_share"]
        == 0
    )


def test_a_full_disk_loses_nothing(folder, tmp_path, monkeypatch):
    from attnscope.cli import bags
    from attnscope.estimators.model_file import read as saved

    real = saved.write_model
    calls = []

    def full(model, path):
        calls.append(path)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        real(model, path)

    monkeypatch.setattr(saved, "write_model", full)
    monkeypatch.setattr(bags.tempfile, "mkdtemp", lambda prefix: str(tmp_path))
    missing = tmp_path / "sub"
    missing.mkdir()
    code, out, err = run("fit", folder / "data.npz", "--out", missing / "m.npz", *QUICK)
    assert code == 0 and "No space left" in err and str(tmp_path / "m.npz") in out
    assert at.load_model(tmp_path / "m.npz").predict(BATCH.tokens).shape == (120,)


def test_weights_are_read_and_used(folder, tmp_path):
    """Bags with nonsense labels and weight zero take no part:
    the model is the one fitted without them.
    """
    wrong = np.r_[BATCH.target, np.full(30, 50.0)]
    tokens = np.concatenate([BATCH.tokens, BATCH.tokens[:30]])
    np.savez(tmp_path / "w.npz", bags=tokens, y=wrong, w=np.r_[np.ones(120), np.zeros(30)])
    code, _, err = run(
        "fit", tmp_path / "w.npz", "--weight", "w", "--out", tmp_path / "m.npz", *QUICK
    )
    assert code == 0, err
    np.testing.assert_allclose(
        at.load_model(tmp_path / "m.npz").predict(BATCH.tokens),
        at.load_model(folder / "data.npz.model.npz").predict(BATCH.tokens),
        rtol=INTEGRAL,
    )
    code, _, err = run(
        "fit", tmp_path / "w.npz", "--weight", "v", "--out", tmp_path / "m.npz", *QUICK
    )
    assert code == 2 and "must hold an array v" in err


def test_an_interrupt_leaves_nothing_behind(folder, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(at.SingleLocationRegressor, "fit", interrupted)
    code, _, err = run("fit", folder / "data.npz", "--out", tmp_path / "m.npz")
    assert code == 130 and "nothing was written" in err and list(tmp_path.iterdir()) == []


def test_the_output_is_checked_before_the_fit(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(
        at.SingleLocationRegressor, "fit", lambda *a, **k: pytest.fail("fitted first")
    )
    assert run("fit", folder / "data.npz", "--out", tmp_path / "no" / "m.npz")[0] == 2


def test_constant_labels_give_a_sane_answer(tmp_path):
    """All labels alike: either one sentence, or that number for every bag; never a NaN."""
    np.savez(tmp_path / "c.npz", bags=BATCH.tokens[:40], y=np.full(40, 3.0))
    code, _, err = run(
        "fit", tmp_path / "c.npz", "--regress", "--out", tmp_path / "m.npz", *QUICK
    )
    if code == 2:
        assert err.startswith("error: y of SingleLocationRegressor")
    else:
        rows = json.loads(
            run("predict", tmp_path / "m.npz", tmp_path / "c.npz", "--json")[1]
        )["rows"]
        assert all(row["prediction"] == pytest.approx(3.0) for row in rows)


def test_parquet_without_pyarrow_names_the_remedy(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = run(
        "predict",
        folder / "data.npz.model.npz",
        folder / "data.npz",
        "--out",
        tmp_path / "a.parquet",
    )
    assert code == 2 and "a.parquet needs pyarrow: pip install 'attnscope[tables]'." in err


def test_columns_written_and_names_remembered(tmp_path):
    write_columns(tmp_path / "a.npz", {"x": np.arange(3), "w": np.array(["a", "b", "c"])})
    assert np.load(tmp_path / "a.npz")["w"].tolist() == ["a", "b", "c"]
    assert recall(tmp_path / "a.npz") == Columns()
    remember(tmp_path / "a.npz", Columns("sack", "z", None, ("p", "q")))
    assert recall(tmp_path / "a.npz") == Columns("sack", "z", None, ("p", "q"))


@pytest.mark.slow
def test_a_user_at_a_shell(folder, tmp_path):
    """Once as a process of its own: verbose steps on stderr, the table on stdout,
    a refusal without traceback.
    """
    command = [
        sys.executable,
        "-m",
        "attnscope.cli",
        "fit",
        str(folder / "data.csv"),
        "--out",
        str(tmp_path / "m.npz"),
    ]
    done = subprocess.run([*command, *QUICK, "--verbose"], capture_output=True, text=True)
    assert done.returncode == 0 and "held-out loss" in done.stderr, done.stderr
    assert "m.npz written" in done.stdout
    refused = subprocess.run([*command, "--target", "z"], capture_output=True, text=True)
    assert (
        refused.returncode == 2
        and refused.stderr.startswith("error: ")
        and "Traceback" not in refused.stderr
    )


def test_a_folder_of_files_and_its_label_table(tmp_path):
    """fit, predict and locate on a bag a file; --stream; --skip; what lacks is a sentence."""
    bags = tmp_path / "bags"
    bags.mkdir()
    for i, tokens in enumerate(BATCH.tokens):
        where = np.column_stack([np.arange(4), np.full(4, i)])
        np.savez(bags / f"b{i:03d}.npz", features=tokens.astype(np.float32), coords=where)
    names = [f"b{i:03d}" for i in range(120)]
    table = tmp_path / "labels.csv"
    pd.DataFrame({"bag": names, "y": BATCH.target}).to_csv(table, index=False)
    model = tmp_path / "m.npz"
    for how, said in ((QUICK, "held-out"), (("--stream",), "no bags held out")):
        code, out, err = run("fit", bags, "--labels", table, "--out", model, *how)
        assert code == 0 and said in out and "120 bags, 480 tokens, 5 features" in out, err
        code, out, _ = run("predict", model, bags, "--labels", table, "--json")
        assert code == 0 and json.loads(out)["score"]["R2"] > 0.9
        rows = json.loads(run("locate", model, bags, "--json")[1])["rows"]
        located = np.array([row["token"] for row in rows])
        assert np.mean(located == BATCH.location) > 0.95
        assert [row["x"] for row in rows] == located.tolist()
        assert [row["y"] for row in rows] == list(range(120))
    code, _, err = run("fit", bags, "--out", model)
    assert code == 2 and "try --labels table.csv" in err
    (bags / "zz.npy").write_bytes(b"broken")
    code, _, err = run("predict", model, bags)
    assert code == 2 and "zz.npy" in err
    with pytest.warns(UserWarning, match=r"zz\.npy"):
        assert run("predict", model, bags, "--skip")[0] == 0
