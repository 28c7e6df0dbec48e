"""Stress tests of learning curves of ridge fits; its reference against known values."""

import math

import numpy as np
from helpers.families import family_tests
from scipy.special import softmax

from stress.references import ridge_curves
from stress.references.ridge_curves import Case

test_quick, test_long = family_tests("ridge_curves")


def test_the_reference_with_a_useless_key():
    """A ridge of 1e4 on the key leaves mean pooling, which is ridge regression: 5 errors."""
    case = Case(False, 2, 2.0, 5.0, 0.1, 1e4, 0.5)
    found, error = ridge_curves.saddle(case, 4000, 3)
    risk, overlap = ridge_curves.fixed_key(np.ones((10, 2)), 2.0, 0.5, 0.1)
    assert abs(found[0] - risk) <= 5 * error[0] + 1e-3
    assert abs(found[2] - overlap) <= 5 * error[2] + 1e-3


def test_the_reference_with_the_location_known():
    """Ridge regression with the right penalty, l = D: q = m = 1 - u, u^2 + (D + alpha - 1) u = D."""
    D, alpha = 0.2, 1.5
    sig = np.tile([1.0, 0.0], (10, 1))
    risk, overlap = ridge_curves.fixed_key(sig, alpha, D, D)
    b = D + alpha - 1
    u = (math.sqrt(b * b + 4 * D) - b) / 2
    assert abs(risk - u) < 1e-10
    assert abs(overlap - (1 - u)) < 1e-10


def test_two_softmax_scores_minimise():
    """Against a finer grid: 50 bags with V = 8, where many have two minima."""
    rng = np.random.default_rng(4)
    o, z = 1.5 * rng.standard_normal((2, 50, 2))
    y = rng.standard_normal(50)
    V, W = 8.0, 0.5
    u = ridge_curves._pair_scores(o, z, y, V, W)

    def phi(u):
        sig = softmax(u, axis=-1)
        rest = (y[:, None] - np.sum(sig * z[:, None], axis=-1)) ** 2
        apart = np.sum((u - o[:, None]) ** 2, axis=-1)
        return apart / (2 * V) + rest / (2 + 2 * W * np.sum(sig**2, axis=-1))

    x = np.linspace(-25, 25, 5001)
    around = o.mean(axis=1)[:, None, None] + np.stack([x / 2, -x / 2], axis=-1)
    least = phi(around).min(axis=1)
    assert (phi(u[:, None])[:, 0] <= least + 1e-9).all()
