"""Files of bags that are broken, hostile or of another kind: `fit`, `predict` and `locate` answer
each with one sentence (or with numbers), never with a traceback, and leave nothing behind.

The files are made here, each from a good one by one change.
"""

import io
import os
import struct
import zipfile
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from helpers.commands import run

import attnscope as at
from attnscope.numerics.border import array_files

# EM alone from one start: a fraction of a second
QUICK = ("--loss", "mixture", "--alpha", "inf,1", "--n-starts", "1", "--gate", "linear")
BATCH = at.SingleLocation(dim=4, length=3, signal=5.0, noise=0.1).sample(30, seed=1)
FLAT = BATCH.tokens.reshape(90, 4)
H5 = find_spec("h5py") is not None
PARQUET = find_spec("pyarrow") is not None


def packed(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return bytearray(out.getvalue())


def good():
    return packed(bags=BATCH.tokens, y=BATCH.target)


def turned(offset, value):
    """The good archive with a byte of its directory's first entry turned."""
    content = good()
    content[content.index(b"PK\x01\x02") + offset] = value
    return content


def member(content, name="bags.npy"):
    """An archive with this content in a member, beside good labels."""
    out = io.BytesIO()
    labels = io.BytesIO()
    np.save(labels, BATCH.target)
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, content)
        archive.writestr("y.npy", labels.getvalue())
    return out.getvalue()


def npy(header, body=b""):
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def header(shape, kind="<f8"):
    return npy(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n")


def bomb():
    """64 GiB of zeros, said and packed in some kilobytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bags.npy", header((2**20, 2**10, 8)) + bytes(2**16))
    content = bytearray(out.getvalue())
    at_entry = content.index(b"PK\x01\x02")
    content[at_entry + 24 : at_entry + 28] = struct.pack("<I", 2**32 - 2)
    return content


def flat(offsets):
    return packed(tokens=FLAT, offsets=offsets, y=BATCH.target)


def with_value(value, kind=None):
    tokens = BATCH.tokens.astype(kind or float)
    tokens.flat[0] = value
    return packed(bags=tokens, y=BATCH.target)


def objects():
    out = io.BytesIO()
    np.savez(out, bags=BATCH.tokens, y=np.array([{}] * 30, dtype=object), allow_pickle=True)
    return out.getvalue()


STEPS = np.arange(0, 91, 3)
MIDDLE = STEPS.astype(np.uint64)
MIDDLE[15] = 2**64 - 1
BACK = np.r_[STEPS[:15], 3, STEPS[16:]].astype(np.uint64)  # differences wrap to large ones
NPZ = {
    "empty": b"",
    "text": b"bag,y,a\n",
    "zip of nothing": b"PK\x05\x06" + bytes(18),
    "cut in half": good()[: len(good()) // 2],
    "without its end": good()[:-10],
    "unknown compression": turned(10, 99),
    "encrypted": turned(8, 1),
    "wrong checksum": turned(16, 77),
    "offset beyond the file": turned(44, 255),
    "absurd header": member(header((10**9, 10**9, 10**9))),
    "header that wraps": member(header((2**32, 2**32, 4))),
    "negative shape": member(header((-1, 3, 4))),
    "header of code": member(npy("__import__('os').system('true')\n")),
    "header without shape": member(npy("{'descr': '<f8'}\n")),
    "header of words": member(
        npy("{'descr': 'nonsense', 'fortran_order': 0, 'shape': ()}\n")
    ),
    "deep header": member(npy("(" * 5000 + "\n")),
    "no numpy member": member(b"words", "bags.txt"),
    "member with a path": member(header((1,)), "../../bags.npy"),
    "zip bomb": bomb(),
    "python objects": objects(),
    "records": packed(bags=np.zeros(30, dtype=[("a", float)]), y=BATCH.target),
    "dates": packed(bags=np.zeros((30, 3, 4), "M8[s]"), y=BATCH.target),
    "complex": packed(bags=BATCH.tokens.astype(complex), y=BATCH.target),
    "words": packed(bags=BATCH.tokens.astype(str), y=BATCH.target),
    "two axes": packed(bags=FLAT, y=BATCH.target),
    "four axes": packed(bags=BATCH.tokens[None], y=BATCH.target),
    "no bag": packed(bags=BATCH.tokens[:0], y=BATCH.target[:0]),
    "no token": packed(bags=BATCH.tokens[:, :0], y=BATCH.target),
    "no feature": packed(bags=BATCH.tokens[:, :, :0], y=BATCH.target),
    "one bag": packed(bags=BATCH.tokens[:1], y=BATCH.target[:1]),
    "NaN": with_value(np.nan),
    "infinite": with_value(-np.inf),
    "huge": with_value(1e300),
    "long double": with_value(1.0, np.longdouble),
    "half": with_value(7.0, np.float16),
    "labels short": packed(bags=BATCH.tokens, y=BATCH.target[:-1]),
    "labels of two axes": packed(bags=BATCH.tokens, y=BATCH.target[:, None]),
    "labels NaN": packed(bags=BATCH.tokens, y=np.full(30, np.nan)),
    "labels complex": packed(bags=BATCH.tokens, y=BATCH.target * 1j),
    "labels of dates": packed(bags=BATCH.tokens, y=np.zeros(30, "M8[s]")),
    "labels constant": packed(bags=BATCH.tokens, y=np.ones(30)),
    "no labels": packed(bags=BATCH.tokens),
    "mask of words": packed(bags=BATCH.tokens, mask=np.full((30, 3), "a"), y=BATCH.target),
    "mask of nothing": packed(bags=BATCH.tokens, mask=np.zeros((30, 3)), y=BATCH.target),
    "mask short": packed(bags=BATCH.tokens, mask=np.ones((30, 2)), y=BATCH.target),
    "offsets that wrap": flat(MIDDLE),
    "offsets that go back": flat(BACK),
    "offsets with fractions": flat(STEPS + 0.5),
    "offsets of one": flat(np.array([0])),
    "offsets too far": flat(STEPS * 2),
    "names short": packed(tokens=FLAT, bag=np.arange(7), y=BATCH.target),
}
ROWS = "bag,y,a\n" + "".join(f"{i // 3},{i // 3},{i}.5\n" for i in range(30))
CSV = {
    "empty": "",
    "header alone": "bag,y,a\n",
    "one column": "bag\n1\n",
    "no bag": ROWS.replace("bag", "box"),
    "no label": ROWS.replace(",y,", ",z,"),
    "no numbers": "bag,y,a\n" + "1,2,x\n" * 9,
    "NUL": ROWS.replace("5.5", "5\0.5"),
    "ragged": ROWS + "1,2,3,4,5,6\n",
    "an open quote": ROWS + '1,2,"3\n',
    "one name for two columns": ROWS.replace("bag,y,a", "bag,y,y"),
    "no names": ROWS.replace("bag,y,a", ",,"),
    "a label that changes": ROWS + "1,77,0.5\n",
    "an empty cell": ROWS + "1,1,\n",
    "a word among numbers": ROWS + "1,1,x\n",
    "infinity": ROWS + "1,1,inf\n",
    "beyond floats": ROWS + "1,1,1e999\n",
    "many digits": ROWS + f"1,1,{'9' * 5000}\n",
    "an empty bag name": ROWS + ",1,2.0\n",
    "carriage returns": ROWS.replace("\n", "\r"),
    "semicolons": ROWS.replace(",", ";"),
}


def told(path, tmp_path, *more):
    """Fit the file; what was answered, after checks that every answer has to pass."""
    out = tmp_path / "model.npz"
    code, _, said = run("fit", path, "--out", out, *QUICK, *more)
    assert code in (0, 2), said
    if code == 2:
        assert said.startswith("error: "), said
        assert "Traceback" not in said and len(said) < 700, said
        assert not out.exists()
    left = [name for name in os.listdir(tmp_path) if name.startswith(".")]
    assert left == []
    return code, said


@pytest.mark.parametrize("what", NPZ)
@pytest.mark.filterwarnings("ignore")
def test_an_archive_that_is_no_table_is_one_sentence(what, tmp_path):
    path = tmp_path / "data.npz"
    path.write_bytes(NPZ[what])
    told(path, tmp_path)


@pytest.mark.parametrize("what", CSV)
@pytest.mark.filterwarnings("ignore")
def test_a_table_that_is_none_is_one_sentence(what, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(CSV[what], newline="")
    told(path, tmp_path)


@pytest.mark.parametrize(
    "what", ["bags", "offsets that go back", "zip bomb", "absurd header"]
)
def test_archives_that_must_be_refused(what, tmp_path):
    """Not only answered: with their numbers taken as they are, the fit would be of other data."""
    path = tmp_path / "data.npz"
    path.write_bytes(NPZ.get(what, packed(bags=FLAT, y=BATCH.target)))
    assert told(path, tmp_path)[0] == 2


def test_a_file_that_unpacks_to_more_than_memory_is_refused_unread(tmp_path, monkeypatch):
    path = tmp_path / "data.npz"
    path.write_bytes(good())
    monkeypatch.setattr(array_files, "memory", lambda: 1000.0)
    code, said = told(path, tmp_path)
    assert (code, "more than fits into memory" in said) == (2, True)


BYTES = {
    "empty": b"",
    "text": b"hello",
    "zeros": bytes(4000),
    "cut magic": b"PAR1",
    "magic alone": b"PAR1" + bytes(8) + b"PAR1",
    "hdf": b"\x89HDF\r\n\x1a\n" + bytes(100),
}


@pytest.mark.parametrize("ending", ["parquet", "h5", "npy", "npz", "csv"])
@pytest.mark.parametrize("what", BYTES)
def test_bytes_of_nothing_are_one_sentence(ending, what, tmp_path):
    path = tmp_path / f"data.{ending}"
    path.write_bytes(BYTES[what])
    table = tmp_path / "labels.csv"
    table.write_text("bag,y\ndata,1\n")
    assert told(path, tmp_path)[0] == 2
    assert told(path, tmp_path, "--labels", table)[0] == 2


@pytest.mark.skipif(not PARQUET, reason="pyarrow is optional")
def test_parquet_of_another_kind_is_one_sentence(tmp_path):
    path = tmp_path / "data.parquet"
    frames = {
        "lists": pd.DataFrame({"bag": ["a"], "y": [1.0], "a": [[1.0, 2.0]]}),
        "dates": pd.DataFrame(
            {"bag": ["a"], "y": [1.0], "a": pd.to_datetime(["2020-01-01"])}
        ),
        "none": pd.DataFrame({"bag": [None], "y": [1.0], "a": [1.0]}),
        "no row": pd.DataFrame({"bag": [], "y": [], "a": []}),
    }
    for frame in frames.values():
        frame.to_parquet(path)
        assert told(path, tmp_path)[0] == 2
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(20):
        content = bytearray(whole)
        content[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        path.write_bytes(content)
        told(path, tmp_path)


@pytest.mark.skipif(not H5, reason="h5py is optional")
def test_h5_of_another_kind_is_one_sentence(tmp_path):
    import h5py

    path = tmp_path / "data.h5"
    table = tmp_path / "labels.csv"
    table.write_text("bag,y\ndata,1\n")
    contents = {
        "nothing": {},
        "words": {"features": np.array([b"a", b"b"])},
        "one axis": {"features": np.arange(4.0)},
        "a scalar": {"features": 3.0},
        "no token": {"features": np.empty((0, 4))},
        "coordinates short": {"features": np.ones((5, 4)), "coords": np.ones((2, 2))},
    }
    for content in contents.values():
        with h5py.File(path, "w") as file:
            for name, value in content.items():
                file[name] = value
        assert told(path, tmp_path, "--labels", table)[0] == 2
    with h5py.File(path, "w") as file:
        file.create_group("features")
    assert told(path, tmp_path, "--labels", table)[0] == 2
    with h5py.File(path, "w") as file:
        file["features"] = h5py.SoftLink("/features")
    assert told(path, tmp_path, "--labels", table)[0] == 2


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    words = np.where(BATCH.target > 0, "yes", "no")
    np.savez(folder / "numbers.npz", bags=BATCH.tokens, y=BATCH.target)
    np.savez(folder / "classes.npz", bags=BATCH.tokens, y=words)
    np.savez(folder / "one.npz", bags=BATCH.tokens[:1], y=BATCH.target[:1])
    for name in ("numbers", "classes"):
        quick = QUICK if name == "numbers" else QUICK[4:]
        path = folder / f"{name}.npz"
        code, _, said = run("fit", path, "--out", folder / f"of_{name}.npz", *quick)
        assert code == 0, said
    return folder


@pytest.mark.parametrize(("model", "data"), [("numbers", "classes"), ("classes", "numbers")])
def test_labels_of_another_kind_are_a_sentence(model, data, models, capfd):
    """Asked for, they are refused; met in the file, the predictions come without a score."""
    paths = (models / f"of_{model}.npz", models / f"{data}.npz")
    code, _, said = run("predict", *paths, "--target", "y")
    assert (code, ".score must be" in said) == (2, True)
    code, printed, said = run("predict", *paths)
    assert (code, "is not scored" in said) == (0, True)
    assert "prediction" in printed
    code, _, said = run("locate", *paths, "--target", "y")
    assert code == 2


def test_one_bag_has_no_score_and_no_nan(models):
    code, printed, said = run(
        "predict", models / "of_numbers.npz", models / "one.npz", "--json"
    )
    assert (code, "NaN" in printed) == (0, False)
    assert "at least two bags" in said


def test_endless_files_and_loops_of_links_are_refused(tmp_path):
    for ending in ("npz", "csv", "parquet", "npy", "h5"):
        zero = tmp_path / f"zero.{ending}"
        loop = tmp_path / f"loop.{ending}"
        zero.symlink_to("/dev/zero")
        loop.symlink_to(loop)
        for path in (zero, loop):
            assert run("fit", path, "--out", tmp_path / "m.npz")[0] == 2
            assert run("predict", path, path)[0] == 2
        assert run("fit", tmp_path, "--out", loop)[0] == 2


def test_names_are_no_formulas_in_a_table(tmp_path):
    """A spreadsheet computes what begins with =, +, - or @; a number is left as it is."""
    from attnscope.estimators.bags.table_output import write_columns

    names = np.array(["=1+2", "@SUM(A1)", "+x", "-x", "\tx", "-5", "plain", "é"])
    write_columns(tmp_path / "a.csv", {"bag": names, "=y": np.arange(8) - 4.0})
    found = pd.read_csv(tmp_path / "a.csv", dtype=str, encoding="utf-8")
    assert list(found.columns) == ["bag", "'=y"]
    safe = ["'=1+2", "'@SUM(A1)", "'+x", "'-x", "'\tx", "-5", "plain", "é"]
    assert found["bag"].tolist() == safe
    assert found["'=y"].astype(float).tolist() == (np.arange(8) - 4.0).tolist()


@pytest.mark.parametrize("heads", [0, 65, 2147483648, 10**30])
def test_absurd_numbers_of_heads_are_refused_at_once(heads, models, tmp_path):
    data = models / "numbers.npz"
    code, _, said = run("fit", data, "--out", tmp_path / "m.npz", "--heads", heads)
    assert code == 2
    assert "heads" in said


@pytest.mark.parametrize("option", ["n-starts", "jobs", "heads"])
@pytest.mark.parametrize("number", [10**6, 10**39])
def test_absurd_counts_are_refused_at_once(option, number, models, tmp_path):
    path = tmp_path / "m.npz"
    code, _, said = run("fit", models / "numbers.npz", "--out", path, f"--{option}", number)
    assert (code, path.exists()) == (2, False)
    assert option.replace("-", "_") in said and "must be an integer" in said


@pytest.mark.filterwarnings("ignore")
def test_no_ridge_on_constant_labels_is_an_answer(tmp_path):
    np.savez(tmp_path / "d.npz", bags=BATCH.tokens, y=np.ones(30))
    words = ("--regress", "--alpha", "0", "--loss", "mixture", "--n-starts", "1")
    code, _, said = run("fit", tmp_path / "d.npz", "--out", tmp_path / "m.npz", *words)
    assert code == 0, said
    code, printed, _ = run("predict", tmp_path / "m.npz", tmp_path / "d.npz", "--json")
    assert (code, "NaN" in printed, "Infinity" in printed) == (0, False, False)
