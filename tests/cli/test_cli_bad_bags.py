"""attnscope fit, predict and locate on files that do not fit and with arguments that cannot be: one
sentence each.
"""

import re

import numpy as np
import pytest
from helpers.bag_layouts import BATCH, QUICK, frame_of, write_layouts
from helpers.commands import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_layouts(tmp_path_factory.mktemp("bags"))


def broken(folder, tmp_path, kind):
    """Arguments of `fit` on a file that is wrong in one way."""
    frame = frame_of(BATCH)
    path = tmp_path / "bad.csv"
    arrays = {"bags": BATCH.tokens, "y": BATCH.target}
    if kind == "nan":
        frame.loc[7, "f2"] = np.nan
    elif kind == "label varies":
        frame.loc[1, "y"] += 1
    elif kind == "ragged":
        path.write_text("bag,y,f0\n1,2.0,3.0\n1,2.0,3.0,4.0,5.0\n")
        return path
    elif kind == "no features":
        frame = frame[["bag", "y", "word"]]
    elif kind == "empty label":
        frame.loc[0:3, "y"] = np.nan
    elif kind == "empty bag":
        frame.loc[5, "bag"] = None
    elif kind == "empty":
        frame = frame[:0]
    if kind.startswith("npz"):
        path = tmp_path / "bad.npz"
        if kind == "npz nan":
            arrays["bags"] = np.where(np.arange(5) == 3, np.nan, BATCH.tokens)
        elif kind == "npz objects":
            arrays["bags"] = np.array([{}, {}], dtype=object)
        elif kind == "npz labels":
            arrays["y"] = BATCH.target[:7]
        elif kind == "npz nothing":
            arrays = {"y": BATCH.target}
        elif kind == "npz offsets":
            arrays = {
                "tokens": BATCH.tokens.reshape(-1, 5),
                "offsets": np.array([0, 5, 4, 480]),
                "y": BATCH.target,
            }
        elif kind == "npz padding":
            arrays["mask"] = np.zeros((120, 4), bool)
        elif kind == "npz text":
            path.write_text("no zip")
            return path
        np.savez(path, **arrays)
        return path
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nan", "column f2 of .* must hold finite numbers, got nan in row 7"),
        ("label varies", "column y of .* must be constant within a bag, got .* in bag b000"),
        ("ragged", "rows of one width"),
        ("no features", "at least one column of numbers"),
        ("empty label", "column y of .* must have a value in every row, got none in row 0"),
        (
            "empty bag",
            "column bag of .* must name the bag in every row, got an empty cell in row 5",
        ),
        ("empty", "at least one row"),
        ("npz nan", "finite numbers"),
        ("npz objects", "plain arrays, got arrays of Python objects"),
        ("npz labels", r"one entry per bag, \(120,\), got shape \(7,\)"),
        ("npz nothing", "must hold an array bags"),
        ("npz offsets", "offsets of .* must be increasing whole numbers from 0 to 480"),
        ("npz padding", "only padding in bag 0"),
        ("npz text", "must be an .npz file"),
    ],
)
def test_a_broken_file_is_one_sentence(folder, tmp_path, kind, words):
    code, out, err = run(
        "fit", broken(folder, tmp_path, kind), "--out", tmp_path / "m.npz", *QUICK
    )
    assert code == 2 and re.search(words, err), err + out
    assert err.count("\n") <= 1 and not (tmp_path / "m.npz").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "{f}/none.npz", "--out", "{t}/m.npz"], "must exist, got no such file"),
        (["fit", "{f}/data.txt", "--out", "{t}/m.npz"], "an .npz, .csv or .parquet file"),
        (
            ["fit", "{f}/data.csv", "--out", "{t}/m.npz", "--target", "z"],
            "must have a column z, got columns bag, f0",
        ),
        (
            ["fit", "{f}/data.csv", "--out", "{t}/m.npz", "--bag", "sack"],
            "must have a column sack",
        ),
        (
            ["fit", "{f}/data.npz", "--out", "{t}/m.npz", "--target", "z"],
            "must hold an array z",
        ),
        (["fit", "{f}/data.npz", "--out", "{t}/m.pkl"], "must end in .npz"),
        (["fit", "{f}/data.npz", "--out", "{t}/nowhere/m.npz"], "in a folder that exists"),
        (["fit", "{f}/data.npz", "--out", "{f}/data.npz"], "another than the input"),
        (
            ["fit", "{f}/data.npz", "--out", "{t}/m.npz", "--gate", "gpt"],
            "gate of SingleLocationRegressor",
        ),
        (
            ["fit", "{f}/data.npz", "--out", "{t}/m.npz", "--alpha", "x"],
            "--alpha must be cv, a number",
        ),
        (["predict", "{f}/none.npz", "{f}/data.npz"], "the model file .* must exist"),
        (["predict", "{f}/data.npz", "{f}/data.npz"], "a file written by save_model"),
        (
            ["predict", "{f}/data.npz.model.npz", "{t}/wide.npz"],
            "5 features as in fit, got 6 features",
        ),
        (
            ["predict", "{f}/data.npz.model.npz", "{f}/data.npz", "--out", "{t}/a.txt"],
            "must end in .npz or .csv",
        ),
        (
            ["predict", "{f}/data.npz.model.npz", "{f}/data.npz", "--interval", "2"],
            "coverage",
        ),
        (["predict", "{f}/data.csv.model.npz", "{t}/narrow.csv"], "must have a column f4"),
        (
            ["locate", "{f}/data.npz.model.npz", "{f}/data.npz", "--target", "z"],
            "must hold an array z",
        ),
    ],
)
def test_bad_arguments_are_one_sentence(folder, tmp_path, arguments, words):
    np.savez(tmp_path / "wide.npz", bags=np.zeros((3, 2, 6)))
    frame_of(BATCH).drop(columns="f4").to_csv(tmp_path / "narrow.csv", index=False)
    code, out, err = run(*(a.format(f=folder, t=tmp_path) for a in arguments))
    assert code == 2 and re.search(words, err), err + out
