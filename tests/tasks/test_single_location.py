"""SingleLocation: the law of its samples, inference, linear risk, memory and reproducibility."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from helpers.memory import PEAK
from helpers.settings import unit
from helpers.tolerances import EXACT, FIVE_DIGITS, FORMULA, LAST_DIGIT, LONG_SUM, SOLVED
from scipy import stats

import attnscope as at


def pmf(length, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(length))


def test_sample_has_the_stated_law():
    """Per-position moments of 40,000 sequences within 4.9 standard errors:
    about 150 comparisons, false alarm 1.5e-4.
    """
    probs = pmf(4)
    task = at.SingleLocation(
        dim=5, length=4, gamma=0.6, noise=0.2, signal=1.7, location_probs=probs
    )
    x, y, j = task.sample(40_000, seed=3)
    n = len(y)
    counts = np.bincount(j, minlength=4)
    assert np.all(np.abs(counts - n * probs) < 4.9 * np.sqrt(n * probs * (1 - probs)))
    informative = x[np.arange(n), j]
    assert np.all(np.abs(informative.mean(0) - 1.7 * task.key) < 4.9 * 0.6 / np.sqrt(n))
    assert np.all(np.abs(informative.var(0) / 0.36 - 1) < 4.9 * np.sqrt(2 / n))
    background = np.delete(x.reshape(n * 4, 5), np.arange(n) * 4 + j, axis=0)
    assert np.all(np.abs(background.mean(0)) < 4.9 / np.sqrt(3 * n))
    assert stats.kstest(background.ravel()[:200_000], "norm").pvalue > 1e-4
    noise = (y - informative @ task.value) / 0.2
    assert stats.kstest(noise, "norm").pvalue > 1e-4
    assert stats.kstest((informative - 1.7 * task.key).ravel() / 0.6, "norm").pvalue > 1e-4


def test_sample_is_reproducible_and_seeds_differ():
    task = at.SingleLocation(dim=6, length=3)
    a = task.sample(50, seed=1)
    b = task.sample(50, seed=1)
    c = task.sample(50, seed=2)
    assert all(np.array_equal(x, y) for x, y in zip(a, b))
    assert not np.array_equal(a.tokens, c.tokens)
    assert len(set(a.location)) == 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype_and_label_of_stored_token(dtype):
    task = at.SingleLocation(dim=6, length=3)
    x, y, j = task.sample(100, seed=0, dtype=dtype)
    assert x.dtype == dtype
    assert y.dtype == np.float64
    np.testing.assert_allclose(
        x[np.arange(100), j].astype(float) @ task.value, y, atol=FORMULA
    )


def test_batches_stream_n_sequences():
    task = at.SingleLocation(dim=4, length=3)
    batches = list(task.batches(25, 10, seed=4))
    assert [len(b.target) for b in batches] == [10, 10, 5]
    again = next(itertools.islice(task.batches(25, 10, seed=4), 1, 2))
    assert np.array_equal(batches[1].tokens, again.tokens)
    assert not np.array_equal(batches[0].tokens, batches[1].tokens)


@pytest.mark.slow  # processes that draw hundreds of megabytes
def test_peak_memory_is_that_of_the_result():
    """Peak resident growth at most 1.2x the returned array, also at L = 1,
    where every token is informative.
    """
    code = """
import attnscope as at
task = at.SingleLocation(dim=1000, length={length})
task.sample(2, seed=0)
before = peak()
batch = task.sample({n}, seed=0, dtype="{dtype}")
print((peak() - before) / batch.tokens.nbytes)
"""
    for length, n, dtype in (
        (1, 40_000, "float64"),
        (10, 4_000, "float64"),
        (1, 80_000, "float32"),
    ):
        run = subprocess.run(
            [sys.executable, "-c", PEAK + code.format(length=length, n=n, dtype=dtype)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert 0.9 < float(run.stdout) < 1.2  # the array itself must be seen


def test_huge_dimension_allocates_nothing():
    task = at.SingleLocation(dim=10**8, length=10)
    assert task.linear_risk().value == pytest.approx(0.47368, abs=FIVE_DIGITS)
    assert at.risk(task, at.Erf(1e-3), at.Overlaps.oracle()).value < 1e-4
    assert task.bayes_risk().log_excess < -1e6
    assert "key" not in task.__dict__ and "value" not in task.__dict__


def test_drawn_vectors_are_unit_and_orthogonal():
    for dim in (2, 3, 50):
        task = at.SingleLocation(dim=dim, length=2, seed=5)
        gram = np.array([task.key, task.value]) @ np.array([task.key, task.value]).T
        np.testing.assert_allclose(gram, np.eye(2), atol=LAST_DIGIT)
    given = at.SingleLocation(dim=3, length=2, value=[0.0, 0.6, 0.8])
    assert abs(given.key @ given.value) < 1e-15
    assert given.alignment == 0.0
    assert np.array_equal(
        at.SingleLocation(50, 2, seed=5).value, at.SingleLocation(50, 9, seed=5).value
    )


@pytest.mark.parametrize("gamma", [0.5, 1.0, 1.4])
def test_posterior_equals_brute_force_densities(gamma):
    """P(J|X) from the full Gaussian densities of all tokens under each hypothesis."""
    probs = pmf(4, 1)
    task = at.SingleLocation(dim=3, length=4, gamma=gamma, signal=1.2, location_probs=probs)
    x, _, _ = task.sample(20, seed=0)
    log = np.empty((20, 4))
    for j in range(4):
        per_token = stats.norm.logpdf(x).sum(2)
        per_token[:, j] = stats.norm.logpdf(x[:, j], 1.2 * task.key, gamma).sum(1)
        log[:, j] = np.log(probs[j]) + per_token.sum(1)
    brute = np.exp(log - log.max(1, keepdims=True))
    brute /= brute.sum(1, keepdims=True)
    np.testing.assert_allclose(task.location_posterior(x), brute, atol=EXACT)
    np.testing.assert_allclose(task.posterior(x), brute, atol=EXACT)
    np.testing.assert_allclose(
        task.bayes_predict(x), np.sum(brute * (x @ task.value), 1), atol=EXACT
    )


def test_bayes_predictor_attains_the_bayes_risk():
    """Squared error of E[Y|X] on 100,000 samples and posterior error, |z| < 4.5 in 8 comparisons:
    false alarm 5e-5.
    """
    e = np.eye(6)
    oblique = 0.6 * e[0] + 0.8 * e[1]
    settings = [
        at.SingleLocation(8, 6, gamma=0.7, noise=0.1),
        at.SingleLocation(6, 5, gamma=1.3, location_probs=pmf(5)),
        at.SingleLocation(6, 4, gamma=1.0, signal=1.5, key=e[0], value=oblique),
        at.SingleLocation(
            6, 7, gamma=0.8, signal=1.0, key=e[0], value=oblique, location_probs=pmf(7)
        ),
    ]
    for i, task in enumerate(settings):
        x, y, j = task.sample(100_000, seed=20 + i)
        loss = (y - task.bayes_predict(x)) ** 2
        assert abs(loss.mean() - task.bayes_risk().value) < 4.5 * loss.std() / 100_000**0.5
        wrong = 1 - task.location_posterior(x)[np.arange(len(y)), j]
        assert (
            abs(wrong.mean() - task.location_error().value) < 4.5 * wrong.std() / 100_000**0.5
        )


def test_bayes_risk_is_the_softmax_risk_at_gamma_one():
    """gamma = 1, uniform pmf: softmax attention at inverse temperature = signal is the posterior
    mean; relative 1e-10.
    """
    for dim, length in ((10, 2), (10, 10), (50, 10), (50, 1000), (100, 100), (400, 10)):
        task = at.SingleLocation(dim, length, gamma=1.0)
        softmax = at.risk(task, at.Softmax(task.signal), at.Overlaps.oracle())
        assert softmax.log_excess == pytest.approx(task.bayes_risk().log_excess, abs=SOLVED)


def dense_linear_risk(task):
    """Best affine predictor from the full (L d) x (L d) covariance."""
    pi = (
        np.full(task.length, 1 / task.length)
        if task.location_probs is None
        else task.location_probs
    )
    g2 = task.gamma**2
    s = task.signal
    d = task.dim
    a = 1 - pi + pi * g2
    cov = np.kron(np.diag(a), np.eye(d)) + s * s * np.kron(
        np.diag(pi) - np.outer(pi, pi), np.outer(task.key, task.key)
    )
    cross = np.kron(pi * g2, task.value)
    return g2 - cross @ np.linalg.solve(cov, cross), np.linalg.solve(cov, cross).reshape(
        task.length, d
    )


@pytest.mark.parametrize("aligned", [False, True])
def test_linear_risk_equals_dense_covariances(aligned):
    rng = np.random.default_rng(7)
    for _ in range(10):
        key = unit(rng, 5)
        value = unit(rng, 5) if aligned else None
        task = at.SingleLocation(
            5,
            4,
            gamma=rng.uniform(0.3, 1.5),
            signal=rng.uniform(0, 3),
            location_probs=rng.dirichlet(np.ones(4)),
            key=key,
            value=value,
        )
        risk, coefficients = dense_linear_risk(task)
        assert task.linear_risk().excess == pytest.approx(risk, rel=EXACT)
        intercept, along_value, along_key = task.linear_predictor()
        np.testing.assert_allclose(
            np.outer(along_value, task.value) + np.outer(along_key, task.key),
            coefficients,
            atol=EXACT,
        )
        mean_x = np.outer(task.location_probs, task.signal * task.key)
        assert intercept == pytest.approx(
            task.signal * task.alignment - np.sum(coefficients * mean_x), abs=EXACT
        )


@pytest.mark.parametrize("rare", [1e-12, 8.7e-19, 1e-40])
def test_linear_risk_sees_positions_that_one_minus_the_likely_one_rounds_away(rare):
    task = at.SingleLocation(
        dim=5, length=3, gamma=0.7, location_probs=[1.0 - rare, rare / 4, 3 * rare / 4]
    )
    # pi_1 (1-pi_1)/gam^2 + sum of the rare ones, times gam^2, to first order in rare
    assert task.linear_risk().excess == pytest.approx(rare * (1 + 0.49), rel=LONG_SUM)


def test_linear_risk_equals_least_squares_on_samples():
    task = at.SingleLocation(4, 3, gamma=0.8, signal=2.0, noise=0.1, location_probs=pmf(3))
    x, y, _ = task.sample(200_000, seed=2)
    design = np.concatenate([x.reshape(len(y), -1), np.ones((len(y), 1))], axis=1)
    fit = np.linalg.lstsq(design, y, rcond=None)[0]
    loss = (y - design @ fit) ** 2
    # false alarm 7e-6
    assert abs(loss.mean() - task.linear_risk().value) < 4.5 * loss.std() / len(y) ** 0.5


def test_length_one_needs_no_location():
    task = at.SingleLocation(dim=5, length=1, noise=0.5)
    assert task.bayes_risk().excess == 0.0
    assert task.bayes_risk().value == 0.25
    assert task.location_error().value == 0.0
    assert task.linear_risk().excess == pytest.approx(0.0, abs=LAST_DIGIT)
