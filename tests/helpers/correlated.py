"""A small correlated background: random mean and covariance around single-location regression."""

import numpy as np

import attnscope as at

INNER = at.SingleLocation(dim=5, length=4, gamma=0.8, signal=2.0, noise=0.3, seed=2)


def random_covariance(d, seed):
    a = np.random.default_rng(seed).standard_normal((d, 2 * d))
    return a @ a.T / (2 * d) + 0.2 * np.eye(d)


def correlated(inner=INNER, seed=0, **options):
    d = inner.dim
    mean = np.random.default_rng([seed, 1]).standard_normal(d) / 2
    return at.CorrelatedBackground(inner, mean, random_covariance(d, seed), **options)
