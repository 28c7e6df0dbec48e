"""A map that drifts: posterior against the joint normal law, risks by a second route.

Sampled comparisons use 5 standard errors, seeds fixed before looking: a true statement fails with
probability 6e-7 each.
"""

import numpy as np
import pytest
from helpers.tolerances import EXACT, LONG_SUM, SOLVED

import attnscope as at
from attnscope.tasks.exchangeable.slot_filter import slot_variance

LAWS = ("normal", "sphere", "one-hot")


def joint(task, keys, query):
    """Covariance of the values, their covariance with w_L.q, and its variance, of one row."""
    L = len(keys)
    age = np.arange(L - 1, -1, -1)
    lam = task.prior_variance
    C = lam * task.decay ** np.abs(age[:, None] - age) * (keys @ keys.T)
    cross = lam * task.decay**age * (keys @ query)
    return C + task.noise**2 * np.eye(L), cross, lam * query @ query


@pytest.mark.parametrize("decay", [1.0, 0.97, 0.5, 0.0])
@pytest.mark.parametrize("length", [0, 1, 5, 30])
def test_the_filter_is_the_conditional_law(decay, length):
    task = at.DriftingMap(4, 2, 1.7, 0.3, decay, "normal")
    batch = task.sample(3, length, seed=1)
    mean, variance = task.predictive(batch.query, batch.keys, batch.values)
    logs = task.log_probability(batch.keys, batch.values)
    found = task.posterior(batch.keys, batch.values)
    for i in range(3):
        C, cross, own = joint(task, batch.keys[i], batch.query[i])
        solved = np.linalg.solve(C, cross) if length else np.zeros(0)
        np.testing.assert_allclose(mean[i], solved @ batch.values[i], atol=LONG_SUM)
        assert variance[i] == pytest.approx(own - solved @ cross + 0.09, abs=LONG_SUM)
        log_p = -0.5 * sum(
            length * np.log(2 * np.pi) + np.linalg.slogdet(C)[1] + v @ np.linalg.solve(C, v)
            for v in batch.values[i].T
        )
        assert logs[i] == pytest.approx(log_p, abs=SOLVED)
        q = batch.query[i]
        assert q @ found.covariance[i] @ q == pytest.approx(variance[i] - 0.09, abs=LONG_SUM)
        np.testing.assert_allclose(found.mean[i] @ q, mean[i], atol=EXACT)


def test_leading_axes_and_one_context():
    task = at.DriftingMap(3, 1, decay=0.9)
    batch = task.sample(4, 6, seed=2)
    whole = task.bayes_predict(batch.query, batch.keys, batch.values)
    one = task.bayes_predict(batch.query[1], batch.keys[1], batch.values[1])
    np.testing.assert_array_equal(whole[1], one)
    shaped = task.posterior(batch.keys.reshape(2, 2, 6, 3), batch.values.reshape(2, 2, 6, 1))
    assert shaped.mean.shape == (2, 2, 1, 3)


@pytest.mark.parametrize("keys", LAWS)
def test_bayes_risk_is_that_of_the_predictions(keys):
    task = at.DriftingMap(4, 2, 1.0, 0.5, 0.95, keys)
    risk = task.bayes_risk(40)
    batch = task.sample(4000, 40, seed=11)
    truth = task.conditional_mean(batch.latent, batch.query)
    predicted = task.bayes_predict(batch.query, batch.keys, batch.values)
    losses = np.sum((predicted - truth) ** 2, axis=1)
    error = np.hypot(losses.std() / len(losses) ** 0.5, risk.error)
    assert abs(losses.mean() - risk.excess) < 5 * error
    noisy = np.sum((predicted - batch.target) ** 2, axis=1)
    error = np.hypot(noisy.std() / len(noisy) ** 0.5, risk.error)
    assert abs(noisy.mean() - risk.value) < 5 * error


@pytest.mark.parametrize("keys", ["normal", "sphere"])
def test_without_drift_it_is_the_linear_map(keys):
    task = at.DriftingMap(3, 1, 1.0, 0.5, 1.0, keys)
    static = at.LinearMap(3, 1, 1.0, 0.5, keys=keys)
    assert task.bayes_risk(8) == static.bayes_risk(8)
    nearly = at.DriftingMap(3, 1, 1.0, 0.5, 1 - 1e-9, keys).bayes_risk(8)
    assert abs(nearly.excess - static.bayes_risk(8).excess) < 5 * (
        nearly.error + static.bayes_risk(8).error
    )


def test_one_token_and_no_memory():
    """a = 0: only the last token counts; on the sphere lam (1 - lam/(d (lam + s^2)))."""
    lam, s2, d = 2.0, 0.25, 5
    exact = lam * (1 - lam / (d * (lam + s2)))
    for decay, length in ((0.0, 7), (0.9, 1)):
        task = at.DriftingMap(d, 1, lam, 0.5, decay, "sphere")
        assert task.bayes_risk(length).excess == pytest.approx(exact, rel=SOLVED)
    assert at.DriftingMap(d, 3, lam, 0.5).bayes_risk(0).excess == 3 * d * lam


def branches(lam, s2, a, p, length):
    """u_L(lam) by all 2^L patterns of writes."""

    def u(m, x):
        if not m:
            return x
        y = a * a * x + (1 - a * a) * lam
        return (1 - p) * u(m - 1, y) + p * u(m - 1, y * s2 / (y + s2))

    return u(length, lam)


@pytest.mark.parametrize("noise", [1e-6, 0.5, 30.0])
@pytest.mark.parametrize("decay", [1.0, 1 - 1e-8, 0.99, 0.3, 0.0])
def test_one_slot_by_all_patterns(noise, decay):
    for length in (1, 4, 11):
        value, error = slot_variance(1.3, noise, decay, 1 / 8, length)
        assert abs(value - branches(1.3, noise**2, decay, 1 / 8, length)) <= error < 1e-10


def test_one_hot_bayes_numbers():
    """d = 8, s = .5, long contexts: six printed digits."""
    found = [
        at.DriftingMap(8, 1, 1.0, 0.5, a, "one-hot").bayes_risk(20_000).excess
        for a in (0.999, 0.99, 0.9)
    ]
    assert [round(x, 6) for x in found] == [0.065787, 0.225783, 0.648574]


def test_what_is_left_falls_with_every_token():
    task = at.DriftingMap(6, decay=0.98, keys="sphere")
    mean = task.trace_curve(60, 400, seed=3).mean(axis=0)
    assert (np.diff(mean)[:20] < 0).all()
    assert mean[-1] < 0.5 * mean[0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: at.DriftingMap(decay=1.1),
            "decay of DriftingMap must be .* >= 0 and <= 1, got",
        ),
        (lambda: at.DriftingMap(decay=-0.1), "decay of DriftingMap must be"),
        (lambda: at.DriftingMap(noise=0.0), "noise of DriftingMap must be .* > 0, got 0.0"),
        (lambda: at.DriftingMap(keys="cube"), "keys of DriftingMap must be one of"),
        (lambda: at.DriftingMap().sample(0, 5), "n of DriftingMap.sample must be"),
        (lambda: at.DriftingMap().bayes_risk(-1), "length of DriftingMap.bayes_risk must be"),
        (
            lambda: at.DriftingMap(decay=1 - 1e-15, noise=1e-9).bayes_risk(50),
            "decay of DriftingMap.bayes_risk must be 0, 1, or so far from 1",
        ),
        (
            lambda: at.DriftingMap(3).posterior(np.ones((4, 3)), np.ones((3, 1))),
            "values of DriftingMap.posterior must be",
        ),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(at.AttnscopeError, match=words):
        call()
