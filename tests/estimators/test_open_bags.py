"""`open_bags`: every layout gives back the arrays that were written; what is broken is one sentence
that names its file; estimators take unread bags and answer as for the same bags in memory.
"""

import pickle
from importlib.util import find_spec
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from helpers.tolerances import ROOT_EPS

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.estimators.bags import bags as in_memory
from attnscope.estimators.bags import pieces

needs_h5py = pytest.mark.skipif(find_spec("h5py") is None, reason="h5py is optional")
needs_pyarrow = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is optional")
RNG = np.random.default_rng(5)
BAGS = [RNG.standard_normal((4 + i, 3)).astype(np.float32) for i in range(6)]
COORDS = [RNG.integers(0, 99, (len(bag), 2)) for bag in BAGS]
NAMES = [f"s{i}" for i in range(6)]
PADDED = np.zeros((6, 9, 3), np.float32)
MASK = np.arange(9) < np.array([len(bag) for bag in BAGS])[:, None]
PADDED[MASK] = np.concatenate(BAGS)
OFFSETS = np.cumsum([0, *map(len, BAGS)])


def write_npy(folder):
    for name, bag in zip(NAMES, BAGS):
        np.save(folder / f"{name}.npy", bag)


def write_npz(folder):
    for name, bag, coords in zip(NAMES, BAGS, COORDS):
        np.savez_compressed(folder / f"{name}.npz", features=bag[None], coords=coords)


def write_h5(folder):
    h5py = pytest.importorskip("h5py")
    for i, name in enumerate(NAMES):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["features"] = BAGS[i] if i % 2 else BAGS[i][None]
            file["coords"] = COORDS[i]


def write_h5_groups(folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "all.h5", "w") as file:
        for name, bag, coords in zip(NAMES, BAGS, COORDS):
            file[f"{name}/features"] = bag
            file[f"{name}/coords"] = coords


def write_parquet_bags(folder):
    pa = pytest.importorskip("pyarrow")
    columns = {
        "bag": NAMES,
        "features": [bag.tolist() for bag in BAGS],
        "coords": [coords.tolist() for coords in COORDS],
    }
    kind = pa.list_(pa.list_(pa.float32()))
    table = pa.table(columns).cast(
        pa.schema([("bag", pa.string()), ("features", kind), ("coords", _integers(pa))])
    )
    pa.parquet.write_table(table, folder / "all.parquet", row_group_size=4)


def _integers(pa):
    import pyarrow.parquet  # noqa: F401

    return pa.list_(pa.list_(pa.int64(), 2))


def write_parquet_tokens(folder):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    flat = pa.array(np.concatenate(BAGS).ravel())
    where = pa.array(np.concatenate(COORDS).ravel())
    table = pa.table(
        {
            "bag": np.repeat(NAMES, np.diff(OFFSETS)),
            "features": pa.FixedSizeListArray.from_arrays(flat, 3),
            "coords": pa.FixedSizeListArray.from_arrays(where, 2),
        }
    )
    pq.write_table(table, folder / "all.parquet", row_group_size=7)


def write_npz_offsets(folder):
    np.savez(
        folder / "all.npz",
        tokens=np.concatenate(BAGS),
        offsets=OFFSETS,
        coords=np.concatenate(COORDS),
    )


def write_npz_mask(folder):
    np.savez(folder / "all.npz", bags=PADDED, mask=MASK)


ONE_EACH = {"npy": write_npy, "npz": write_npz, "h5": write_h5}
TOGETHER = {
    "h5 groups": (write_h5_groups, [f"all:{name}" for name in NAMES]),
    "parquet, a row a bag": (write_parquet_bags, NAMES),
    "parquet, a row a token": (write_parquet_tokens, NAMES),
    "npz with offsets": (write_npz_offsets, [f"all:{i}" for i in range(6)]),
    "npz with mask": (write_npz_mask, [f"all:{i}" for i in range(6)]),
}
LAYOUTS = {name: (write, NAMES) for name, write in ONE_EACH.items()} | TOGETHER


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_back_what_was_written(layout, tmp_path):
    write, names = LAYOUTS[layout]
    write(tmp_path)
    bags = at.open_bags(tmp_path)
    assert bags.names.tolist() == names
    assert bags.lengths.tolist() == [len(bag) for bag in BAGS] and bags.width == 3
    order = [5, 0, 3, 3, 1, 2, 4]  # any order, any number of times
    for i in order:
        np.testing.assert_array_equal(bags[i], BAGS[i])
        assert bags[i].dtype == np.float32
        if bags.coords(i) is not None:
            np.testing.assert_array_equal(bags.coords(i), COORDS[i])
    assert (bags.coords(0) is None) == (layout in ("npy", "npz with mask"))
    for _ in range(2):
        for mine, theirs in zip(bags, BAGS, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    far = pickle.loads(pickle.dumps(bags[[4, 1]]))  # as Dask sends them
    assert far.names.tolist() == [names[4], names[1]]
    np.testing.assert_array_equal(far[0], BAGS[4])
    assert (
        len(bags.paths) == len(bags.to_dask().partitions) == (6 if layout in ONE_EACH else 1)
    )


def test_a_file_of_equal_bags_and_the_order_of_names(tmp_path):
    many = RNG.standard_normal((12, 2, 3))
    np.save(tmp_path / "b.npy", many)
    np.save(tmp_path / "a.npy", many[:1])
    bags = at.open_bags(tmp_path)
    assert bags.names.tolist() == ["a", *(f"b:{i}" for i in range(12))]
    np.testing.assert_array_equal(bags[11], many[10])
    assert isinstance(bags[11], np.memmap)
    assert at.open_bags([tmp_path / "b.npy"])[2:4].names.tolist() == ["b:2", "b:3"]
    assert repr(bags) == "<13 bags, 26 tokens, 3 features in 2 files>"


def test_labels_by_name_in_any_order(tmp_path):
    write_npy(tmp_path)
    rows = [("s3.svs", 3, 0.3), ("s0", 0, 0.1), *((f"s{i}", i, 1.0) for i in (5, 4, 2, 1))]
    frame = pd.DataFrame(rows, columns=["slide_id", "label", "w"])
    frame.insert(0, "case_id", range(6))
    frame.to_csv(tmp_path / "labels.csv", index=False)
    bags = at.open_bags(tmp_path, tmp_path / "labels.csv", weight="w")
    assert bags.labels.tolist() == list(range(6))
    assert bags.weight.tolist() == [0.1, 1, 1, 0.3, 1, 1]
    assert bags[[2, 0]].labels.tolist() == [2, 0]
    words = at.open_bags(tmp_path, {name: name.upper() for name in NAMES})
    assert words.labels.tolist() == ["S0", "S1", "S2", "S3", "S4", "S5"]
    other = at.open_bags(tmp_path, tmp_path / "labels.csv", target="case_id", bag="slide_id")
    assert other.labels.tolist() == [1, 5, 4, 0, 3, 2]
    assert at.open_bags(tmp_path, np.arange(6.0)).labels[3] == 3


def test_names_that_look_like_numbers_stay_as_written(tmp_path):
    for name in ("001", "010"):
        np.save(tmp_path / f"{name}.npy", BAGS[0])
    (tmp_path / "t.csv").write_text("bag,y\n010,b\n001,a\n")
    assert at.open_bags(tmp_path, tmp_path / "t.csv").labels.tolist() == ["a", "b"]


BROKEN = {
    "truncated": (lambda p: (p / "s2.npy").write_bytes(b"\x93NUMPY\x01\x00v"), "s2.npy"),
    "objects": (
        lambda p: np.save(p / "s2.npy", np.array([{}, 1], dtype=object)),
        "unpickled",
    ),
    "words": (lambda p: np.save(p / "s2.npy", np.array([["a", "b", "c"]])), "s2.npy"),
    "one dimension": (lambda p: np.save(p / "s2.npy", np.ones(3)), "shape (3,)"),
    "no token": (lambda p: np.save(p / "s2.npy", np.ones((0, 3))), "shape (0, 3)"),
    "another width": (lambda p: np.save(p / "s2.npy", np.ones((5, 4))), "3 features"),
    "a pickle": (lambda p: (p / "s2.npy").rename(p / "s2.pt"), "weights_only=True"),
    "twice": (lambda p: np.savez(p / "s2.npz", features=BAGS[2]), "in one file"),
    "no archive": (lambda p: (p / "s2.npz").write_bytes(b"PK not"), "s2.npz"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_named_or_left_out(what, tmp_path):
    write_npy(tmp_path)
    spoil, words = BROKEN[what]
    spoil(tmp_path)
    with pytest.raises(AttnscopeError) as refused:
        at.open_bags(tmp_path)
    assert words in str(refused.value) and "s2" in str(refused.value)
    with pytest.warns(UserWarning, match="open_bags left out: .*s2"):
        bags = at.open_bags(tmp_path, on_error="skip")
    kept = NAMES if what in ("twice", "no archive") else [n for n in NAMES if n != "s2"]
    assert bags.names.tolist() == kept and len(bags.skipped) == 1


def test_a_fit_stops_at_a_broken_file_or_goes_on_without_it(tmp_path):
    """Labels in a table that names every file, the broken one too; and a file that breaks between
    opening and reading.
    """
    rng = np.random.default_rng(8)
    tokens = rng.standard_normal((30, 4, 3))
    y = tokens[:, 0, 0]
    for i, bag in enumerate(tokens):
        np.save(tmp_path / f"b{i:02d}.npy", bag)
    rows = "".join(f"b{i:02d},{float(y[i])!r}\n" for i in range(30))
    (tmp_path / "labels.csv").write_text("bag,y\n" + rows)
    whole = (tmp_path / "b07.npy").read_bytes()
    (tmp_path / "b07.npy").write_bytes(whole[:90])
    with pytest.raises(AttnscopeError, match=r"b07\.npy"):
        at.open_bags(tmp_path, tmp_path / "labels.csv")
    with pytest.warns(UserWarning, match=r"b07"):
        bags = at.open_bags(tmp_path, tmp_path / "labels.csv", on_error="skip")
    kept = np.arange(30) != 7
    np.testing.assert_array_equal(bags.labels, y[kept])
    em = {"alpha": (np.inf, 0.1), "n_starts": 1}
    found = at.SingleLocationRegressor(**em).fit(bags).predict(bags)
    expected = at.SingleLocationRegressor(**em).fit(tokens[kept], y[kept])
    np.testing.assert_allclose(found, expected.predict(tokens[kept]), rtol=ROOT_EPS)
    (tmp_path / "b09.npy").write_bytes(whole[:90])
    with pytest.raises(AttnscopeError, match=r"b09\.npy"):
        at.SingleLocationRegressor(**em).fit(bags)


def test_nan_is_found_when_it_is_read_or_when_opening(tmp_path):
    write_npy(tmp_path)
    spoilt = BAGS[2].copy()
    spoilt[3, 1] = np.nan
    np.save(tmp_path / "s2.npy", spoilt)
    bags = at.open_bags(tmp_path, np.arange(6.0))
    with pytest.raises(AttnscopeError, match=r"bag s2 of .*s2\.npy .* got nan in token 3"):
        bags[2]
    with pytest.raises(AttnscopeError, match=r"s2\.npy"):
        at.SingleLocationRegressor().fit(bags)
    with pytest.warns(UserWarning, match="s2"):
        assert len(at.open_bags(tmp_path, on_error="skip")) == 5


@needs_h5py
def test_broken_h5_is_named(tmp_path):
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["tokens"] = BAGS[0]
    with pytest.raises(
        AttnscopeError, match=r"a\.h5 must hold a dataset features.* got tokens"
    ):
        at.open_bags(tmp_path)
    assert at.open_bags(tmp_path, features="tokens").lengths.tolist() == [4]
    whole = (tmp_path / "a.h5").read_bytes()
    (tmp_path / "a.h5").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(AttnscopeError, match=r"a\.h5 must be a \.h5 file that can be read"):
        at.open_bags(tmp_path)


@needs_pyarrow
def test_broken_parquet_is_named(tmp_path):
    frame = pd.DataFrame({"bag": list("aba"), "features": [[1.0], [2.0], [3.0]]})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(AttnscopeError, match="a in several places"):
        at.open_bags(tmp_path)
    frame["features"] = [[1.0], [2.0, 4.0], [3.0]]
    frame["bag"] = list("aab")
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(AttnscopeError, match=r"t\.parquet must hold tokens of one width"):
        at.open_bags(tmp_path)[0]
    pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(AttnscopeError, match="read_table"):
        at.open_bags(tmp_path)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("bag,y\ns0,1\n", "got none for s1, s2, s3 and 2 more"),
        ("bag,y\n" + "".join(f"s{i},{i}\n" for i in range(7)), "got s6 as well"),
        ("bag,y\n" + "".join(f"s{i},{i}\n" for i in range(6)) + "s1,7\n", "1 and 7 for s1"),
        ("bag,y\n" + "".join(f"s{i},\n" for i in range(6)), "none in row 0"),
        ("bag,y\na,1\nb,2\n", "got a, b for bags s0, s1, s2 and 3 more"),
        ("a,b,c\n1,2,3\n", "columns a, b, c; try bag="),
        ("bag,b,c\n1,2,3\n", "columns b, c; try target="),
    ],
)
def test_labels_that_do_not_fit_are_one_sentence(table, words, tmp_path):
    write_npy(tmp_path)
    (tmp_path / "t.csv").write_text(table)
    with pytest.raises(AttnscopeError) as refused:
        at.open_bags(tmp_path, tmp_path / "t.csv")
    assert words in str(refused.value)


def test_names_on_one_side_only_are_left_out_when_asked(tmp_path):
    write_npy(tmp_path)
    (tmp_path / "t.csv").write_text("bag,y\ns4,0\nx,5\ns1,1\n")
    with pytest.warns(UserWarning, match="has no label"):
        bags = at.open_bags(tmp_path, tmp_path / "t.csv", on_error="skip")
    assert bags.names.tolist() == ["s1", "s4"] and bags.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: at.open_bags(p / "nowhere"), "no such file"),
        (lambda p: at.open_bags(3), "a folder, a file or a list of files, got 3"),
        (lambda p: at.open_bags([]), "an empty list"),
        (lambda p: at.open_bags(p, on_error="go"), '"stop" or "skip", got'),
        (lambda p: at.open_bags(p), "got none; try "),
        (lambda p: at.open_bags(p / "t.csv"), "read_table"),
        (lambda p: at.open_bags(p / "deep", [1]), "one label per bag (6,), got shape (1,)"),
        (lambda p: at.open_bags(p / "deep", p / "none.csv"), "label table"),
        (lambda p: at.open_bags(p / "deep", p / "a.xls"), ".csv or .parquet"),
        (lambda p: at.open_bags(p / "deep")[[]], "a slice or numbers"),
    ],
)
def test_what_cannot_be_opened(call, words, tmp_path):
    (tmp_path / "deep").mkdir()
    write_npy(tmp_path / "deep")
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(AttnscopeError) as refused:
        call(tmp_path)
    assert words in str(refused.value)


# -- estimators ------------------------------------------------------------------------------------

TASK = at.SingleLocation(dim=6, length=5, signal=5.0, noise=0.1).sample(80, seed=1)
X = TASK.tokens.astype(np.float32)
QUICK = {"loss": "mixture", "alpha": (np.inf, 1.0), "n_starts": 4}  # EM alone


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("bags")
    for i, bag in enumerate(X):
        np.save(where / f"s{i:03d}.npy", bag)
    np.save(where.parent / "whole.npy", X)
    return where


@pytest.fixture(scope="module")
def model(folder):
    return at.SingleLocationRegressor(**QUICK).fit(X, TASK.target)


def test_fit_reads_unread_bags_and_their_labels(folder, model):
    unread = at.open_bags(folder, TASK.target)
    mapped = np.load(folder.parent / "whole.npy", mmap_mode="r")
    for bags, y in ((unread, None), (mapped, TASK.target)):
        again = at.SingleLocationRegressor(**QUICK).fit(bags, y)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(AttnscopeError, match="y is None"):
        at.SingleLocationRegressor().fit(at.open_bags(folder))


class Chunked:
    """What h5py and zarr arrays have in common; counts the bags that were read at once."""

    def __init__(self, array):
        self.array = array
        self.shape, self.dtype, self.chunks = array.shape, array.dtype, None
        self.largest = 0

    def __getitem__(self, which):
        part = self.array[which]
        self.largest = max(self.largest, len(part))
        return part

    def __array__(self, dtype=None, copy=None):
        return self[:]


def test_answers_are_the_same_in_pieces(folder, model, monkeypatch):
    """A model answers a piece at a time, in the form the bags have: to rounding of the sums."""
    monkeypatch.setattr(pieces, "PIECE_NUMBERS", 7 * 5 * 6)
    chunked = Chunked(X)
    arrays = [chunked, da.from_array(X, chunks=(17, 2, 3))]
    arrays.append(np.load(folder.parent / "whole.npy", mmap_mode="r"))
    lists = [at.open_bags(folder, TASK.target)]
    lists.append([np.load(path, mmap_mode="r") for path in lists[0].paths])
    for bags in [*arrays, *lists]:
        same = {"rtol": ROOT_EPS, "atol": ROOT_EPS}
        np.testing.assert_allclose(model.predict(bags), model.predict(X), **same)
        np.testing.assert_array_equal(model.locate(bags), model.locate(X))
        here = model.locate(bags, TASK.target)
        np.testing.assert_array_equal(here, model.locate(X, TASK.target))
        ends = model.predict_interval(bags, coverage=0.8)
        np.testing.assert_allclose(ends, model.predict_interval(X, 0.8), **same)
        np.testing.assert_allclose(model.attention(bags), model.attention(X), **same)
    assert all(model.attention(bags).shape == (80, 5) for bags in arrays)
    assert all(isinstance(model.attention(bags), list) for bags in lists)
    assert chunked.largest == 7
    with pytest.raises(AttnscopeError, match=r"shape \(80,\), got shape \(3,\)"):
        model.locate(chunked, TASK.target[:3])
    np.testing.assert_allclose(model.predict(Chunked(X[0])), model.predict(X)[:1], **same)
    with pytest.raises(AttnscopeError, match=r"an \(n, L, d\) array.*got shape \(6,\)"):
        model.predict(Chunked(X[0, 0]))


def test_what_does_not_fit_in_memory_is_said_before_it_is_read(folder, monkeypatch):
    monkeypatch.setattr(in_memory, "memory", lambda: 80.0 * 5 * 6 * 8)
    with pytest.raises(AttnscopeError, match="try fit_batches"):
        at.SingleLocationRegressor().fit(at.open_bags(folder, TASK.target))


def test_paths_are_as_given(folder):
    assert all(isinstance(path, Path) for path in at.open_bags(str(folder)).paths)
