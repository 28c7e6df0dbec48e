"""The estimator on bags whose best answer is known:
Bayes, least squares with the location known, Cramér-Rao, the true t model.
"""

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.linear_model import RidgeCV

import attnscope as at
from attnscope.corpora.digits import digit_bags
from attnscope.estimators.regressor import SingleLocationRegressor


def measured(n, seeds, length=15, dim=50, signal=None, make=None):
    """Median over seeds of test MSE/Bayes, MSE/least squares with the location known, NMSE,
    location, coverage.
    """
    rows = []
    for seed in seeds:
        task = (
            at.SingleLocation(dim=dim, length=length, noise=0.1, signal=signal, seed=seed)
            if make is None
            else make(seed)
        )
        train = task.sample(n, seed=10 + seed)
        test = task.sample(2000, seed=1000 + seed)
        model = SingleLocationRegressor(random_state=seed).fit(train.tokens, train.target)
        low, high = model.predict_interval(test.tokens).T
        mse = np.mean((model.predict(test.tokens) - test.target) ** 2)
        bayes = (
            np.mean((task.bayes_predict(test.tokens) - test.target) ** 2)
            if make is None
            else np.nan
        )
        rows.append(
            [
                mse / bayes,
                mse / known_location(train, test),
                mse / test.target.var(),
                np.mean(model.locate(test.tokens) == test.location),
                np.mean((low <= test.target) & (test.target <= high)),
            ]
        )
    return np.median(rows, axis=0)


def known_location(train, test):
    """Test error of least squares on the deciding tokens themselves."""
    design = [
        np.column_stack(
            [b.tokens[np.arange(len(b.target)), b.location], np.ones(len(b.target))]
        )
        for b in (train, test)
    ]
    return np.mean(
        (design[1] @ np.linalg.lstsq(design[0], train.target, rcond=None)[0] - test.target)
        ** 2
    )


class Correlated:
    """Background of random covariance and nonzero mean."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.task = at.SingleLocation(dim=50, length=15, noise=0.1, seed=seed)
        a = rng.standard_normal((50, 50)) / np.sqrt(50)
        self.root, self.mean = (
            np.linalg.cholesky(0.3 * np.eye(50) + 0.7 * a @ a.T),
            rng.standard_normal(50) / 2,
        )

    def sample(self, n, seed):
        batch = self.task.sample(n, seed=seed)
        tokens, rows = batch.tokens @ self.root.T + self.mean, np.arange(n)
        tokens[rows, batch.location] = batch.tokens[rows, batch.location]
        return at.Batch(tokens, batch.target, batch.location)


def aligned(seed):
    k = np.eye(50)[0]
    return at.SingleLocation(
        dim=50,
        length=15,
        noise=0.1,
        key=k,
        value=0.7 * k + np.sqrt(0.51) * np.eye(50)[1],
        seed=seed,
    )


@pytest.mark.slow
def test_heavy_tails_over_seeds():
    ratios = []
    for seed in range(5):
        train, test = heavy_tailed(seed)
        model = SingleLocationRegressor().fit(train.tokens, train.target)
        ratios.append(
            np.mean((model.predict(test.tokens) - test.target) ** 2)
            / known_location(train, test)
        )
    assert np.median(ratios) <= 3


def test_base_case():
    """n = 500, L = 15, d = 50. MSE/Bayes has mean 1.11 (the law 1 + d/(n-d-1)) and standard
    deviation .02, its median of 3 seeds .013.
    """
    to_bayes, to_known, _, location, coverage = measured(500, range(3))
    assert to_bayes <= 1.15 and to_known <= 1.02 and location >= 0.99
    assert 0.86 <= coverage <= 0.95


def test_few_bags():
    to_bayes, _, _, location, coverage = measured(120, range(2))
    assert to_bayes <= 2.5 and location >= 0.99 and 0.85 <= coverage <= 0.97


def same_sign(n, seed, length=4):
    """In the deciding token the first two features have the same sign,
    in all others opposite ones; the third is the label.
    """
    rng = np.random.default_rng(seed)
    tokens, location, rows = (
        rng.standard_normal((n, length, 3)),
        rng.integers(0, length, n),
        np.arange(n),
    )
    tokens[..., 1] = -np.sign(tokens[..., 0]) * np.abs(tokens[..., 1])
    tokens[rows, location, 1] *= -1
    return at.Batch(
        tokens, tokens[rows, location, 2] + 0.1 * rng.standard_normal(n), location
    )


def test_gates_that_no_linear_or_quadratic_score_can_be():
    """Seeds 0-3: the right token in .977 to .985 of the bags with random features,
    .33 to .38 without (chance is .25).
    """
    train = same_sign(300, 0)
    test = same_sign(2000, 100)
    found = []
    for gate in ("quadratic", "auto"):
        model = SingleLocationRegressor(gate=gate, loss="mixture").fit(
            train.tokens, train.target
        )
        found.append(np.mean(model.locate(test.tokens) == test.location))
    assert "waves" in model.stages_
    assert found[0] < 0.5 and found[1] > 0.95


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*tokens stand in more than one bag")  # 1,797 images
def test_bags_whose_only_eight_decides():
    """NMSE over seeds 0-2 and 10-14: .0018 to .0112; with 100 waves of twice the width and no lower
    noise it was .05 to .10 (seeds 0-2).
    """
    train, test = (
        digit_bags(n, "eight", seed=seed, readout_seed=0)
        for n, seed in ((600, 10), (2000, 1000))
    )
    model = SingleLocationRegressor(random_state=0).fit(train.tokens, train.target)
    assert (
        np.mean((model.predict(test.tokens) - test.target) ** 2) <= 0.02 * test.target.var()
    )
    assert np.mean(model.locate(test.tokens) == test.location) >= 0.99


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in (1, 2))]
)
def test_as_many_features_as_bags(seed):
    """NMSE against ridge with the location known and its strength cross-validated."""
    task = at.SingleLocation(dim=200, length=10, noise=0.1, seed=seed)
    train = task.sample(200, seed=10 + seed)
    test = task.sample(1000, seed=1000 + seed)
    model = SingleLocationRegressor(random_state=seed).fit(train.tokens, train.target)
    known = [b.tokens[np.arange(len(b.target)), b.location] for b in (train, test)]
    peer = RidgeCV(np.logspace(-4, 4, 33)).fit(known[0], train.target)
    error = lambda guess: np.mean((guess - test.target) ** 2)
    assert (
        error(model.predict(test.tokens))
        < 1.2 * error(peer.predict(known[1]))
        < 0.4 * test.target.var()
    )


@pytest.mark.slow
def test_harder_cases():
    assert measured(500, range(5), signal=2.5)[0] <= 1.3  # key signal halved
    assert measured(300, range(5), length=60)[0] <= 1.3
    assert measured(500, range(5), make=Correlated)[1] <= 1.2
    assert measured(500, range(5), make=aligned)[1] <= 1.2
    assert measured(300, range(3), dim=300)[2] <= 0.25


@pytest.mark.slow
def test_regret_reaches_cramer_rao():
    """n = 20 d with the location essentially known: the limit is eps^2 d/n, the finite-sample law
    of least squares eps^2 p/(n-p-1).
    """
    task = at.SingleLocation(dim=20, length=10, signal=7.0, noise=0.3, seed=5)
    test = task.sample(4000, seed=99)
    best = task.bayes_predict(test.tokens)
    regrets = []
    for seed in range(60):
        train = task.sample(400, seed=seed)
        model = SingleLocationRegressor(random_state=0).fit(train.tokens, train.target)
        regrets.append(np.mean((model.predict(test.tokens) - best) ** 2))
    limit = 0.3**2 * 20 / 400
    error = np.std(regrets) / np.sqrt(len(regrets))
    # 2 s.e.: false alarm 2 % at exactly 1.10
    assert np.mean(regrets) - 2 * error <= 1.10 * limit


def test_robust_tokens_survive_heavy_tails():
    """Student-t4 tokens: close to the posterior mean of the true model (robust), which a Gaussian
    EM misses by far.

    Over seeds 0-9 the ratio to the true model's error was .91 to 1.14 robust and at least 2.06
    Gaussian.
    """
    rng = np.random.default_rng(7)
    n = 500
    length = 10
    d = 15
    shift = 5.0
    scale = 0.5
    location = rng.integers(0, length, 2 * n)
    rows = np.arange(2 * n)
    tokens = rng.standard_normal((2 * n, length, d)) * np.sqrt(
        4 * scale / rng.chisquare(4, (2 * n, length, 1))
    )
    tokens[rows, location, 0] += shift
    y = tokens[rows, location, 1] + 0.1 * rng.standard_normal(2 * n)
    far = (tokens**2).sum(axis=2)
    near = far - 2 * shift * tokens[..., 0] + shift**2
    u = -(4 + d) / 2 * (np.log1p(near / (4 * scale)) - np.log1p(far / (4 * scale)))
    p = np.exp(u - logsumexp(u, axis=1, keepdims=True))
    true_model = np.mean(((p * tokens[..., 1]).sum(axis=1) - y)[n:] ** 2)
    errors = []
    for robust in (False, True):
        model = SingleLocationRegressor(robust=robust, alpha=(np.inf, 0.1)).fit(
            tokens[:n], y[:n]
        )
        errors.append(np.mean((model.predict(tokens[n:]) - y[n:]) ** 2) / true_model)
    assert errors[1] < 1.5 < errors[0]


def heavy_tailed(seed, n=500):
    """The base case with Student-t4 tokens about the same means."""
    task = at.SingleLocation(dim=50, length=15, noise=0.1, seed=seed)

    def draw(size, seed):
        rng, batch = np.random.default_rng([seed, 8]), task.sample(size, seed=seed)
        rows, mean = np.arange(size), np.zeros_like(batch.tokens)
        mean[rows, batch.location] = task.signal * task.key
        tokens = mean + (batch.tokens - mean) * np.sqrt(2 / rng.chisquare(4, (size, 15, 1)))
        value = tokens[rows, batch.location] @ task.value
        return at.Batch(tokens, value + 0.1 * rng.standard_normal(size), batch.location)

    return draw(n, 10 + seed), draw(2000, 1000 + seed)


@pytest.mark.slow
def test_heavy_tails_are_noticed():
    """Default parameters, t4 tokens: Student-t EM is chosen and is within 3x of least squares with
    the location known (seeds 0-2: 1.2 to 2.3).
    """
    train, test = heavy_tailed(1)
    model = SingleLocationRegressor().fit(train.tokens, train.target)
    assert model.stages_ == ["em"] and model.fitted_.tokens.dof == 5
    assert np.mean((model.predict(test.tokens) - test.target) ** 2) <= 3 * known_location(
        train, test
    )
