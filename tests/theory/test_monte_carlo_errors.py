"""Errors of sampled risks count what no draw has shown, and are standard errors elsewhere.

Seeds are fixed; within five errors at a time: 6e-7 false alarms each.
"""

import math

import numpy as np
import pytest
from helpers.tolerances import EXACT

import attnscope as at
from attnscope.numerics.border.sampled_estimate import share_error
from attnscope.numerics.border.sampled_mean import (
    UNSEEN_EVENT_COUNT,
    SampledMean,
    unseen_above,
)

ORACLE = at.Overlaps.oracle()


def held(task, predictor, samples, seed=0):
    """The sampled risk, within five errors of the exact one."""
    exact = at.risk(task, predictor, ORACLE)
    found = at.risk(task, predictor, ORACLE, "monte-carlo", samples, seed)
    assert abs(found.excess - exact.excess) <= 5 * found.error + exact.error
    return found


def test_a_sharp_head_that_no_draw_saw_fail():
    """Softmax with a sink before one token: the loss is e^-16u unless u is near 0, which happens
    once in 22,000 draws and makes the risk. The draws' own standard error is 2e-7, the risk 3e-5.
    """
    task = at.MultiLocation(2, 1, 1, gamma=0.9625304112105382, signal=3.7752013433226925)
    found = held(task, at.SoftmaxOne(7.99577693200328), 4000, 826308504)
    assert found.excess < 1e-6
    single = at.SingleLocation(4, 1, gamma=0.9625304112105382, signal=3.7752013433226925)
    for seed in range(5):
        held(single, at.SoftmaxOne(7.99577693200328), 4000, seed)


def test_labels_that_no_draw_saw():
    """No token is informative, but once in 1e4: the sampled risk of a head that says 0 is the
    label's variance, of which 100 draws know nothing.
    """
    task = at.MultiLocation(4, 2, np.array([1 - 1e-4, 1e-4, 0.0]))
    found = held(task, at.LinearAttention(0.0, 0.0), 100)
    assert found.excess == 0
    assert found.error > 0


@pytest.mark.parametrize(("samples", "larger"), [(4000, 1.06), (100_000, 1.015)])
def test_ordinary_errors_stay_what_they_were(samples, larger):
    """The loss of a head that says 0 is gamma^2 times a chi-square: standard error sqrt(2/n), known
    to 5 sqrt(3.5/n) (its kurtosis). An error is above that by 5 % at 4,000 draws, 1 % at 1e5.
    """
    task = at.SingleLocation(4, 3, gamma=1.0)
    found = held(task, at.LinearAttention(0.0, 0.0), samples)
    draws = found.error / math.sqrt(2 / samples)
    slack = 5 * math.sqrt(3.5 / samples)
    assert 1 - slack < draws < larger * (1 + slack)


class TestSampledMean:
    def test_shares_are_shares(self):
        """Draws of 0 and c have the error of a share, to rounding."""
        for count in (1, 7, 60, 3000, 10_000):
            tally = SampledMean(10_000)
            tally.add(3.0 * (np.arange(10_000) < count))
            most = 0.0  # nothing above what was seen
            assert tally.error(most) == pytest.approx(
                3 * share_error(count, 10_000), rel=1e-9
            )

    def test_blocks_do_not_matter(self):
        x = np.random.default_rng(5).standard_cauchy(1000) ** 2
        whole = SampledMean(1000)
        whole.add(x)
        parts = SampledMean(1000)
        for part in np.array_split(x, 7):
            parts.add(part)
        assert parts.mean == pytest.approx(whole.mean, rel=EXACT)
        np.testing.assert_array_equal(parts.top, np.sort(x)[-33:])
        assert parts.error(1e9) == pytest.approx(whole.error(1e9), rel=EXACT)

    def test_the_power_law_is_continued(self):
        """P(V > v) = 1/v up to 1e6, drawn at its quantiles: Hill's estimate is 1, made smaller by
        2/sqrt(k); the integral beyond the largest draw written out.
        """
        n = 10_000
        x = np.sort(1 / ((np.arange(n) + 0.5) / n))
        k = 100
        alpha = (1 - 2 / k**0.5) / np.mean(np.log(x[-k:] / x[-k - 1]))
        v = np.geomspace(x[-1], 1e6, 100_001)
        beyond = np.trapezoid((v / x[-1]) ** -alpha, v)
        assert unseen_above(x[-k - 1 :], n, 1e6) == pytest.approx(
            UNSEEN_EVENT_COUNT / n * beyond / 5, rel=1e-4
        )
        assert unseen_above(x[-k - 1 :], n, x[-1]) == 0

    def test_nothing_seen(self):
        """All draws 0: a probability of 14/n of `most` is left."""
        tally = SampledMean(700)
        tally.add(np.zeros(700))
        assert tally.error(5.0) == pytest.approx(0.02 * 5 / 5)

    def test_heavy_tails_keep_the_promise(self):
        """exp(6 G) capped at e^18 with 2,000 draws, 200 times: five plain standard errors miss the
        mean in most runs, five errors never do.
        """
        rng = np.random.default_rng(7)
        z = np.linspace(-10, 10, 200_001)
        density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        mean = np.trapezoid(np.exp(np.minimum(6 * z, 18.0)) * density, z)
        missed = 0
        for _ in range(200):
            x = np.exp(np.minimum(6 * rng.standard_normal(2000), 18.0))
            tally = SampledMean(2000)
            tally.add(x)
            assert abs(tally.mean - mean) <= 5 * tally.error(math.exp(18.0))
            missed += abs(tally.mean - mean) > 5 * x.std(ddof=1) / math.sqrt(2000)
        assert missed > 0
