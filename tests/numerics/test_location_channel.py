"""Averages over a bag: a finer rule, drawn bags, two tokens by another formula, and identities.

False alarms: 40 comparisons at 4 standard errors, 0.3 % in all; the seeds were chosen before
looking.
"""

import math

import numpy as np
import pytest
from helpers.tolerances import LONG_SUM, SIX_DIGITS, SOLVED
from stress.references import sample_curves

import attnscope as at
from attnscope.numerics.integrals.location_channel import (
    COARSE_RULE,
    FINE_RULE,
    Positions,
    averages,
    located,
)

FINEST = FINE_RULE._replace(table=0.04, score=0.16, label=(0.4, 0.1), output=0.1, narrow=20)


def uniform(length):
    return Positions.of_lengths(np.array([length]), np.ones(1))


def drawn_settings():
    """20 settings: strength of the scores, overlap of the value, noise^2, length to 1000."""
    rng = np.random.default_rng(1601)
    for i in range(20):
        s2 = 10 ** rng.uniform(-2, 1.2)
        D = 10 ** rng.uniform(-5, 0.3)
        q = 1 - 10 ** rng.uniform(-5, 0) if i % 2 else 10 ** rng.uniform(-4, 0)
        yield s2, q, D + 1 - q, int(round(10 ** rng.uniform(math.log10(2), 3)))


SETTINGS = list(drawn_settings())


@pytest.mark.parametrize(("s2", "q", "V", "length"), SETTINGS)
def test_against_a_finer_rule(s2, q, V, length):
    """The bar is 1e-7; both rules keep 1e-9."""
    best = np.array(averages(math.sqrt(s2), q, V, uniform(length), FINEST))
    for rule, kept in ((COARSE_RULE, 1e-9), (FINE_RULE, 1e-10)):
        found = np.array(averages(math.sqrt(s2), q, V, uniform(length), rule))
        assert np.abs(found - best).max() < kept


@pytest.mark.parametrize(("s2", "q", "V", "length"), SETTINGS)
def test_against_drawn_bags(s2, q, V, length):
    draws = min(40_000, 2_000_000 // length)
    mean, error = sample_curves.drawn_averages(
        s2, q, V, np.full(length, 1 / length), draws, 1602
    )
    found = averages(math.sqrt(s2), q, V, uniform(length))
    assert (np.abs(mean - found[:2]) < 4 * error).all()


@pytest.mark.parametrize("V", [1e-9, 1e-4, 0.03, 1.0, 3.0])
@pytest.mark.parametrize("s2", [1e-3, 1.0, 8.0])
def test_two_tokens_by_another_formula(s2, V):
    q = max(1 - V, 0.1)
    A, B, _ = averages(math.sqrt(s2), q, V, uniform(2))
    lost = sample_curves.pair_averages(s2, q, V)
    assert abs(1 - A - lost[0]) < SOLVED
    assert abs(1 - B - lost[1]) < SOLVED


@pytest.mark.parametrize("length", [2, 7, 1000])
@pytest.mark.parametrize("strength", [0.01, 1.0, 20.0])
def test_without_a_label_it_is_the_population_risk(strength, length):
    assert (
        abs(
            1
            - located(math.sqrt(strength), uniform(length), FINE_RULE)
            - at.spiked_bayes_risk(strength, length).value
        )
        < LONG_SUM
    )
    A, _, _ = averages(math.sqrt(strength), 0.0, 1.0, uniform(length))
    assert abs(A - located(math.sqrt(strength), uniform(length))) < SOLVED


@pytest.mark.parametrize(
    ("nu", "q_k", "q_v", "D", "positions"),
    [
        (5.0, 0.7, 0.4, 0.1, uniform(3)),
        (1.0, 0.3, 0.9, 0.01, uniform(20)),
        (2.0, 0.5, 0.6, 0.3, Positions.of_probs(np.array([0.1, 0.6]), np.array([4, 1]))),
        (3.0, 0.5, 0.6, 0.3, Positions.of_lengths(np.array([2, 9]), np.array([0.3, 0.7]))),
    ],
)
def test_slopes_of_the_log_evidence(nu, q_k, q_v, D, positions):
    """2 dPsi/dq_k = nu A and 2 dPsi/dq_v = B/V."""

    def psi(k, v):
        V = D + 1 - v
        M = averages(math.sqrt(nu * k), v, V, positions, FINE_RULE).M
        return M - nu * k / 2 - math.log(2 * math.pi * V) / 2

    A, B, _ = averages(math.sqrt(nu * q_k), q_v, D + 1 - q_v, positions)
    h = 1e-3
    slope = lambda f: (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)
    assert abs(2 * slope(lambda x: psi(q_k + x, q_v)) - nu * A) < SIX_DIGITS
    assert abs(2 * slope(lambda x: psi(q_k, q_v + x)) - B / (D + 1 - q_v)) < SIX_DIGITS


def test_positions_with_probabilities():
    """Equal ones are uniform; unequal ones as drawn; mixtures of lengths are means."""
    flat = Positions.of_probs(np.array([0.25]), np.array([4]))
    for a, b in zip(averages(1.2, 0.5, 0.6, flat), averages(1.2, 0.5, 0.6, uniform(4))):
        assert abs(a - b) < LONG_SUM
    probs = np.array([0.5, 0.2, 0.2, 0.1])
    uneven = Positions.of_probs(*np.unique(probs, return_counts=True))
    mean, error = sample_curves.drawn_averages(1.44, 0.5, 0.6, probs, 100_000, 1603)
    assert (np.abs(mean - averages(1.2, 0.5, 0.6, uneven)[:2]) < 4 * error).all()
    both = averages(
        1.2, 0.5, 0.6, Positions.of_lengths(np.array([2, 9]), np.array([0.3, 0.7]))
    )
    parts = [averages(1.2, 0.5, 0.6, uniform(L)) for L in (2, 9)]
    assert np.allclose(both, np.dot([0.3, 0.7], parts), rtol=0, atol=LONG_SUM)


def test_rare_positions_do_not_matter():
    """A prior of 1e-30 decides once in 1e30 bags."""
    rare = Positions.of_probs(np.array([1e-30, 0.5]), np.array([1, 2]))
    for a, b in zip(averages(1.2, 0.5, 0.6, rare), averages(1.2, 0.5, 0.6, uniform(2))):
        assert abs(a - b) < SOLVED
