"""Topics, Gaussian latents, operators: their stress test, and its references against values known
otherwise.

Sampled settings: those of SphereRegression.bayes_risk alone, each a false alarm with probability
5.7e-7.
"""

import math

import mpmath as mp
import numpy as np
import pytest
from helpers.families import family_tests
from helpers.tolerances import EXACT, LAST_DIGIT

from stress.references import exchangeable, operators

test_quick, test_long = family_tests(
    "topics",
    "topics_posteriors",
    "exchangeable",
    "exchangeable_risks",
    "operators",
    "operators_learning_curves",
    "operators_transfer",
    "grids_and_lengths",
)


def test_topic_sums_by_hand():
    """One token, two topics, two symbols: 2 sum_x p q/(p + q)."""
    p = np.array([0.5 * 0.7, 0.5 * 0.3])
    q = np.array([0.5 * 0.4, 0.5 * 0.6])
    by_hand = 2 * np.sum(p * q / (p + q))
    wrong, brier = exchangeable.topic_sums(
        [0.5, 0.5], [[0.7, 0.3], [0.4, 0.6]], 1, np.array([0.0, 1.0])
    )
    assert wrong == pytest.approx(by_hand, rel=LAST_DIGIT)
    assert brier == pytest.approx(by_hand / 2, rel=LAST_DIGIT)


def test_chernoff_of_mirrored_laws():
    """B and its mirror image have tilt 1/2 and rate -log sum sqrt(B B')."""
    rate, tilt, variance = exchangeable.chernoff([0.8, 0.2], [0.2, 0.8])
    assert rate == pytest.approx(-math.log(0.8), rel=LAST_DIGIT)
    assert tilt == pytest.approx(0.5, abs=LAST_DIGIT)
    assert variance == pytest.approx(math.log(4) ** 2, rel=LAST_DIGIT)


def test_wishart_trace_of_one_normal():
    """E 1/(1 + c z^2) = sqrt(pi/(2c)) e^{1/(2c)} erfc(1/sqrt(2c))."""
    for c in (1e-6, 1.0, 1e12):
        with mp.workdps(60):
            a = 1 / mp.sqrt(2 * mp.mpf(c))
            truth = float(mp.sqrt(mp.pi) * a * mp.exp(a * a) * mp.erfc(a))
        assert exchangeable.wishart_trace(1, 1, c, 0)[0] == pytest.approx(truth, rel=EXACT)


def test_wishart_trace_from_two_columns_to_drawn_ones():
    """N = 3 is drawn, N = 2 integrated: both against the plain mean over matrices,
    five standard errors.
    """
    rng = np.random.default_rng(1)
    for rows, columns in ((5, 2), (4, 3)):
        X = rng.standard_normal((20_000, rows, columns))
        plain = np.trace(
            np.linalg.inv(np.eye(columns) + 0.7 * X.swapaxes(1, 2) @ X), axis1=1, axis2=2
        )
        value, error = exchangeable.wishart_trace(rows, columns, 0.7, 0)
        assert abs(value - plain.mean()) < error + 5 * plain.std() / len(plain) ** 0.5


def test_zonal_is_legendre_in_three_dimensions():
    t = np.linspace(-1, 1, 7)
    assert exchangeable.zonal(3, 2, t) == pytest.approx((3 * t**2 - 1) / 2)
    assert exchangeable.zonal(2, 3, t) == pytest.approx(4 * t**3 - 3 * t)


def test_first_filter_is_langevin():
    """d = 3: mu_1/mu_0 = coth(1/h) - h."""
    ratio = operators.eigenvalue(3, 0.5, 1) / operators.eigenvalue(3, 0.5, 0)
    assert float(ratio) == pytest.approx(1 / math.tanh(2) - 0.5, rel=LAST_DIGIT)


def test_softmax_error_of_one_and_two_tokens_by_drawing():
    """The quadratures of few tokens against drawn keys, as for many tokens."""
    rng = np.random.default_rng(2)
    k = rng.standard_normal((200_000, 2, 3))
    t = (k / np.linalg.norm(k, axis=-1, keepdims=True))[..., 0]
    w = np.exp(t / 0.4) / (np.exp(t / 0.4).sum(axis=1, keepdims=True) + math.exp(0.3))
    found = (
        1
        - 2 * np.sum(w * t, axis=1)
        + 1.25 * np.sum(w**2, axis=1)
        + 2 * w[:, 0] * w[:, 1] * t[:, 0] * t[:, 1]
    )
    value, _ = operators.softmax_error(3, 2, 0.4, 0.5, (0, 1), 1.0, 0.3, 0)
    assert abs(value - found.mean()) < 5 * found.std() / len(found) ** 0.5


def test_order_by_counting():
    assert exchangeable.order_law(3, [2, 0, 1], [0, 2, 1], True) == -1
    assert exchangeable.order_law(3, [2, 0, 1], [0, 2, 1], False) == 0
    assert exchangeable.order_law(1, [0], [2], True) == 0
