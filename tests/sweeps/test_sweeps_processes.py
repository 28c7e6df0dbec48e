"""Sweeps in worker processes, and sweeps that are killed: nothing lost, changed or left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest
from helpers import sweep_cells
from helpers.paths import ROOT
from helpers.patience import HANG

from attnscope.errors import AttnscopeError
from attnscope.sweeps import processes
from attnscope.sweeps.execute import Where, execute
from attnscope.sweeps.run import run, status, sweep


def start(*arguments, log="", **options):
    path = os.pathsep.join(
        [str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    )
    environment = {**os.environ, "PYTHONPATH": path, "SWEEP_LOG": str(log)}
    command = [
        sys.executable,
        "-c",
        "import sys; from helpers import sweep_cells; sweep_cells.main(*sys.argv[1:])",
        *map(str, arguments),
    ]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, **options)
    assert process.stdout is not None and process.stdout.readline() == b"start\n"
    return process


def finish(process):
    process.communicate(timeout=HANG)
    return process.returncode


def executions(log):
    return len(Path(log).read_text().split()) if Path(log).exists() else 0


CELLS = len(sweep_cells.KILL_TEST_GRID["x"])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert finish(start(folder / "runs", folder / "out.csv")) == 0
    return (folder / "out.csv").read_bytes()


# workers


def test_neither_workers_nor_order_changes_a_result(tmp_path):
    grid = {"x": list(range(12))}
    frames = [
        sweep(sweep_cells.noisy, grid, tmp_path / "serial"),
        sweep(sweep_cells.noisy, grid, tmp_path / "two", workers=2),
        sweep(sweep_cells.noisy, {"x": grid["x"][::-1]}, tmp_path / "back")[::-1].reset_index(
            drop=True
        ),
    ]
    for frame in frames[1:]:
        pd.testing.assert_frame_equal(frame, frames[0], check_exact=True)
    assert run(sweep_cells.noisy, grid, tmp_path / "two").reused == 12


def test_a_poison_cell_fails_alone(tmp_path):
    grid = {"x": [0, 1, 2, 3, 4, 5], "log": [str(tmp_path / "log")]}
    report = run(sweep_cells.poison, grid, tmp_path / "runs", workers=2)
    assert report.frame["y"].tolist() == [0, 1, 3, 4, 5]
    (failure,) = report.failures
    assert failure.error == "the cell ended its worker process 3 times (killed by SIGKILL)"
    assert (
        executions(tmp_path / "log") == 5 + processes.CELL_ATTEMPTS
    )  # no other cell ran twice
    assert status(sweep_cells.poison, grid, tmp_path / "runs").failed == 1


def test_a_worker_killed_once_loses_nothing(tmp_path):
    grid = {"x": [0, 1, 2, 3], "log": [str(tmp_path / "log")]}
    report = run(sweep_cells.killed_once, grid, tmp_path / "runs", workers=2)
    assert report.frame["y"].tolist() == [0, 1, 2, 3] and not report.failures
    assert executions(tmp_path / "log") == 5


def test_an_exception_in_a_worker_is_a_failure_with_its_traceback(tmp_path):
    report = run(sweep_cells.fails_on_three, {"x": [2, 3]}, tmp_path, workers=1)
    assert report.failures[0].error == "ZeroDivisionError: three is refused"
    assert "in fails_on_three" in report.failures[0].traceback


def test_execute_is_usable_alone_and_survives_what_cannot_be_sent():
    outcomes = dict(
        execute(sweep_cells.returns_generator, iter([("a", {"x": 1})]), Where(workers=1))
    )
    assert "the result cannot be sent to the parent process (TypeError" in outcomes["a"].error
    fine = dict(execute(sweep_cells.square, iter([("a", {"x": 3})])))
    assert fine["a"].value == {"square": 9.0} and fine["a"].error == ""


def test_workers_have_one_thread_and_the_parent_keeps_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    frame = sweep(sweep_cells.environment, {"x": [1]}, tmp_path, workers=1)
    assert frame["OMP_NUM_THREADS"][0] == "1" and frame["OPENBLAS_NUM_THREADS"][0] == "1"
    assert frame["XLA_FLAGS"][0].split() == [
        "--xla_cpu_enable_fast_math=false",
        processes._XLA_ONE_THREAD,
    ]
    assert os.environ["OMP_NUM_THREADS"] == "2" and "OPENBLAS_NUM_THREADS" not in os.environ


def test_functions_that_cannot_be_imported_are_refused_for_workers(tmp_path):
    def local(x):
        return {"y": x}

    for function in (local, lambda x: {"y": x}):
        with pytest.raises(AttnscopeError, match="must be importable by name"):
            sweep(function, {"x": [1]}, tmp_path / "runs", workers=2)
    assert not (tmp_path / "runs").exists()


SCRIPT = """
from attnscope.sweeps.run import sweep
def square(x):
    return {"y": x * x}
GUARD
    print(sweep(square, {"x": [1, 2, 3]}, STORE, workers=2)["y"].tolist())
"""


@pytest.mark.parametrize("guard", ["if __name__ == '__main__':", "if True:"])
def test_a_script_of_ones_own(tmp_path, guard):
    """A function in a script works; one without the main guard gets a sentence,
    no cascade of processes.
    """
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT.replace("GUARD", guard).replace("STORE", repr(str(tmp_path / "runs")))
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    if "__main__" in guard:
        assert done.stdout == "[1, 4, 9]\n" and done.stderr == ""
    else:
        assert done.returncode == 1 and done.stdout == ""
        assert (
            'try the call under `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]
        )


def test_a_script_from_a_pipe_may_use_functions_of_modules(tmp_path):
    script = f"""
from helpers import sweep_cells
from attnscope.sweeps.run import sweep
def local(x):
    return {{"square": -x}}
print(sweep(sweep_cells.square, {{"x": [3, 4]}}, {str(tmp_path)!r}, workers=2)["square"].tolist())
print(sweep(local, {{"x": [3]}}, {str(tmp_path)!r}, version="1")["square"].tolist())
sweep(local, {{"x": [3]}}, {str(tmp_path)!r}, workers=2)
"""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
    }
    command = [sys.executable, "-"]
    done = subprocess.run(
        command,
        input=script,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert done.stdout == "[9.0, 16.0]\n[-3]\n"
    assert "must be importable by name" in done.stderr.splitlines()[-1]


def test_closing_early_ends_the_workers(tmp_path):
    log = tmp_path / "log"
    tasks = iter([(str(x), {"x": x, "log": str(log)}) for x in range(50)])
    outcomes = execute(sweep_cells.slow, tasks, Where(workers=2))
    next(outcomes)
    outcomes.close()
    assert all(_gone(int(pid)) for pid in log.read_text().split())


def _gone(pid, patience=HANG):
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            stat = (
                Path(f"/proc/{pid}/stat").read_text()
                if Path("/proc/self/stat").exists()
                else ""
            )
            # dead, waiting for its parent to look
            if stat and stat.rpartition(")")[2].split()[0] == "Z":
                return True
            os.kill(pid, 0)
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


def _members(group):
    """The processes of a group, where the system tells."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            if int(path.read_text().rpartition(")")[2].split()[2]) == group:
                found.append(int(path.parent.name))
    return found


# killed sweeps


@pytest.mark.parametrize(
    ("point", "ran", "stored", "leftovers"),
    [
        ("half-written", 5, 4, 1),
        pytest.param("before-replace", 5, 4, 1, marks=pytest.mark.slow),
        pytest.param("after-replace", 5, 5, 0, marks=pytest.mark.slow),
    ],
)
def test_killed_at_each_instant_of_a_write(
    tmp_path, undisturbed, point, ran, stored, leftovers
):
    """Killed at the 5th write, or the 5th rename."""
    log = tmp_path / "log"
    store = tmp_path / "runs"
    assert finish(start(store, "", "", point, 5, log=log)) == -signal.SIGKILL
    assert (
        len(list(store.glob("*.npz"))) == stored
        and len(list(store.glob(".*.tmp"))) == leftovers
    )
    assert executions(log) == ran
    assert finish(start(store, tmp_path / "out.csv", log=log)) == 0
    assert (tmp_path / "out.csv").read_bytes() == undisturbed
    assert executions(log) == CELLS + ran - stored


def kill_at_random(store, log, times, workers=""):
    """Kill the sweep `times` times: within 15 ms of its first new cell,
    every fifth while it starts.
    """
    rng = random.Random(20240611)
    for turn in range(times):
        point = "after-a-cell" if turn % 5 != 4 else "after-the-start"
        process = start(
            store,
            "",
            workers,
            point,
            rng.uniform(0.0, 0.015),
            log=log,
            start_new_session=True,
        )
        assert finish(process) == -signal.SIGKILL
        # no worker outlives its parent
        assert all(_gone(pid) for pid in _members(process.pid))


@pytest.mark.parametrize("times", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_random_it_resumes_to_exactly_the_same_result(tmp_path, undisturbed, times):
    log = tmp_path / "log"
    store = tmp_path / "runs"
    kill_at_random(store, log, times)
    stored = len(list(store.glob("*.npz")))
    assert 0 < stored < CELLS  # it was killed under way
    assert finish(start(store, tmp_path / "out.csv", log=log)) == 0
    assert (tmp_path / "out.csv").read_bytes() == undisturbed
    # at most the one cell in flight, each time
    assert CELLS <= executions(log) <= CELLS + times


@pytest.mark.parametrize("times", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_with_workers_it_resumes_and_leaves_no_orphan(tmp_path, undisturbed, times):
    log = tmp_path / "log"
    store = tmp_path / "runs"
    kill_at_random(store, log, times, workers="2")
    assert finish(start(store, tmp_path / "out.csv", "2", log=log)) == 0
    assert (tmp_path / "out.csv").read_bytes() == undisturbed
    # two cells with each worker, one being stored
    assert CELLS <= executions(log) <= CELLS + 5 * times


@pytest.mark.slow  # test_sweeps_shared.py has two on one store as well
def test_two_sweeps_on_one_store_at_once(tmp_path, undisturbed):
    outputs = [tmp_path / "a.csv", tmp_path / "b.csv"]
    both = [start(tmp_path / "runs", output) for output in outputs]
    assert [finish(process) for process in both] == [0, 0]
    assert all(output.read_bytes() == undisturbed for output in outputs)
    names = sorted(path.suffix for path in (tmp_path / "runs").iterdir())
    assert names == [".npz"] * CELLS


@pytest.mark.parametrize("workers", [pytest.param("", marks=pytest.mark.slow), "2"])
def test_ctrl_c_keeps_everything_and_says_how_to_resume(tmp_path, undisturbed, workers):
    log = tmp_path / "log"
    process = start(
        tmp_path / "runs",
        "",
        workers,
        "wait",
        400,
        log=log,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while executions(log) < 20:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == -signal.SIGINT
    last = errors.decode().strip().splitlines()[-1]
    assert last.startswith("KeyboardInterrupt: stopped; ") and last.endswith(
        "run the same sweep again to resume."
    )
    assert errors.decode().count("Traceback") == 1  # the workers are silent
    assert finish(start(tmp_path / "runs", tmp_path / "out.csv", log=log)) == 0
    assert (tmp_path / "out.csv").read_bytes() == undisturbed
    # two cells with each worker, one being stored
    assert executions(log) <= CELLS + (5 if workers else 1)


STARTING = """
import sys, time
from attnscope.sweeps.run import sweep
def square(x):
    return {"y": x * x}
if __name__ == "__main__":
    sweep(square, {"x": [1]}, sys.argv[1], workers=1)
else:  # a worker runs this file before it comes to know that it is one
    print("starting", flush=True)
    time.sleep(3600)
"""


def test_ctrl_c_while_a_worker_starts_is_the_parents_alone(tmp_path):
    (tmp_path / "script.py").write_text(STARTING)
    process = subprocess.Popen(
        [sys.executable, tmp_path / "script.py", tmp_path / "runs"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stdout.readline() == b"starting\n"
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == -signal.SIGINT and errors.decode().count("Traceback") == 1
    assert all(_gone(pid) for pid in _members(process.pid))
