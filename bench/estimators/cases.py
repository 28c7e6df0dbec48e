"""Synthetic cases of the bench: training and test bags from a seed, with the location, the Bayes
predictions where known.

n = 500, L = 15, d = 50, gamma^2 = 1/2, noise .1 unless the name says otherwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import attnscope as at

TEST = 4000


class Split(NamedTuple):
    """Training and test bags; location: of the deciding tokens (None: unknown); bayes: test
    predictions of the best predictor.
    """

    bags: Any
    y: np.ndarray
    test_bags: Any
    test_y: np.ndarray
    location: np.ndarray | None = None
    test_location: np.ndarray | None = None
    bayes: np.ndarray | None = None
    classes: bool = False


def split_of(train, test, bayes=None):
    return Split(
        train.tokens,
        train.target,
        test.tokens,
        test.target,
        train.location,
        test.location,
        bayes,
    )


def single_location(n, length=15, dim=50, signal=None):
    def make(seed):
        task = at.SingleLocation(dim=dim, length=length, noise=0.1, signal=signal, seed=seed)
        test = task.sample(TEST, seed=1000 + seed)
        return [
            split_of(task.sample(n, seed=10 + seed), test, task.bayes_predict(test.tokens))
        ]

    return make


def aligned(n):
    """key.value = .7"""

    def make(seed):
        rng = np.random.default_rng(seed)
        key, other = np.linalg.qr(rng.standard_normal((50, 2)))[0].T
        value = 0.7 * key + np.sqrt(0.51) * other
        task = at.SingleLocation(
            dim=50, length=15, noise=0.1, key=key, value=value, seed=seed
        )
        test = task.sample(TEST, seed=1000 + seed)
        return [
            split_of(task.sample(n, seed=10 + seed), test, task.bayes_predict(test.tokens))
        ]

    return make


def redrawn(n, change):
    """The base task with its batches changed:
    `change(task, batch, rng)` returns tokens and labels without noise.
    """

    def make(seed):
        task = at.SingleLocation(dim=50, length=15, noise=0.1, seed=seed)

        def draw(size, seed):
            rng, batch = np.random.default_rng([seed, 7]), task.sample(size, seed=seed)
            tokens, value = change(task, batch, rng)
            return at.Batch(tokens, value + 0.1 * rng.standard_normal(size), batch.location)

        return [split_of(draw(n, 10 + seed), draw(TEST, 1000 + seed))]

    return make


def correlated(task, batch, rng):
    """Background of random covariance and non-zero mean (the same for all batches of a task); the
    deciding tokens as in the base case.
    """
    fixed = np.random.default_rng([task.seed, 3])
    a = fixed.standard_normal((50, 50)) / np.sqrt(50)
    root = np.linalg.cholesky(0.3 * np.eye(50) + 0.7 * a @ a.T)
    mean = fixed.standard_normal(50) / 2
    tokens, where = (
        batch.tokens @ root.T + mean,
        (np.arange(len(batch.target)), batch.location),
    )
    tokens[where] = batch.tokens[where]
    return tokens, tokens[where] @ task.value


def two_tokens(task, batch, rng):
    """The label is the mean of two deciding tokens' values."""
    size = len(batch.target)
    rows = np.arange(size)
    second = (batch.location + rng.integers(1, 15, size)) % 15
    tokens = batch.tokens.copy()
    tokens[rows, second] = task.signal * task.key + task.gamma * rng.standard_normal(
        (size, 50)
    )
    return tokens, (tokens[rows, batch.location] + tokens[rows, second]) @ task.value / 2


def heavy_tails(task, batch, rng):
    """Student-t4 tokens around the same means."""
    size = len(batch.target)
    rows = np.arange(size)
    mean = np.zeros_like(batch.tokens)
    mean[rows, batch.location] = task.signal * task.key
    tokens = mean + (batch.tokens - mean) * np.sqrt(2 / rng.chisquare(4, (size, 15, 1)))
    return tokens, tokens[rows, batch.location] @ task.value


CASES = {
    "base": single_location(500),
    "n=120": single_location(120),
    "key signal halved": single_location(500, signal=2.5),
    "L=60, n=300": single_location(300, length=60),
    "correlated background": redrawn(500, correlated),
    "key.value=.7": aligned(500),
    "two relevant tokens": redrawn(500, two_tokens),
    "d=n=300": single_location(300, dim=300),
    "t4 tokens": redrawn(500, heavy_tails),
}
