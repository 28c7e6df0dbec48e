"""The background's mean, shrunk towards the caller's zero, and few bags of many features: what
brought the estimator to the curve of the best possible one (docs/estimators.md).
"""

import numpy as np
import pytest
from helpers.tolerances import EXACT

import attnscope as at
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.em import em_step, shrunk_mean
from attnscope.estimators.fit.quick_em import run_tied, screen_starts
from attnscope.estimators.fit.starts import bag_moments, make_starts
from attnscope.numerics.compiled.data_pass import GAUSSIAN


def plain(batch):
    """Bags as they are, without a known zero."""
    n, length, dim = batch.tokens.shape
    tokens = batch.tokens.reshape(-1, dim)
    return Data(tokens, length * np.arange(n + 1), batch.target, np.ones(n), GAUSSIAN, 1)


@pytest.fixture(scope="module")
def small():
    task = at.SingleLocation(dim=6, length=4, signal=3.0, noise=0.2, seed=1)
    data = plain(task.sample(200, seed=1))
    return data, make_starts(bag_moments(data), GAUSSIAN, np.zeros(6), 1, 0)["sum"]


def test_few_bags_do_not_widen_the_deciding_tokens():
    """With 160 bags of 100 features the covariance is shrunk to a multiple of the identity, which
    leaves the key's own variance in the whitened tokens; reading it as part of gam^2 = 1 made it
    1.5 to 7.5. Over seeds 0-14 it is .92 to .99: noise in r, and 160 bags.
    """
    task = at.SingleLocation.spiked(dim=100, length=3, strength=5.0, noise=0.1**0.5, seed=2)
    batch = task.sample(160, seed=1002)
    data = plain(batch)
    starts = make_starts(bag_moments(data), GAUSSIAN, np.zeros(100), 8, 0)
    for origin in (None, np.zeros(100)):
        em = run_tied(starts["mean"], data._replace(origin=origin), True, 30, None)
        assert 0.85 < em.tokens.spread < 1.1


class TestBackgroundMean:
    """m0 is shrunk towards the caller's zero by James and Stein's rule."""

    def test_error_below_that_of_the_mean(self):
        """E|m0 - theta|^2 against d/w and, at theta = origin, far less: 4000 draws of d = 20. The
        plain mean's is 20 +- .1; James-Stein's at distance 0 is below 2 (exactly 2 without the
        positive part), and below d everywhere. False alarm: 5 standard errors.
        """
        rng = np.random.default_rng(0)
        for distance in (0.0, 4.0, 40.0):
            theta = np.zeros(20)
            theta[0] = distance
            drawn = theta + rng.standard_normal((4000, 20))
            shrunk = [shrunk_mean(x, np.zeros(20), float(x @ x), 1.0) for x in drawn]
            errors = ((np.array(shrunk) - theta) ** 2).sum(axis=1)
            bar = 2.0 if distance == 0 else 20.0
            assert errors.mean() < bar + 5 * errors.std() / np.sqrt(4000)
            # exactly, by Stein's identity, for the rule without its positive part
            norms = rng.noncentral_chisquare(20, distance**2, 10**5)
            assert errors.mean() < 20 - 18**2 * np.mean(1 / norms) + 5 * 0.15

    def test_two_features_are_left_alone(self):
        mean = np.array([0.3, -0.2])
        np.testing.assert_array_equal(shrunk_mean(mean, np.zeros(2), 0.13, 5.0), mean)

    def test_em_step_against_the_formula(self, small):
        """Both kinds of step: the deciding tokens' mean stays, m0 moves towards the origin by the
        factor written out here."""
        data, em = small
        for origin in (np.full(6, 0.05), np.full(6, 3.0)):
            raw, _ = em_step(em, data, True)
            moved, _ = em_step(em, data._replace(origin=origin), True)
            w = len(data.tokens) - data.size
            gap = (raw.tokens.mean - origin) @ raw.tokens.whiten
            factor = max(0.0, 1 - 4 / (w * gap @ gap))
            np.testing.assert_allclose(
                moved.tokens.mean, origin + factor * (raw.tokens.mean - origin), atol=EXACT
            )
            means = [
                step.tokens.mean + np.linalg.solve(step.tokens.whiten.T, step.tokens.key)
                for step in (raw, moved)
            ]
            np.testing.assert_allclose(means[0], means[1], atol=EXACT)
            assert (factor > 0.95) == (origin[0] == 3.0)

    def test_the_cheap_steps_shrink_too(self, small):
        """Two steps of `run_tied`: a zero far off changes nothing, one where the background is
        leaves its mean there; screening does not look at it.
        """
        data, em = small
        raw, far, near = (
            run_tied(em, data._replace(origin=origin), True, 2, None).tokens
            for origin in (None, np.full(6, 1e4), np.zeros(6))
        )
        np.testing.assert_allclose(far.mean, raw.mean, atol=1e-6)
        np.testing.assert_allclose(far.key, raw.key, atol=1e-5)
        assert np.linalg.norm(near.mean) < 0.6 * np.linalg.norm(raw.mean)
        first, second = (
            screen_starts({"a": em}, data._replace(origin=origin), True, 4, None)["a"].tokens
            for origin in (None, np.zeros(6))
        )
        np.testing.assert_array_equal(first.mean, second.mean)

    def test_a_constant_feature_has_no_unit(self):
        """Nine bags of up to three tokens, one feature always 3: tokens times 2^-14 moves no bit.
        Divided by 1 instead of by the widest feature, the constant's distance to the caller's zero
        fell with the unit, m0 was shrunk by another factor, and predictions moved by 1 %.
        """
        rng = np.random.default_rng(604)
        x = rng.standard_normal((9, 3, 3))
        x[..., 0] = 3.0
        labels = x[np.arange(9), rng.integers(3, size=9), -1] + 0.1 * rng.standard_normal(9)
        answers = [
            at.SingleLocationRegressor(alpha=(np.inf, 1.0))
            .fit(unit * x, labels)
            .predict(unit * x)
            for unit in (1.0, 2.0**-14, 2.0**14)
        ]
        np.testing.assert_array_equal(answers[0], answers[1])
        np.testing.assert_array_equal(answers[0], answers[2])
