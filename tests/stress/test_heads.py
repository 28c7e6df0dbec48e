"""Stress tests of heads and their risks, and its references on values that are known without
them.
"""

import math

import mpmath as mp
import numpy as np
import pytest
from helpers.families import family_tests
from helpers.tolerances import EXACT, FEW_ROUNDINGS, FORMULA

import attnscope as at
from stress.references import head_weights, heads, planted_risks

test_quick, test_long = family_tests("heads", "heads_joint_risks", "head_risks")


def test_weights_by_hand():
    scores = [mp.mpf(0), mp.log(3)]
    assert [
        float(a) for a in head_weights.token_weights("softmax", scores, [True, True])
    ] == pytest.approx([0.25, 0.75])
    assert [
        float(a) for a in head_weights.token_weights("softmax-1", scores, [True, True])
    ] == pytest.approx([0.2, 0.6])
    # softplus(0) : softplus(log 3) = log 2 : log 4
    assert [
        float(a) for a in head_weights.token_weights("softplus", scores, [True, True])
    ] == pytest.approx([1 / 3, 2 / 3])
    assert [
        float(a) for a in head_weights.token_weights("softmax", scores, [True, False])
    ] == [1.0, 0.0]
    assert head_weights.grid_weights(
        "softmax", np.zeros(4), 2, 2, entropy=False
    ) == pytest.approx(np.full(4, 0.25))


def test_normal_means():
    """E z^4 = 3, E e^{z} = e^{1/2}, E 1{z > 0} sharp = 1/2, and E (y z)^2 = 1 on a lattice."""
    assert planted_risks.one_normal(lambda z: z**4)[0] == pytest.approx(3.0, rel=FORMULA)
    assert planted_risks.one_normal(np.exp)[0] == pytest.approx(math.exp(0.5), rel=FORMULA)
    sharp = planted_risks.one_normal(lambda z: (1 + np.tanh(1e6 * z)) / 2, 0.0, 1e-6)
    assert sharp[0] == pytest.approx(0.5, rel=FORMULA)
    assert planted_risks.lattice_mean(lambda y, z: (y * z) ** 2, 2, 0.1)[0] == pytest.approx(
        1.0, rel=FORMULA
    )


def test_a_linear_head_on_one_token():
    """One token, gamma = 1, s = 0: T = (x.k*)(x.v*), Y = x.v*, E(T - Y)^2 = E w^2 (u - 1)^2 = 2."""
    axes = np.eye(2)
    value, _ = heads.linear_heads(
        axes[:1], axes[1:], (axes[:1], axes[1:]), 1.0, 0.0, 1, 1.0, 0.0
    )
    assert value == pytest.approx(2.0, rel=FEW_ROUNDINGS)


def test_student_background_without_attention():
    """Inverse temperature 0 leaves Var Y, whatever the background."""
    axes = np.eye(2)
    informative = (2 * axes[0], 0.25 * axes)
    for freedom in (None, 5.0):
        background = (np.zeros(2), axes, freedom)
        found = heads.correlated_excess(
            0.0, (axes[0], axes[1], axes[1]), background, informative, 7, False
        )
        assert found[0] == pytest.approx(0.25, rel=FEW_ROUNDINGS)


def test_heavy_tails_are_followed_far_enough():
    """62 Student t tokens at an inverse temperature of 1e-3:
    the panels ended where 3e-12 of the risk was left, five stated errors.
    """
    inner = at.SingleLocation(2, 62, 1.0, 0.0, 0.0763, key=np.eye(2)[0], value=np.eye(2)[1])
    task = at.CorrelatedBackground(inner, degrees_of_freedom=7.6925)
    k = np.array([-1.46, -0.85])
    v = np.array([1.24, 0.95])
    found = at.correlated_risk(task, at.Erf(1e-3), k, v, intercept=True)
    background = (task.mean, task.covariance, task.degrees_of_freedom)
    informative = (task.informative_mean, task.informative_covariance)
    truth = heads.correlated_excess(
        1e-3, (k, v, task.value), background, informative, 62, True
    )
    assert abs(found.excess - truth[0]) <= found.error + truth[1]


def test_without_a_signal_the_best_inverse_temperature_is_zero():
    task = at.CorrelatedBackground(at.SingleLocation(3, 8, 1.0, 0.0, 0.0))
    best, risk = at.correlated_inverse_temperature(task)
    assert best == 0
    assert risk.excess == pytest.approx(1.0, abs=EXACT)
