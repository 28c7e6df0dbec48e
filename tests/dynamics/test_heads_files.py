"""Runs of heads in files: every bit comes back, bad files get one sentence."""

from dataclasses import fields

import numpy as np
import pytest
from helpers.settings import one_sentence
from helpers.several_heads import SMALL, directions, run_at

import attnscope as at
from attnscope.dynamics.heads import HeadTrajectory
from attnscope.dynamics.setup import HeadSetup

OBLIQUE = {
    "keys": np.eye(9)[[0, 1]],
    "values": np.eye(9)[[2, 3]] * 0.8 + np.eye(9)[[0, 1]] * 0.6,
}
STORED = {
    "drawn": (
        at.MultiDirection(9, 4, 2, gamma=0.6, signal=1.5, noise=0.3, seed=5),
        at.Softmax(1.0),
    ),
    "given": (at.MultiDirection(9, 4, 2, **OBLIQUE), at.LinearAttention(0.1, 0.2)),
    "half": (at.MultiDirection(9, 4, 2, keys=OBLIQUE["keys"], seed=2), at.SoftmaxOne(0.7)),
    "independent": (
        at.MultiDirection(9, 4, 2, "independent"),
        at.Erf(at.InverseTime(0.3, rate=1e-3)),
    ),
    "one direction": (
        at.SingleLocation(9, 4, location_probs=[0.1, 0.2, 0.3, 0.4], seed=3),
        at.Erf(0.1),
    ),
}


@pytest.mark.parametrize("name", STORED)
def test_a_file_of_heads_keeps_every_bit(name, tmp_path):
    task, head = STORED[name]
    K, V = directions(np.random.default_rng(6), 2, 9)
    run = run_at(task, head, K, V, inverse_temperature=0.3)
    run.state.update(
        gram=run.gram[:, 0],
        keys=np.array([[7, 2**32 - 1]], dtype=np.uint32),
        count=np.array(3),
    )
    run.save(tmp_path / "run")
    again = HeadTrajectory.load(tmp_path / "run.npz")
    assert (
        type(again) is HeadTrajectory
        and repr(again) == repr(run)
        and [p.name for p in tmp_path.iterdir()] == ["run.npz"]
    )
    for field in fields(HeadSetup)[1:]:
        assert getattr(again.setup, field.name) == getattr(run.setup, field.name), field.name
    assert type(again.setup.task) is type(task) and repr(again.setup.task) == repr(task)
    teachers = (
        ("key", "value", "location_probs") if name == "one direction" else ("keys", "values")
    )
    pairs = [(getattr(again.setup.task, x), getattr(task, x)) for x in teachers]
    pairs += [
        (getattr(again, x), getattr(run, x))
        for x in ("step", "gram", "inverse_temperature", "diverged_at", "span")
    ]
    pairs += [(again.state[x], run.state[x]) for x in run.state]
    for got, saved in pairs:
        assert (
            got.dtype == saved.dtype
            and got.shape == saved.shape
            and got.tobytes() == saved.tobytes()
        )
    assert again.state.keys() == run.state.keys() and "excess" not in vars(again)


def test_a_risk_once_computed_is_in_the_file(tmp_path):
    run = run_at(*STORED["drawn"], *directions(np.random.default_rng(6), 2, 9))
    run.excess
    run.save(tmp_path / "run")
    again = HeadTrajectory.load(tmp_path / "run")
    assert (
        vars(again)["excess"].tobytes() == run.excess.tobytes()
        and again.risk_at() == run.risk_at()
    )
    given = HeadTrajectory.load(tmp_path / "run", predictor=at.MultiHead(at.Softmax(2.0), 2))
    assert "excess" not in vars(given)  # another predictor, another risk


def test_heads_with_a_users_function_must_be_given_again(tmp_path):
    several = at.MultiHead(at.Erf(lambda t: 0.1), 2)
    run_at(SMALL, several.head, *directions(np.random.default_rng(6), 2, 9)).save(
        tmp_path / "c"
    )
    one_sentence(
        lambda: HeadTrajectory.load(tmp_path / "c"),
        r"predictor of HeadTrajectory\.load must be given again",
    )
    for wrong in (several.head, at.MultiHead(several.head, 3)):
        load = lambda wrong=wrong: HeadTrajectory.load(tmp_path / "c", predictor=wrong)
        one_sentence(
            load,
            r"predictor of HeadTrajectory\.load must be a MultiHead with 2 heads, as in the file",
        )
    assert HeadTrajectory.load(tmp_path / "c", predictor=several).setup.predictor is several


def test_bad_files_of_heads_get_one_sentence(tmp_path):
    run = run_at(*STORED["drawn"], *directions(np.random.default_rng(6), 2, 9))
    load = lambda name, kind=HeadTrajectory: lambda: kind.load(tmp_path / name)
    one_sentence(load("none"), r"path of HeadTrajectory\.load must be a file that exists")
    run.save(tmp_path / "heads")
    whole = (tmp_path / "heads.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.npz").write_text("no zip")
    at.train(at.SingleLocation(9, 4), at.Erf(0.1), runs=1, steps=1, log_every=1).save(
        tmp_path / "one"
    )
    for name in ("cut", "text", "one"):
        one_sentence(
            load(name),
            r"path of HeadTrajectory\.load must be a file that HeadTrajectory\.save wrote",
        )
    one_sentence(
        load("heads", at.Trajectory),
        r"path of Trajectory\.load must be a file that Trajectory\.save wrote",
    )
    one_sentence(
        lambda: run.save(tmp_path / "no" / "where"),
        "path of save must be in a folder that exists",
    )
