"""The progress bar draws on a terminal, and only there."""

from __future__ import annotations

import io
import sys

import pytest
from helpers import sweep_cells

from attnscope.progress import progress
from attnscope.sweeps.run import sweep


class Terminal(io.StringIO):
    def isatty(self):
        return True


def work(disable=False):
    with progress(3, "three things", disable=disable) as bar:
        bar.advance()
        bar.advance(2)


def test_a_terminal_sees_description_count_and_time(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    work()
    assert "three things" in sys.stderr.getvalue() and "3/3" in sys.stderr.getvalue()


@pytest.mark.parametrize(("stream", "disable"), [(io.StringIO, False), (Terminal, True)])
def test_otherwise_it_is_silent(monkeypatch, stream, disable):
    monkeypatch.setattr(sys, "stderr", stream())
    work(disable)
    assert sys.stderr.getvalue() == ""


def test_no_stderr_at_all(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    work()


def test_an_error_inside_passes_through(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(ZeroDivisionError), progress(2, "work"):
        raise ZeroDivisionError


def test_sweep_shows_what_is_stored_and_obeys_progress_false(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    sweep(sweep_cells.square, {"x": [1]}, tmp_path, progress=False)
    assert sys.stderr.getvalue() == ""
    sweep(sweep_cells.square, {"x": [1, 2, 3]}, tmp_path)
    assert "1 of 3 cells stored" in sys.stderr.getvalue() and "2/2" in sys.stderr.getvalue()
