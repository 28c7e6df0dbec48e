"""`attnscope new`: what is written works, its own tests pass, and nothing is overwritten."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import attnscope
from attnscope.cli import app
from attnscope.errors import AttnscopeError


def new(*words):
    found = CliRunner().invoke(app, ["new", *map(str, words)])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def run_tests(folder, name):
    """The written test, in a process of its own that knows the folder and the library alone."""
    where = os.pathsep.join([str(folder), str(Path(attnscope.__file__).parent.parent)])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"test_{name}.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": where},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow  # a process each that imports JAX
@pytest.mark.parametrize("kind", ["task", "predictor", "claim"])
def test_written_tests_pass(tmp_path, kind):
    new(kind, "MyOwnThing", "--out", tmp_path)
    done = run_tests(tmp_path, "my_own_thing")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "old", "spoilt"),
    [
        ("task", "return np.sign(", "return rng.standard_normal() * np.sign("),
        (
            "predictor",
            "0.0)\n\n\nclass",
            "0.0) + jnp.where(x > 1, jnp.sin(1e9 * x), 0)\n\n\nclass",
        ),
        ("claim", "means.append(squares.mean())", "means.append(1.2 * squares.mean())"),
    ],
)
def test_written_tests_can_fail(tmp_path, kind, old, spoilt):
    new(kind, "spoilt-thing", "--out", tmp_path)
    path = tmp_path / "spoilt_thing.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, spoilt))
    assert run_tests(tmp_path, "spoilt_thing").returncode == 1


@pytest.mark.parametrize("kind", ["task", "predictor", "claim"])
def test_names_in_any_spelling(tmp_path, kind):
    written = json.loads(new(kind, "sign-thing", "--out", tmp_path, "--json").stdout)[
        "written"
    ]
    assert [Path(x).name for x in written] == ["sign_thing.py", "test_sign_thing.py"]
    text = (tmp_path / "sign_thing.py").read_text()
    compile(text, "sign_thing.py", "exec")
    assert "$" not in text and ("class SignThing" in text or '"sign-thing"' in text)


@pytest.mark.parametrize("there", ["one_thing.py", "test_one_thing.py"])
def test_nothing_is_overwritten(tmp_path, there):
    (tmp_path / there).write_text("mine")
    with pytest.raises(AttnscopeError, match=f"got {there}, which is"):
        new("task", "OneThing", "--out", tmp_path)
    assert [x.name for x in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


def test_wrong_words_get_one_sentence(tmp_path):
    for words, said in (
        (("thing", "A"), "KIND of attnscope new must be one of task, predictor, claim"),
        (("task", "a b"), "NAME of attnscope new must be letters and digits"),
        (("task", "2d"), "NAME of attnscope new must be letters and digits"),
        (("task", "json"), "got json, which Python has already; try my-json"),
        (("task", "class"), "got class, which Python has already"),
        (("task", "Fine", "--out", tmp_path / "absent"), "must be a folder"),
        (
            ("task", "Fine", "--out", Path(attnscope.__file__).parent / "tasks"),
            "must be a folder outside the package",
        ),
    ):
        with pytest.raises(AttnscopeError, match=said):
            new(*(words if "--out" in words else (*words, "--out", tmp_path)))
    assert not list(tmp_path.iterdir())
