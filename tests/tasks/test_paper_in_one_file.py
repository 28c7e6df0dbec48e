"""A paper in one file: 25 lines from outside the package get everything on the list.

Sampled comparisons use 5 standard errors (6e-7 each). Slow: every engine compiles once.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

import numpy as np
import pytest
from helpers.papers import SIGN_LOCATION, install
from typer.testing import CliRunner

import attnscope as at
from attnscope import registry
from attnscope.cli import app
from attnscope.theory.overlaps import head_gram

pytestmark = pytest.mark.slow
SOMEWHERE = at.Overlaps(0.5, 0.1, 0.2, 0.6, -0.1)
HEADS = (at.Softmax(1.0), at.Erf(1.0))
SMALL = {"runs": 2, "steps": 6, "log_every": 3, "progress": False}


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    """(path, class) of the file, somewhere on disk."""
    path = tmp_path_factory.mktemp("elsewhere") / "one_file_paper.py"
    path.write_text(SIGN_LOCATION)
    sys.path.insert(0, str(path.parent))
    yield path, import_module("one_file_paper").SignLocation
    sys.path.remove(str(path.parent))
    sys.modules.pop("one_file_paper", None)
    registry.remove("sign-location", registry.TASKS)


@pytest.fixture(scope="module")
def task(paper):
    return paper[1](dim=8, length=3)


def run(*words):
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_it_has_25_lines():
    assert len(SIGN_LOCATION.splitlines()) <= 25
    assert (
        "attnscope.theory" not in SIGN_LOCATION and "import attnscope as at" in SIGN_LOCATION
    )


@pytest.mark.parametrize("head", HEADS)
def test_risk_has_an_error_and_holds(task, head):
    found = at.risk(task, head, SOMEWHERE)
    drawn = at.risk(task, head, SOMEWHERE, method="monte-carlo", samples=200_000)
    assert 0 < found.error < 2e-3
    assert abs(found.value - drawn.value) < 5 * np.hypot(found.error, drawn.error)
    gram = head_gram(SOMEWHERE, np.eye(2))
    assert at.risk(task, head, gram).value == pytest.approx(found.value, rel=1e-12)


@pytest.mark.parametrize("head", HEADS)
def test_gradient_is_that_of_the_risk(task, head):
    """Differences of sixth order, within the errors of the gradient and of the six risks; the step of
    .01 leaves h^6/140 of the seventh derivative, which is less.
    """
    h = 0.01
    weights = {1: 45 / 60, 2: -9 / 60, 3: 1 / 60}
    slope = at.risk_gradient(task, head, SOMEWHERE)
    for name in SOMEWHERE._fields:
        difference = error = 0.0
        for count, weight in weights.items():
            for sign in (1, -1):
                there = getattr(SOMEWHERE, name) + sign * count * h
                found = at.risk(task, head, SOMEWHERE._replace(**{name: there}))
                difference += sign * weight * found.value / h
                error += abs(weight) * found.error / h
        allowed = getattr(slope.error, name) + error
        assert getattr(slope.error, name) < 1e-9
        assert abs(difference - getattr(slope, name)) < allowed, name


@pytest.mark.parametrize("family", [at.Softmax, at.Erf])
def test_best_inverse_temperature(task, family):
    best, found = at.optimal_inverse_temperature(task, family)
    assert best > 0 and found.error > 0
    for factor in (0.6, 0.9, 1.1, 1.6):
        other = at.risk(task, family(best * factor), at.Overlaps.oracle())
        assert found.value - other.value < 5 * np.hypot(found.error, other.error)


def test_stationary_points_and_their_spectrum(task):
    """The best point is a minimum that no random direction leaves downwards."""
    points = at.stationary_points(task, at.Softmax(1.0), starts=1)
    best = points[0]
    assert (best.name, best.kind) == ("oracle", "minimum")
    assert (best.eigenvalues > 5 * best.errors).all()
    # all directions of two unit vectors in R^8
    assert best.multiplicities.sum() == 2 * (task.dim - 1)
    assert len(points) > 1 and points[1].risk.value > best.risk.value
    rng = np.random.default_rng(0)
    teachers = task.teachers
    for _ in range(3):
        k, v = (t + 0.2 * rng.standard_normal(8) for t in teachers)
        o = at.Overlaps.of(task, k / np.linalg.norm(k), v / np.linalg.norm(v))
        other = at.risk(task, at.Softmax(1.0), o)
        assert other.value > best.risk.value - 5 * np.hypot(other.error, best.risk.error)


def test_landscape(task, tmp_path):
    found = at.risk_landscape(task, at.Softmax(1.0), points=7, starts=None)
    middle = at.risk(task, at.Softmax(1.0), at.Overlaps(0.0, 0.0, 0.0, 0.0, 0.0))
    assert abs(found.risk[3, 3] - middle.value) < 5 * np.hypot(
        found.error[3, 3], middle.error
    )
    path = tmp_path / "landscape.png"
    found.figure().save(path)
    assert path.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("how", ["population", "sgd", "full"])
def test_training(task, how):
    rest = {} if how == "population" else {"batch_size": 4}
    if how == "full":
        rest["engine"] = "full"
    found = at.train(task, at.Softmax(1.0), step_size=0.1, **SMALL, **rest)
    assert found.excess.shape == (2, 3) and np.isfinite(found.excess).all()
    again = at.train(task, at.Softmax(1.0), step_size=0.1, **SMALL, **rest)
    assert np.array_equal(found.log, again.log)
    longer = found.extend(6, progress=False)
    assert np.array_equal(longer.log[..., : found.log.shape[-1]], found.log)


def test_flow_and_descent_go_the_same_way(task):
    start = at.Overlaps(0.3, 0.0, 0.0, 0.3, 0.0)
    flow = at.gradient_flow(task, at.Softmax(1.0), start, [0.0, 1.0], tolerance=1e-4)
    steps = at.train(
        task, at.Softmax(1.0), start=start, runs=1, steps=40, log_every=40, step_size=0.025,
        progress=False,
    )  # fmt: skip
    assert flow.excess[0, -1] < flow.excess[0, 0]
    # Euler steps of 1/40: an error of a fortieth of what was won
    won = flow.excess[0, 0] - flow.excess[0, -1]
    assert abs(flow.excess[0, -1] - steps.excess[0, -1]) < won / 10


def test_inference_by_enumeration(task):
    batch = task.sample(20_000, seed=1)
    posterior = task.posterior(batch.tokens)
    assert posterior.shape == (20_000, 3) and np.allclose(posterior.sum(1), 1)
    errors = (task.bayes_predict(batch.tokens) - batch.target) ** 2
    bayes = task.bayes_risk()
    spread = errors.std() / np.sqrt(len(errors))
    assert abs(errors.mean() - bayes.value) < 5 * np.hypot(spread, bayes.error)
    for head in HEADS:
        assert at.risk(task, head, at.Overlaps.oracle()).value > bayes.value


def test_command_line(paper, tmp_path, monkeypatch):
    word = f"{paper[0]}:SignLocation"
    small = ("--dim", 8, "--length", 3)
    rows = json.loads(run("risk", "--task", word, *small, "--json"))["risks"]
    assert {row["name"].split(":")[0] for row in rows} >= {"null", "Bayes"}
    options = ("--runs", 2, "--steps", 4, "--batch-size", 2, "--json")
    run("train", "--task", word, *small, *options)
    study = tmp_path / "study.toml"
    fixed = f'task = "{word}"\ndim = 8\nlength = 3\n'
    text = f'function = "oracle_risk"\n[grid]\ninverse_temperature = [0.5, 1.0]\n[fixed]\n{fixed}'
    study.write_text(text)
    run("sweep", study, "--store", tmp_path / "runs", "--out", tmp_path)
    told = (tmp_path / "study.csv").read_text().splitlines()
    assert len(told) == 3 and "error_of_risk" in told[0]
    assert "2 from the store" in run(
        "sweep", study, "--store", tmp_path / "runs", "--out", tmp_path
    )
    served = []
    monkeypatch.setattr("attnscope_explorer.app.serve", lambda *_, **__: served.append(1))
    run("explore", "--task", word, "--no-browser")
    from attnscope_explorer.compute import cached_view
    from attnscope_explorer.knobs import arguments_of
    from attnscope_explorer.state import default_state

    assert served and {"dim", "length", "signal"} <= set(arguments_of("sign-location"))
    state = default_state("risk").changed(task="sign-location", dim=8, length=3)
    assert cached_view(state).figure.panels[0].marks


def test_new_writes_a_file_that_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("new", "task", "FreshSign")
    made = sorted(path.name for path in tmp_path.glob("*.py"))
    assert len(made) == 2 and any(name.startswith("test_") for name in made)
    file = next(name for name in made if not name.startswith("test_"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        word = f"{tmp_path / file}:FreshSign"
        rows = json.loads(run("risk", "--task", word, "--dim", 8, "--length", 3, "--json"))
        assert rows["risks"]
    finally:
        registry.remove("fresh-sign", registry.TASKS)
        sys.modules.pop(file.removesuffix(".py"), None)


def test_entry_points(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(install(tmp_path / "site"))])
    setting = ("--task", "packed-sign", "--dim", 8, "--length", 3)
    try:
        rows = json.loads(run("risk", *setting, "--json"))["risks"]
        assert all(np.isfinite(row["value"]) for row in rows)
        run("train", *setting, "--runs", 2, "--steps", 4, "--batch-size", 2, "--json")
    finally:
        registry.remove("packed-sign", registry.TASKS)
        for name in [name for name in sys.modules if name.split(".")[0] == "sign_pack"]:
            del sys.modules[name]
