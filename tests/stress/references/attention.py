"""Attention weights and predictions of one sequence, in mpmath; layer norm and blocks by plain
sampling; two gradient steps.

notation: u_l = x_l.k, w_l = x_l.v, T = sum_l weight_l w_l; e = (1, .., 1)/sqrt(d), Px = x - (x.e)
e, q = Px/|Px|.

    weights       h(lam u_l)/(sink + sum h) or sigma(lam u_l); masked tokens 0
    floor   E Var(Y | q): x.v* = (x.e)(e.v*) + r q.v* with x.e ~ N(., gam^2) independent of Px, and
        r = |Px| given q has density
                  ~ r^(d-2) exp(-(r^2 - 2 r s q.k*)/(2 gam^2)); q is drawn, the moments of r are
                      sums on a grid
    block         tokens are drawn, normed, and the softmax over the register and them is taken
    two steps   w ~ mean of y xbar, q ~ mean of y C w; per sample with y = +1 (R marked tokens of
        mean theta) or -1 (none), |w| = 1,
                  c = cos(w, xi):  E y C_xi,xi = theta^2 (R/L)(1 - R/L)/2,
                      and a coordinate of C w across both has variance
                  (1/L)[(L-1)/L + theta^2 c^2 (R/L)(1 - R/L)/2]; d of them over n samples are noise
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from mpmath import mp, mpf

__all__ = ["alignment", "block_weight", "floor", "two_steps", "weights"]

DIGITS = 40
GRID = 4000  # points in r


def weights(
    kind: str, offset: float, k: np.ndarray, tokens: np.ndarray, lam: float, real: np.ndarray
) -> list[Any]:
    """Weights (L,) of one sequence (L, d)."""
    with mp.workdps(DIGITS):
        scores = [
            mpf(lam) * sum(mpf(a) * mpf(b) for a, b in zip(x, k, strict=True)) for x in tokens
        ]
        if kind == "erf":
            return [mp.erf(u) if r else mpf(0) for u, r in zip(scores, real, strict=True)]
        if kind == "linear":
            return [offset + u if r else mpf(0) for u, r in zip(scores, real, strict=True)]
        if kind == "softplus":
            scores = [mp.log(mp.log1p(mp.exp(u))) if u > -60 else u for u in scores]
        inside = [u for u, r in zip(scores, real, strict=True) if r] + (
            [mpf(0)] if kind == "softmax_one" else []
        )
        top = max(inside)
        total = sum(mp.exp(u - top) for u in inside)
        return [
            mp.exp(u - top) / total if r else mpf(0)
            for u, r in zip(scores, real, strict=True)
        ]


def floor(
    key: np.ndarray, value: np.ndarray, gam: float, s: float, n: int = 1500, seed: int = 0
) -> tuple[float, float]:
    """(least risk of who sees q alone, standard error)."""
    d = len(key)
    x = s * key + gam * np.random.default_rng(seed).standard_normal((n, d))
    e = np.full(d, 1 / math.sqrt(d))
    q = x - np.outer(x @ e, e)
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    b = s * (q @ key) / gam  # r = gam y, density y^(d-2) exp(b y - y^2/2)
    peak = (b + np.sqrt(b * b + 4 * (d - 2))) / 2
    y = np.maximum(peak - 12, 0)[:, None] + np.linspace(0, 24, GRID)[None, 1:]
    logs = (d - 2) * np.log(y) + b[:, None] * y - y * y / 2
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    mean = (p * y).sum(axis=1)
    spread = (p * (y - mean[:, None]) ** 2).sum(axis=1)
    variance = gam**2 * (float(e @ value) ** 2 + (q @ value) ** 2 * spread)
    return float(variance.mean()), float(variance.std() / math.sqrt(n))


def block_weight(
    key: np.ndarray,
    gam: float,
    s: float,
    L: int,
    slope: np.ndarray,
    gain: Any,
    bias: Any,
    own: float,
    norm: bool,
    n: int = 4000,
    seed: int = 0,
) -> tuple[float, float]:
    """(mean weight of the informative token, standard error): softmax of slope.a_l over the tokens
    and `own`, the register's logit.
    """
    d = len(key)
    x = np.random.default_rng(seed).standard_normal((n, L, d))
    x[:, 0] = s * key + gam * x[:, 0]
    if norm:
        centred = x - x.mean(axis=2, keepdims=True)
        x = gain * centred / np.sqrt((centred**2).mean(axis=2, keepdims=True)) + bias
    logits = np.concatenate([x @ slope, np.full((n, 1), own)], axis=1)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    share = p[:, 0] / p.sum(axis=1)
    return float(share.mean()), float(share.std() / math.sqrt(n))


def two_steps(tokens: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(w, q) sample by sample from their definitions, in long doubles."""
    x = tokens.astype(np.longdouble)
    y = y.astype(np.longdouble)
    n, L, _ = x.shape
    w = sum(y[i] * x[i].sum(axis=0) / L for i in range(n)) / n
    q = np.zeros_like(w)
    for i in range(n):
        centred = x[i] - x[i].sum(axis=0) / L
        q += y[i] * (centred.T @ (centred @ w)) / L
    return w, q / n


def alignment(L: int, R: int, theta: float, alpha: float) -> tuple[Any, Any]:
    """(c1, c2) as d grows with n = alpha d."""
    with mp.workdps(DIGITS):
        theta = mpf(theta)
        alpha = mpf(alpha)
        share = mpf(R) / L
        # mean of w along xi; |rest|^2 = d/(n L)
        along = theta * share / 2
        across = 1 / (alpha * L)
        c1 = along / mp.sqrt(along**2 + across)
        curve = theta**2 * share * (1 - share) / 2
        signal = curve * c1  # q along xi; the part along the rest of w vanishes in the mean
        noise = (mpf(L - 1) / L + curve * c1**2) / L / alpha
        return c1, signal / mp.sqrt(signal**2 + noise)
