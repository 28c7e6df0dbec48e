"""RandomLength: masks, inference, averages of exact risks,
and the price of an unnormalised activation.
"""

import numpy as np
import pytest
from helpers.settings import one_sentence
from helpers.tolerances import EXACT, FORMULA, SOLVED

import attnscope as at
from attnscope.theory.optima.optimal_sigma import optimal_sigma_log_excess

ORACLE = at.Overlaps.oracle()
BASE = at.SingleLocation(6, 4, gamma=0.8, signal=1.6, noise=0.1)
TASK = at.RandomLength(BASE, {2: 0.5, 5: 0.3, 9: 0.2})


def test_sample_has_lengths_masks_and_labels():
    """Length frequencies of 20,000 sequences within 4.9 standard errors (3e-6)."""
    batch = TASK.sample(20_000, seed=1)
    lengths = batch.mask.sum(1)
    for L, q in zip(TASK.lengths, TASK.probs):
        assert abs((lengths == L).mean() - q) < 4.9 * (q * (1 - q) / 20_000) ** 0.5
    assert np.all(np.diff(batch.mask.astype(int), axis=1) <= 0)  # real tokens first
    assert np.all(batch.location < lengths)
    assert not batch.tokens[~batch.mask].any()
    clean = batch.tokens[np.arange(20_000), batch.location] @ BASE.value
    assert np.std(batch.target - clean) == pytest.approx(0.1, rel=0.03)


def test_posterior_is_that_of_each_length():
    batch = TASK.sample(60, seed=2)
    posterior = TASK.posterior(batch.tokens, batch.mask)
    mean = TASK.bayes_predict(batch.tokens, batch.mask)
    for task in TASK.fixed:
        rows = batch.mask.sum(1) == task.length
        x = batch.tokens[rows, : task.length]
        np.testing.assert_allclose(
            posterior[rows, : task.length], task.posterior(x), atol=FORMULA
        )
        np.testing.assert_allclose(mean[rows], task.bayes_predict(x), atol=FORMULA)
    assert not posterior[~batch.mask].any()
    junk = np.where(batch.mask[:, :, None], batch.tokens, np.nan)  # padding may hold anything
    np.testing.assert_array_equal(TASK.posterior(junk, batch.mask), posterior)


def test_risks_are_attained_on_samples():
    """Bayes, and softmax, softmax-1, softplus, erf through `predict` with the mask:
    |z| < 4.5 in 5 comparisons (3e-5).
    """
    batch = TASK.sample(60_000, seed=3)
    checks = [(TASK.bayes_risk(), TASK.bayes_predict(batch.tokens, batch.mask))]
    for predictor in (
        at.Softmax(1.5),
        at.SoftmaxOne(1.5),
        at.SoftplusAttention(2.0),
        at.Erf(0.3),
    ):
        output = at.predict(predictor, TASK.key, TASK.value, batch.tokens, batch.mask)
        checks.append((at.risk(TASK, predictor, ORACLE), output))
    for exact, output in checks:
        loss = (batch.target - output) ** 2
        assert abs(loss.mean() - exact.value) < 4.5 * loss.std() / 60_000**0.5


def test_averages():
    fixed = [t.bayes_risk().excess for t in TASK.fixed]
    assert TASK.bayes_risk().excess == pytest.approx(np.dot(TASK.probs, fixed), rel=FORMULA)
    assert TASK.bayes_risk().value == pytest.approx(TASK.bayes_risk().excess + 0.01)
    assert TASK.linear_risk().excess == pytest.approx(
        np.dot(TASK.probs, [t.linear_risk().excess for t in TASK.fixed])
    )
    assert TASK.location_error().value < 1
    tiny = at.RandomLength(at.SingleLocation(20_000, 5), [5, 50]).bayes_risk()
    assert tiny.value == 0.0 and -5000 < tiny.log_excess < -4000
    array = at.risk(TASK, at.Erf(0.3), at.Overlaps(np.array([1.0, 0.5]), 0.0, 0.0, 1.0, 0.0))
    assert array.value.shape == (2,) and array.value[0] == pytest.approx(
        at.risk(TASK, at.Erf(0.3), ORACLE).value
    )
    assert at.RandomLength(BASE, [3, 3, 7]).probs == pytest.approx([2 / 3, 1 / 3])
    one = at.RandomLength(BASE, {4: 1.0})
    assert one.bayes_risk().excess == pytest.approx(BASE.bayes_risk().excess, rel=FORMULA)


def test_componentwise_risk_is_that_of_the_mean_length():
    """R(L) is linear in L at (k*, v*), so random lengths 2 and 8 cost what length 5 costs;
    softmax differs.
    """
    mixed = at.RandomLength(at.SingleLocation.spiked(6, 5, 4.0), [2, 8])
    fixed = at.SingleLocation.spiked(6, 5, 4.0)
    for predictor in (
        at.Erf(0.4),
        at.LinearAttention(0.2, 0.1),
        at.Componentwise(np.tanh, 0.5),
    ):
        assert at.risk(mixed, predictor, ORACLE).value == pytest.approx(
            at.risk(fixed, predictor, ORACLE).value, rel=EXACT
        )
    # so the best activation pays E R*(L) -> R*(E L), while softmax at inverse temperature s stays
    # Bayes
    adapted = np.mean([np.exp(optimal_sigma_log_excess(1.0, 2.0, L)[0]) for L in (2, 8)])
    assert np.exp(optimal_sigma_log_excess(1.0, 2.0, 5)[0]) > 1.05 * adapted
    assert at.risk(mixed, at.Softmax(2.0), ORACLE).value == pytest.approx(
        mixed.bayes_risk().value, rel=SOLVED
    )


BAD = {
    "task": (
        lambda: at.RandomLength("task", [3]),
        "task of RandomLength must be a SingleLocation",
    ),
    "probs": (
        lambda: at.RandomLength(at.SingleLocation(4, 2, location_probs=[0.3, 0.7]), [2]),
        "one with uniform location",
    ),
    "lengths": (
        lambda: at.RandomLength(BASE, 3),
        "lengths of RandomLength must be a mapping",
    ),
    "empty": (lambda: at.RandomLength(BASE, []), "at least one entry"),
    "zero": (
        lambda: at.RandomLength(BASE, [0, 3]),
        "lengths of RandomLength must be an integer >= 1",
    ),
    "sum": (
        lambda: at.RandomLength(BASE, {2: 0.5, 3: 0.6}),
        "lengths of RandomLength must be probabilities that sum to 1",
    ),
    "mask": (
        lambda: TASK.posterior(np.zeros((2, 3, 6)), None),
        "mask of RandomLength.location_posterior must be",
    ),
    "mask shape": (
        lambda: TASK.bayes_predict(np.zeros((2, 3, 6)), np.ones((2, 2), bool)),
        "mask of RandomLength.bayes",
    ),
    "n": (lambda: TASK.sample(0), "n of RandomLength.sample must be an integer >= 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_one_sentence(name):
    call, words = BAD[name]
    one_sentence(call, words)
