"""Ridge fits of attention at n/d fixed, from the equations and drawn bags.

notation: o, z, y the fields and the label of a bag, V, W the variances of key and value; alpha, nu,
D, l_k, l_v as in the equations of the saddle point (the same letters as in the literature on
M-estimation: m, q, V and their conjugates).

Bags are drawn whole, token by token. Their inner minimum

    |u - o|^2/(2V) + |w - z|^2/(2W) + (y - sig(u).w)^2/2

is found for two softmax tokens on a grid of the difference of their scores, refined by golden
section; for linear attention by bisection in the multiplier of s.w = c. The six equations are
solved by a hybrid Newton method for these bags; groups of them tell the error, to first order.

    fixed key   ridge regression on features of random lengths: the resolvent by bisection, risk and
                overlap as averages over drawn bags
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import root

__all__ = ["Case", "fixed_key", "saddle"]

GROUPS = 20
STEP = 0.01  # of difference quotients: flips of single bags average out over it


class Case(NamedTuple):
    """softmax or 1 + u; L, alpha, nu, D, l_k, l_v."""

    softmax: bool
    length: int
    alpha: float
    strength: float
    variance: float
    key_ridge: float
    value_ridge: float


class Bags(NamedTuple):
    """Standard normal numbers: xi, zeta (n, L), eta (n,)."""

    xi: np.ndarray
    zeta: np.ndarray
    eta: np.ndarray


def _pair_scores(
    o: np.ndarray, z: np.ndarray, y: np.ndarray, V: float, W: float
) -> np.ndarray:
    """u (n, 2) of two softmax tokens: their sum is that of o, their difference minimises phi."""
    shift = o[:, 0] - o[:, 1]
    middle = y - z.mean(axis=1)
    half = (z[:, 0] - z[:, 1]) / 2

    def phi(x: np.ndarray, at: slice | np.ndarray) -> np.ndarray:
        t = np.tanh(x / 2)
        rest = middle[at, None] - t * half[at, None]
        return (x - shift[at, None]) ** 2 / (4 * V) + rest**2 / (2 + W * (1 + t * t))

    # beyond, |x - shift|^2/(4V) exceeds the objective at x = shift
    reach = 2 * np.sqrt(V) * np.abs(middle) + 2 * np.sqrt(V) * np.abs(half) + 0.1
    grid = np.linspace(-1, 1, 161)
    x = shift[:, None] + reach[:, None] * grid
    best = np.argmin(phi(x, slice(None)), axis=1)
    low = x[np.arange(len(x)), np.maximum(best - 1, 0)]
    high = x[np.arange(len(x)), np.minimum(best + 1, grid.size - 1)]
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(36):  # golden^36 = 3e-8 of two grid steps
        a = high - golden * (high - low)
        b = low + golden * (high - low)
        left = (phi(a[:, None], slice(None)) < phi(b[:, None], slice(None)))[:, 0]
        high = np.where(left, b, high)
        low = np.where(left, low, a)
    move = ((low + high) / 2 - shift) / 2
    return o + np.stack([move, -move], axis=1)


def _linear_scores(
    o: np.ndarray, z: np.ndarray, y: np.ndarray, V: float, W: float
) -> np.ndarray:
    """u (n, L): with the multiplier rho of s.w, s - p = V rho w and w - z = W rho s."""
    p = 1 + o
    limit = 1 / math.sqrt(V * W)
    low = np.full(len(y), -limit)
    high = np.full(len(y), limit)
    for _ in range(60):
        rho = (low + high) / 2
        c = 1 - V * W * rho * rho
        s = (p + V * rho[:, None] * z) / c[:, None]
        w = (z + W * rho[:, None] * p) / c[:, None]
        above = rho + np.sum(s * w, axis=1) > y
        high = np.where(above, rho, high)
        low = np.where(above, low, rho)
    return s - 1


def _contributions(x: np.ndarray, case: Case, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
    """(7, n): what the equations average over bags; and the weights of the value's rows."""
    c_k, q_k, V, c_v, q_v, W = _numbers(x)
    so = math.sqrt(q_k)
    sz = math.sqrt(q_v)
    sy = math.sqrt(1 - c_v**2 + case.variance)
    o = so * bags.xi
    o[:, 0] += math.sqrt(case.strength) * c_k * so
    z = sz * bags.zeta
    y = c_v * bags.zeta[:, 0] + sy * bags.eta
    u = (_pair_scores if case.softmax else _linear_scores)(o, z, y, V, W)
    sig = 1 + u
    if case.softmax:
        e = np.exp(u - u.max(axis=1, keepdims=True))
        sig = e / e.sum(axis=1, keepdims=True)
    rho = (y - np.sum(sig * z, axis=1)) / (1 + W * np.sum(sig**2, axis=1))
    g_u = (u - o) / V
    g_w = rho[:, None] * sig
    slope = bags.eta * g_w[:, 0] / sy
    lost = (np.sum(bags.zeta * g_w, axis=1) - c_v * slope) / sz
    rows = [np.sum(g_u**2, axis=1), g_u[:, 0], np.sum(bags.xi * g_u, axis=1) / so]
    return np.stack([*rows, np.sum(g_w**2, axis=1), slope, lost, rho**2]), sig


def _numbers(x: np.ndarray) -> tuple[float, ...]:
    c_k, q_k, V, c_v, q_v, W = x
    q_k, V, q_v, W = np.exp(np.clip([q_k, V, q_v, W], -50, 50))
    return math.tanh(c_k), q_k, V, math.tanh(c_v), q_v, W


def _renewed(A: np.ndarray, case: Case) -> np.ndarray:
    out = []
    strength = math.sqrt(case.strength)
    for ridge, square, mean, lost in (
        (case.key_ridge, A[0], strength * A[1], A[2]),
        (case.value_ridge, A[3], A[4], A[5]),
    ):
        V = 1 / max(ridge - case.alpha * lost, 1e-3 * ridge)
        m = case.alpha * mean * V
        q = m * m + case.alpha * square * V * V
        out += [math.atanh(m / math.sqrt(q)), math.log(q), math.log(V)]
    return np.array(out)


def _told(x: np.ndarray, case: Case, sig: np.ndarray) -> np.ndarray:
    """risk with the given weights of fresh bags, k.k*, v.v*."""
    c_k, q_k, _, c_v, q_v, _ = _numbers(x)
    overlap = c_v * math.sqrt(q_v)
    risk = 1 - 2 * overlap * sig[:, 0].mean() + q_v * np.mean(np.sum(sig**2, axis=1))
    return np.array([risk, c_k * math.sqrt(q_k), overlap])


def _fresh(x: np.ndarray, case: Case, bags: Bags) -> np.ndarray:
    c_k, q_k, *_ = _numbers(x)
    u = math.sqrt(q_k) * bags.xi
    u[:, 0] += math.sqrt(case.strength * q_k) * c_k
    if not case.softmax:
        return 1 + u
    e = np.exp(u - u.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def saddle(case: Case, n: int, seed: int) -> tuple[np.ndarray, np.ndarray] | None:
    """(risk, k.k*, v.v*, E rho^2) and standard errors; None where Newton does not end."""
    rng = np.random.default_rng([seed, 16])
    xi, zeta = rng.standard_normal((2, n, case.length))
    bags = Bags(xi, zeta, rng.standard_normal(n))

    def step(x: np.ndarray) -> np.ndarray:
        return _renewed(_contributions(x, case, bags)[0].mean(axis=1), case) - x

    x = np.array([0.5, -0.7, -0.7 - math.log(case.key_ridge) / 2] * 2)
    x[5] = -0.7 - math.log(case.value_ridge) / 2
    for _ in range(15):
        x = x + 0.4 * step(x)
    found = root(step, x, method="hybr", options={"eps": STEP**2, "xtol": 1e-6})
    if not np.abs(found.fun).max() < 1e-3:
        return None
    x = found.x
    parts, _ = _contributions(x, case, bags)
    mean = parts.mean(axis=1)
    eye = STEP * np.eye(6)
    told = lambda x: np.append(_told(x, case, _fresh(x, case, bags)), 0.0)
    ends = [(x + e, x - e) for e in eye]
    J = np.stack([(step(a) - step(b)) / (2 * STEP) for a, b in ends], axis=1)
    slopes = np.stack([(told(a) - told(b)) / (2 * STEP) for a, b in ends], axis=1)
    residual = lambda x: _contributions(x, case, bags)[0][6].mean()
    slopes[3] = [(residual(a) - residual(b)) / (2 * STEP) for a, b in ends]
    groups = parts.reshape(7, GROUPS, -1).mean(axis=2)
    shifts = np.stack([_renewed(g, case) - _renewed(mean, case) for g in groups.T], axis=1)
    moved = slopes @ -np.linalg.solve(J, shifts)
    moved[3] += groups[6] - mean[6]
    sig = _fresh(x, case, bags)
    by_group = sig.reshape(GROUPS, -1, case.length)
    for i, some in enumerate(by_group):
        moved[0, i] += _told(x, case, some)[0] - _told(x, case, sig)[0]
    value = told(x)
    value[3] = mean[6]
    return value, moved.std(axis=1, ddof=1) / math.sqrt(GROUPS)


def fixed_key(
    sig: np.ndarray, alpha: float, ridge: float, variance: float
) -> tuple[float, float]:
    """(risk, v.v*) of ridge regression on the features sum_l sig_l X_l, weights (n, L) drawn.

    V solves 1/V = l + alpha E[s2/(1 + V s2)]; q is iterated in q = m^2 + alpha V^2 E[...].
    """
    s1 = sig[:, 0]
    s2 = np.sum(sig**2, axis=1)
    low = 1e-12
    high = 1 / ridge
    for _ in range(200):
        V = math.sqrt(low * high)
        above = V * (ridge + alpha * np.mean(s2 / (1 + V * s2))) > 1
        low, high = (low, V) if above else (V, high)
    m = V * alpha * float(np.mean(s1 / (1 + V * s2)))
    q = m * m
    for _ in range(100_000):
        rho2 = (1 + variance - 2 * m * s1 + q * s2) / (1 + V * s2) ** 2
        new = m * m + alpha * V * V * float(np.mean(rho2 * s2))
        if abs(new - q) <= 1e-13 * new:
            break
        q = new
    return 1 - 2 * m * float(s1.mean()) + q * float(s2.mean()), m
