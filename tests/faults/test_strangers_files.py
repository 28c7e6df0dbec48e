"""Files that a stranger sends: they open no other file, and their size is known before they are read."""

import numpy as np
import pandas as pd
import pytest
from helpers.commands import run

import attnscope as at
from attnscope.estimators.bags.open_bags import open_bags
from attnscope.numerics.border import array_files

SECRET = np.arange(20.0).reshape(5, 4)
MEMORY = 2.0**23  # bytes; an eighth of it, 1 MiB, is the limit


@pytest.fixture
def small_memory(monkeypatch):
    monkeypatch.setattr(array_files, "memory", lambda: MEMORY)


def refused(path, tmp_path, *parts, labelled=True):
    """Check that every reader refuses the file in one sentence with these parts."""
    labels = tmp_path / "labels.csv"
    labels.write_text("bag,y\ndata,1\n")
    more = ("--labels", labels) if labelled else ()
    code, printed, said = run("fit", path, "--out", tmp_path / "m.npz", *more)
    assert (code, printed) == (2, "") and said.startswith("error: "), said
    assert all(part in said for part in parts), said
    assert len(said) < 700 and "\n" not in said.strip()
    if labelled:
        with pytest.raises(at.AttnscopeError):
            open_bags(path)
    assert not (tmp_path / "m.npz").exists()


def link_outside(file, name, other):
    h5py = pytest.importorskip("h5py")
    file[name] = h5py.ExternalLink(other, "/features")


def link_to_link_outside(file, name, other):
    h5py = pytest.importorskip("h5py")
    file["hidden"] = h5py.ExternalLink(other, "/")
    file[name] = h5py.SoftLink("/hidden/features")


def virtual(file, name, other):
    h5py = pytest.importorskip("h5py")
    layout = h5py.VirtualLayout(shape=SECRET.shape, dtype=SECRET.dtype)
    layout[:] = h5py.VirtualSource(other, "features", shape=SECRET.shape)
    file.create_virtual_dataset(name, layout)


def external_bytes(file, name, other):
    file.create_dataset(name, SECRET.shape, "f8", external=[(other, 0, SECRET.nbytes)])


def external_in_parent(file, name, other):
    """As a soft link to a dataset whose numbers are elsewhere."""
    external_bytes(file, "raw", other)
    h5py = pytest.importorskip("h5py")
    file[name] = h5py.SoftLink("/raw")


OTHER_FILES = {
    "external link": (link_outside, "an external link"),
    "soft link to an external link": (link_to_link_outside, "an external link"),
    "virtual dataset": (virtual, "a virtual dataset"),
    "raw storage": (external_bytes, "external raw storage"),
    "soft link to raw storage": (external_in_parent, "external raw storage"),
}


@pytest.mark.parametrize("name", ["features", "coords", "group/features", "group/coords"])
@pytest.mark.parametrize("what", OTHER_FILES)
def test_h5_that_reads_another_file_is_refused(what, name, tmp_path):
    h5py = pytest.importorskip("h5py")
    other = tmp_path / "other.dat"
    with h5py.File(other, "w") as file:
        file["features"] = SECRET
    path = tmp_path / "data.h5"
    write, words = OTHER_FILES[what]
    with h5py.File(path, "w") as file:
        if "coords" in name:
            file[name.replace("coords", "features")] = SECRET
        file.require_group("group")
        write(file, name, other.name)
    refused(path, tmp_path, f" of {path} must be in that file itself", words, "other.dat")


def test_h5_whose_group_is_elsewhere_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "other.dat", "w") as file:
        file["features"] = SECRET
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["group"] = h5py.ExternalLink(str(tmp_path / "other.dat"), "/")
    refused(path, tmp_path, "group of", "an external link")


def test_h5_that_changes_after_opening_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["features"] = SECRET
    bags = open_bags(path)
    with h5py.File(tmp_path / "other.dat", "w") as file:
        file["features"] = SECRET
    with h5py.File(path, "w") as file:
        link_outside(file, "features", str(tmp_path / "other.dat"))
    with pytest.raises(at.AttnscopeError, match="an external link"):
        bags[0]


def test_soft_links_within_the_file_are_followed(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["group/tokens"] = SECRET
        file["group/features"] = h5py.SoftLink("tokens")
        file["again"] = h5py.SoftLink("/group")
    found = open_bags(path)
    assert found.names.tolist() == ["data:again", "data:group"]
    assert all((tokens == SECRET).all() for tokens in found)


def test_links_in_a_circle_are_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["features"] = h5py.SoftLink("/other")
        file["other"] = h5py.SoftLink("/features")
    refused(path, tmp_path, "in a circle")


@pytest.mark.parametrize(
    ("shape", "chunks", "what"),
    [
        ((10**9, 1000), (100, 1000), "features"),
        ((3, 10**9, 1000), (1, 100, 1000), "features"),
        ((10**9, 1, 2), (1000, 1, 2), "the list of all bags"),
        ((5, 4), (2**20, 4), "a chunk of features"),
    ],
)
def test_h5_that_says_more_than_memory_is_refused_unread(
    shape, chunks, what, tmp_path, small_memory
):
    """Datasets that were never written: some kilobytes of file."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        unlimited = (None,) * len(shape)
        file.create_dataset("features", shape, "f8", chunks=chunks, maxshape=unlimited)
    refused(path, tmp_path, str(path), what, "an eighth of this machine's memory")


def test_npy_and_npz_larger_than_the_limit_are_refused_unread(tmp_path, small_memory):
    large = np.zeros((2**18, 1))  # 2 MiB
    np.save(tmp_path / "data.npy", large)
    refused(tmp_path / "data.npy", tmp_path, "an eighth of this machine's memory")
    np.savez_compressed(tmp_path / "data.npz", features=large)
    refused(tmp_path / "data.npz", tmp_path, "an eighth of this machine's memory")
    refused(tmp_path / "data.npz", tmp_path, "fits into memory", labelled=False)


def test_parquet_of_many_equal_rows_is_refused_unread(tmp_path, small_memory):
    """Equal rows take no place in the file."""
    pytest.importorskip("pyarrow")
    path = tmp_path / "data.parquet"
    table = pd.DataFrame({"bag": 1, "y": 1.0, "a": 0.5}, index=range(100_000))
    table.to_parquet(path, index=False)
    assert path.stat().st_size < 50_000
    refused(path, tmp_path, "the table of", "an eighth", labelled=False)


def test_parquet_of_many_equal_texts_is_refused_unread(tmp_path, small_memory):
    pytest.importorskip("pyarrow")
    path = tmp_path / "data.parquet"
    table = pd.DataFrame({"bag": "b" * 10_000, "y": 1.0, "a": 0.5}, index=range(2000))
    table.to_parquet(path, index=False)
    assert path.stat().st_size < 100_000
    refused(path, tmp_path, "the text of", "an eighth", labelled=False)


@pytest.mark.parametrize("depth", [1, 2])
def test_parquet_of_large_lists_is_refused_unread(depth, tmp_path, small_memory):
    pytest.importorskip("pyarrow")
    path = tmp_path / "data.parquet"
    token = [0.5] * 100
    rows = [token] * 2000 if depth == 1 else [[token] * 1000] * 2
    pd.DataFrame({"features": rows}).to_parquet(path)
    refused(path, tmp_path, "a row group of", "an eighth")


def test_names_of_very_different_lengths_are_refused(tmp_path, small_memory):
    """An array of names is as wide as the longest."""
    path = tmp_path / "data.csv"
    rows = "".join(f"{i},1,0.5\n" for i in range(2000))
    path.write_text(f"bag,y,a\n{rows}{'b' * 1000},1,0.5\n")
    refused(path, tmp_path, "bag of the table", "an eighth", labelled=False)


def test_files_within_the_limit_are_read(tmp_path, small_memory):
    path = tmp_path / "data.parquet"
    np.save(tmp_path / "a.npy", SECRET)
    np.savez(tmp_path / "b.npz", features=SECRET)
    assert [tokens.shape for tokens in open_bags(tmp_path)] == [SECRET.shape] * 2
    pytest.importorskip("pyarrow")
    pd.DataFrame({"features": SECRET.tolist()}).to_parquet(path)
    assert (open_bags(path)[0] == SECRET).all()


def test_a_device_is_never_read(tmp_path):
    path = tmp_path / "data.npz"
    path.symlink_to("/dev/zero")
    with pytest.raises(at.AttnscopeError, match="must be a file, got a device or a pipe"):
        open_bags(path)
