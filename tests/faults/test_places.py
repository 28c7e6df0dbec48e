"""Places that refuse: a full disk behind stdout and behind every output, a limit on the size of
files, a home that is not there, a process that was forked after JAX began.
"""

import os
import resource
import subprocess
import sys

import pytest
from helpers.commands import run
from helpers.patience import HANG

from attnscope.errors import AttnscopeError

FULL = (
    ("train", "--dim", "20", "--steps", "4", "--runs", "2", "--csv", "{}.csv"),
    ("train", "--dim", "20", "--steps", "4", "--runs", "2", "--plot", "{}.svg"),
    ("train", "--dim", "20", "--steps", "4", "--runs", "2", "--plot", "{}.png"),
    ("curve", "--alpha", "1,2", "--plot", "{}.svg"),
)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=pytest.mark.slow) if words[-1] == "{}.png" else words
        for words in FULL
    ],
    ids=lambda words: words[-1],
)
def test_outputs_on_a_full_disk_are_a_sentence(words, tmp_path):
    path = tmp_path / words[-1].format("full")
    path.symlink_to("/dev/full")
    code, _, said = run(*words[:-1], path)
    assert (code, "No space left" in said) == (2, True)


def test_faint_signals_are_a_table(tmp_path):
    code, printed, said = run("risk", "--dim", "20", "--length", "4", "--signal", "1e-300")
    assert code == 0, said
    assert "nan" not in printed


def started(*words, limit=None, **how):
    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [sys.executable, "-m", "attnscope.cli", *map(str, words)],
        capture_output="stdout" not in how,
        preexec_fn=None if limit is None else small,
        **how,
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [("tasks",), ("--help",), ("risk", "--json")])
def test_a_full_disk_behind_stdout_is_a_sentence(words):
    with open("/dev/full", "w") as full:
        ran = started(*words, stdout=full, stderr=subprocess.PIPE)
    assert ran.returncode == 2
    assert ran.stderr.count(b"\n") == 1
    assert b"must be written, got No space left" in ran.stderr


@pytest.mark.slow
def test_files_that_may_not_grow_are_a_sentence_and_leave_nothing(tmp_path):
    words = ("train", "--dim", "20", "--steps", "40", "--save", tmp_path / "run.npz")
    ran = started(*words, limit=2000, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)})
    assert ran.returncode == 2, ran.stderr
    assert b"Traceback" not in ran.stderr
    assert [p.name for p in tmp_path.iterdir() if "run" in p.name] == []


@pytest.mark.slow
@pytest.mark.parametrize("where", ["none", "/proc/none", "/dev/null"])
def test_a_home_and_caches_that_cannot_be_written(where, tmp_path):
    """Not there, not to be made even by root, and a file where a folder should be."""
    none = str(tmp_path / where)
    names = ("HOME", "XDG_CACHE_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "TMPDIR")
    home = {**dict.fromkeys(names, none), "LC_ALL": "C"}
    plot = tmp_path / "a.svg"
    words = ("train", "--dim", "20", "--steps", "40", "--plot", plot)
    ran = started(*words, env={**os.environ, **home})
    assert ran.returncode == 0, ran.stderr
    assert plot.exists()
    assert b"Traceback" not in ran.stderr


FORKED = """
import os, attnscope as at
def go(): return at.train(at.SingleLocation(20, 3), at.Erf(0.1), runs=1, steps=2, log_every=1,
                          engine="full", progress=False)
go()
child = os.fork()
if child == 0:
    try: go()
    except at.AttnscopeError as error: os._exit(7 if "forked" in str(error) else 8)
    os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_a_process_forked_after_jax_is_refused_and_does_not_wait():
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, timeout=HANG
    )
    assert ran.stdout.split() == [b"7"], ran.stderr


def test_a_cell_with_another_record_is_computed_again(tmp_path):
    """Records that carry the right checksum and the wrong content."""
    from attnscope.sweeps.store import Store, pack

    store = Store(tmp_path)
    for record in ([], 3, {}, {"key": "other"}, {"key": 5}):
        (tmp_path / "key.npz").write_bytes(pack(record))
        assert store.get("key") is None


def test_archives_are_not_written_to_devices(tmp_path):
    from attnscope.estimators.bags.table_output import check_output

    path = tmp_path / "zero.npz"
    path.symlink_to("/dev/zero")
    with pytest.raises(AttnscopeError, match="a device"):
        check_output(path)
