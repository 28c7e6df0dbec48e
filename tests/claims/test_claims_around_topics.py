"""Claims around-06, 07, 08, 10 and 11: each check runs once, at seed 0.

False alarms: comparisons allow 5 standard errors and the seed is fixed, so a failure here is a
change of the code.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.claim_contract import ClaimContract, ids
from helpers.tolerances import EXACT, FORMULA

from attnscope.tasks.exchangeable.topic_mixture import TopicMixture
from attnscope_claims.around import around_10_rising_smoothness as rising
from attnscope_claims.around.topic_documents import fitted_scores, fitted_values, own_first

NUMBERS = ("06", "07", "08", "10", "11")


@pytest.mark.parametrize("name", ids("around", NUMBERS))
class TestClaim(ClaimContract):
    """Every check runs once, at seed 0."""


def test_the_printed_numbers_of_rising_smoothness():
    """Excess over trace at L = 10^2 .. 10^5, to the four digits of the note."""
    printed = {
        1: [0.0782, 0.0226, 0.0069, 0.0022],
        8: [0.4189, 0.1666, 0.0599, 0.0210],
        16: [0.4256, 0.1740, 0.0650, 0.0237],
        32: [0.4256, 0.1740, 0.0650, 0.0237],
    }
    for d, row in printed.items():
        s = rising.product_spectrum(*rising._rising_law(d), 1e-8)
        assert np.abs(rising._relative_excess(s, rising.FAR_LENGTHS) - row).max() < 5.1e-5, d


def test_bernoulli_polynomials_are_the_cosine_series():
    x = np.linspace(0, 1, 11)
    k = np.arange(1, 200_001)[:, None]
    for alpha, left in ((2, 1e-15), (3, 1e-15), (1, 1e-5)):  # the series' own remainder
        series = 2 * np.sum(k ** (-2.0 * alpha) * np.cos(2 * np.pi * k * x), axis=0)
        assert (
            np.abs(rising._periodic_kernel(alpha, x * (1 - x)) - series).max() < left + EXACT
        )


def test_fits_on_documents_find_what_was_put_in():
    """Values: targets that are a linear map of the means are fitted to rounding. Scores: where the
    gradient vanishes, another step moves nothing.
    """
    task = TopicMixture(2, 3, 0.7)
    rng = np.random.default_rng(5)
    mean = np.eye(6)[rng.integers(6, size=300)]
    fit = fitted_values(task, mean.argmax(axis=1), mean, 0.0)
    assert np.abs(fit.matrix - np.eye(6)).max() < FORMULA
    assert np.abs(fit.parts - [1, 0, 0]).max() < FORMULA
    true, counts = own_first(task, 3000, 6, 0.5, rng)
    found = fitted_scores(task, true, counts)
    assert np.all(counts[:, 0] >= 1)  # the shown word is word 0
    assert abs(found.scores[3:].mean()) < FORMULA
    moved = np.exp(found.scores + 1e-4 * np.eye(6)[1])
    losses = [_loss(task, true, counts, w) for w in (np.exp(found.scores), moved)]
    assert losses[0] < losses[1]


def _loss(task, true, counts, weights):
    p = counts * weights
    said = (p / p.sum(axis=1, keepdims=True)).reshape(-1, task.topics, task.words).sum(axis=2)
    return np.mean(np.sum((np.eye(task.topics)[true] - said) ** 2, axis=1))
