"""Stress tests of learning curves in samples; its reference on values that are known without it."""

import math

import numpy as np
from helpers.families import family_tests
from helpers.tolerances import EXACT, FORMULA, SOLVED
from scipy.integrate import quad
from scipy.special import expit

from stress.references import sample_curves

test_quick, test_long = family_tests("sample_curves")


def test_pair_without_a_label():
    """A = E sigma(N(m, 2 m)), here by an adaptive rule."""
    m = 1.7
    density = lambda x: math.exp(-((x - m) ** 2) / (4 * m)) / math.sqrt(4 * math.pi * m)
    lost = quad(lambda x: expit(-x) * density(x), -40, 40, epsabs=1e-13, limit=200)[0]
    found = sample_curves.pair_averages(m, 0.0, 1.0)
    assert abs(found[0] - lost) < EXACT
    assert abs(found[1] - lost) < EXACT


def test_pair_against_drawn_bags():
    """5 standard errors: 6e-7 a number."""
    mean, error = sample_curves.drawn_averages(0.8, 0.7, 0.4, np.full(2, 0.5), 200_000, 9)
    found = sample_curves.pair_averages(0.8, 0.7, 0.4)
    assert (np.abs(1 - np.array(found[:2]) - mean) < 5 * error).all()


def test_strong_spikes_are_ridge_regression():
    """The location known: q_v/(1 - q_v) = alpha/V."""
    q_k, q_v, _ = sample_curves.pair_curve(300.0, 0.2, 2.0, False)
    assert abs(q_k - 600 / 601) < SOLVED
    assert abs(q_v / (1 - q_v) - 2 / (1.2 - q_v)) < 1e-8  # amplified by 1/(1 - q_v)^2


def test_first_step_of_message_passing():
    """From zero r = 1/L: k is the mean of the tokens, shrunk."""
    x = np.random.default_rng(1).standard_normal((5, 2, 3))
    k, _ = sample_curves.messages(x, np.zeros(5), 4.0, 1.0, 1, 0.5)
    P = 4.0 / 3 * 5 * 2 * 0.25
    assert np.allclose(k, 2.0 * x.sum((0, 1)) / 2 / 3 / (1 + P), rtol=FORMULA)
