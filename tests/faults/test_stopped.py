"""Commands that are stopped at moments nobody chose: SIGINT and SIGTERM end them with one sentence
and code 130, SIGKILL with nothing; no traceback, no temporary file, no process is left, and no file
is half there.

The clock starts where our code does: before it, Python itself is starting, and prints what it likes.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

import attnscope as at

QUICK = 1  # moments of each command and signal in `make test`
LONG = 9  # in `make test-all`
SECONDS = 4.0  # within which a command is stopped
HANG = 30.0

# tells the test when our code begins, then is the command
START = "import os, sys; from attnscope.cli import main; os.write({pipe}, b'x'); main()"
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
    "selftest": ("selftest", "--settings", "5000"),
    "curve": ("curve", "--alpha", "0.1:20:900"),
    "explore": ("explore", "--no-browser", "--port", "0"),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
STUDY = """
function = "outcomes"
[grid]
temperature = { from = 0.01, to = 1.0, count = 2000 }
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


def stopped(words, how, moment, folder):
    """Start the command, stop it, and say what is wrong with its end, "" if nothing."""
    ours, theirs = os.pipe()
    code = START.format(pipe=theirs)
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(theirs,),
        start_new_session=True,
    )
    os.close(theirs)
    try:
        os.read(ours, 1)
        time.sleep(moment)
        ended_before = process.poll() is not None
        process.send_signal(how)
        try:
            said = process.communicate(timeout=HANG)[1].decode()
        except subprocess.TimeoutExpired:
            return "hangs"
    finally:
        os.close(ours)
        _end_group(process)
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
        moment = SECONDS * rng.random()
        wrong = stopped(COMMANDS[name], how, moment, folder)
        if wrong:
            troubles.append((how.name, round(moment, 3), wrong))
        whole(folder)
    return troubles


@pytest.mark.parametrize("name", ["fit", "sweep in processes"])
def test_some_moments(name, folder):
    assert tried(name, QUICK, folder, seed=1) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_many_moments(name, folder):
    assert tried(name, LONG, folder, seed=2) == []
