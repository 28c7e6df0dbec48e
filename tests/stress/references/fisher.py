"""The Cramer-Rao limit of single-location regression by differences of the log likelihood on whole
bags.

notation: theta = (mu, g, v, e[, b][, m0, S]); a bag has density  sum_l pi_l N(x_l; mu, g S) prod_{m
!= l} N(x_m; m0, S) N(y; x_l.v + b, e) and Bayes prediction f = sum_l p_l (x_l.v + b), p_l ~ pi_l
N(x_l; mu, g S)/N(x_l; m0, S).

    I = E score score^T,   G = E grad f grad f^T,   limit tr(I^-1 G)/n

with score and grad f by symmetric differences in every parameter, over plain draws; the standard
error is a jackknife over batches.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

__all__ = ["limit"]

DIFFERENCE = 1e-4  # of parameters of size 1: truncation 1e-8
BATCHES = 12


class _Model(NamedTuple):
    mu: np.ndarray
    g: float
    v: np.ndarray
    e: float
    b: float
    m0: np.ndarray
    S: np.ndarray


def _unpack(theta: np.ndarray, d: int, intercept: bool, background: bool) -> _Model:
    mu = theta[:d]
    g = theta[d]
    v = theta[d + 1 : 2 * d + 1]
    e = theta[2 * d + 1]
    rest = theta[2 * d + 2 :]
    b = rest[0] if intercept else 0.0
    rest = rest[int(intercept) :]
    m0 = np.zeros(d)
    S = np.eye(d)
    if background:
        m0 = rest[:d]
        upper = np.triu_indices(d)
        S = np.zeros((d, d))
        S[upper] = rest[d:]
        S = S + S.T - np.diag(np.diag(S))
    return _Model(mu, float(g), v, float(e), float(b), m0, S)


def _bag(
    model: _Model, x: np.ndarray, y: np.ndarray, log_pi: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(log likelihood, f) of bags x (n, L, d), y (n,)."""
    d = x.shape[2]
    precision, log_det = np.linalg.inv(model.S), float(np.linalg.slogdet(model.S)[1])
    square = lambda z: np.einsum("nld,de,nle->nl", z, precision, z)
    far = -0.5 * (square(x - model.mu) / model.g + d * math.log(model.g) + log_det)
    near = -0.5 * (square(x - model.m0) + log_det)
    z = x @ model.v + model.b
    prior = log_pi + far - near
    label = -0.5 * ((y[:, None] - z) ** 2 / model.e + math.log(model.e))
    joint = prior + label
    top = joint.max(axis=1)
    likelihood = near.sum(axis=1) + top + np.log(np.exp(joint - top[:, None]).sum(axis=1))
    p = np.exp(prior - prior.max(axis=1, keepdims=True))
    return likelihood, (p * z).sum(axis=1) / p.sum(axis=1)


def limit(
    key: np.ndarray,
    value: np.ndarray,
    gam: float,
    s: float,
    noise: float,
    probs: np.ndarray,
    intercept: bool,
    background: bool,
    draws: int = 24_000,
    seed: int = 0,
) -> tuple[float, float]:
    """(tr(I^-1 G), standard error)."""
    d = len(key)
    L = len(probs)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((draws, L, d))
    J = rng.choice(L, draws, p=probs)
    rows = np.arange(draws)
    x[rows, J] = s * key + gam * x[rows, J]
    y = x[rows, J] @ value + noise * rng.standard_normal(draws)
    theta = [*(s * key), gam**2, *value, noise**2]
    theta += [0.0] * intercept + (
        [0.0] * d + list(np.eye(d)[np.triu_indices(d)])
    ) * background
    at = np.array(theta)
    with np.errstate(divide="ignore"):
        log_pi = np.log(probs)
    score, slope = np.empty((2, draws, len(at)))
    for i in range(len(at)):
        h = DIFFERENCE * (at[i] if i in (d, 2 * d + 1) else 1.0)
        up = at.copy()
        down = at.copy()
        up[i] += h
        down[i] -= h
        ends = [_bag(_unpack(t, d, intercept, background), x, y, log_pi) for t in (up, down)]
        score[:, i] = (ends[0][0] - ends[1][0]) / (2 * h)
        slope[:, i] = (ends[0][1] - ends[1][1]) / (2 * h)
    parts = np.arange(draws) % BATCHES
    sums = [(a[parts == i].T @ a[parts == i]) for a in (score, slope) for i in range(BATCHES)]
    I, G = np.array(sums[:BATCHES]), np.array(sums[BATCHES:])

    def trace(use: np.ndarray) -> float:
        return float(np.trace(np.linalg.solve(I[use].sum(axis=0), G[use].sum(axis=0))))

    everyone = np.arange(BATCHES)
    without = np.array([trace(everyone != i) for i in everyone])
    value_ = BATCHES * trace(everyone >= 0) - (BATCHES - 1) * without.mean()
    return value_, float(np.sqrt((BATCHES - 1) * without.var()))
