"""Terminals and signals: an ASCII terminal reads every sentence, and a command that is stopped ends
with one, nothing left behind.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

import attnscope as at

ASCII = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}


def command(*words):
    return [sys.executable, "-m", "attnscope.cli", *words]


@pytest.mark.slow
def test_an_ascii_terminal_reads_every_table(tmp_path):
    ran = subprocess.run(
        command("reproduce", "--only", "slr-01*", "--out", str(tmp_path / "report")),
        capture_output=True,
        env={**os.environ, **ASCII},
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert b"+/-" in ran.stdout
    assert (tmp_path / "report" / "index.html").exists()


@pytest.mark.parametrize(
    ("word", "seen"),
    [
        ("±", "+/-"),
        ("Cramér", "Cramer"),
        ("a × b → c", "a x b -> c"),
        ("╭─╮", "+-+"),
        ("中", "?"),
    ],
)
def test_letters_that_a_terminal_lacks(word, seen):
    code = (
        "from attnscope.cli.streams import plain_streams; plain_streams(); "
        f"print({word.encode('unicode_escape').decode()!r}.encode().decode('unicode_escape'))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env={**os.environ, **ASCII},
        text=True,
    )
    assert ran.stdout.strip() == seen, ran.stderr


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_training_that_is_stopped_keeps_what_was_reached(how, tmp_path):
    saved = tmp_path / "run.npz"
    words = ("train", "--steps", "1000000000", "--log-every", "1000", "--save", str(saved))
    ours, theirs = os.openpty()  # a terminal: the bar says when the loop runs
    process = subprocess.Popen(
        command(*words), stdout=subprocess.DEVNULL, stderr=theirs, cwd=tmp_path
    )
    os.close(theirs)
    try:
        said = os.read(ours, 4096)
        while b"training" not in said:
            said += os.read(ours, 4096)
        time.sleep(0.5)  # past the first log point
        process.send_signal(how)
        with suppress(OSError):  # the end of a terminal is an error
            while part := os.read(ours, 4096):
                said += part
        assert process.wait(60) == 130, said.decode()
    finally:
        process.kill()
        os.close(ours)
    assert b"Traceback" not in said
    assert b"steps are kept" in said
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


@pytest.mark.parametrize("path", [".", "/"])
def test_a_run_cannot_be_saved_as_a_folder(path):
    run = at.train(at.SingleLocation(20, 3), at.Erf(0.1), runs=1, steps=2, log_every=1)
    with pytest.raises(at.AttnscopeError, match="Is a directory"):
        run.save(path)
