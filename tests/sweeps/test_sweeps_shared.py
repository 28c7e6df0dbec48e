"""Sweeps that share a store, cells that take too long, and grids larger than memory."""

import os
import socket
import subprocess
import sys
import time
import tracemalloc
from functools import partial
from types import SimpleNamespace

import pytest
from helpers import sweep_cells
from helpers.commands import run as command
from helpers.paths import ROOT
from helpers.patience import HANG

from attnscope.errors import AttnscopeError
from attnscope.sweeps import cell_locks, processes
from attnscope.sweeps.cell_locks import CellLocks
from attnscope.sweeps.grid import Product
from attnscope.sweeps.key import product_keys
from attnscope.sweeps.run import dry_run, plan_cells, run, status, sweep
from attnscope.sweeps.source import fingerprint
from attnscope.sweeps.store import Store

GRID = {"x": list(range(120)), "scale": [0.1]}
SHARER = """
import sys
from helpers import sweep_cells
from attnscope.sweeps.run import run
grid = {"x": list(range(120)), "scale": [0.1]}
print(run(sweep_cells.logged, grid, sys.argv[1], progress=False).computed)
"""


def test_two_sweeps_on_one_store_share_its_cells(tmp_path):
    """Each cell is computed once: the log has a line for every execution."""
    log = tmp_path / "log"
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": paths, "SWEEP_LOG": str(log)}
    command = [sys.executable, "-c", SHARER, str(tmp_path / "runs")]
    sweeps = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    computed = [int(sweep.communicate(timeout=HANG)[0]) for sweep in sweeps]
    assert sum(computed) == 120
    assert sorted(map(int, log.read_text().split())) == list(range(120))
    assert not list((tmp_path / "runs").glob(".*"))


class Clock:
    """Seconds that pass only while somebody sleeps by it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


ANOTHER_MACHINE = "1 another-machine"
WRONG_CLOCKS = [-36_000, 0, 36_000]  # seconds by which the owner's clock is off


def lease_from_elsewhere(folder, key, clock_error=0.0):
    folder.mkdir(exist_ok=True)
    path = folder / f".{key}.claim"
    path.write_text(ANOTHER_MACHINE)
    os.utime(path, (time.time() + clock_error,) * 2)
    return path


def test_a_lease_is_taken_once_and_again_when_nobody_renews_it(tmp_path):
    clock = Clock()
    with CellLocks(tmp_path) as ours, CellLocks(tmp_path, clock) as theirs:
        assert ours.take("a")
        assert not theirs.take("a")
        clock.sleep(cell_locks.STALE_LOCK_SECONDS - 1)
        assert not theirs.take("a")
        clock.sleep(2)
        assert theirs.take("a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("clock_error", WRONG_CLOCKS)
def test_a_lease_is_judged_by_whether_it_changes_and_not_by_its_time(tmp_path, clock_error):
    """The owner renews it with a clock that is hours off, then is killed."""
    path = lease_from_elsewhere(tmp_path, "a", clock_error)
    clock = Clock()
    locks = CellLocks(tmp_path, clock)
    for turn in range(20):
        clock.sleep(cell_locks.STALE_LOCK_SECONDS - 1)
        os.utime(path, (time.time() + clock_error + turn,) * 2)
        assert not locks.take("a")
    clock.sleep(cell_locks.STALE_LOCK_SECONDS + 1)
    assert locks.take("a")


@pytest.mark.parametrize("clock_error", WRONG_CLOCKS)
def test_a_sweep_goes_on_within_90_seconds_of_the_death_of_an_owner_elsewhere(
    tmp_path, monkeypatch, clock_error
):
    key = plan_cells(sweep_cells.square, {"x": [2]})[0].key
    path = lease_from_elsewhere(tmp_path / "runs", key, clock_error)
    clock = Clock()
    monkeypatch.setattr("attnscope.sweeps.run.CellLocks", partial(CellLocks, clock=clock))
    monkeypatch.setattr(
        "attnscope.sweeps.run.time",
        SimpleNamespace(sleep=clock.sleep, perf_counter=time.perf_counter),
    )
    report = run(sweep_cells.square, {"x": [1, 2, 3]}, tmp_path / "runs", progress=False)
    assert report.computed == 3 and not path.exists()
    assert cell_locks.STALE_LOCK_SECONDS <= clock.now < 90


def test_a_live_lease_from_a_machine_whose_clock_is_behind_is_left_alone(tmp_path):
    path = lease_from_elsewhere(tmp_path, "a", -36_000)
    Store(tmp_path).prepare()
    assert path.exists()


def test_a_lease_of_a_process_that_has_ended_holds_nobody_up(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    (tmp_path / ".a.claim").write_text(f"{process.pid} {socket.gethostname()}")
    (tmp_path / ".b.claim").write_text(f"{process.pid} another-machine")
    with CellLocks(tmp_path) as ours:
        assert ours.take("a")
        assert not ours.take("b")


def test_a_lease_is_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr(cell_locks, "RENEWAL_SECONDS", 0.01)
    with CellLocks(tmp_path) as ours:
        ours.take("a")
        path = tmp_path / ".a.claim"
        os.utime(path, (0, 0))
        while path.stat().st_mtime == 0:
            pass


def test_a_sweep_waits_for_what_another_computes_and_takes_what_is_left(
    tmp_path, monkeypatch
):
    cells = plan_cells(sweep_cells.square, {"x": [1, 2, 3]})
    monkeypatch.setattr(cell_locks, "STALE_LOCK_SECONDS", 0.5)
    dead = CellLocks(tmp_path / "runs")
    dead.folder.mkdir()
    dead.take(cells[1].key)  # not renewed: its context was never entered
    report = run(sweep_cells.square, {"x": [1, 2, 3]}, tmp_path / "runs", progress=False)
    assert report.computed == 3


def test_a_cell_that_takes_too_long_fails_and_the_others_go_on(tmp_path, monkeypatch):
    """The clock is put forward once the endless cell has begun: no other can be late."""
    log = tmp_path / "log"
    begun = lambda: log.exists() and "2" in log.read_text().split()
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + (2 * HANG if begun() else 0))
    monkeypatch.setattr(processes, "time", clock)
    monkeypatch.setattr(processes._Pool, "patience", lambda pool: 0.05)
    grid = {"x": [1, 2, 3, 4, 5], "log": [str(log)]}
    store = tmp_path / "runs"
    report = run(
        sweep_cells.endless_on_two, grid, store, workers=1, timeout=HANG, progress=False
    )
    assert sorted(report.frame["x"]) == [1, 3, 4, 5]
    assert [failure.error for failure in report.failures] == [
        f"the cell took longer than its {HANG:g} s"
    ]
    assert status(sweep_cells.endless_on_two, grid, store).failed == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"timeout": 5.0}, "together with workers or a scheduler, got 5 in this process"),
        ({"timeout": 0, "workers": 1}, "a number of seconds > 0, got 0"),
        ({"timeout": float("nan"), "workers": 1}, "a number of seconds > 0"),
        ({"timeout": "1", "workers": 1}, "a number of seconds > 0"),
    ],
)
def test_a_wrong_time_limit_is_one_sentence(given, said, tmp_path):
    with pytest.raises(AttnscopeError, match=said):
        run(sweep_cells.square, {"x": [1]}, tmp_path, **given)


def test_a_million_cells_are_counted_without_making_them(tmp_path):
    grid = {"x": list(range(1000)), "scale": [0.5 * i for i in range(1000)]}
    tracemalloc.start()
    plan = dry_run(sweep_cells.square, grid, tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (plan.cells, plan.todo, plan.done) == (10**6, 10**6, 0)
    assert peak < 5_000_000  # the list of cells takes 800 MB


def test_a_plan_counts_what_is_stored_once(tmp_path):
    run(sweep_cells.square, {"x": [1, 2, 3]}, tmp_path, progress=False)
    plan = dry_run(sweep_cells.square, {"x": [2, 3, 4, 4]}, tmp_path)
    assert (plan.cells, plan.done, plan.todo) == (3, 2, 1)
    plan = dry_run(sweep_cells.square, [{"x": 3}, {"x": 9}, {"x": 9}], tmp_path)
    assert (plan.cells, plan.done, plan.todo) == (2, 1, 1)


def test_a_product_is_the_list_of_its_cells():
    cells = Product({"a": [1, 2], "b": ["x", "y", "z"], "c": [0.5]})
    assert [cells[i] for i in range(6)] == list(cells)
    assert cells[-1] == {"a": 2, "b": "z", "c": 0.5}
    assert cells[1:3] == list(cells)[1:3]
    assert list(cells[0]) == ["a", "b", "c"]
    with pytest.raises(IndexError):
        cells[6]


@pytest.mark.parametrize(
    ("function", "axes", "seed"),
    [
        (sweep_cells.square, {"x": [1, 1.0, True, "1"], "scale": [0.1, None]}, None),
        (sweep_cells.noisy, {"x": [[1, {"b": 1, "a": '\u00e9"'}], float("inf")]}, 7),
        (sweep_cells.noisy, {"x": [1, 2], "seed": [3, 4]}, 7),
        (partial(sweep_cells.square, scale=0.5), {"x": [1, 2]}, None),
    ],
)
def test_keys_of_a_product_are_those_of_its_cells(function, axes, seed):
    """Two routes to a key: the text joined of its pieces, and the JSON of the whole."""
    code = fingerprint(function.func if isinstance(function, partial) else function, "v")
    cells = plan_cells(function, axes, seed or 0, "v")
    assert list(product_keys(function, axes, seed, "v", code.hash)) == [c.key for c in cells]


def test_the_state_of_a_sweep_is_that_of_its_cells_one_by_one(tmp_path):
    """Done, failed, damaged and not begun, with values that stand twice."""
    grid = {"x": [1, 2, 3, 4, 5, 5]}
    with pytest.warns(UserWarning, match="cells failed"):
        sweep(sweep_cells.fails_on_three, {"x": [1, 2, 3, 9]}, tmp_path, progress=False)
    keys = {cell.key: cell for cell in plan_cells(sweep_cells.fails_on_three, grid)}
    (tmp_path / f"{list(keys)[1]}.npz").write_bytes(b"damaged")
    place = Store(tmp_path)
    done = sum(place.get(key) is not None for key in keys)
    failed = [keys[key].parameters for key in keys if place.failure(key) is not None]
    for same in (grid, [{"x": x} for x in grid["x"]]):
        now = status(sweep_cells.fails_on_three, same, tmp_path)
        assert (now.cells, now.done, now.failed, now.missing) == (5, 1, 1, 3)
        assert (now.done, [f.parameters for f in now.failures]) == (done, failed)


def test_a_store_that_cannot_be_listed_is_a_sentence(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for look in (status, dry_run):
        with pytest.raises(AttnscopeError, match="cannot be read"):
            look(sweep_cells.square, {"x": [1]}, loop)


@pytest.mark.slow
@pytest.mark.parametrize("look", [status, dry_run])
def test_a_million_cells_are_looked_up_in_little_memory(look, tmp_path):
    """With cells in the store, of this sweep and of another, keys are made and not kept."""
    grid = {"x": list(range(1000)), "scale": [0.5 * i for i in range(1000)]}
    some = {"x": [3, 500, 5000], "scale": [0.5, 7.5]}
    run(sweep_cells.square, some, tmp_path, progress=False)
    tracemalloc.start()
    found = look(sweep_cells.square, grid, tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.cells, found.done) == (10**6, 4)
    assert peak < 5_000_000  # as where nothing is stored


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--status", "--dry-run"])
def test_the_command_looks_up_a_million_cells(flag, tmp_path):
    axes = "dim = { from = 10, to = 1009, count = 1000, whole = true }\n"
    few = 'function = "oracle_risk"\n[grid]\ndim = [10, 11, 5]\n[fixed]\nlength = 2\n'
    many = axes + "length = { from = 2, to = 1001, count = 1000, whole = true }\n"
    for name, text in (("few", few), ("many", f'function = "oracle_risk"\n[grid]\n{many}')):
        (tmp_path / f"{name}.toml").write_text(text)
    where = ("--store", tmp_path / "store")
    assert command("sweep", tmp_path / "few.toml", *where, "--out", tmp_path)[0] == 0
    code, printed, said = command("sweep", tmp_path / "many.toml", *where, flag)
    assert (code, said) == (0, "")
    assert printed.startswith("1000000 cells: 2 done, ")
