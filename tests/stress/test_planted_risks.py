"""Stress tests of risks of planted tasks, and its references on values that are known without
them.
"""

import math

import numpy as np
import pytest
from helpers.families import family_tests
from helpers.tolerances import EXACT, FORMULA, INTEGRAL

import attnscope as at
from stress.references import planted_risks, sparse_tokens

test_quick, test_long = family_tests(
    "planted_risks",
    "planted_risks_sparse_tokens",
    "direction_risks",
    "direction_risks_spikes",
)


def test_limits_of_the_exchange():
    """No signal: even odds, R = |dv|^2 g^2/2; a strong one: nothing is left."""
    keys = np.eye(4)[0] - np.eye(4)[1]
    values = np.eye(4)[2] - np.eye(4)[3]
    assert planted_risks.exchange_risk(keys, values, 0.7, 0.0)[0] == pytest.approx(
        0.49, rel=FORMULA
    )
    assert planted_risks.exchange_risk(keys, values, 0.7, 1e-6)[0] == pytest.approx(
        0.49, rel=INTEGRAL
    )
    assert planted_risks.exchange_risk(keys, values, 0.7, 60.0)[0] < 1e-300


def test_two_tokens_by_two_rules():
    """One informative token of two: the lattice over both scores against the integral over their
    difference.
    """
    one = planted_risks.two_tokens(
        2.0, np.array([0, 1.0, 0]), np.array([0, 1.0, 0.5]), np.array([0, 1.0, 0.25])
    )
    # D ~ N(s^2, 2 s^2), what the two tokens say differs by a normal of variance 2
    sd = math.sqrt(8.0)
    other = planted_risks.one_normal(
        lambda z: 2 / (2 + 2 * np.cosh(4.0 + sd * z)), -4.0 / sd, 1 / sd
    )
    assert one[0] == pytest.approx(other[0], rel=EXACT)


def test_marked_tokens():
    """All marked: Phi(-theta sqrt(L)/2); the max test with one token is that too;
    two rules agree on three tokens.
    """
    assert sparse_tokens.sparse_bayes(2, 2, 3.0)[0] == pytest.approx(
        sparse_tokens.tail(3 / math.sqrt(2)), rel=EXACT
    )
    assert sparse_tokens.max_test(1, 1, 3.0) == pytest.approx(
        sparse_tokens.tail(1.5), rel=EXACT
    )
    assert sparse_tokens.sparse_bayes(2, 1, 4.0)[0] == pytest.approx(
        0.031427185664495, rel=EXACT
    )


def test_affine_risk_of_one_token_is_nothing():
    axes = np.eye(2)
    null, affine = planted_risks.affine_risk(
        np.ones(1), (np.zeros(2), axes), (axes[0], 0.25 * axes), axes[1]
    )
    assert null == pytest.approx(0.25)
    assert abs(affine) < 1e-15


def test_spikes_at_zero_are_no_traceback():
    task = at.SpikeMixture(4, 3, means=np.zeros((2, 4)), outputs=np.eye(4)[0])
    found = task.bayes_risk()
    assert abs(found.excess - 2 / 3) <= 5 * found.error + 1e-12


def test_one_direction_in_one_dimension():
    task = at.MultiDirection(1, 3, 1, keys=[[1.0]], values=[[1.0]], gamma=0.5, signal=2.0)
    found = task.bayes_risk()
    assert 0 <= found.excess <= task.null_risk().excess + 5 * found.error


def test_the_max_test_of_many_marked_tokens():
    """Powers of 64483: the misses' exponent rounds, and the best threshold is sharp."""
    task = at.SparseTokenClassification(2, 299018939, 9.989345830762803, 64483)
    found = task.max_test_error()
    assert (
        abs(found.excess - sparse_tokens.max_test(299018939, 64483, task.strength))
        <= found.error
    )


def test_strength_needed_where_errors_underflow():
    task = at.SparseTokenClassification(2, 632459908, 0.0, 632459908)
    needed = task.strength_needed(8.03e-9)
    assert sparse_tokens.tail(needed * math.sqrt(task.length) / 2) == pytest.approx(
        8.03e-9, rel=INTEGRAL
    )


def test_an_ill_conditioned_affine_risk_says_so():
    rng = np.random.default_rng(11)
    frame = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    inner = at.SingleLocation(3, 3, 0.2, 0.0, 0.0)
    task = at.CorrelatedBackground(
        inner, covariance=(frame * [1.0, 1e3, 1e11]) @ frame.T, informative="isotropic"
    )
    found = task.linear_risk()
    background = (task.mean, task.covariance)
    informative = (task.informative_mean, task.informative_covariance)
    truth = planted_risks.affine_risk(np.full(3, 1 / 3), background, informative, task.value)[
        1
    ]
    assert abs(found.excess - truth) <= found.error


def test_short_spikes_on_a_line():
    """The grid over log t was too coarse for spikes shorter than 2,
    and so was the one it was compared with.
    """
    for strength in np.geomspace(0.01, 4.0, 60):
        task = at.SpikeMixture(
            3, 2, means=strength * np.eye(3)[:1], outputs=np.eye(3)[1], gamma=1.0
        )
        found = task.bayes_risk()
        truth, error = planted_risks.line_spikes(np.array([strength]), np.ones(1))
        assert found.method == "2-D quadrature"
        assert abs(found.excess - truth) <= found.error + error, strength
        assert abs(found.excess - truth) <= 1e-9, strength


def test_a_bump_whose_square_underflows():
    """sigma is 1e-162 over all scores: its square was refined to the end of the budget,
    and refused.
    """
    bump = at.Componentwise(lambda x: np.exp(-(((x - 1.42) / 0.0735) ** 2)), 0.0053)
    task = at.SingleLocation(54, 2, 13.2, 0.0, 0.98)
    found = at.risk(task, bump, at.Overlaps.oracle())
    assert abs(found.excess - 13.2**2) <= found.error < 1e-9
