"""Stress tests of training and on sequence models,
and its references on values that are known without them.
"""

import numpy as np
import pytest
from helpers.families import family_tests
from helpers.tolerances import FEW_ROUNDINGS, FORMULA

import attnscope as at
from stress.references import training

test_quick, test_long = family_tests("models", "training")


def test_risk_of_a_linear_head_by_hand():
    """T = lam sum_l u_l w_l at (k*, v*), gamma = 1:
    E(Y - T)^2 = (1 - lam s)^2 + lam^2 + (L - 1) lam^2.
    """
    oracle = np.array([1.0, 0.0, 0.0, 1.0, 0.0])
    found = training.head_excess("linear", oracle, 0.3, 1.0, 2.0, 5)
    assert found == pytest.approx((1 - 0.6) ** 2 + 0.09 + 4 * 0.09, rel=FORMULA)


def test_the_oracle_stays():
    """At an inverse temperature of 0 nothing pulls, and at (k*, v*)
    an erf head's gradient is normal to both spheres.
    """
    stars = np.eye(4)[:2]

    def risk(o):
        return training.head_excess("erf", o, 0.4, 0.7, 2.0, 5)

    after = training.descend(stars[0], stars[1], stars, risk, 0.1, 3)
    assert after == pytest.approx([1.0, 0.0, 0.0, 1.0, 0.0], abs=FEW_ROUNDINGS)


def test_sgd_steps_average_to_the_gradient():
    """The mean SGD step is the population step to first order in alpha;
    5 standard errors of 20,000 steps.
    """
    rng = np.random.default_rng(0)
    stars = np.eye(5)[:2]
    k, v = rng.standard_normal((2, 5))
    k = k / np.linalg.norm(k)
    v = v / np.linalg.norm(v)
    alpha = 1e-6
    log = training.sgd_step(k, v, stars, (3, 0.8, 1.5, 0.2), 0.5, alpha, 1, 20_000, seed=1)
    start = np.array([k @ stars[0], k @ stars[1], v @ stars[0], v @ stars[1], k @ v])

    def risk(o):
        return training.head_excess("erf", o, 0.5, 0.8, 1.5, 3)

    moved = (training.descend(k, v, stars, risk, alpha, 1) - start) / alpha
    each = (log - start[:, None]) / alpha
    error = each.std(axis=1, ddof=1) / np.sqrt(each.shape[1])
    assert np.all(np.abs(each.mean(axis=1) - moved) <= 5 * error + 1e-3)


def test_simplified_risk_says_its_rounding():
    """A short value vector: three terms of size E Y^2 cancel,
    and their rounding was not part of the error.
    """
    task = at.SingleLocation(
        4,
        1,
        1.9674532919318168,
        0.0,
        0.0178661386162887,
        key=np.eye(4)[0],
        value=np.eye(4)[1],
    )
    k = np.array([0.3, -0.2, 0.5, 0.1])
    v = np.array([-0.4, 0.6, 0.1, -0.3])
    k = k / np.linalg.norm(k)
    v = v / np.linalg.norm(v)
    model = at.SimplifiedAttention(4, "erf", 0.0077)
    for size in (1e-4, 0.0128, 0.3):
        found = at.simplified_risk(task, model, {"k": 2 * k, "v": size * v})
        o = np.array([k[0], k[1], v[0], v[1], k @ v])
        truth = training.head_excess("erf", o, 0.0154, task.gamma, task.signal, 1, size)
        assert abs(found.excess - truth) <= found.error + 1e-14 * task.gamma**2
        assert found.error >= 2**-53 * task.gamma**2
