"""Sweeps on a real Dask cluster of two worker processes."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pandas as pd
import pytest
from helpers import sweep_cells
from helpers.patience import HANG

from attnscope.errors import AttnscopeError
from attnscope.sweeps import cluster as cluster_module
from attnscope.sweeps.run import run, sweep

distributed = pytest.importorskip("distributed")
# Dask leaves sockets and loops to the garbage collector when its processes are killed, as these
# tests do
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.filterwarnings("default::UserWarning:attnscope"),
]


@pytest.fixture(scope="module")
def address():
    # one death is enough for Dask to give a cell up: its default of three only makes the poison
    # test longer
    import dask

    options = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.logging.distributed": "critical",
    }
    with (
        dask.config.set(options),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
    ):
        yield cluster.scheduler_address


def test_the_cluster_gives_the_same_frame(address, tmp_path):
    grid = {"x": list(range(20))}
    here = sweep(sweep_cells.noisy, grid, tmp_path / "here")
    there = sweep(sweep_cells.noisy, grid, tmp_path / "there", scheduler=address)
    pd.testing.assert_frame_equal(here, there, check_exact=True)
    assert run(sweep_cells.noisy, grid, tmp_path / "here", scheduler=address).reused == 20
    # none asked
    assert (
        run(sweep_cells.noisy, grid, tmp_path / "there", scheduler="tcp://127.0.0.1:1").reused
        == 20
    )


def test_a_dask_worker_that_loaded_an_older_file_is_refused(address, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    files = {
        "aging_cells": "import aging_helper\ndef f(x):\n    return {'y': aging_helper.A * x}\n",
        "aging_helper": "A = 2\n",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    with distributed.Client(address, set_as_default=False) as client:
        client.run(lambda folder: sys.path.insert(0, folder), str(tmp_path))
    module = importlib.import_module("aging_cells")
    assert sweep(module.f, {"x": [1, 2]}, tmp_path / "runs", scheduler=address)[
        "y"
    ].tolist() == [2, 4]
    # of another length: the worker may have left a compiled file, which counts by time and length
    (tmp_path / "aging_helper.py").write_text("A = 3  # edited\n")
    importlib.reload(module.aging_helper)
    with pytest.raises(
        AttnscopeError,
        match=r"all 2 cells of sweep failed, .* aging_helper\.A is not what its file says",
    ):
        sweep(module.f, {"x": [1, 2]}, tmp_path / "runs", scheduler=address)
    assert sweep(module.f, {"x": [1, 2]}, tmp_path / "runs")["y"].tolist() == [3, 6]
    for name in files:
        sys.modules.pop(name)


SCRIPT = """
import sys, dataclasses
import attnscope as at
@dataclasses.dataclass
class Line:
    slope: float = 2.0
LINE = Line(3.0)
def own(x):
    return {"y": LINE.slope * x + Line(x).slope}
if __name__ == "__main__":
    print(*at.sweep(own, {"x": [1, 2]}, sys.argv[1], scheduler=sys.argv[2], progress=False)["y"])
"""


@pytest.mark.slow
def test_a_scripts_function_goes_to_the_cluster_by_value(address, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, tmp_path / "script.py", tmp_path / "runs", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
    assert done.stdout == "4.0 8.0\n", done.stderr


def test_failures_on_the_cluster_keep_their_traceback(address, tmp_path):
    report = run(sweep_cells.fails_on_three, {"x": [1, 2, 3]}, tmp_path, scheduler=address)
    assert report.frame["y"].tolist() == [1, 2]
    assert report.failures[0].error == "ZeroDivisionError: three is refused"
    assert "in fails_on_three" in report.failures[0].traceback


def test_a_killed_dask_worker_loses_nothing(address, tmp_path):
    log = tmp_path / "log"
    killed = []

    def kill_one():
        while not log.exists() or len(log.read_text().split()) < 3:
            time.sleep(0.01)
        killed.append(int(log.read_text().split()[0]))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    report = run(
        sweep_cells.slow,
        {"x": list(range(12)), "log": [str(log)]},
        tmp_path / "runs",
        scheduler=address,
    )
    killer.join()
    assert killed and not report.failures and report.frame["y"].tolist() == list(range(12))
    ran = log.read_text().split()
    # at most what ran there, or had finished there, ran again
    assert len(ran) <= 12 + ran.count(str(killed[0]))


def test_a_poison_cell_fails_alone(address, tmp_path):
    log = tmp_path / "log"
    grid = {"x": list(range(6)), "log": [str(log)]}
    report = run(sweep_cells.poison, grid, tmp_path / "runs", scheduler=address)
    assert report.frame["y"].tolist() == [0, 1, 3, 4, 5]
    assert [failure.parameters["x"] for failure in report.failures] == [2]
    assert (
        report.failures[0].error == "the cell ended its Dask workers, also when tried alone"
    )


@pytest.mark.parametrize(
    "scheduler",
    ["tcp://127.0.0.1:9", "nonsense", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:x", ""],
)
def test_unreachable_scheduler_is_a_sentence(tmp_path, scheduler, monkeypatch):
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 1.0)
    with pytest.raises(
        AttnscopeError,
        match="scheduler of sweep must be the address of a running Dask scheduler",
    ):
        sweep(sweep_cells.square, {"x": [1]}, tmp_path, scheduler=scheduler)


def test_something_else_than_a_scheduler_is_a_sentence(tmp_path, monkeypatch):
    """That it comes to an end at all is the test: without a limit it would wait for ever."""
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as mute:  # accepts, never answers
        address = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(
            AttnscopeError,
            match="scheduler of sweep must be the address of a running Dask scheduler",
        ):
            sweep(sweep_cells.square, {"x": [1]}, tmp_path, scheduler=address)


def test_missing_dask_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        AttnscopeError, match=r"needs Dask: pip install 'attnscope\[cluster\]'"
    ):
        sweep(sweep_cells.square, {"x": [1]}, tmp_path, scheduler="tcp://127.0.0.1:9")


def test_a_scheduler_that_goes_away_is_a_sentence(tmp_path):
    log = tmp_path / "log"
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50
    )

    def close():
        while not log.exists():
            time.sleep(0.01)
        cluster.close()

    closer = threading.Thread(target=close)
    closer.start()
    grid = {"x": list(range(40)), "log": [str(log)]}
    with pytest.raises(
        AttnscopeError, match=r"the scheduler of sweep is gone; what was stored is kept"
    ):
        run(sweep_cells.held, grid, tmp_path / "runs", scheduler=cluster.scheduler_address)
    closer.join()


@pytest.mark.slow
def test_a_cell_that_takes_too_long_is_ended_on_the_cluster(address, tmp_path):
    grid = {"x": [1, 2, 3]}
    report = run(
        sweep_cells.endless_on_two,
        grid,
        tmp_path,
        scheduler=address,
        timeout=20,
        progress=False,
    )
    assert sorted(report.frame["x"]) == [1, 3]
    assert [f.error for f in report.failures] == ["the cell took longer than its 20 s"]
