"""Study files with mistakes: each is one sentence, and none is a traceback."""

import pytest
from helpers.commands import run

HEAD = 'function = "oracle_risk"\n'
GRID = HEAD + "[grid]\ndim = [10, 20]\nlength = [5]\n"
WORDS = GRID + 'predictor = ["erf", "linear"]\n'
NUMBER = "1" + "0" * 400  # beyond a float
DIGITS = "1" + "0" * 5000  # beyond what Python reads

MISTAKES = {
    "nothing": "",
    "function is a number": "function = 3",
    "function without a module": 'function = ":x"\n[grid]\na = [1]',
    "function with dots": 'function = "..:x"\n[grid]\na = [1]',
    "function without a name": 'function = "os:"\n[grid]\na = [1]',
    "function is no function": 'function = "os:sep"\n[grid]\na = [1]',
    "function of C": 'function = "os:system"\n[grid]\ncommand = ["true"]',
    "function with a NUL": 'function = "a\\u0000b:x"\n[grid]\na = [1]',
    "grid is a list": HEAD + "grid = [1]",
    "grid of lists": HEAD + "[grid]\ndim = [[1, 2], [3]]\nlength = [5]",
    "grid of dates": HEAD + "[grid]\ndim = [1979-05-27]\nlength = [5]",
    "grid of NaN": HEAD + "[grid]\ndim = [nan]\nlength = [5]",
    "grid of infinity": HEAD + "[grid]\ndim = [inf]\nlength = [5]",
    "grid of words": HEAD + '[grid]\ndim = ["ten"]\nlength = [5]',
    "grid of booleans": HEAD + "[grid]\ndim = [true]\nlength = [5]",
    "grid of nothing": HEAD + "[grid]\ndim = []\nlength = [5]",
    "grid too large": HEAD
    + "[grid]\n"
    + "".join(f"a{i} = {{from = 1, to = 2, count = 100000}}\n" for i in range(4)),
    "a name with a NUL": HEAD + '[grid]\n"di\\u0000m" = [10]\nlength = [5]',
    "a number beyond floats": HEAD + f"[grid]\ndim = [{NUMBER}]\nlength = [5]",
    "a number beyond digits": HEAD + f"[grid]\ndim = [{DIGITS}]\nlength = [5]",
    "task is a list": GRID + '[fixed]\ntask = ["single-location"]',
    "task is a table": GRID + "[fixed]\ntask = {a = 1}",
    "task is a number": GRID + "[fixed]\ntask = 3",
    "task without a module": GRID + '[fixed]\ntask = ":x"',
    "task with dots": GRID + '[fixed]\ntask = "..x:y"',
    "lengths are one": GRID.replace("length = [5]", 'lengths = 0\ntask = "random-length"'),
    "predictor is a number": GRID + "[fixed]\npredictor = 3.5",
    "range too long": HEAD + "[grid]\ndim = {from = 1, to = 10, count = 1e18}\nlength = [5]",
    "range from NaN": HEAD + "[grid]\ndim = {from = nan, to = 10, count = 3}\nlength = [5]",
    "range to infinity": HEAD
    + "[grid]\ndim = {from = 1, to = inf, count = 3, whole = true}\nlength = [5]",
    "range too wide": HEAD
    + "[grid]\ndim = {from = -1e308, to = 1e308, count = 3, whole = true}\nlength = [5]",
    "range with infinite count": HEAD
    + "[grid]\ndim = {from = 1, to = 3, count = inf}\nlength = [5]",
    "range beyond floats": HEAD
    + f"[grid]\ndim = {{from = 1, to = {NUMBER}, count = 3}}\nlength = [5]",
    "scale is a list": HEAD
    + '[grid]\ndim = {from = 1, to = 3, count = 2, scale = ["log"]}\nlength = [5]',
    "figure of a list": GRID + '[figure]\nkind = ["heat"]',
    "figure x is a list": GRID + '[figure]\nkind = "line"\nx = ["dim"]\nvalue = "excess"',
    "figure x is a number": GRID + '[figure]\nkind = "line"\nx = 3\nvalue = "excess"',
    "figure x is words": WORDS + '[figure]\nkind = "line"\nx = "predictor"\nvalue = "risk"',
    "figure heat of words": WORDS
    + '[figure]\nkind = "heat"\nx = "predictor"\ny = "dim"\nvalue = "risk"',
    "figure value is words": WORDS
    + '[figure]\nkind = "line"\nx = "dim"\nvalue = "predictor"',
    "figure of one column": GRID
    + '[figure]\nkind = "heat"\nx = "dim"\ny = "dim"\nvalue = "risk"',
    "figure group is its x": GRID
    + '[figure]\nkind = "line"\nx = "dim"\nvalue = "risk"\ngroup = "dim"',
    "figure with a table": GRID
    + '[figure]\nkind = "line"\nx = "dim"\nvalue = "risk"\nlog_x = {a = 1}',
    "seed is a word": 'seed = "a"\n' + GRID,
    "title is a number": "title = 3\n" + GRID,
    "deep lists": "a = " + "[" * 2000 + "]" * 2000,
    "deep names": ".".join(["a"] * 3000) + " = 1",
    "byte order mark": "\ufeff" + GRID,
    "curve of a word": 'function = "learning_curve"\n[grid]\nalpha = ["x"]',
    "curve of a list": 'function = "learning_curve"\n[grid]\nalpha = [1.0]\n'
    'predictor = [["bayes"]]',
    "outcomes of a word": 'function = "outcomes"\n[grid]\ndim = [10]\ninverse_temperature = [0.1]\n'
    'seed = ["a"]',
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_study_is_one_sentence(mistake, tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(MISTAKES[mistake], encoding="utf-8")
    code, _, said = run("sweep", path, "--store", tmp_path / "store", "--out", tmp_path)
    assert code == 2, said
    assert said.startswith("error: ") and said.endswith(".")
    assert "Traceback" not in said and "\n" not in said


@pytest.mark.parametrize("content", [b'title = "\xe9"', b"\xff\xfe", b"\0" * 100])
def test_bytes_that_are_no_text_are_one_sentence(content, tmp_path):
    path = tmp_path / "study.toml"
    path.write_bytes(content)
    code, _, said = run("sweep", path, "--store", tmp_path / "store")
    assert (code, said.count("\n")) == (2, 0)
    assert "valid TOML" in said


def test_a_study_without_an_end_is_refused(tmp_path):
    path = tmp_path / "study.toml"
    path.symlink_to("/dev/zero")
    code, _, said = run("sweep", path, "--store", tmp_path / "store")
    assert code == 2
    assert "at most" in said


def test_a_study_that_is_a_loop_of_links_is_refused(tmp_path):
    path = tmp_path / "study.toml"
    path.symlink_to(path)
    code, _, said = run("sweep", path, "--store", tmp_path / "store")
    assert (code, "must be readable" in said) == (2, True)


@pytest.mark.parametrize("noise", ["1e-300", "1e-160", "1e-30"])
def test_noise_that_is_all_but_none_is_refused_at_once(noise):
    code, _, said = run("curve", "--alpha", "1,2", "--noise", noise)
    assert (code, "noise" in said) == (2, True)
