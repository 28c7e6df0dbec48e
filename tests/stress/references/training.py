"""Training of two vectors written out in float64: population gradients from the definition of the
risk, SGD on drawn tokens.

notation: k, v in R^d of length 1, overlaps (kap, eta, the, nu, rho) = (k.k*, k.v*, v.k*, v.v*,
k.v), k*.v* = 0, s = signal, g = gamma, lam = inverse temperature, sigma the activation, z standard
normal, a = |v| where the value vector is free.

    informative token   u = s kap + g z,  w = a (s the + g (rho z + ..)),  y = g (eta z + ..): e = y
        - sigma(lam u) w
    background token    u = z,        w = a (rho z + sqrt(1 - rho^2) ..):         t = sigma(lam u) w
    R = Var e + (L - 1) Var t + (E e - (L - 1) E t)^2,
        grad_k R = R_kap k* + R_eta v* + R_rho v, grad_v likewise

R_x by the complex step: R is analytic, so Im R(x + i h)/h with h = 1e-30 is the derivative to
rounding. A step of projected descent is k <- normalise(k - alpha (I - k k^T) grad_k R); the flow is
the same field integrated by the classical Runge-Kutta method. SGD draws B sequences, differentiates
(T - Y)^2 by hand and takes the same step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erf

__all__ = ["attend", "descend", "flow", "head_excess", "sgd_step"]

STEP = 1e-30  # of the complex step: no cancellation, so as small as one likes
# panels of the normal integrals: erf(20 z) is resolved to 1e-14
WIDTH = 0.1
NODES = 12
REACH = 10.0
SLOPES: dict[str, Callable[[Any], Any]] = {
    "erf": erf,
    "tanh": np.tanh,
    "linear": lambda x: x,
}


def _rule() -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.legendre.leggauss(NODES)
    left = np.arange(-REACH, REACH - WIDTH / 2, WIDTH)
    z = (left[:, None] + WIDTH / 2 * (1 + x)).ravel()
    weight = np.tile(w * WIDTH / 2, len(left))
    return z, weight * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def head_excess(
    kind: str,
    o: np.ndarray,
    lam: float,
    gamma: float,
    signal: float,
    length: int,
    size: float = 1.0,
) -> Any:
    """R at overlaps o (5,), real or complex; size = |v|."""
    kap, eta, the, nu, rho = o
    z, mass = _rule()
    sigma = SLOPES[kind](lam * (signal * kap + gamma * z))
    w = size * (signal * the + gamma * rho * z)
    e = gamma * eta * z - sigma * w
    across = gamma**2 * (
        1 - eta**2 - 2 * sigma * size * (nu - rho * eta) + sigma**2 * size**2 * (1 - rho**2)
    )
    first = np.sum(mass * e)
    second = np.sum(mass * (e * e + across))
    sigma = SLOPES[kind](lam * z)
    mean = np.sum(mass * sigma * size * rho * z)
    square = np.sum(mass * sigma**2 * size**2 * ((rho * z) ** 2 + 1 - rho**2))
    others = length - 1
    return second - first**2 + others * (square - mean**2) + (first - others * mean) ** 2


def _slopes(
    k: np.ndarray, v: np.ndarray, stars: np.ndarray, risk: Callable[[np.ndarray], Any]
) -> np.ndarray:
    """(2, d): gradients in k and v."""
    o = np.array([k @ stars[0], k @ stars[1], v @ stars[0], v @ stars[1], k @ v])
    parts = [np.imag(risk(o + 1j * STEP * e)) / STEP for e in np.eye(5)]
    grad_k = parts[0] * stars[0] + parts[1] * stars[1] + parts[4] * v
    grad_v = parts[2] * stars[0] + parts[3] * stars[1] + parts[4] * k
    return np.array([grad_k, grad_v])


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x)


def _overlaps(k: np.ndarray, v: np.ndarray, stars: np.ndarray) -> np.ndarray:
    return np.array([k @ stars[0], k @ stars[1], v @ stars[0], v @ stars[1], k @ v])


def descend(
    k: np.ndarray,
    v: np.ndarray,
    stars: np.ndarray,
    risk: Callable[[np.ndarray], Any],
    alpha: float,
    steps: int,
) -> np.ndarray:
    """Overlaps (5,) after `steps` projected steps from unit vectors k, v; stars = (k*, v*)."""
    for _ in range(steps):
        grad_k, grad_v = _slopes(k, v, stars, risk)
        moved_k = k - alpha * (grad_k - (grad_k @ k) * k)
        moved_v = v - alpha * (grad_v - (grad_v @ v) * v)
        k = _unit(moved_k)
        v = _unit(moved_v)
    return _overlaps(k, v, stars)


def flow(
    k: np.ndarray,
    v: np.ndarray,
    stars: np.ndarray,
    risk: Callable[[np.ndarray], Any],
    time: float,
    steps: int,
) -> np.ndarray:
    """Overlaps (5,) of the gradient flow at `time`,
    by `steps` classical Runge-Kutta steps on the vectors.
    """

    def field(x: np.ndarray) -> np.ndarray:
        slopes = _slopes(x[0], x[1], stars, risk)
        return -np.array([g - (g @ y) * y for g, y in zip(slopes, x, strict=True)])

    x = np.array([k, v])
    h = time / steps
    for _ in range(steps):
        a = field(x)
        b = field(x + h / 2 * a)
        c = field(x + h / 2 * b)
        d = field(x + h * c)
        x = x + h / 6 * (a + 2 * b + 2 * c + d)
    return _overlaps(x[0], x[1], stars)


def sgd_step(
    k: np.ndarray,
    v: np.ndarray,
    stars: np.ndarray,
    task: tuple[int, float, float, float],
    lam: float,
    alpha: float,
    batch: int,
    runs: int,
    seed: int,
) -> np.ndarray:
    """Overlaps (5, runs) after one SGD step of the erf head on `batch` fresh sequences;
    task = (L, gamma, signal, noise).
    """
    length, gamma, signal, noise = task
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((runs, batch, length, len(k)))
    # the position does not matter to the head
    x[:, :, 0] = signal * stars[0] + gamma * x[:, :, 0]
    label = x[:, :, 0] @ stars[1] + noise * rng.standard_normal((runs, batch))
    u = x @ k
    w = x @ v
    wrong = 2 / batch * ((erf(lam * u) * w).sum(2) - label)
    slope = lam * 2 / math.sqrt(math.pi) * np.exp(-((lam * u) ** 2)) * w
    grad_k = np.einsum("nb,nbl,nbld->nd", wrong, slope, x)
    grad_v = np.einsum("nb,nbl,nbld->nd", wrong, erf(lam * u), x)
    moved_k = k - alpha * (grad_k - np.outer(grad_k @ k, k))
    moved_v = v - alpha * (grad_v - np.outer(grad_v @ v, v))
    moved_k /= np.linalg.norm(moved_k, axis=1, keepdims=True)
    moved_v /= np.linalg.norm(moved_v, axis=1, keepdims=True)
    dots = [moved_k @ stars[0], moved_k @ stars[1], moved_v @ stars[0], moved_v @ stars[1]]
    return np.array([*dots, np.sum(moved_k * moved_v, axis=1)])


def attend(
    query_key: np.ndarray,
    sink: float | None,
    output: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    query: np.ndarray,
) -> np.ndarray:
    """O sum_l w_l v_l of one query, w_l = e^{q'A k_l}/(e^b + sum e^{q'A k_j}),
    in extended precision.
    """
    scores = np.array([query @ query_key @ k for k in keys], dtype=np.longdouble)
    bottom = np.longdouble(-np.inf if sink is None else sink)
    top = max(scores.max(), bottom)
    weights = np.exp(scores - top)
    weights = weights / (weights.sum() + np.exp(bottom - top))
    return output @ np.asarray(weights @ values, dtype=np.float64)
