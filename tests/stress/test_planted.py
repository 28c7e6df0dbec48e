"""Stress tests of posteriors of planted tasks,
and its reference on values that are known without it.
"""

import math

import numpy as np
import pytest
from helpers.families import family_tests
from helpers.tolerances import FEW_ROUNDINGS, FORMULA, LONG_SUM, SOLVED

import attnscope as at
from stress.references import planted

AXES = np.eye(2)


test_quick, test_long = family_tests("planted", "directions")


def test_one_informative_token_is_a_softmax_of_likelihood_ratios():
    """gamma = 1: log ratio = s u - s^2/2, so two tokens with u = (1, 0) at s = 2 have odds e^2."""
    x = np.array([[1.0, 5.0], [0.0, 3.0]])
    p = 1 / (1 + math.exp(-2.0))
    one = planted.multi_location(
        x, AXES[0], AXES[1], 1.0, 2.0, np.array([0, 1.0, 0]), np.array([0, 1.0, 0.5])
    )
    assert one.posterior == pytest.approx([p, 1 - p], rel=FEW_ROUNDINGS)
    assert one.mean == pytest.approx(5 * p + 3 * (1 - p), rel=FEW_ROUNDINGS)
    assert one.variance == pytest.approx(4 * p * (1 - p), rel=FORMULA)
    for other in (
        planted.max_location(x, AXES[0], AXES[1], 2.0),
        planted.multi_direction(x, AXES[:1], AXES[1:], 1.0, 2.0, distinct=True),
        planted.spike_mixture(x, 2 * AXES[:1], AXES[1:], np.ones(1), 1.0),
    ):
        assert other.posterior.ravel() == pytest.approx(one.posterior, rel=FEW_ROUNDINGS)
        assert other.mean == pytest.approx(one.mean, rel=FEW_ROUNDINGS)


def test_a_normal_background_is_the_limit_of_student():
    x = np.array([[1.0, 5.0], [0.0, 3.0], [2.0, -1.0]])
    informative = (2 * AXES[0], 0.25 * AXES)
    probs = np.array([0.2, 0.3, 0.5])
    normal = planted.correlated(x, (np.zeros(2), AXES, None), informative, AXES[1], probs)
    heavy = planted.correlated(x, (np.zeros(2), AXES, 1e15), informative, AXES[1], probs)
    assert heavy[0] == pytest.approx(normal[0], abs=LONG_SUM)
    assert heavy[1].posterior == pytest.approx(normal[1].posterior, rel=LONG_SUM)
    # log N(x; 2 e_1, I/4) - log N(x; 0, I) at x = (2, -1): -2 + 5/2 + 2 log 2
    assert normal[0][2] == pytest.approx(-2 + 2.5 + 2 * math.log(2), rel=FEW_ROUNDINGS)


def test_marked_tokens_by_hand():
    """One token, theta = 1, u = 2: the ratio is e^{3/2}."""
    ratio, found = planted.sparse_tokens(np.array([[2.0, 7.0]]), AXES[0], 1.0, 1)
    assert ratio == pytest.approx(1.5, rel=FEW_ROUNDINGS)
    assert found.posterior == pytest.approx([1 / (1 + math.exp(-1.5))] * 2, rel=FEW_ROUNDINGS)


def test_two_directions_at_one_token():
    """Independent positions on one token: both sit there, whatever it says."""
    found = planted.multi_direction(
        np.array([[0.3, 0.4]]), AXES, AXES[::-1], 0.5, 1.0, distinct=False
    )
    assert found.posterior == pytest.approx(np.ones((2, 1)))
    assert found.mean == pytest.approx(0.7)


def test_posterior_keeps_its_digits_at_gamma_near_one():
    """A token of length 5000 at gamma = 1 - 1e-9:
    1/gamma^2 - 1 as a difference costs 1e-9 of the logit.
    """
    task = at.MultiLocation(
        2, 2, [0.3, 0.4, 0.3], gamma=1 - 1e-9, signal=1e-8, key=AXES[0], value=AXES[1]
    )
    x = np.array([[[3000.0, 4000.0], [1.0, 2.0]]])
    numbers = (task.gamma, task.signal, task.count_probs, task.weight_moments()[0])
    truth = planted.multi_location(x[0], task.key, task.value, *numbers)
    assert task.posterior(x)[0] == pytest.approx(truth.posterior, abs=FEW_ROUNDINGS)
    assert task.bayes_predict(x)[0] == pytest.approx(truth.mean, abs=SOLVED)


def test_student_constant_at_many_degrees_of_freedom():
    """The difference of two log-gammas of size 1e10 left 1e-6."""
    inner = at.SingleLocation(3, 2, 0.7, 0.0, 1.0, key=np.eye(3)[0], value=np.eye(3)[1])
    x = np.array([[[1.0, 0.5, -0.3], [0.2, 0.1, 2.0]]])
    for freedom in (3.0, 110.0, 5.7e5, 1e9):
        task = at.CorrelatedBackground(inner, degrees_of_freedom=freedom)
        background = (task.mean, task.covariance, freedom)
        informative = (task.informative_mean, task.informative_covariance)
        truth, _ = planted.correlated(
            x[0], background, informative, task.value, np.array([0.5, 0.5])
        )
        assert task.log_likelihood_ratio(x)[0] == pytest.approx(truth, abs=2e-14)
