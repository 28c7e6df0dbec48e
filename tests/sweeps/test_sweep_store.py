"""The store of a sweep: exact results, damage, leftovers, a full disk, forbidden places."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import sweep_cells
from helpers.commands import run as command
from helpers.paths import ROOT
from helpers.sweep_keys import one_key

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.sweeps import store as store_module
from attnscope.sweeps.run import plan_cells, run, status, sweep
from attnscope.sweeps.store import Store, pack, unpack


def test_results_round_trip_exactly(tmp_path):
    row = {
        "tiny": 5e-324,
        "third": 1 / 3,
        "big": 2**80,
        "neg": -0.0,
        "word": 'é "\n',
        "yes": True,
    }
    row32 = {"f32": np.float32(0.1), "zero_d": np.array(2.5), "i": np.int8(-3)}
    record = {"rows": [row], "key": "k"}
    assert repr(unpack(pack(record))) == repr(record)
    function = lambda x: row32
    fresh, again = (sweep(function, {"x": [1]}, tmp_path) for _ in range(2))
    pd.testing.assert_frame_equal(fresh, again, check_exact=True)
    assert again["f32"][0] == float(np.float32(0.1)) and again["i"][0] == -3


def test_result_file_is_an_npz_without_pickle(tmp_path):
    sweep(sweep_cells.square, {"x": [3]}, tmp_path)
    (file,) = tmp_path.iterdir()
    with np.load(file, allow_pickle=False) as arrays:
        record = json.loads(arrays["record"].tobytes())
    assert (
        record["rows"] == [{"square": 9.0}]
        and record["key"] == file.stem
        and record["call"] == {"x": 3}
    )
    assert zipfile.ZipFile(file).testzip() is None


def test_every_truncation_and_every_altered_byte_is_seen():
    content = pack({"key": "k", "rows": [{"y": 1.0}]})
    assert unpack(content) is not None
    assert all(unpack(content[:length]) is None for length in range(len(content)))
    for place in range(len(content)):
        altered = bytearray(content)
        altered[place] ^= 1
        assert unpack(bytes(altered)) is None
    assert unpack(content + b" ") is None


def test_damaged_and_misplaced_files_are_computed_again(tmp_path):
    expected = sweep(sweep_cells.square, {"x": [1, 2, 3, 4]}, tmp_path)
    cells = plan_cells(sweep_cells.square, {"x": [1, 2, 3, 4]})
    files = [tmp_path / f"{cell.key}.npz" for cell in cells]
    files[0].write_bytes(files[0].read_bytes()[:-7])
    files[1].write_bytes(files[1].read_bytes().replace(b"4.0", b"5.0"))
    files[2].write_bytes(files[3].read_bytes())  # whole, but another cell's
    assert status(sweep_cells.square, {"x": [1, 2, 3, 4]}, tmp_path).missing == 3
    with pytest.warns(UserWarning, match="3 stored results were truncated or altered"):
        frame = sweep(sweep_cells.square, {"x": [1, 2, 3, 4]}, tmp_path)
    pd.testing.assert_frame_equal(frame, expected, check_exact=True)
    report = run(sweep_cells.square, {"x": [1, 2, 3, 4]}, tmp_path)
    assert (report.reused, report.computed, report.damaged) == (4, 0, 0)


def test_leftovers_are_ignored_and_removed_when_stale(tmp_path):
    key = one_key(sweep_cells.square, {"x": 1})
    old = tmp_path / f".{key}.npz.aa.tmp"
    young = tmp_path / f".{key}.npz.bb.tmp"
    for file in (old, young):
        file.write_bytes(b"half a res")
    os.utime(old, (time.time() - 4000,) * 2)
    assert sweep(sweep_cells.square, {"x": [1]}, tmp_path)["square"].tolist() == [1.0]
    assert not old.exists() and young.exists()


def test_a_cell_stored_by_another_sweep_meanwhile_is_not_computed(tmp_path):
    store = str(tmp_path / "runs")
    log = tmp_path / "log"
    other = tmp_path / "key"

    def visited(x, log=str(log), other=str(other)):
        with open(log, "a") as file:
            file.write(f"{x} ")
        if x == 1:  # another sweep finishes x = 2 while this one computes x = 1
            key = Path(other).read_text()
            Store(store).put(
                key, {"function": "f", "call": {"x": 2}, "rows": [{"y": 20}], "seconds": 0.0}
            )
        return {"y": 10 * x}

    grid = {"x": [1, 2, 3]}
    other.write_text(plan_cells(visited, grid)[1].key)
    assert (
        sweep(visited, grid, store)["y"].tolist() == [10, 20, 30]
        and log.read_text() == "1 3 "
    )


def test_full_disk_is_a_sentence_and_nothing_is_lost(tmp_path, monkeypatch):
    grid = {"x": list(range(6))}
    write = store_module._write
    calls = []

    def full(path, content):
        calls.append(path)
        write(path, content[:10] if len(calls) == 3 else content)
        if len(calls) == 3:  # the third cell finds no room for all of it
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_module, "_write", full)
    with pytest.raises(
        AttnscopeError, match=r"full disk .* what was stored is kept: .* to resume"
    ):
        sweep(sweep_cells.square, grid, tmp_path)
    monkeypatch.undo()
    assert status(sweep_cells.square, grid, tmp_path).done == 2 and not list(
        tmp_path.glob(".*")
    )
    assert run(sweep_cells.square, grid, tmp_path).reused == 2


def test_costly_cells_are_synced_to_disk_before_and_after_the_rename(tmp_path, monkeypatch):
    events = []
    fsync = os.fsync
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append("fsync"), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append("replace"), replace(a, b)))
    for seconds in (store_module.SYNC_FROM_SECONDS, 0.001):
        Store(tmp_path).put("k", {"rows": [], "seconds": seconds})
        events.append("end")
    assert events == ["fsync", "replace", "fsync", "end", "replace", "end"]


@pytest.mark.parametrize("place", ["a file", "under a file", "forbidden"])
def test_unwritable_store_is_a_sentence(tmp_path, place, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    store = {"a file": file, "under a file": file / "runs", "forbidden": tmp_path / "no"}[
        place
    ]
    if place == "forbidden":  # tests may run as root, whom no mode of a folder stops

        def refuse(path, content):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(store_module, "_write", refuse)
    with pytest.raises(
        AttnscopeError,
        match=r"store of sweep must be a folder that can be written, got .*; try",
    ):
        sweep(sweep_cells.square, {"x": [1]}, store)


@pytest.mark.filterwarnings("ignore:temperature is now")
def test_results_of_older_versions_are_kept_and_a_sentence_says_that_they_are_not_reused(
    tmp_path,
):
    old = ROOT / "tests" / "data" / "version_0_2_0"
    shutil.copytree(old / "store", tmp_path / "runs")
    before = {file.name: file.read_bytes() for file in (tmp_path / "runs").iterdir()}
    where = ("--store", tmp_path / "runs", "--out", tmp_path)
    code, printed, said = command("sweep", old / "study.toml", *where)
    assert code == 0 and "2 cells, 0 from the store, 2 computed" in printed
    assert "results of attnscope 0.1 or 0.2, which are kept but not reused" in said
    after = {file.name: file.read_bytes() for file in (tmp_path / "runs").iterdir()}
    assert len(after) == 4 and after.items() >= before.items()
    code, printed, said = command("sweep", old / "study.toml", *where)
    assert "2 from the store" in printed and said == ""


@pytest.mark.filterwarnings("ignore:temperature is now")
def test_the_command_keeps_cells_of_another_version_if_told_so(tmp_path, monkeypatch):
    study = ROOT / "tests" / "data" / "version_0_2_0" / "study.toml"
    where = ("--store", tmp_path / "runs", "--out", tmp_path)
    assert command("sweep", study, *where)[0] == 0
    monkeypatch.setattr(at, "__version__", "9.9")
    assert "0 done, 2 to compute" in command("sweep", study, *where, "--dry-run")[1]
    assert "2 from the store" in command("sweep", study, *where, "--accept-code")[1]
