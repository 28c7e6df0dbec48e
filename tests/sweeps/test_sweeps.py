"""The sweep engine in one process: grid, rows, failures, status, refusals."""

from __future__ import annotations

import functools
import json
import math
import sys
from enum import Enum
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers import sweep_cells
from helpers.sweep_keys import one_key

from attnscope.errors import AttnscopeError
from attnscope.sweeps.grid import expand
from attnscope.sweeps.run import dry_run, plan_cells, run, status, sweep
from attnscope.sweeps.store import Store

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
        sweep(sweep_cells.square, {"x": [1]}, tmp_path, version="1")
    assert not list(tmp_path.glob("*.npz"))


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
