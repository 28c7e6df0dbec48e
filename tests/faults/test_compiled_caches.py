"""Damaged caches of compiled functions: compiled anew, never an error, never other machine code."""

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from numba import njit

import attnscope as at
from attnscope.numerics.compiled import checked_cache

SOURCE = "def doubled(x):\n    return 2 * x\n"
COMMANDS = {
    "risk": "risk --predictor softmax --length 3",
    "train": "train --length 3 --steps 20",
    "fit": "fit DATA --out OUT --loss mixture --alpha inf,1 --n-starts 1 --gate linear",
}


@pytest.fixture
def folder(tmp_path):
    """A folder with a function, called once: its index and its machine code are in __pycache__."""
    (tmp_path / "example.py").write_text(SOURCE)
    assert answers(tmp_path) == (0, 1)
    return tmp_path


def compiled(folder, module="attnscope.example"):
    """The function of the folder, as a new process would find it."""
    spec = spec_from_file_location("example", folder / "example.py")
    example = module_from_spec(spec)
    spec.loader.exec_module(example)
    example.doubled.__module__ = module
    return njit(cache=True)(example.doubled)


def answers(folder):
    """How often the stored code was used and how often it was not, after a right answer."""
    function = compiled(folder)
    assert function(3.5) == 7.0
    return sum(function.stats.cache_hits.values()), sum(function.stats.cache_misses.values())


def damaged(content, what):
    if what == "turned":
        middle = len(content) // 2
        return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    return {
        "empty": b"",
        "cut": content[: len(content) // 2],
        "cut by a byte": content[:-1],
        "garbled": b"garbled" * 99,
        "without its checksum": content[: -checked_cache.CHECKSUM_BYTES],
    }[what]


DAMAGES = ("empty", "cut", "cut by a byte", "garbled", "without its checksum", "turned")


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_cache_is_compiled_anew_and_replaced(what, ending, folder, capfd):
    assert answers(folder) == (1, 0)
    (file,) = (folder / "__pycache__").glob(f"*.{ending}")
    whole = file.read_bytes()
    file.write_bytes(damaged(whole, what))
    assert answers(folder) == (0, 1)
    assert answers(folder) == (1, 0)
    assert capfd.readouterr() == ("", "")


def test_a_cache_of_another_version_or_signature_is_not_used(folder, monkeypatch):
    with monkeypatch.context() as other:
        other.setattr(at, "__version__", "0.0.1")
        assert answers(folder) == (0, 1)
    assert answers(folder) == (0, 1)
    function = compiled(folder)
    assert function(3) == 6
    first, second = sorted((folder / "__pycache__").glob("*.nbc"))
    first.write_bytes(second.read_bytes())
    assert answers(folder) == (0, 1)


def test_a_cache_that_cannot_be_written_costs_one_line(folder, monkeypatch, caplog):
    monkeypatch.setattr(checked_cache, "reported_reasons", [])
    (file,) = (folder / "__pycache__").glob("*.nbi")
    file.unlink()
    file.mkdir()
    for _ in range(2):
        assert answers(folder) == (0, 1)
    (line,) = caplog.messages
    assert "compiles its functions again" in line and "NUMBA_CACHE_DIR" in line


def test_functions_of_others_keep_the_cache_of_numba(folder):
    from numba.core.caching import FunctionCache

    assert type(compiled(folder, "somebody.example")._cache) is FunctionCache
    assert type(compiled(folder)._cache) is checked_cache.CheckedCache


def command(name, folder, **environment):
    """(exit code, lines on stderr) of a command in a process of its own."""
    batch = at.SingleLocation(dim=4, length=3, signal=5.0, noise=0.1).sample(30, seed=1)
    np.savez(folder / "data.npz", bags=batch.tokens, y=batch.target)
    words = COMMANDS[name].replace("DATA", str(folder / "data.npz"))
    words = words.replace("OUT", str(folder / "model.npz")).split()
    done = subprocess.run(
        [sys.executable, "-m", "attnscope.cli", *words],
        capture_output=True,
        text=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")} | environment,
    )
    return done.returncode, [line for line in done.stderr.splitlines() if line]


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_work_with_damaged_caches(name, tmp_path):
    code, usual = command(name, tmp_path)
    assert code == 0
    for i, what in enumerate(DAMAGES):
        files = sorted(Path(tmp_path / "cache").rglob("*.nb[ic]"))
        assert files
        for file in files[i % 2 :: 2]:
            file.write_bytes(damaged(file.read_bytes(), what))
        assert command(name, tmp_path) == (0, usual), what


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_work_where_no_cache_can_be_written(name, tmp_path):
    (tmp_path / "cache").write_text("a file")
    nowhere = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}
    code, lines = command(name, tmp_path, **nowhere)
    assert code == 0
    assert len([line for line in lines if "compiles its functions again" in line]) == 1
    assert not any("Traceback" in line for line in lines)
