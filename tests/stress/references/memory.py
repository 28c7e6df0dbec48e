"""Memories of a map that drifts: recursions, normal laws and fits in many digits.

Nothing of the project is imported; every formula is written from the definition of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath as mp
import numpy as np

from stress.references.operators import eigenvalue

__all__ = [
    "best_step",
    "curve",
    "drift_covariance",
    "filter_of_fit",
    "least_squares",
    "local_fit",
    "read_memory",
    "sampled_squares",
    "sampled_trace",
    "slot",
]

Numbers = Sequence[float] | np.ndarray
DIGITS = 60
SIGMAS = 6.0  # standard errors that a sampled reference claims: 2e-9 each


def _vector(x: Numbers) -> list[mp.mpf]:
    return [mp.mpf(float(a)) for a in x]


def read_memory(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    step: Numbers,
    decay: Numbers,
    erase: bool,
) -> list[float]:
    """S_L q of S = g S + e (v - g S k) k^T (or without the part in brackets), entry by entry."""
    with mp.workdps(DIGITS):
        d = len(query)
        S = [[mp.mpf(0)] * d for _ in range(np.shape(values)[1])]
        for k, v, e, g in zip(keys, values, _vector(step), _vector(decay)):
            key = _vector(k)
            for row, told in zip(S, _vector(v)):
                rest = told - (g * mp.fdot(row, key) if erase else 0)
                row[:] = [g * a + e * rest * b for a, b in zip(row, key)]
        return [float(mp.fdot(row, _vector(query))) for row in S]


def least_squares(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray, decay: float, ridge: float
) -> list[float] | None:
    """q.(sum_l g^(L-l) k k^T + ridge)^-1 sum_l g^(L-l) k v; None where that is singular."""
    with mp.workdps(2 * DIGITS):
        d = len(query)
        gram = mp.matrix(d, d) + mp.mpf(ridge) * mp.eye(d)
        right = mp.matrix(d, np.shape(values)[1])
        for age, (k, v) in enumerate(zip(keys[::-1], values[::-1])):
            key = _vector(k)
            weight = mp.mpf(decay) ** age if age else mp.mpf(1)
            for i in range(d):
                for j in range(d):
                    gram[i, j] += weight * key[i] * key[j]
                for j, told in enumerate(_vector(v)):
                    right[i, j] += weight * key[i] * told
        try:
            solved = mp.lu_solve(gram, mp.matrix(_vector(query)))
        except ZeroDivisionError:
            return None
        return [float(mp.fdot(solved, right[:, j])) for j in range(right.cols)]


def local_fit(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray, bandwidth: float, ridge: float
) -> list[float] | None:
    """c of the weighted fit of v on (1, k - q), weights e^{q.k/h}/sum, ridge on the slopes."""
    with mp.workdps(2 * DIGITS):
        q = _vector(query)
        scores = [mp.fdot(_vector(k), q) / mp.mpf(bandwidth) for k in keys]
        top = max(scores)
        raw = [mp.exp(s - top) for s in scores]
        weights = [r / mp.fsum(raw) for r in raw]
        d = len(q) + 1
        gram = mp.matrix(d, d)
        right = mp.matrix(d, np.shape(values)[1])
        for w, k, v in zip(weights, keys, values):
            row = [mp.mpf(1), *(a - b for a, b in zip(_vector(k), q))]
            for i in range(d):
                for j in range(d):
                    gram[i, j] += w * row[i] * row[j]
                for j, told in enumerate(_vector(v)):
                    right[i, j] += w * row[i] * told
        for i in range(1, d):
            gram[i, i] += mp.mpf(ridge)
        try:
            solved = mp.lu_solve(gram, mp.matrix([1] + [0] * (d - 1)))
        except ZeroDivisionError:
            return None
        return [float(mp.fdot(solved, right[:, j])) for j in range(right.cols)]


def drift_covariance(
    keys: np.ndarray, query: np.ndarray, prior: float, decay: float
) -> tuple[Any, list[mp.mpf], mp.mpf]:
    """Covariance of the values without their noise, with w_L.q, and its variance."""
    with mp.workdps(2 * DIGITS):
        a = mp.mpf(decay)
        lam = mp.mpf(prior)
        rows = [_vector(k) for k in keys]
        q = _vector(query)
        L = len(rows)
        power = lambda n: a**n if n else mp.mpf(1)
        C = [
            [lam * power(abs(l - m)) * mp.fdot(rows[l], rows[m]) for m in range(L)]
            for l in range(L)
        ]
        cross = [lam * power(L - 1 - l) * mp.fdot(rows[l], q) for l in range(L)]
        return C, cross, lam * mp.fdot(q, q)


def slot(prior: float, noise: float, decay: float, share: float, length: int) -> float:
    """Mean variance of one slot, over all 2^L patterns of tokens that write to it or not."""
    with mp.workdps(DIGITS):
        lam, s2, a, p = (mp.mpf(x) for x in (prior, noise**2, decay, share))
        s2 = mp.mpf(noise) ** 2

        def left(tokens: int, x: mp.mpf) -> mp.mpf:
            if not tokens:
                return x
            y = a * a * x + (1 - a * a) * lam
            return (1 - p) * left(tokens - 1, y) + p * left(tokens - 1, y * s2 / (y + s2))

        return float(left(length, lam))


def sampled_trace(
    dim: int, prior: float, noise: float, decay: float, sphere: bool, length: int, seed: int
) -> tuple[float, float]:
    """E tr P and SIGMAS standard errors of it, by the covariance of w_L given the values of drawn
    keys: lam I - B^T C^-1 B.
    """
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((4000, length, dim))
    if sphere:
        keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    age = np.arange(length - 1, -1, -1.0)
    C = prior * decay ** np.abs(age[:, None] - age) * (keys @ keys.swapaxes(1, 2))
    C = C + noise**2 * np.eye(length)
    B = prior * decay ** age[:, None] * keys
    left = prior * dim - np.sum(B * np.linalg.solve(C, B), axis=(1, 2))
    return float(left.mean()), SIGMAS * float(left.std(ddof=1)) / len(left) ** 0.5


def sampled_squares(
    dim: int,
    prior: float,
    noise: float,
    drift: float,
    sphere: bool,
    length: int,
    decay: float,
    ridge: float,
    seed: int,
) -> tuple[float, float]:
    """E|W - w_L|^2/d of least squares with weights decay^age, and SIGMAS standard errors: by the
    joint covariance of (values, w_L) of drawn keys, w_L and every value linear in the drift.
    """
    rng = np.random.default_rng(seed)
    found = np.empty(1500)
    age = np.arange(length - 1, -1, -1.0)
    along = prior * drift ** np.abs(age[:, None] - age)
    for i in range(len(found)):
        K = rng.standard_normal((length, dim))
        if sphere:
            K /= np.linalg.norm(K, axis=-1, keepdims=True)
        weights = np.diag(decay**age)
        A = np.linalg.inv(K.T @ weights @ K + ridge * np.eye(dim)) @ K.T @ weights
        values = along * (K @ K.T) + noise**2 * np.eye(length)
        cross = prior * drift ** age[:, None] * K
        covariance = A @ values @ A.T - A @ cross - (A @ cross).T + prior * np.eye(dim)
        found[i] = np.trace(covariance) / dim
    return float(found.mean()), SIGMAS * float(found.std(ddof=1)) / len(found) ** 0.5


def curve(
    moments: tuple[float, float],
    prior: float,
    noise: float,
    drift: float,
    steps: Numbers,
    decay: float,
    erase: bool,
) -> float:
    """E|S - w|^2/d by the recursion of E S.w/d and E|S|^2/d."""
    with mp.workdps(2 * DIGITS):
        kappa, kappa2 = (mp.mpf(x) for x in moments)
        lam, s, a, g = (mp.mpf(x) for x in (prior, noise, drift, decay))
        b = 1 if erase else 0
        c = mp.mpf(0)
        p = mp.mpf(0)
        for e in _vector(steps):
            kept = 1 - 2 * b * e * kappa + b * e * e * kappa2
            added = 2 * g * e * (kappa - b * e * kappa2) * a * c
            p = g * g * kept * p + added + e * e * (kappa2 * lam + s * s * kappa)
            c = g * (1 - b * e * kappa) * a * c + e * kappa * lam
        return float(lam - 2 * c + p)


def best_step(
    moments: tuple[float, float], prior: float, noise: float, drift: float
) -> tuple[float, float]:
    """(step, error per coordinate) at rest: the root of r = a^2 h(r) + (1 - a^2) lam by bisection,
    h(r) = min over the step of the error after a token.
    """
    with mp.workdps(2 * DIGITS):
        kappa, kappa2 = (mp.mpf(x) for x in moments)
        lam, s, a = (mp.mpf(x) for x in (prior, noise, drift))
        after = lambda r: r - (kappa * r) ** 2 / (kappa2 * r + kappa * s * s)
        low = mp.mpf(0)
        high = lam
        for _ in range(380):  # 60 digits, of roots down to 1e-55 of the prior
            middle = (low + high) / 2
            risen = a * a * after(middle) + (1 - a * a) * lam > middle
            low, high = (middle, high) if risen else (low, middle)
        return float(kappa * low / (kappa2 * low + kappa * s * s)), float(after(low))


def filter_of_fit(dim: int, bandwidth: float, degree: int) -> float:
    """Intercept at t = 1 of the regression of the zonal P_m on (1, t) under weights e^{t/h}, from
    the eigenvalues of the kernel.
    """
    with mp.workdps(DIGITS):
        mu = [eigenvalue(dim, bandwidth, j) for j in range(degree + 2)]
        two = eigenvalue(dim, bandwidth, 2)
        rho = [m / mu[0] for m in mu]
        d = dim
        m = degree
        with_t = rho[1]
        if m:
            with_t = ((m + d - 2) * rho[m + 1] + m * rho[m - 1]) / mp.mpf(2 * m + d - 2)
        variance = (1 + (d - 1) * two / mu[0]) / mp.mpf(d) - rho[1] ** 2
        slope = (with_t - rho[1] * rho[m]) / variance
        return float(rho[m] + slope * (1 - rho[1]))
