"""The sums behind the learning curve of softmax attention: averages of one token over the angle
between key and query.

notation and formulas: learning_curves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from attnscope.numerics.integrals.quadrature import panel_nodes
from attnscope.tasks.exchangeable.sphere_regression import zonal

__all__ = ["curve_sums"]

# of the outer rule: exp(-pi^2/LOG_U_STEP) is below 1e-34, and below 1e-17 with every other node,
# which is the error estimate
LOG_U_STEP = 0.125

ROUNDOFF_NATS = 45.0  # exp(-45) is below roundoff

LARGEST_LOG_EXPONENT = 6.6  # exp(-exp(6.6)) is 1e-319

OUTER_NODES_PER_BLOCK = 256  # outer nodes at a time: bounds the memory


def curve_sums(
    d: int, L: int, h: float, c: np.ndarray, sink: float | None
) -> Iterator[np.ndarray]:
    """(S1, S2, S11) of learning_curves: by the full rules,
    then by half the outer nodes and the coarser inner rule.
    """
    log_B = -math.inf if sink is None else sink - 1 / h
    for (theta, weight), every in zip(panel_nodes(_angle_panels(d, h)), (1, 2)):
        p = weight * np.sin(theta) ** (d - 2)
        p = p / p.sum()
        log_K = -2 * np.sin(theta / 2) ** 2 / h  # scaled by exp(-1/h), so the largest is 0
        low = math.log(1e-18) - np.logaddexp(math.log(L * (p @ np.exp(log_K))), log_B)
        high = min(2 / h + 4, math.log(ROUNDOFF_NATS) - log_B)
        log_u = np.arange(low, max(high, low + 1), LOG_U_STEP * every)
        harmonics = {int(m): zonal(d, int(m), np.cos(theta)) for m in np.flatnonzero(c)}
        sums = np.zeros(3)
        for block in np.array_split(log_u, math.ceil(len(log_u) / OUTER_NODES_PER_BLOCK)):
            part, log_rest = _outer_sums(block, log_K, log_B, p, harmonics, c, L)
            sums += LOG_U_STEP * every * part
            if log_rest < -ROUNDOFF_NATS - 2 * math.log(
                L
            ):  # all that follows is smaller still
                break
        yield sums


def _angle_panels(d: int, h: float) -> np.ndarray:
    """Panel edges in the angle: log K moves by at most 1 per panel, and the density sin^(d-2) by
    little.

    Of a large dimension only cosines within 14 standard deviations of 0 or of the peak 2/(hd) of
    the density times K^2 are kept: beyond, e^-98 of either is left.
    """
    far = 2 / (h * d) + 14 / math.sqrt(d)
    width = math.asin(far) if far < 1 else math.pi / 2
    low = math.pi / 2 - width
    high = math.pi / 2 + width
    levels = np.arccos(np.clip(1 - h * np.arange(math.ceil(2 / h)), -1, 1))
    smooth = np.linspace(low, high, 9 + math.ceil(6 * width * math.sqrt(d) / math.pi))
    return np.unique(np.clip(np.concatenate([levels, smooth]), low, high))


def _outer_sums(
    log_u: np.ndarray,
    log_K: np.ndarray,
    log_B: float,
    p: np.ndarray,
    harmonics: dict[int, np.ndarray],
    c: np.ndarray,
    L: int,
) -> tuple[np.ndarray, float]:
    """Sums over these u, with du = u d(log u) and the factors u taken into K;
    and the last (L-2) log phi.
    """
    power = lambda log_x: np.exp(np.minimum(log_x, LARGEST_LOG_EXPONENT))
    # (outer nodes, angles)
    uK = power(log_u[:, None] + log_K)
    sums = np.zeros(3)
    out = np.exp(-uK)
    phi = out @ p
    near = phi > 0.9  # there 1 - phi, not phi, has the digits
    log_phi = np.log(np.maximum(phi, 1e-300))
    log_phi[near] = np.log1p(np.expm1(-uK[near]) @ p)
    base = np.exp(-power(log_u + log_B))
    rest = np.exp((L - 1) * log_phi)
    rest2 = np.exp(max(L - 2, 0) * log_phi)
    once = uK * out
    sums[1] = L * np.sum(base * rest * ((uK * once) @ p))
    for m, P in harmonics.items():
        one = once @ (p * P)
        sums[0] += c[m] * L * np.sum(base * rest * one)
        sums[2] += c[m] * L * (L - 1) * np.sum(base * rest2 * one**2)
    return sums, (L - 2) * float(log_phi[-1])
