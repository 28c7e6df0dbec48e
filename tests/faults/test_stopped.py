"""Commands that are stopped at moments nobody chose: SIGINT and SIGTERM end them with one sentence
and code 130, SIGKILL with nothing; no traceback, no temporary file, no process is left, and no file
is half there.

A moment is a number of calls and returns of functions since the command began to load attnscope, not a number of
seconds: the command tells the test when it has made so many, and the test sends the signal then. A
command that makes fewer calls for LONGEST seconds, because compiled code is running, is stopped
there. Which moment that is depends on the machine; what must hold at it does not.
"""

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

import attnscope as at

QUICK = 3  # moments of each command in `make test`
LONG = 9  # in `make test-all`
MOST_CALLS = 10_000_000  # calls and returns; loading the modules of `fit` takes six million
LONGEST = 20.0  # seconds of waiting for a moment
# seconds after which a command that was stopped counts as hanging: thirty times the patience of
# cli/stopping.py with compiled code, for machines with other things to do
HANG = 300.0

# counts the calls since attnscope began to load, and writes to the test's pipe at the chosen one
START = """
import os, sys
left = {calls}
began = False
def count(frame, event, argument):
    global left, began
    began = began or frame.f_globals.get("__name__") == "attnscope"
    left -= began
    if left <= 0:
        sys.setprofile(None)
        os.write({pipe}, b"x")
sys.setprofile(count)
from attnscope_start import main
main()
"""
COMMANDS = {
    "train": ("train", "--steps", "100000000", "--csv", "run.csv", "--save", "run.npz"),
    "train on vectors": (
        "train",
        "--engine",
        "full",
        "--steps",
        "1000000",
        "--batch-size",
        "5",
    ),
    "giant batch": (
        "train",
        "--batch-size",
        "100000000",
        "--steps",
        "10",
        "--save",
        "run.npz",
    ),
    "fit": ("fit", "data.npz", "--out", "model.npz"),
    "predict": ("predict", "known.npz", "more.npz", "--out", "predicted.csv"),
    "locate": ("locate", "known.npz", "more.npz", "--out", "located.csv"),
    "risk": ("risk", "--dim", "40", "--length", "30", "--predictor", "softmax"),
    "show": ("show", "slr-07", "--run"),
    "plain files": ("explore", "--static", "page"),
    "sweep": ("sweep", "study.toml", "--store", "store"),
    "sweep in processes": ("sweep", "study.toml", "--store", "store", "--workers", "2"),
    "reproduce": ("reproduce", "--out", "report"),
    "curve": ("curve", "--alpha", "0.1:20:900"),
    "explore": ("explore", "--no-browser", "--port", "0"),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
STUDY = """
function = "outcomes"
[grid]
inverse_temperature = { from = 0.01, to = 1.0, count = 2000 }
[fixed]
dim = 50
length = 4
steps = 2000
"""


@pytest.fixture
def folder(tmp_path):
    batch = at.SingleLocation(dim=20, length=10, signal=3.0, noise=0.3).sample(600, seed=1)
    np.savez(tmp_path / "data.npz", bags=batch.tokens, y=batch.target)
    np.savez(tmp_path / "more.npz", bags=np.tile(batch.tokens, (100, 1, 1)))
    model = at.SingleLocationRegressor(alpha=1.0, components=None)
    model.fit(batch.tokens[:100], batch.target[:100]).save(tmp_path / "known.npz")
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def stopped(words, how, calls, folder):
    """Start the command, stop it, and say what is wrong with its end, "" if nothing."""
    ours, theirs = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", START.format(calls=calls, pipe=theirs), *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(theirs,),
        start_new_session=True,
    )
    os.close(theirs)
    try:
        select.select([ours], [], [], LONGEST)  # the moment, or the command's end
        ended_before = process.poll() is not None
        process.send_signal(how)
        try:
            said = process.communicate(timeout=HANG)[1].decode()
        except subprocess.TimeoutExpired:
            return "hangs"
    finally:
        os.close(ours)
        _end_group(process)
        process.stderr.close()
    return _wrong(process.returncode, said, how, ended_before, folder)


def _wrong(code, said, how, ended_before, folder):
    left = [str(path) for path in folder.rglob(".*.tmp*")]
    if how == signal.SIGKILL:
        return "" if code in (-9, 0) else f"code {code}: {said[-500:]}"
    if "Traceback" in said or "Exception ignored" in said:
        return said[-1500:]
    if left:
        return f"left {left}"
    if ended_before or code == 0:  # the page ends with 0: that is how it ends
        return ""
    if code != 130:
        return f"code {code}: {said[-500:]}"
    return "" if said.strip() else "ended without a word"


def _end_group(process):
    """Nothing of the test outlives it; what the command should have ended is its own check."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def whole(folder):
    """Whatever file is there can be read."""
    if (folder / "model.npz").exists():
        at.load_model(folder / "model.npz")
    if (folder / "run.npz").exists():
        at.Trajectory.load(folder / "run.npz")
    for path in (folder / "store").glob("*.npz"):
        with np.load(path) as file:
            assert "record" in file


def tried(name, number, folder, seed):
    rng = np.random.default_rng([seed, sorted(COMMANDS).index(name)])
    troubles = []
    for i in range(number):
        how = SIGNALS[i % len(SIGNALS)]
        # one moment in each of equal parts of the logarithm of the number of calls
        calls = int(MOST_CALLS ** ((i + rng.random()) / number))
        wrong = stopped(COMMANDS[name], how, calls, folder)
        if wrong:
            troubles.append((how.name, calls, wrong))
        whole(folder)
    return troubles


@pytest.mark.parametrize("name", ["fit", "sweep in processes"])
def test_some_moments(name, folder):
    assert tried(name, QUICK, folder, seed=1) == []


@pytest.mark.parametrize("calls", [1, 30, 1000, 30_000])
def test_while_modules_load(calls, tmp_path):
    """Ctrl-C before anything is computed, from the first line of attnscope on."""
    assert stopped(("show", "slr-07", "--run"), signal.SIGINT, calls, tmp_path) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_many_moments(name, folder):
    assert tried(name, LONG, folder, seed=2) == []
