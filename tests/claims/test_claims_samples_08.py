"""The estimator near the curve; what the claim's risks rest on, by itself."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.claim_contract import ClaimContract, ids

from attnscope.estimators.regressor import SingleLocationRegressor
from attnscope_claims.samples import samples_08_estimator_near as claim


@pytest.mark.parametrize("name", ids("samples", ("08",)))
class TestClaim(ClaimContract):
    """The check runs once, at seed 0."""


def test_risk_of_softmax_with_any_lengths():
    """`softmax_excess` against its own predictions on fresh bags, value shorter and longer than 1;
    5 standard errors, fixed seed.
    """
    task = claim.task_of(3)
    rng = np.random.default_rng(0)
    test = task.sample(40_000, seed=9)
    clean = test.tokens[np.arange(40_000), test.location] @ task.value
    for size in (0.6, 1.5):
        key = 2 * task.key + 0.05 * rng.standard_normal(100)
        value = size * task.value + 0.02 * rng.standard_normal(100) + 0.1 * task.key
        p = np.exp(test.tokens @ key)
        guess = ((p / p.sum(axis=1, keepdims=True)) * (test.tokens @ value)).sum(axis=1)
        errors = (guess - clean) ** 2
        exact = claim.softmax_excess(task, key, value)
        assert abs(errors.mean() - exact) < 5 * errors.std() / 200
        assert errors.std() / 200 < 0.02 * exact  # the test could have failed


def ratios(alpha, seeds):
    found = np.array([claim.risks(alpha, seed) for seed in seeds])
    return found[:, 1] / found[:, 0]


@pytest.mark.slow  # test_estimator_bars.py has quicker bars of the same fit
def test_two_bags_per_feature():
    """Seeds 0-3, fixed before. Over 60 seeds the ratio has mean 1.06 and standard deviation .064, so
    four others would be above the bar in 3 % of the draws; it was 1.16 (15 seeds).
    """
    assert ratios(2, range(4)).mean() <= 1 + claim.BARS[2]


@pytest.mark.slow
@pytest.mark.parametrize("alpha", claim.BARS)
def test_sixty_seeds(alpha):
    """What bench/estimators/near_the_curve.py prints."""
    assert ratios(alpha, range(60)).mean() <= 1 + claim.BARS[alpha]


@pytest.mark.slow
def test_a_background_elsewhere_costs_what_its_mean_costs():
    """Tokens moved by 1 in every feature, n = 4 d, seeds 0-7: the key's error is that of n and
    2 n tokens, half as much again. The ratio was 1.05 wherever the background stood; now it is
    so only here.
    """
    plain = []
    moved = []
    for seed in range(8):
        task = claim.task_of(seed)
        train = task.sample(400, seed=1000 + seed)
        test = task.sample(claim.TEST, seed=50_000 + seed)
        clean = test.tokens[np.arange(claim.TEST), test.location] @ task.value
        for shift, out in ((0.0, plain), (1.0, moved)):
            model = SingleLocationRegressor().fit(train.tokens + shift, train.target)
            out.append(np.mean((model.predict(test.tokens + shift) - clean) ** 2))
    assert 1.01 < np.mean(moved) / np.mean(plain) < 1.06
