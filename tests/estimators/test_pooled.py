"""The mean token: the baseline by scikit-learn, its share of the prediction by a grid and in closed
form, and what the estimators say of it.
"""

import numpy as np
import pytest
from helpers.tolerances import FOUR_DIGITS, THREE_DIGITS
from sklearn.linear_model import BayesianRidge, LogisticRegression

import attnscope as at
from attnscope.estimators.classifier import SingleLocationClassifier
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import make_folds
from attnscope.estimators.fit.mixture import output_losses
from attnscope.estimators.fit.pooled import (
    MeanPool,
    Pooled,
    blend_outputs,
    fit_pooled,
    mean_share,
)
from attnscope.estimators.model_file.read import load_model
from attnscope.estimators.regressor import SingleLocationRegressor
from attnscope.numerics.compiled.data_pass import BERNOULLI, CATEGORICAL, GAUSSIAN


def mean_carries(n, seed, length=4, d=5, noise=0.3):
    """Bags whose label is read from the mean token: no token decides."""
    rng = np.random.default_rng(seed)
    bags = rng.standard_normal((n, length, d)) + rng.standard_normal((n, 1, d))
    return bags, bags.mean(axis=1) @ np.arange(1.0, d + 1) / d + noise * rng.standard_normal(
        n
    )


def as_data(bags, labels, family, outputs=1, weight=None):
    n, length, d = bags.shape
    ones = np.ones(n) if weight is None else weight
    return Data(
        bags.reshape(-1, d),
        np.arange(n + 1) * length,
        np.asarray(labels, float),
        ones,
        family,
        outputs,
    )


def features(bags):
    """Mean tokens of unit variance over bags."""
    mean = bags.mean(axis=1)
    return mean / mean.std(axis=0)


# -- the baseline ----------------------------------------------------------------------------------


def test_numbers_are_ridge_by_the_evidence():
    bags, y = mean_carries(120, 0)
    data = as_data(bags, y, GAUSSIAN)
    pooled = fit_pooled(data, make_folds(data, 0), None)
    x = features(bags)
    route = BayesianRidge(
        alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, max_iter=2000, tol=1e-12
    )
    own = pooled.fitted.answers(data.tokens, data.offsets).output[:, 0]
    # BayesianRidge divides the residuals by n - g, here n - 1 - g for the intercept: a tiny
    # difference of the ridge
    np.testing.assert_allclose(own, route.fit(x, y).predict(x), atol=THREE_DIGITS)
    for fold in make_folds(data, 0):
        seen = np.clip(x[fold.out], x[fold.rest].min(axis=0), x[fold.rest].max(axis=0))
        np.testing.assert_allclose(
            pooled.output[fold.out, 0],
            route.fit(x[fold.rest], y[fold.rest]).predict(seen),
            atol=2e-3,
        )
    np.testing.assert_allclose(pooled.losses, (y - pooled.output[:, 0]) ** 2)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_ridge_logistic_regression(classes):
    """Weighted, with the ridge given: scikit-learn's optimum; its own tolerance sets ours."""
    bags, y = mean_carries(90, 1)
    labels = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    weight = np.random.default_rng(2).uniform(0.5, 2, 90)
    family, outputs = (BERNOULLI, 1) if classes == 2 else (CATEGORICAL, 3)
    data = as_data(bags, labels, family, outputs, weight)
    mean = bags.mean(axis=1)
    centre = np.average(mean, axis=0, weights=weight)
    x = mean / np.sqrt(np.average((mean - centre) ** 2, axis=0, weights=weight))
    own = (
        fit_pooled(data, make_folds(data, 0), 2.0)
        .fitted.answers(data.tokens, data.offsets)
        .output
    )
    route = LogisticRegression(C=1 / 2.0, tol=1e-10, max_iter=5000).fit(
        x, labels, sample_weight=weight
    )
    np.testing.assert_allclose(own, route.predict_proba(x), atol=2e-3)


def test_the_ridge_of_classes_is_chosen_by_held_out_loss():
    """Twenty useless features and few bags: a strong ridge; one feature that tells everything:
    a weak one.
    """
    rng = np.random.default_rng(3)
    noise = rng.standard_normal((60, 2, 20))
    clear = noise[..., :1] + 3 * rng.choice([-1, 1], 60)[:, None, None]
    found = []
    for bags, labels in ((noise, rng.random(60) < 0.5), (clear, clear.mean(axis=(1, 2)) > 0)):
        data = as_data(bags, labels, BERNOULLI)
        found.append(
            fit_pooled(data, make_folds(data, 0), None).fitted.model.values.precision
        )
    assert found[0] >= 100 and found[1] <= 1


def test_mean_tokens_are_read_within_the_range_seen():
    bags, y = mean_carries(50, 4)
    data = as_data(bags, y, GAUSSIAN)
    pool = fit_pooled(data, make_folds(data, 0), None).fitted
    edge = bags.mean(axis=1).max(axis=0)
    far, at_edge = (
        pool.answers(np.tile(x, (3, 1)), np.array([0, 3])).output for x in (edge + 1e6, edge)
    )
    np.testing.assert_allclose(far, at_edge)


# -- the share -------------------------------------------------------------------------------------


def made(output, spread=None):
    return Pooled(
        MeanPool(None, None, None),
        np.empty(0),
        output,
        np.ones(len(output)) if spread is None else spread,
    )


def test_share_of_numbers_is_least_squares():
    """w = sum (y-f)(g-f) / sum (g-f)^2; and 0 where it gains nothing,
    or where the mean token says nothing.
    """
    rng = np.random.default_rng(5)
    y = rng.standard_normal(400)
    f = (y + rng.standard_normal(400) * 0.6)[:, None]
    g = (y + rng.standard_normal(400) * 0.8)[:, None]
    data = Data(np.zeros((400, 1)), np.arange(401), y, np.ones(400), GAUSSIAN, 1)
    pooled = made(g)._replace(losses=output_losses(g, data))
    expected = (y - f[:, 0]) @ (g - f)[:, 0] / np.sum((g - f) ** 2)
    assert 0.2 < expected < 0.5 and mean_share(data, f, pooled) == pytest.approx(
        expected, abs=FOUR_DIGITS
    )
    assert mean_share(data, y[:, None], pooled) == 0
    silent = 0.1 * rng.standard_normal((400, 1))
    assert (
        mean_share(data, 3 * f, made(silent)._replace(losses=output_losses(silent, data)))
        == 0
    )


def test_share_of_classes_by_a_grid():
    rng = np.random.default_rng(6)
    common = 1.5 * rng.standard_normal(300)
    f, g = (
        np.column_stack([1 - p, p])
        for p in 1 / (1 + np.exp(-common - rng.standard_normal((2, 300))))
    )
    labels = (rng.random(300) < 1 / (1 + np.exp(-common))).astype(float)
    data = Data(np.zeros((300, 1)), np.arange(301), labels, np.ones(300), BERNOULLI, 1)
    pooled = made(g)._replace(losses=output_losses(g, data))
    grid = np.linspace(0, 1, 2001)
    best = grid[np.argmin([output_losses((1 - w) * f + w * g, data).mean() for w in grid])]
    assert 0.2 < best < 0.8 and mean_share(data, f, pooled) == pytest.approx(
        best, abs=THREE_DIGITS
    )


def test_spread_is_that_of_a_mixture():
    """Against 4e5 draws: 5 standard errors of the second moment, false alarm 1e-6."""
    rng = np.random.default_rng(7)
    w = 0.3
    n = 400_000
    own = rng.random(n) >= w
    draws = np.where(
        own, 1.0 + 0.5 * rng.standard_normal(n), -0.4 + 1.2 * rng.standard_normal(n)
    )
    output, spread = blend_outputs(
        np.array([[1.0]]), np.array([0.5]), np.array([[-0.4]]), np.array([1.2]), w
    )
    assert abs(draws.mean() - output[0, 0]) < 5 * draws.std() / np.sqrt(n)
    squares = (draws - output[0, 0]) ** 2
    assert abs(squares.mean() - spread[0] ** 2) < 5 * squares.std() / np.sqrt(n)


# -- the estimators --------------------------------------------------------------------------------


def test_bags_read_from_the_mean(tmp_path):
    """The share is nearly all, the prediction as good as ridge on the mean token, the intervals
    keep their promise, and diagnose says it.
    """
    bags, y = mean_carries(300, 8)
    test, truth = mean_carries(2000, 9)
    model = SingleLocationRegressor().fit(bags, y)
    assert model.mean_share_ > 0.8 and model.stages_[-1] == "mean"
    route = (
        BayesianRidge()
        .fit(features(bags), y)
        .predict(test.mean(axis=1) / bags.mean(axis=1).std(axis=0))
    )
    assert np.mean((model.predict(test) - truth) ** 2) < 1.1 * np.mean((route - truth) ** 2)
    low, high = model.predict_interval(test).T
    assert 0.86 < np.mean((low <= truth) & (truth <= high)) < 0.95
    weights = model.attention(test)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert weights.min() >= model.mean_share_ / 4
    np.testing.assert_array_equal(weights.argmax(axis=1), model.locate(test))
    found = model.diagnose(test, truth)
    assert found.mean_share == model.mean_share_ and not found.single_location
    assert "% of the prediction comes from all tokens equally" in str(
        found
    ) and "Most of the prediction" in str(found)
    model.save(tmp_path / "m.npz")
    np.testing.assert_array_equal(
        load_model(tmp_path / "m.npz").predict_interval(test), np.column_stack([low, high])
    )


def test_classes_read_from_the_mean():
    bags, y = mean_carries(200, 10)
    test, truth = mean_carries(1000, 11)
    model = SingleLocationClassifier().fit(bags, y > 0)
    route = (
        LogisticRegression()
        .fit(features(bags), y > 0)
        .predict(test.mean(axis=1) / bags.mean(axis=1).std(axis=0))
    )
    assert model.mean_share_ + model.instance_share_ > 0.5
    assert np.mean(model.predict(test) == (truth > 0)) > np.mean(route == (truth > 0)) - 0.02
    np.testing.assert_allclose(model.predict_proba(test).sum(axis=1), 1)


@pytest.mark.parametrize("fixed", [{"pooling": "softmax"}, {"loss": "mixture"}])
def test_one_token_decides_if_asked_to(fixed):
    bags, y = mean_carries(150, 12)
    assert SingleLocationRegressor(**fixed).fit(bags, y).mean_share_ == 0


def test_no_share_where_one_token_decides():
    """Seeds 0-4: none of five takes a share (the mean token does not beat a constant by two
    standard errors).
    """
    for seed in range(5):
        batch = at.SingleLocation(dim=10, length=8, signal=4.0, noise=0.1, seed=seed).sample(
            200, seed=seed
        )
        assert SingleLocationRegressor().fit(batch.tokens, batch.target).mean_share_ == 0
