"""The base install: what needs no extra works where JAX, Optax, Matplotlib, Jinja2 and mpmath cannot
be imported; what needs one of them answers in one sentence that names the extra.
"""

import subprocess
import sys

import pytest
from helpers.paths import ROOT

from attnscope.errors import AttnscopeError
from attnscope.optional import NotInstalled, absent, installed, needs

CALLS = ROOT / "tests" / "helpers" / "base_calls.py"


def test_the_base_install_computes_without_the_extras():
    done = subprocess.run(
        [sys.executable, str(CALLS), "--block"], capture_output=True, text=True
    )
    assert done.stdout.strip() == "fine; loaded of the extras: []", done.stdout + done.stderr


def test_an_absent_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "optax", None)
    assert not installed("optax")
    sentence = r"^FullSgd needs Optax: pip install 'attnscope\[own\]'\.$"
    with pytest.raises(NotInstalled, match=sentence):
        needs("optax", "FullSgd")
    assert issubclass(NotInstalled, AttnscopeError)


def test_a_package_that_does_not_load_says_why(monkeypatch, tmp_path):
    (tmp_path / "h5py.py").write_text("raise ImportError('libhdf5.so is missing')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "h5py", raising=False)
    with pytest.raises(NotInstalled, match=r"cannot be loaded \(libhdf5\.so is missing\)"):
        needs("h5py", "open_bags")


def test_an_import_error_of_anything_else_is_left_alone():
    assert (
        absent(ModuleNotFoundError("No module named 'jaxtyping'", name="jaxtyping"), "a")
        is None
    )
    assert absent(ImportError("cannot import name"), "a") is None


def test_what_is_installed_is_not_refused():
    needs("jax", "FullSgd")
    needs("matplotlib", "Figure.save")
