"""The examples run and write their figure;
those that need a data wheel say so without it.
"""

import runpy
from importlib.util import find_spec

import numpy as np
import pytest
from helpers.paths import ROOT

from attnscope.corpora import installed, minilm

FOLDER = ROOT / "examples"
NAMES = (
    "how_many_bags",
    "how_much_to_order",
    "own_bags",
    "slides_on_disk",
    "topic_attention",
    "which_digit",
    "which_exponent",
    "which_molecule_shape",
    "which_neighbours",
    "which_word",
    "which_word_in_a_tweet",
)


def example(name: str) -> dict:
    # its name is not "__main__", so it only defines
    return runpy.run_path(str(FOLDER / f"{name}.py"))


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("own_bags", {"n": 80}),
        ("which_digit", {"bags": 120}),
        pytest.param("which_neighbours", {"n": 40}, marks=pytest.mark.slow),
        ("topic_attention", {"n": 200}),
        ("which_exponent", {"n": 200}),
        ("how_much_to_order", {"histories": 2}),
        pytest.param("how_many_bags", {"dim": 60}, marks=pytest.mark.slow),
    ],
)
def test_examples_without_wheels_run(name, sizes, tmp_path, capsys):
    out = tmp_path / "figure.svg"
    example(name)["main"](str(out), **sizes)
    printed = capsys.readouterr().out
    assert out.read_text().startswith("<?xml") and f"wrote {out}" in printed


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_short(name):
    assert len((FOLDER / f"{name}.py").read_text().splitlines()) < 80


@pytest.mark.parametrize("name", ["which_word", "which_molecule_shape"])
def test_examples_without_their_wheel_say_so(name, tmp_path, capsys, monkeypatch):
    def absent(package):
        raise installed.PackageNotFoundError(package)

    minilm._load_tokenizer.cache_clear()
    monkeypatch.setattr(installed, "distribution", absent)
    out = tmp_path / "figure.svg"
    example(name)["main"](str(out))
    assert capsys.readouterr().out.startswith("skipped: ") and not out.exists()


def test_tweets_that_are_not_there_are_said_with_the_command(tmp_path, capsys):
    out = tmp_path / "figure.svg"
    example("which_word_in_a_tweet")["main"](str(out), folder=str(tmp_path))
    printed = capsys.readouterr().out
    assert printed.startswith("skipped: ") and "pip download" in printed
    assert not out.exists()


@pytest.mark.slow
def test_slides_on_disk(tmp_path, capsys):
    """With h5py the lesions are found and drawn; without, it says so."""
    out = tmp_path / "figure.svg"
    example("slides_on_disk")["main"](str(out), n=80)
    printed = capsys.readouterr().out
    if find_spec("h5py") is None:
        assert printed.startswith("skipped: ") and not out.exists()
    else:
        assert "lesion patch found in 100%" in printed
        assert out.read_text().startswith("<?xml") and f"wrote {out}" in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["which_word", "which_molecule_shape"])
def test_examples_with_wheels_run(name, tmp_path, capsys):
    out = tmp_path / "figure.svg"
    example(name)["main"](str(out))
    printed = capsys.readouterr().out
    if printed.startswith("skipped: "):
        pytest.skip(printed.strip())
    assert out.read_text().startswith("<?xml") and f"wrote {out}" in printed


def test_musk_example_measures_ranks():
    auc = example("which_molecule_shape")["auc"]
    assert (
        auc(np.array([3.0, 1.0, 2.0, 2.0]), np.array([1, 0, 1, 0])) == (1 + 1 + 1 + 0.5) / 4
    )
