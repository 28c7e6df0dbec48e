"""The values' ridge: from rows, from Gram matrices, by scikit-learn,
and its posterior by a plain inverse.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tolerances import FOUR_DIGITS, INTEGRAL, ROOT_EPS, SEVEN_DIGITS
from sklearn.linear_model import BayesianRidge, Ridge, RidgeCV

from attnscope.estimators.fit.ridge import (
    MIN_NOISE_SHARE,
    evidence_ridge,
    gram,
    row_ridge,
    values_from,
)


def rows(k, d, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((k, d)) * np.linspace(0.2, 2, d) + rng.standard_normal(d)
    y = x @ rng.standard_normal(d) / np.sqrt(d) + 0.3 * rng.standard_normal(k) + 1.7
    return x, y, rng.uniform(0.1, 2, k)


def blank(d):
    return values_from(np.zeros((d, 1)), np.zeros(1), 1.0, 1.0)


SHAPES = [(40, 5), (12, 12), (11, 12), (20, 60), (3, 60), (2, 7)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fixed", [None, 0.7])
def test_rows_and_gram_matrix_give_the_same(shape, fixed):
    x, y, weight = rows(*shape)
    a = row_ridge(x, y, weight, fixed)
    b = evidence_ridge(gram(np.column_stack([x, y]), weight), fixed)
    for name in ("weights", "bias", "variance", "precision", "noise", "centre", "bags"):
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name), rtol=SEVEN_DIGITS, atol=INTEGRAL
        )
    new = np.random.default_rng(1).standard_normal((30, shape[1]))
    np.testing.assert_allclose(a.uncertainty(new), b.uncertainty(new), rtol=SEVEN_DIGITS)


@pytest.mark.parametrize("shape", SHAPES)
def test_against_scikit_learn_and_a_plain_inverse(shape):
    d, (x, y, weight) = shape[1], rows(*shape)
    found = row_ridge(x, y, weight, None)
    ridge = found.precision * found.variance
    peer = Ridge(alpha=ridge, solver="svd").fit(x, y, sample_weight=weight)
    np.testing.assert_allclose(
        found.weights[:, 0], peer.coef_, rtol=0, atol=ROOT_EPS * np.abs(peer.coef_).max()
    )
    np.testing.assert_allclose(found.bias[0], peer.intercept_, rtol=ROOT_EPS)
    centred = (x - np.average(x, axis=0, weights=weight)) * np.sqrt(weight)[:, None]
    covariance = found.variance * np.linalg.inv(centred.T @ centred + ridge * np.eye(d))
    np.testing.assert_allclose(
        found.root @ found.root.T,
        covariance,
        rtol=0,
        atol=ROOT_EPS * np.abs(covariance).max(),
    )


@pytest.mark.parametrize("shape", [(400, 10), (60, 80)])
def test_ridge_and_noise_are_a_fixed_point_of_the_evidence(shape):
    x, y, _ = rows(*shape)
    found = row_ridge(x, y, np.ones(len(x)), None)
    g = np.trace(np.eye(shape[1]) - found.precision * found.root @ found.root.T)
    residual = y - x @ found.weights[:, 0] - found.bias
    rss = residual @ residual + (len(x) - 1) * MIN_NOISE_SHARE * y.var()
    np.testing.assert_allclose(found.variance, rss / (len(x) - 1 - g), rtol=INTEGRAL)
    np.testing.assert_allclose(found.precision, g / (found.weights**2).sum(), rtol=INTEGRAL)


@pytest.mark.parametrize("seed", range(6))
def test_as_many_features_as_rows_is_no_trap(seed):
    """With d = n the usual iteration may end at an interpolation, with an error near the labels'
    variance; cross-validation does not.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((600, 300))
    y = 0.1 * rng.standard_normal(600)
    y += x[:, 0]
    found = row_ridge(x[:300], y[:300], np.ones(300), None)
    error = np.mean((y[300:] - x[300:] @ found.weights[:, 0] - found.bias) ** 2)
    peer = RidgeCV(np.logspace(-4, 4, 33)).fit(x[:300], y[:300])
    assert error < 1.25 * np.mean((y[300:] - peer.predict(x[300:])) ** 2) < 0.25


def test_data_without_noise_are_fitted_exactly():
    x, y, _ = rows(200, 5)
    y = x @ np.arange(5.0)
    found = row_ridge(x, y, np.ones(200), None)
    np.testing.assert_allclose(found.weights[:, 0], np.arange(5.0), atol=FOUR_DIGITS)
    assert 0 < found.variance < 1e-5 * y.var()


def test_with_many_rows_the_evidence_is_that_of_scikit_learn():
    """Theirs is RSS/(n - g), ours counts the intercept: a difference of 1/n."""
    x, y, _ = rows(4000, 10)
    found = row_ridge(x, y, np.ones(len(x)), None)
    peer = BayesianRidge(
        alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, max_iter=5000, tol=1e-12
    ).fit(x, y)
    np.testing.assert_allclose(
        [found.precision, 1 / found.variance], [peer.lambda_, peer.alpha_], rtol=2 / 4000
    )


def test_without_a_ridge_the_shortest_interpolation():
    x, y, weight = rows(10, 40)
    found = row_ridge(x, y, weight, 0.0)
    shortest = np.linalg.lstsq(
        x - np.average(x, axis=0, weights=weight), y - np.average(y, weights=weight)
    )[0]
    np.testing.assert_allclose(found.weights[:, 0], shortest, rtol=0, atol=INTEGRAL)


@pytest.mark.parametrize(("k", "d"), [(1, 3), (4, 9)])
def test_tokens_without_any_spread_leave_the_mean(k, d):
    found = row_ridge(np.ones((k, d)), np.arange(float(k)), np.ones(k), None)
    assert np.all(found.weights == 0) and found.bias[0] == (k - 1) / 2
    assert np.all(np.isfinite(found.root)) and np.all(
        np.isfinite(found.uncertainty(np.zeros((2, d))))
    )
