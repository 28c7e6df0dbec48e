"""The wheel holds every file under src, the source archive everything that a rebuild and the tests
need, and a build does not depend on the clock or on the folder.
"""

import configparser
import email
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from helpers.paths import ROOT

pytest.importorskip("hatchling")
pytestmark = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").exists(), reason="not part of the wheel"
)
# what Python, Numba and builds leave in the tree
LEFTOVERS = (
    "__pycache__",
    ".nbi",
    ".egg-info",
    "docs/_build",
    "docs/generated",
    ".hypothesis",
)


def build(tree, out):
    """Paths of the source archive and of the wheel."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (source,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    return source, wheel


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The tree of the source archive of this repository."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(build(ROOT, tmp_path_factory.mktemp("made"))[0]) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    return tree


@pytest.fixture(scope="module")
def archives(unpacked, tmp_path_factory):
    """Built from the unpacked tree, which nobody edits while the tests run."""
    return build(unpacked, tmp_path_factory.mktemp("first"))


def files(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in paths}


def test_the_wheel_holds_every_file_under_src(archives, unpacked):
    with zipfile.ZipFile(archives[1]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == files(unpacked / "src")
    assert {"attnscope_start.py", "attnscope/__init__.py", "attnscope/__init__.pyi"} <= names
    endings = {name.rsplit(".", 1)[-1] for name in names}
    assert {"py", "pyi", "typed", "html", "css", "js", "npz", "txt"} <= endings


def test_the_wheel_names_its_command_licence_and_author(archives):
    with zipfile.ZipFile(archives[1]) as wheel:
        text = {
            name.split(".dist-info/")[1]: wheel.read(name).decode()
            for name in wheel.namelist()
            if ".dist-info/" in name
        }
    points = configparser.ConfigParser()
    points.read_string(text["entry_points.txt"])
    assert points["console_scripts"]["attnscope"] == "attnscope_start:main"
    metadata = email.message_from_string(text["METADATA"])
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Author"] == "The attnscope authors"
    assert text["licenses/LICENSE"] == (ROOT / "LICENSE").read_text()


def test_the_source_archive_holds_what_git_tracks(unpacked):
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git repository")
    tracked = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    assert tracked - files(unpacked) == set()


def test_the_source_archive_holds_no_leftovers(unpacked):
    names = files(unpacked)
    assert {name for name in names if any(rest in name for rest in LEFTOVERS)} == set()


def test_another_folder_at_another_time_gives_the_same_bytes(archives, unpacked, tmp_path):
    copy = shutil.copytree(unpacked, tmp_path / "copy", copy_function=shutil.copy)
    again = build(copy, tmp_path / "second")
    assert [path.name for path in again] == [path.name for path in archives]
    for first, second in zip(archives, again):
        assert first.read_bytes() == second.read_bytes(), first.name
