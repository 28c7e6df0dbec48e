"""Shares of the slow tests: together they hold each slow test once, and no share takes another's."""

import os
import shutil
import subprocess
import sys

import pytest
from helpers import slow_shares
from helpers.paths import ROOT, TESTS
from helpers.slow_shares import FIFTHS, Share, group, parse

IDS = [
    f"tests/a/test_{f}.py::test_{t}[{p}]" for f in range(20) for t in "xy" for p in range(30)
]


def test_five_shares_hold_each_test_once():
    shares = [Share(k, 5) for k in range(1, 6)]
    assert [sum(share.holds(name) for share in shares) for name in IDS] == [1] * len(IDS)
    # 600 groups: a share of them has 120 on average and a standard deviation of 10
    counts = [len({group(name) for name in IDS if share.holds(name)}) for share in shares]
    assert sum(counts) == 600 and all(70 < count < 170 for count in counts)


def test_tests_of_one_file_with_the_same_parameters_stay_together():
    assert group("tests/a.py::TestClaim::test_holds[slr-13]") == "tests/a.py[slr-13]"
    assert group("tests/a.py::TestClaim::test_draws[slr-13]") == "tests/a.py[slr-13]"
    assert group("tests/a.py::test_b") == group("tests/a.py::TestC::test_d") == "tests/a.py"
    assert group("tests/a.py::test_b[x::y[0]]") == "tests/a.py[x::y[0]]"


def test_a_share_is_the_same_everywhere():
    """`printf tests/a.py | sha256sum` ends in the byte 56, a multiple of 2 and not of 4."""
    assert slow_shares._remainder("tests/a.py", 256) == 0x56
    assert Share(1 + 2, 4).holds("tests/a.py::test_b")


def test_the_share_of_a_commit_changes_with_it(monkeypatch):
    monkeypatch.setattr(slow_shares, "version", lambda: "0.3.0")
    found = set()
    for text in ("", *(f"{k:040x}" for k in range(40))):
        monkeypatch.setattr(slow_shares, "commit", lambda text=text: text)
        found.add(parse("auto").number)
        assert parse("auto") == parse("auto") and parse("auto").of == FIFTHS
    assert found == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("text", ["0/5", "6/5", "1/0", "a", "1", "-1/5", "1/5/2"])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(ValueError, match="--slow-share takes"):
        parse(text)


SAMPLE = """
import pytest

@pytest.mark.slow
@pytest.mark.parametrize("x", range(8))
def test_long(x): ...

@pytest.mark.slow
def test_plain(): ...

def test_quick(): ...
"""


def test_the_option_chooses_among_slow_tests_alone(tmp_path):
    (tmp_path / "tests").mkdir()
    shutil.copy(TESTS / "conftest.py", tmp_path / "tests")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests" / "test_sample.py").write_text(SAMPLE)
    listed = []
    for share in ("1/2", "2/2", "3/2"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--co", "--slow-share", share, "tests"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        if share == "3/2":
            assert done.returncode == 4 and "--slow-share takes" in done.stderr
        else:
            assert done.returncode == 0, done.stdout + done.stderr
            listed.append([line for line in done.stdout.splitlines() if "::" in line])
    both = sorted(listed[0] + listed[1])
    quick = "tests/test_sample.py::test_quick"
    assert [part.count(quick) for part in listed] == [1, 1]
    slow = [name for name in both if name != quick]
    assert len(slow) == len(set(slow)) == 9 and all(len(part) > 1 for part in listed)
