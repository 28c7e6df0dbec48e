"""Linear attention and retrieval from examples: their stress test, and its references against
values known otherwise.

Sampled references of a deterministic risk allow 5.5 standard errors (4e-8 a setting).
"""

import math

import numpy as np
import pytest
from helpers.families import family_tests
from scipy.special import stdtr

from stress.references import linear_attention, sparse_retrieval

test_quick, test_long = family_tests("linear_attention", "sparse_retrieval")


def test_one_feature_by_hand():
    """D = p = 1: a regression through 0 on (sum z^2) q."""
    rng = np.random.default_rng(1)
    tokens = rng.standard_normal((5, 2, 1))
    query = rng.standard_normal((5, 1))
    y = rng.standard_normal((5, 1))
    x = (tokens**2).sum(axis=(1, 2)) * query[:, 0]
    slope = x @ y[:, 0] / (x @ x)
    found = linear_attention.least_squares(tokens, query, y, (tokens, query), 0.0)
    assert found["optimum"] == pytest.approx(np.mean((y[:, 0] - slope * x) ** 2), rel=1e-12)
    assert found["predictions"][:, 0] == pytest.approx(slope * x, rel=1e-12)
    assert found["nullity"] == 0 and found["spectrum"] == pytest.approx([x @ x / 5])


def test_dependent_features_are_counted():
    tokens = np.ones((6, 1, 2))
    found = linear_attention.least_squares(
        tokens, np.ones((6, 1)), np.arange(6.0)[:, None], (tokens, np.ones((6, 1))), 0.0
    )
    assert found["nullity"] == 2
    assert found["optimum"] == pytest.approx(35 / 12)


def test_two_columns_by_students_law():
    for n, s in ((1, 0.5), (4, 2.0), (30, 1.0)):
        closed = stdtr(n, math.sqrt(n / (1 + 2 * s * s)))
        found = sparse_retrieval.choice_probability(n, 2.0, s, "dot")
        assert found == pytest.approx(closed, abs=1e-11)


def test_masses_of_two_columns_by_drawing():
    for n, s in ((1, 0.5), (4, 1.5)):
        value, error = sparse_retrieval.wrong_mass(n, 2, s, 0)
        assert abs(math.exp(sparse_retrieval.two_columns(n, s)) - value) < error
