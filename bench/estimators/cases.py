"""Cases of the estimator bench: each gives training and test bags from a seed, with the location where one exists."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import attnscope as at

DIGITS = load_digits()
IMAGES, CLASSES = DIGITS.data / 16.0, DIGITS.target


def single_location(n, length=15, dim=50, signal=None):
    def make(seed):
        task = at.SingleLocation(dim=dim, length=length, noise=0.1, signal=signal, seed=seed)
        return task.sample(n, seed=10 + seed), task.sample(4000, seed=1000 + seed), task

    return make


def aligned(n):
    """key.value = .7"""

    def make(seed):
        rng = np.random.default_rng(seed)
        key, other = np.linalg.qr(rng.standard_normal((50, 2)))[0].T
        task = at.SingleLocation(
            dim=50, length=15, noise=0.1, key=key, value=0.7 * key + np.sqrt(0.51) * other, seed=seed
        )
        return task.sample(n, seed=10 + seed), task.sample(4000, seed=1000 + seed), None

    return make


def correlated(n):
    """Background of random covariance and non-zero mean; the deciding tokens as in the base case."""

    def make(seed):
        rng = np.random.default_rng(seed)
        task = at.SingleLocation(dim=50, length=15, noise=0.1, seed=seed)
        a = rng.standard_normal((50, 50)) / np.sqrt(50)
        root, mean = np.linalg.cholesky(0.3 * np.eye(50) + 0.7 * a @ a.T), rng.standard_normal(50) / 2

        def draw(size, seed):
            batch = task.sample(size, seed=seed)
            tokens, rows = batch.tokens @ root.T + mean, np.arange(size)
            tokens[rows, batch.location] = batch.tokens[rows, batch.location]
            return at.Batch(tokens, batch.target, batch.location)

        return draw(n, 10 + seed), draw(4000, 1000 + seed), None

    return make


def two_tokens(n):
    """The label is the mean of two deciding tokens' values."""

    def make(seed):
        task = at.SingleLocation(dim=50, length=15, noise=0.1, seed=seed)

        def draw(size, seed):
            rng, batch = np.random.default_rng([seed, 7]), task.sample(size, seed=seed)
            rows, second = np.arange(size), (batch.location + rng.integers(1, 15, size)) % 15
            tokens = batch.tokens.copy()
            tokens[rows, second] = task.signal * task.key + task.gamma * rng.standard_normal((size, 50))
            value = (tokens[rows, batch.location] + tokens[rows, second]) @ task.value / 2
            return at.Batch(tokens, value + 0.1 * rng.standard_normal(size), batch.location)

        return draw(n, 10 + seed), draw(4000, 1000 + seed), None

    return make


def heavy_tails(n):
    """Student-t4 tokens around the same means."""

    def make(seed):
        task = at.SingleLocation(dim=50, length=15, noise=0.1, seed=seed)

        def draw(size, seed):
            rng, batch = np.random.default_rng([seed, 8]), task.sample(size, seed=seed)
            rows, mean = np.arange(size), np.zeros_like(batch.tokens)
            mean[rows, batch.location] = task.signal * task.key
            tokens = mean + (batch.tokens - mean) * np.sqrt(2 / rng.chisquare(4, (size, 15, 1)))
            value = tokens[rows, batch.location] @ task.value
            return at.Batch(tokens, value + 0.1 * rng.standard_normal(size), batch.location)

        return draw(n, 10 + seed), draw(4000, 1000 + seed), None

    return make


def digits(n, kind, length=8):
    """Bags of digit images; the label is a random linear read-out of the deciding image: the one where it is largest, or the only 8."""

    def make(seed):
        value = np.random.default_rng([seed, 9]).standard_normal(64)

        def draw(size, seed):
            rng = np.random.default_rng([seed, 10])
            pool = np.arange(len(IMAGES)) if kind == "max" else np.flatnonzero(CLASSES != 8)
            chosen, rows = rng.choice(pool, (size, length)), np.arange(size)
            location = (IMAGES[chosen] @ value).argmax(1) if kind == "max" else rng.integers(0, length, size)
            if kind == "key":
                chosen[rows, location] = rng.choice(np.flatnonzero(CLASSES == 8), size)
            tokens = IMAGES[chosen]
            return at.Batch(tokens, tokens[rows, location] @ value + 0.05 * rng.standard_normal(size), location)

        return draw(n, 10 + seed), draw(2000, 1000 + seed), None

    return make


CASES = {
    "base": single_location(500),
    "n=120": single_location(120),
    "key signal halved": single_location(500, signal=2.5),
    "L=60, n=300": single_location(300, length=60),
    "correlated background": correlated(500),
    "key.value=.7": aligned(500),
    "two relevant tokens": two_tokens(500),
    "d=n=300": single_location(300, dim=300),
    "t4 tokens": heavy_tails(500),
    "digits max n=400": digits(400, "max"),
    "digits key n=150": digits(150, "key"),
    "digits key n=600": digits(600, "key"),
}
