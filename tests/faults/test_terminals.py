"""Terminals and signals: an ASCII terminal reads every sentence, and a command that is stopped ends
with one, nothing left behind.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from helpers.patience import HANG

import attnscope as at

BAR = re.compile(rb"(\d+)/1000000000")  # steps that the bar of a training counts
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


PLAIN = """
import sys
from attnscope.cli import main
for words in {lines!a}:
    sys.argv = ["attnscope", *words]
    try: main()
    except SystemExit as end: assert (end.code or 0) in (0, 1, 2), (words, end.code)
"""
LINES = [
    ["--help"],
    *([name, "--help"] for name in ("risk", "train", "fit", "sweep", "explore", "curve")),
    ["tasks"],
    ["claims"],
    ["risk", "--dim", "20", "--length", "4"],
    ["curve", "--alpha", "1,2"],
    ["train", "--dim", "20", "--steps", "4", "--runs", "2"],
    ["show", "slr-01"],
    ["show", "slr-01", "--run"],
    ["show", "cramér-é"],
    ["fit", "né.npz"],
    ["fit", "n\udcc3\udca9.npz"],  # the same as a plain locale reads it
    ["risk", "--task", "→"],
]


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8"])
def test_every_kind_of_line_in_plain_locales(locale, tmp_path):
    """One process for all of them: what is printed can be written, whatever it is."""
    ran = subprocess.run(
        [sys.executable, "-c", PLAIN.format(lines=LINES)],
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, **ASCII, "LC_ALL": locale},
    )
    assert ran.returncode == 0, ran.stderr.decode(errors="replace")[-2000:]
    assert b"Traceback" not in ran.stderr
    ran.stdout.decode("ascii")


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
        command(*words),
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200"},  # room for all digits of the bar
    )
    end = time.monotonic() + HANG
    os.close(theirs)
    try:
        said = os.read(ours, 4096)
        # past the first log point
        while not any(int(steps) > 1000 for steps in BAR.findall(said)):
            assert time.monotonic() < end, said
            said += os.read(ours, 4096)
        process.send_signal(how)
        with suppress(OSError):  # the end of a terminal is an error
            while part := os.read(ours, 4096):
                said += part
        assert process.wait(HANG) == 130, said.decode()
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
