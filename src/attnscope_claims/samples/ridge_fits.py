"""Fitting attention by ridge on sampled bags in R^d, for the claims on learning curves.

    minimise over k, v    sum_i (y_i - f_i)^2/2 + (d/2)(l_k |k|^2 + l_v |v|^2)

by L-BFGS from what moments say: k from the mean of all tokens (it points to k*), v from the
correlation of the labels with the sum of tokens, both scaled to half length. Nothing of the theory
enters. The risk of what was fitted is measured on fresh bags, of which only the four inner products
with k, v, k*, v* are drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["Fitted", "fit_both", "fit_value", "fresh_risk"]

FRESH_BAGS = (
    20_000  # bags: their noise in the risk is a fifth of that of the fit itself at d = 400
)
STEPS = 3000  # of L-BFGS; 50 to 400 are usual


class Fitted(NamedTuple):
    """Risk on fresh bags (without label noise) and mean squared residual on the fitted ones."""

    risk: float
    training: float


def fit_both(
    task: SingleLocation, n: int, normalised: bool, ridge: tuple[float, float], seed: int
) -> Fitted:
    """Key and value fitted to n bags; normalised: softmax(u), else 1 + u."""
    batch = task.sample(n, seed=seed)
    d = task.dim
    tokens = batch.tokens.reshape(-1, d)
    y = batch.target
    start = np.stack([tokens.mean(axis=0), y @ batch.tokens.sum(axis=1)])
    start *= 0.5 / np.linalg.norm(start, axis=1, keepdims=True)
    l = np.array(ridge)[:, None]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        both = flat.reshape(2, d)
        fields = tokens @ both.T
        u = fields[:, 0].reshape(n, -1)
        w = fields[:, 1].reshape(n, -1)
        sig = softmax(u, axis=1) if normalised else 1 + u
        f = np.sum(sig * w, axis=1, keepdims=True)
        rho = y[:, None] - f
        slope = sig * (w - f) if normalised else w
        back = np.stack([(-rho * slope).ravel(), (-rho * sig).ravel()], axis=1)
        value = 0.5 * np.sum(rho**2) + 0.5 * d * float(np.sum(l * both**2))
        return value / d, ((tokens.T @ back).T + d * l * both).ravel() / d

    # the tolerances leave 1e-5 of the risk, far below its spread
    options = {"maxiter": STEPS, "ftol": 1e-11, "gtol": 1e-7, "maxcor": 20}
    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    k, v = found.x.reshape(2, d)
    penalty = 0.5 * float(np.sum(l * np.stack([k, v]) ** 2))
    training = 2 * (found.fun - penalty) * d / n
    return Fitted(fresh_risk(task, k, v, normalised, seed), training)


def fit_value(
    task: SingleLocation, n: int, key: np.ndarray, ridge: float, seed: int
) -> Fitted:
    """The value alone fitted to n bags, with softmax(X.key) given: ridge regression."""
    batch = task.sample(n, seed=seed)
    sig = softmax(batch.tokens @ key, axis=1)
    features = np.einsum("nl,nld->nd", sig, batch.tokens)
    gram = features.T @ features + task.dim * ridge * np.eye(task.dim)
    v = np.linalg.solve(gram, features.T @ batch.target)
    training = float(np.mean((batch.target - features @ v) ** 2))
    return Fitted(fresh_risk(task, key, v, True, seed), training)


def fresh_risk(
    task: SingleLocation, k: np.ndarray, v: np.ndarray, normalised: bool, seed: int
) -> float:
    """E (X_J.v* - f)^2 over FRESH_BAGS new bags."""
    rng = np.random.default_rng([seed, 16])
    vectors = np.stack([k, v, task.key, task.value])
    # tokens in an orthonormal basis of the four vectors' span
    basis, inner = np.linalg.qr(vectors.T)
    fields = rng.standard_normal((FRESH_BAGS, task.length, basis.shape[1])) @ inner
    fields[:, 0] += task.signal * (task.key @ vectors.T)  # the informative token, put first
    u, w = fields[..., 0], fields[..., 1]
    sig = softmax(u, axis=1) if normalised else 1 + u
    return float(np.mean((fields[:, 0, 3] - np.sum(sig * w, axis=1)) ** 2))
