"""Training several heads: the run that it returns, outcomes, divergence, Ctrl-C, refusals."""

from functools import cache

import numpy as np
import pytest
from helpers.several_heads import SMALL, directions, run_at
from helpers.tolerances import EXACT

import attnscope as at
from attnscope.dynamics import heads as heads_module
from attnscope.dynamics import train as train_module
from attnscope.dynamics.heads import HeadTrajectory
from attnscope.errors import AttnscopeError


@cache
def trained():
    task = at.MultiDirection(12, 4, 2, gamma=0.7, signal=3.0, noise=0.1)
    return at.train(
        task,
        at.MultiHead(at.Softmax(1.0), 2),
        runs=3,
        steps=60,
        step_size=0.02,
        log_every=25,
        batch_size=3,
    )


def test_train_returns_a_run_of_heads():
    run = trained()
    assert isinstance(run, HeadTrajectory) and run.step.tolist() == [0, 25, 50, 60]
    assert run.gram.shape == (3, 4, 8, 8) and run.overlaps.kappa.shape == (3, 4, 2, 2)
    assert run.form_cosine.shape == run.span.shape == run.excess.shape == (3, 4)
    assert (run.risk > run.excess).all() and set(run.outcome) <= {
        "specialised",
        "unspecialised",
    }
    frame = run.to_frame()
    assert len(frame) == 12 and {"kappa_11", "nu_22", "form_cosine", "span"} <= set(
        frame.columns
    )
    assert "HeadTrajectory(3 runs, 60 steps" in repr(run) and len(run.figure().panels) == 4
    np.testing.assert_allclose(run.norms, 1, atol=EXACT)


def test_extend_and_company_do_not_change_a_bit(tmp_path):
    """One head on one direction, norms free: the smallest case of the same code."""
    task, predictor = at.SingleLocation(9, 4, signal=2.0), at.MultiHead(at.Softmax(1.0), 1)
    go = lambda runs, steps: at.train(
        task,
        predictor,
        runs=runs,
        steps=steps,
        step_size=0.02,
        log_every=25,
        batch_size=3,
        constraint="free",
    )
    first = go(3, 60)
    whole = go(2, 100)
    first.save(tmp_path / "first")
    for longer in (first.extend(40), HeadTrajectory.load(tmp_path / "first").extend(40)):
        assert longer.step.tolist() == whole.step.tolist() == [0, 25, 50, 75, 100]
        assert np.array_equal(longer.gram[:2], whole.gram) and np.ptp(whole.norms) > 1e-3


def test_form_cosine_and_span_of_vectors():
    """Against the matrices themselves."""
    rng = np.random.default_rng(9)
    task = at.MultiDirection(
        7, 4, 2, keys=directions(rng, 2, 7)[0], values=directions(rng, 2, 7)[1]
    )
    K, V = directions(rng, 3, 7, 1.7)
    run = at.train(
        task,
        at.MultiHead(at.Erf(1.0), 3),
        (K, V),
        1,
        1,
        1e-9,
        1,
        batch_size=1,
        engine="full",
        constraint="free",
    )
    form = lambda a, b: sum(np.outer(x, y) + np.outer(y, x) for x, y in zip(a, b)).ravel()
    S = form(K, V)
    star = form(task.keys, task.values)
    assert run.form_cosine[0, 0] == pytest.approx(
        S @ star / np.linalg.norm(S) / np.linalg.norm(star), rel=EXACT
    )
    Q = np.linalg.qr(np.concatenate([task.keys, task.values]).T)[0]
    inside = np.linalg.norm(np.concatenate([K, V]) @ Q, axis=1) ** 2 / 1.7**2
    assert run.span[0, 0] == pytest.approx(inside.mean(), rel=EXACT)
    np.testing.assert_allclose(run.overlaps.eta[0, 0], K @ task.values.T / 1.7, atol=EXACT)


def test_outcomes():
    task = at.MultiDirection(9, 4, 2)
    K, V, mix = task.keys, task.values, np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    found = lambda head, K, V: str(run_at(task, head, K, V).outcome[0])
    soft = at.Softmax(1.0)
    odd = at.Erf(1.0)
    assert (
        found(soft, K, V)
        == found(soft, K[::-1], V[::-1])
        == found(odd, -K, -V)
        == "specialised"
    )
    assert found(soft, -K, -V) == found(soft, mix @ K, mix @ V) == "unspecialised"
    assert (
        found(odd, V, K)
        == found(odd, np.stack([V[0], K[1]]), np.stack([K[0], V[1]]))
        == "swapped"
    )
    assert found(odd, mix @ K, mix @ V) == "rotated"
    assert found(odd, K, -V) == found(odd, K[[0, 0]], V[[0, 0]]) == "unspecialised"
    # one head cannot serve two directions
    assert found(soft, K[:1], V[:1]) == "unspecialised"
    three = np.concatenate([K, K[:1]]), np.concatenate([V, V[:1]])
    assert found(soft, *three) == "specialised"


@pytest.mark.slow
def test_diverged_runs_keep_their_last_finite_gram():
    task, predictor = at.SingleLocation(9, 4), at.MultiHead(at.LinearAttention(1.0), 1)
    run = at.train(
        task,
        predictor,
        runs=2,
        steps=40,
        step_size=1e3,
        log_every=10,
        batch_size=1,
        constraint="free",
    )
    assert (run.outcome == "diverged").all() and (run.diverged_at > 0).all()
    assert np.isfinite(run.gram).all() and np.isfinite(run.risk).all()


class Exploding:
    """Run i is too long from update 10 (i + 1) - i on, the last run never;
    the others count their updates.
    """

    interrupt_at = -1

    def start(self, matrix, seed):
        return {"t": np.array(0), "matrix": matrix}

    def advance(self, state, inverse_temperatures):
        after = state["t"] + len(inverse_temperatures)
        if state["t"] <= self.interrupt_at < after:
            type(self).interrupt_at = -1  # once
            raise KeyboardInterrupt
        return state | {"t": after}

    def gram(self, state):
        i = np.arange(3)
        gone = (state["t"] >= 10 * (i + 1) - i) & (i < 2)
        size = np.where(gone, [1e13, np.nan, 1.0], 1 + state["t"] / 100)
        return state["matrix"] * size[:, None, None]


def exploding(monkeypatch):
    for module in (train_module, heads_module):
        monkeypatch.setattr(module, "heads_engine", lambda setup: Exploding())
    predictor = at.MultiHead(at.Softmax(1.0), 1)
    task = at.SingleLocation(9, 4)
    return lambda steps: at.train(
        task, predictor, runs=3, steps=steps, log_every=8, batch_size=1, constraint="free"
    )


def test_divergence_of_heads_is_located_and_does_not_depend_on_where_training_was_cut(
    monkeypatch,
):
    go = exploding(monkeypatch)
    whole = go(40)
    assert whole.diverged_at.tolist() == [10, 19, -1]
    assert whole.outcome.tolist()[:2] == ["diverged", "diverged"]
    held = np.array([[0, 8, 8, 8, 8, 8], [0, 8, 16, 16, 16, 16], [0, 8, 16, 24, 32, 40]])
    np.testing.assert_allclose(whole.gram[:, :, 0, 0], 1 + held / 100, rtol=EXACT)
    # between two log points, before and after a run is lost
    for first in (9, 10, 18, 19, 21, 39):
        longer = go(first).extend(40 - first)
        for name in ("step", "gram", "inverse_temperature", "diverged_at"):
            np.testing.assert_array_equal(
                getattr(longer, name), getattr(whole, name), err_msg=f"{first} {name}"
            )


@pytest.mark.parametrize("at_step", [0, 13, 39])
def test_ctrl_c_keeps_what_was_logged_of_heads(at_step, monkeypatch, capsys):
    go = exploding(monkeypatch)
    whole = go(40)
    monkeypatch.setattr(Exploding, "interrupt_at", at_step)
    run = go(40)
    kept = at_step // 8 * 8
    assert run.step.tolist() == list(range(0, kept + 1, 8))
    assert (
        capsys.readouterr().err
        == f"Interrupted; {kept} of 40 steps are kept: go on with run.extend({40 - kept}).\n"
    )
    np.testing.assert_array_equal(run.extend(40 - kept).gram, whole.gram)


def test_independent_positions_train_on_vectors():
    task = at.MultiDirection(8, 4, 2, "independent", gamma=1.0, signal=2.0)
    run = at.train(
        task,
        at.MultiHead(at.Softmax(2.0), 2),
        runs=1,
        steps=2,
        log_every=1,
        batch_size=2,
        engine="full",
        step_size=0.01,
    )
    assert np.isfinite(run.gram).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"batch_size": None, "engine": "full"},
            "batch_size of train must be an integer, got None with engine='full'",
        ),
        ({"swap_move": True}, "swap_move of train"),
        ({"constraint": "cube"}, "constraint of train"),
        ({"start": "manifold"}, "start of train"),
        ({"start": np.eye(7)}, "start of train"),
        ({"start": np.eye(8) * 1.5}, "the task's own teachers"),
        (
            {"task": at.GaussianLocation(3)},
            "task of train must be a planted task with a key and a value",
        ),
        ({"task": at.MultiDirection(7, 4, 2)}, "try the full engine"),
        (
            {
                "task": at.SingleLocation(9, 4),
                "predictor": at.Softmax(1.0),
                "constraint": "free",
            },
            "try MultiHead",
        ),
    ],
)
def test_bad_training_input_gets_one_sentence(arguments, words):
    given = {
        "task": SMALL,
        "predictor": at.MultiHead(at.Softmax(1.0), 2),
        "batch_size": 2,
        "steps": 3,
        "log_every": 1,
    }
    with pytest.raises(AttnscopeError, match=words):
        at.train(**{**given, **arguments})
