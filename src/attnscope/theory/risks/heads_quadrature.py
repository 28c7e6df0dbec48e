"""Risk of componentwise heads that add up, by Gaussian quadrature over pairs of their scores.

notation and formulas: heads_risk. A head's weight depends on the score of the same token, so tokens
contribute independently and R = sum_l Var e_l + (sum_l E e_l)^2; E e and E e^2 are sums over pairs
of heads of at most two-dimensional trapezoidal sums.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnscope.numerics.semidefinite import lower_factor
from attnscope.tasks.planted.multi_direction import MultiDirection
from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["GRID_REACH_SIGMAS", "componentwise_heads", "gaussian_grid"]

HEAD_NUMBERS_PER_BLOCK = 1 << 21  # entries processed at a time: arrays of 16 MB
Task = SingleLocation | MultiDirection

GRID_REACH_SIGMAS = 8.5  # 2e-17 of the normal mass is outside


def gaussian_grid(h: float) -> tuple[np.ndarray, np.ndarray]:
    """Points of a trapezoidal rule and their normal masses."""
    axis = h * np.arange(
        -math.ceil(GRID_REACH_SIGMAS / h), math.ceil(GRID_REACH_SIGMAS / h) + 1
    )
    return axis, h / math.sqrt(2 * math.pi) * np.exp(-(axis**2) / 2)


# -- componentwise heads: quadrature ---------------------------------------------------------------


def componentwise_heads(
    task: Task, head: Any, H: int, G: np.ndarray, lam: float, h: float
) -> tuple[np.ndarray, np.ndarray]:
    """(excess, size of its terms), (R,) each."""
    axis, mass = gaussian_grid(h)
    F = (G.shape[1] - 2 * H) // 2
    block = max(1, HEAD_NUMBERS_PER_BLOCK // (len(axis) ** 2 if H > 1 else len(axis)))
    others = task.length - F
    out = np.empty((2, len(G)))
    for i in range(0, len(G), block):
        part = G[i : i + block]
        mean, square, size = _token_moments(
            head, H, part, lam, np.zeros(part.shape[:2]), 1.0, None, axis, mass
        )
        total = others * mean
        spread = others * (square - mean**2)
        sizes = others * size
        roots = others * np.sqrt(size)
        for f in range(F):
            shift = task.signal * part[:, :, 2 * H + 2 * f]  # (R, n): projections of the mean
            label = 2 * H + 2 * f + 1
            mean, square, size = _token_moments(
                head, H, part, lam, shift, task.gamma, label, axis, mass
            )
            total = total + mean
            spread = spread + (square - mean**2)
            sizes = sizes + size
            roots = roots + np.sqrt(size)
        out[0, i : i + block] = np.maximum(spread, 0.0) + total**2
        out[1, i : i + block] = sizes + roots**2
    return out[0], out[1]


def _token_moments(
    head: Any,
    H: int,
    G: np.ndarray,
    lam: float,
    shift: np.ndarray,
    scale: float,
    label: int | None,
    axis: np.ndarray,
    mass: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(E e, E e^2, size of its terms), (R,) each, of e = sum_h a_h w_h - y for a token N(shift,
    scale^2 G) in the Gram's coordinates.
    """
    y = [] if label is None else [label]
    mean = -shift[:, label] if label is not None else np.zeros(len(G))
    square = (
        shift[:, label] ** 2 + scale**2 * G[:, label, label]
        if label is not None
        else np.zeros(len(G))
    )
    size = square
    for h in range(H):
        index = [2 * h, 2 * h + 1, *y]
        A = scale * lower_factor(G[:, index][:, :, index])
        m = shift[:, index]
        a = head.activation(lam * (m[:, :1] + A[:, 0, :1] * axis))  # (R, points)
        w = m[:, 1, None] + A[:, 1, :1] * axis  # E[w | u]
        mean = mean + (a * w) @ mass
        own = (a * a * (w * w + A[:, 1, 1, None] ** 2)) @ mass
        square = square + own
        size = size + own
        if y:
            mean_y = m[:, 2, None] + A[:, 2, :1] * axis  # E[y | u]
            square = (
                square - 2 * (a * (w * mean_y + (A[:, 1, 1] * A[:, 2, 1])[:, None])) @ mass
            )
        for g in range(h):
            square = square + 2 * _pair_moment(head, G, lam, shift, scale, h, g, axis, mass)
    return mean, square, (H + 1) * size


def _pair_moment(
    head: Any,
    G: np.ndarray,
    lam: float,
    shift: np.ndarray,
    scale: float,
    h: int,
    g: int,
    axis: np.ndarray,
    mass: np.ndarray,
) -> np.ndarray:
    """E[a_h a_g w_h w_g], (R,): given (u_h, u_g), that is two coordinates z,
    the product w_h w_g has a known mean.
    """
    index = [2 * h, 2 * g, 2 * h + 1, 2 * g + 1]
    A = scale * lower_factor(G[:, index][:, :, index])
    m = shift[:, index]

    def at(i: int) -> np.ndarray:
        """(R, nodes, nodes): the mean of the i-th of u_h, u_g, w_h, w_g given the coordinates."""
        along = A[:, i, :, None, None]
        return m[:, i, None, None] + along[:, 0] * axis[:, None] + along[:, 1] * axis

    # u_h lies along the first axis
    a_h = head.activation(lam * (m[:, :1] + A[:, 0, :1] * axis))
    a_g = head.activation(lam * at(1))
    rest = (A[:, 2, 2:] * A[:, 3, 2:]).sum(1)[:, None, None]  # conditional covariance
    return np.einsum(
        "rij,ri,i,j->r", a_g * (at(2) * at(3) + rest), a_h, mass, mass, optimize=True
    )
