"""The sweep engine in one process: grid, key, seed, rows, store, failures, refusals."""

from __future__ import annotations

import errno
import functools
import importlib
import json
import math
import os
import sys
import time
import zipfile
from enum import Enum
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import sweep_cells
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.errors import AttnscopeError
from attnscope.sweeps import store as store_module
from attnscope.sweeps.grid import expand
from attnscope.sweeps.key import code_version, make_cell, plain
from attnscope.sweeps.loaded import Fingerprint
from attnscope.sweeps.rows import checked_call
from attnscope.sweeps.run import dry_run, plan_cells, run, status, sweep
from attnscope.sweeps.store import Store, pack, unpack
from attnscope.sweeps.text import canonical, digest


def one_key(function, parameters, seed=0, version=""):
    return plan_cells(function, [parameters], seed, version)[0].key


# grid and frame


def test_product_is_in_grid_order_last_name_fastest(tmp_path):
    frame = sweep(sweep_cells.square, {"x": [2, 1], "scale": [1.0, 0.5]}, tmp_path)
    assert list(frame.columns) == ["x", "scale", "square"]
    assert frame.values.tolist() == [
        [2, 1.0, 4.0],
        [2, 0.5, 2.0],
        [1, 1.0, 1.0],
        [1, 0.5, 0.5],
    ]


def test_list_of_cells_keeps_order_and_doubles(tmp_path):
    report = run(sweep_cells.square, [{"x": 3}, {"x": 1, "scale": 2.0}, {"x": 3}], tmp_path)
    assert report.frame["square"].tolist() == [9.0, 2.0, 9.0]
    assert (report.cells, report.computed) == (2, 2)


def test_numpy_values_are_plain_and_share_their_key():
    cells = expand({"a": np.linspace(0, 1, 3), "b": [np.int64(2), np.bool_(True), (1, 2)]})
    assert cells[0] == {"a": 0.0, "b": 2} and type(cells[0]["b"]) is int
    assert cells[1]["b"] is True and cells[2]["b"] == [1, 2]
    assert one_key(sweep_cells.square, {"x": np.float64(0.1)}) == one_key(
        sweep_cells.square, {"x": 0.1}
    )


def test_several_rows_per_cell(tmp_path):
    frame = sweep(sweep_cells.logged, {"x": [1, 2], "scale": [1.0]}, tmp_path)
    assert frame["part"].tolist() == [0, 1, 0, 1] and frame["x"].tolist() == [1, 1, 2, 2]


def test_columns_keep_the_functions_order_when_reused(tmp_path):
    function = lambda x: {"zeta": x, "alpha": "s", "mid": x > 1}
    fresh = sweep(function, {"x": [1, 2]}, tmp_path)
    again = sweep(function, {"x": [1, 2]}, tmp_path)
    assert list(fresh.columns) == ["x", "zeta", "alpha", "mid"]
    pd.testing.assert_frame_equal(fresh, again, check_exact=True)


# key and seed

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(values, values)
def test_canonical_text_is_one_to_one_and_round_trips(a, b):
    a, b = plain(a, "a"), plain(b, "b")
    assert canonical(json.loads(canonical(a))) == canonical(a)
    # repr tells 1, 1.0, True and 0.0, -0.0 apart, where == does not; dicts are compared without
    # their order
    assert (canonical(a) == canonical(b)) == (_typed(a) == _typed(b))


def _typed(value):
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    return [_typed(item) for item in value] if isinstance(value, list) else repr(value)


def test_key_depends_on_what_is_computed_only(tmp_path):
    base = one_key(sweep_cells.noisy, {"x": 1})
    different = [
        one_key(sweep_cells.noisy, {"x": 1.0}),
        one_key(sweep_cells.noisy, {"x": "1"}),
        one_key(sweep_cells.noisy, {"x": True}),
        one_key(sweep_cells.noisy, {"x": 1}, seed=1),
        one_key(sweep_cells.noisy, {"x": 1}, version="2"),
        one_key(functools.partial(sweep_cells.noisy, seed=4), {"x": 1}),
    ]
    assert len({base, *different}) == 7
    assert one_key(sweep_cells.logged, {"x": 1, "scale": 2.0}) == one_key(
        sweep_cells.logged, {"scale": 2.0, "x": 1}
    )


def test_key_is_the_same_in_every_process_and_release():
    cell = make_cell(sweep_cells.noisy, {"x": 0.1}, 0, "v1", "source")
    facts = {
        "function": "helpers.sweep_cells.noisy",
        "parameters": {"x": 0.1},
        "sweep_seed": 0,
    }
    # written out by hand: a change of this text throws away every user's store
    text = '{"function":"helpers.sweep_cells.noisy","parameters":{"x":0.1},"sweep_seed":0}'
    assert canonical(facts) == text
    assert cell.call["seed"] == int(digest(text)[:8], 16)


def test_sweep_seed_is_ignored_by_a_function_without_seed():
    assert one_key(sweep_cells.square, {"x": 1}, seed=0) == one_key(
        sweep_cells.square, {"x": 1}, seed=1
    )


def test_seed_of_a_cell_does_not_depend_on_order_neighbours_or_version():
    def calls(grid, version=""):
        return {
            cell.parameters["x"]: cell.call["seed"]
            for cell in plan_cells(sweep_cells.noisy, grid, 0, version)
        }

    seeds = calls({"x": [1, 2, 3]})
    assert (
        seeds == calls({"x": [3, 2, 1]}, version="edited")
        and seeds[2] == calls({"x": [2]})[2]
    )
    assert len(set(seeds.values())) == 3 and all(0 <= seed < 2**32 for seed in seeds.values())


def test_seed_in_the_grid_or_bound_wins(tmp_path):
    cells = plan_cells(sweep_cells.noisy, {"x": [0], "seed": [7]}, 3)
    assert cells[0].call == {"x": 0, "seed": 7}
    bound = functools.partial(sweep_cells.noisy, seed=7)
    frames = [
        sweep(sweep_cells.noisy, {"x": [0], "seed": [7]}, tmp_path),
        sweep(bound, {"x": [0]}, tmp_path),
    ]
    assert frames[0]["draw"][0] == frames[1]["draw"][0]


def test_lambdas_of_one_line_are_told_apart(tmp_path):
    def times(b):
        return lambda x: {"y": b * x}

    same_line = [lambda x: {"y": x + 1}, lambda x: {"y": x + 2}]
    defaults = [lambda x, a=a: {"y": a * x} for a in (5, 7)]
    functions = [*same_line, *defaults, times(11), times(13)]
    assert [sweep(f, {"x": [2]}, tmp_path)["y"][0] for f in functions] == [
        3,
        4,
        10,
        14,
        22,
        26,
    ]


def test_closure_over_an_object_is_refused(tmp_path):
    thing = object()
    with pytest.raises(
        AttnscopeError, match=r"function of sweep must be a module-level function"
    ):
        sweep(lambda x: {"y": id(thing)}, {"x": [1]}, tmp_path)


def test_edited_source_changes_the_key_but_not_the_seed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    # its time stamp is too coarse for edits this close
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "edited_cells.py"
    file.write_text("def f(x, seed):\n    return {'y': x}\n")
    module = importlib.import_module("edited_cells")
    cells = []
    for body in ("return {'y': x}", "return {'y': x}  # the same", "return {'y': 1 * x}"):
        file.write_text(f"def f(x, seed):\n\n    {body}\n")
        importlib.reload(module)
        cells.append(plan_cells(module.f, {"x": [1]})[0])
    assert cells[0].call == cells[1].call == cells[2].call
    assert cells[0].key == cells[1].key != cells[2].key
    sys.modules.pop("edited_cells")


def test_code_version_follows_packages_and_modules(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "roomy"
    (package / "inner").mkdir(parents=True)
    for file in (
        package / "__init__.py",
        package / "inner" / "__init__.py",
        package / "inner" / "deep.py",
    ):
        file.write_text("a = 1\n")
    (tmp_path / "lonely.py").write_text("a = 1\n")
    first = code_version(["roomy", "lonely"])
    assert first == code_version(["lonely", "roomy"]) != code_version(["roomy"])
    (package / "inner" / "deep.py").write_bytes(b"a = 1\r\n")
    assert code_version(["roomy", "lonely"]) == first
    (package / "inner" / "deep.py").write_text("a = 2\n")
    assert code_version(["roomy", "lonely"]) != first
    for refused in (["no_such_room"], ["math"], "roomy"):
        with pytest.raises(AttnscopeError, match="code_version must be"):
            code_version(refused)


def test_worker_with_other_source_is_refused():
    other = Fingerprint("another hash", {"helpers.sweep_cells.square": "other code"})
    with pytest.raises(
        AttnscopeError,
        match=(
            r"same code of helpers\.sweep_cells\.square .* of function, "
            r"helpers\.sweep_cells\.square;"
        ),
    ):
        checked_call(sweep_cells.square, other, x=1)


# results


def test_nan_is_kept_as_missing_and_named(tmp_path):
    function = lambda x: {"y": math.nan if x == 1 else float(x), "z": np.float64(np.inf)}
    with pytest.warns(UserWarning, match="NaN, kept as a missing value: y in 1 rows"):
        frame = sweep(function, {"x": [0, 1]}, tmp_path)
    assert frame["y"].isna().tolist() == [False, True] and frame["z"].tolist() == [
        math.inf,
        math.inf,
    ]
    assert run(function, {"x": [0, 1]}, tmp_path).undefined == {"y": 1}


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (3.0, "a flat dict or a non-empty list of flat dicts, got 3.0"),
        (None, "a flat dict or a non-empty list of flat dicts, got None"),
        ([], "a non-empty list"),
        ([{"a": 1}, 2], "a non-empty list of flat dicts"),
        (
            {"a": [1, 2]},
            r"result 'a' of the function given to sweep must be a number, string or bool, got "
            r"\[1, 2\]",
        ),
        ({"a": np.zeros(2)}, "result 'a'"),
        ({"a": 1j}, "result 'a'"),
        ({"a": Colour.RED}, "result 'a'"),
        ({1: 2}, "a result's name"),
        (
            {"x": 5},
            "result 'x' of the function given to sweep must be named unlike its parameters",
        ),
    ],
)
def test_other_results_are_refused_in_a_sentence(tmp_path, result, sentence, monkeypatch):
    monkeypatch.setattr(
        sweep_cells, "square", functools.wraps(sweep_cells.square)(lambda x: result)
    )
    with pytest.raises(AttnscopeError, match=sentence):
        sweep(sweep_cells.square, {"x": [1]}, tmp_path)
    assert not list(tmp_path.glob("*.npz"))


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


# store


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
    for seconds in (store_module.SYNC_FROM, 0.001):
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


# failures


def test_failures_are_recorded_reported_and_never_cached(tmp_path):
    grid = {"x": [1, 2, 3, 4]}
    with pytest.warns(
        UserWarning,
        match=r"1 of 4 cells failed .* ZeroDivisionError: three is refused at {'x': 3}",
    ):
        frame = sweep(sweep_cells.fails_on_three, grid, tmp_path)
    assert frame["x"].tolist() == [1, 2, 4]
    now = status(sweep_cells.fails_on_three, grid, tmp_path)
    assert (now.cells, now.done, now.failed, now.missing) == (4, 3, 1, 0)
    assert "raise ZeroDivisionError" in now.failures[0].traceback
    assert (
        "raise ZeroDivisionError"
        in json.loads(Path(now.failures[0].file).read_text())["traceback"]
    )
    report = run(sweep_cells.fails_on_three, grid, tmp_path)
    assert (report.reused, report.computed, len(report.failures)) == (3, 0, 1)


def test_a_cell_that_recovers_loses_its_failure_record(tmp_path):
    flag = tmp_path / "flag"
    flag.write_text("")
    grid = {"x": [0, 1], "flag": [str(flag)]}
    assert len(run(sweep_cells.fails_while, grid, tmp_path / "runs").failures) == 1
    flag.unlink()
    report = run(sweep_cells.fails_while, grid, tmp_path / "runs")
    assert (report.reused, report.computed, report.failures) == (1, 1, ())
    assert not list((tmp_path / "runs").glob("*.failed.json"))


def test_all_cells_failing_is_an_error(tmp_path):
    with pytest.raises(
        AttnscopeError,
        match=r"all 1 cells of sweep failed, the first with: ZeroDivisionError",
    ):
        sweep(sweep_cells.fails_on_three, {"x": [3]}, tmp_path)


def test_a_cell_that_exits_is_a_failure(tmp_path):
    report = run(lambda x: sys.exit("bye") if x else {"y": 1}, {"x": [0, 1]}, tmp_path)
    assert report.failures[0].error == "SystemExit: bye"


def test_interrupt_keeps_what_is_stored_and_says_how_to_resume(tmp_path):
    def stops(x):
        if x == 2:
            raise KeyboardInterrupt
        return {"y": x}

    with pytest.raises(
        KeyboardInterrupt,
        match=r"2 of 4 cells are stored in .*: run the same sweep again to resume",
    ):
        sweep(stops, {"x": [0, 1, 2, 3]}, tmp_path)
    assert status(stops, {"x": [0, 1, 2, 3]}, tmp_path).done == 2


# status and dry run


def test_status_and_dry_run_write_nothing(tmp_path):
    store = tmp_path / "absent"
    assert status(sweep_cells.square, {"x": [1, 2]}, store).missing == 2
    plan = dry_run(sweep_cells.square, {"x": [1, 2]}, store)
    assert (plan.cells, plan.done, plan.todo, plan.seconds, plan.measured_on) == (
        2,
        0,
        2,
        None,
        0,
    )
    assert not store.exists()


def test_dry_run_estimates_from_stored_durations(tmp_path):
    place = Store(tmp_path)
    place.prepare()
    cells = plan_cells(sweep_cells.square, {"x": list(range(10))})
    for cell, seconds in zip(cells[:2], [1.0, 3.0]):
        record = {
            "function": "helpers.sweep_cells.square",
            "call": cell.call,
            "rows": [{"square": 0.0}],
            "seconds": seconds,
        }
        place.put(cell.key, record)
    plan = dry_run(sweep_cells.square, {"x": list(range(10))}, tmp_path, workers=2)
    assert (plan.todo, plan.seconds, plan.measured_on) == (8, 8 * 2.0 / 2, 2)
    # another version of the function
    other = dry_run(sweep_cells.square, {"x": [100, 101]}, tmp_path, version="new")
    assert (other.todo, other.seconds, other.measured_on) == (2, 4.0, 2)
    assert dry_run(sweep_cells.noisy, {"x": [1]}, tmp_path).seconds is None


# refusals before anything runs


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ({}, "grid of sweep must be non-empty"),
        ([], "grid of sweep must be non-empty"),
        ({"x": []}, "grid of sweep must be non-empty"),
        ("x", "grid of sweep must be a dict of lists or a list of dicts"),
        ({"x": 1}, "values of 'x' of the grid of sweep must be a list, got 1"),
        ({"x": "ab"}, "values of 'x'"),
        ([1], "a cell of the grid of sweep must be a dict"),
        ({3: [1]}, "a parameter name"),
        ({"x": [object()]}, "parameter 'x' of sweep must be a bool, number, string"),
        ({"x": [np.zeros(2)]}, "parameter 'x' of sweep"),
        ({"x": [1j]}, "parameter 'x' of sweep"),
        ({"x": [{1: 2}]}, "parameter 'x' of sweep"),
        ({"x": [math.nan]}, "parameter 'x' of sweep must be a number, got nan"),
        ({"x": [1], "colour": [2]}, "unexpected keyword argument 'colour'"),
        ({"scale": [1.0]}, "missing a required argument: 'x'"),
    ],
)
def test_bad_grids_are_refused_in_a_sentence(tmp_path, grid, sentence):
    with pytest.raises(AttnscopeError, match=sentence):
        sweep(sweep_cells.square, grid, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"workers": 0}, "workers of sweep must be a whole number >= 1"),
        ({"workers": 1.5}, "workers of sweep"),
        ({"workers": True}, "workers of sweep"),
        ({"workers": 2, "scheduler": "tcp://a:1"}, "workers or scheduler, got both"),
        ({"scheduler": 8786}, "scheduler of sweep must be the address"),
        ({"seed": 1.0}, "seed of sweep must be a whole number"),
        ({"version": 3}, "version of sweep must be a string"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(tmp_path, options, sentence):
    with pytest.raises(AttnscopeError, match=sentence):
        sweep(sweep_cells.square, {"x": [1]}, tmp_path / "runs", **options)


@pytest.mark.parametrize("function", [3, "square", [].append, Store("runs").get, print])
def test_functions_without_a_name_of_their_own_are_refused(tmp_path, function):
    with pytest.raises(AttnscopeError, match="of sweep must"):
        sweep(function, {"x": [1]}, tmp_path)
