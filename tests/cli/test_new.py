"""`attnscope new`: what is written works, its own tests pass, and nothing is overwritten."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
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
        (
            ("thing", "A"),
            "KIND of attnscope new must be one of task, predictor, claim, plugin",
        ),
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


def test_a_plugin_is_a_folder_that_pip_installs(tmp_path):
    written = json.loads(new("plugin", "MyPlugin2", "--out", tmp_path, "--json").stdout)[
        "written"
    ]
    folder = tmp_path / "my-plugin2"
    assert sorted(Path(x) for x in written) == sorted(
        x for x in folder.rglob("*") if x.is_file()
    )
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "my-plugin2"
    assert {group: len(points) for group, points in project["entry-points"].items()} == {
        f"attnscope.{word}": 1 for word in ("tasks", "predictors", "claims", "papers")
    }
    lines = 0
    for file in folder.rglob("*.py"):
        compile(file.read_text(), file.name, "exec")
        lines += sum(bool(line.strip()) for line in file.read_text().splitlines())
    assert lines <= 110
    assert len((folder / "README.md").read_text().splitlines()) <= 12
    assert (folder / "src/my_plugin2/claims/myplugin2_01_first_claim.py").is_file()
    texts = "".join(file.read_text() for file in folder.rglob("*") if file.is_file())
    assert "$" not in texts and "@file" not in texts


def test_the_task_of_a_plugin_is_that_of_a_single_file(tmp_path):
    new("plugin", "two-words", "--out", tmp_path)
    new("task", "TwoWordsTask", "--out", tmp_path)
    alone = (tmp_path / "two_words_task.py").read_text()
    assert alone.startswith((tmp_path / "two-words/src/two_words/tasks.py").read_text())


def test_a_plugin_is_not_written_over_a_folder(tmp_path):
    (tmp_path / "my-plugin").mkdir()
    with pytest.raises(AttnscopeError, match="got my-plugin, which is"):
        new("plugin", "my_plugin", "--out", tmp_path)
    assert not list((tmp_path / "my-plugin").iterdir())
