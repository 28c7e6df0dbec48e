"""Positional or semantic attention without the table: product rules in two and four dimensions.

notation: of tasks/planted/positional_semantic.py; t the teacher's weight, s the student's,
L(e, m) = 2 E((1 - w) t + w A - s)^2. At (0, 1) the student is the teacher; at (P, 0) it is
independent of the teacher. So both losses need four numbers, T_1 = E t, T_2 = E t^2, g = E s and
h = E s^2 at e = P, and are equal at

    A = ((1 - 2 w) T_2 + h - 2 (1 - w) T_1 g)/(2 w (g - T_1)).                              (lead)

Curvatures along the arc, by Gaussian integration by parts (D = d/du - d/dv):

    at (0, 1)   f_m = E|grad t|^2,   f_ee = E t D^2 t,   g'' = E D^2 t,   h'' = E D^2 t^2
    at (P, 0)   f_mm = tr(H_t H_s),  H = E[. (x x^T - I)],   f_e = T_1 g',   g' = E s (a - b),
                h' = E s^2 (a - b)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

__all__ = ["Nodes", "contrast_of", "ends", "gauss", "lead", "loss", "stable", "trapezoidal"]

REACH = 7.5  # P(|N(0, 1)| > 7.5) = 6e-14


class Nodes(NamedTuple):
    """x, weight (n,): a rule for a standard normal."""

    x: np.ndarray
    weight: np.ndarray


def gauss(count: int) -> Nodes:
    """Gauss-Hermite."""
    x, weight = np.polynomial.hermite_e.hermegauss(count)
    return Nodes(x, weight / weight.sum())


def trapezoidal(spacing: float) -> Nodes:
    """Equal spacing on [-REACH, REACH]."""
    count = int(REACH / spacing)
    x = spacing * np.arange(-count, count + 1)
    weight = np.exp(-(x**2) / 2)
    return Nodes(x, weight / weight.sum())


def loss(nodes: Nodes, e: float, m: float, w: float, c: float) -> float:
    """L(e, m) by the rule in four dimensions: u, v along k*, two along what k has besides."""
    x, weight = nodes
    rest = np.sqrt(max(1 - m * m, 0.0))
    own = expit(x[:, None] * (x[:, None] - x))
    target = (1 - w) * own + w * expit(2 * c * c)
    b = m * x[:, None] + rest * x
    total = 0.0
    for place, share in zip(x, weight):
        a = (m * x + rest * place)[:, None, None]
        away = target[:, :, None] - expit((e + a) * (2 * e + a - b))
        total += share * float(weight @ (away**2 @ weight) @ weight)
    return 2 * total


class Ends(NamedTuple):
    """T_1, T_2, g, h of the module docstring."""

    teacher: float
    teacher_square: float
    student: float
    student_square: float


def ends(nodes: Nodes, position: float) -> Ends:
    """The four numbers in two dimensions."""
    x, weight = nodes
    mean = lambda z: float(weight @ z @ weight)
    a = x[:, None]
    t = expit(a * (a - x))
    s = expit((a + position) * (a - x + 2 * position))
    return Ends(mean(t), mean(t**2), mean(s), mean(s**2))


def lead(w: np.ndarray, at: Ends) -> np.ndarray:
    """A at which both ends of the arc have one loss."""
    t1, t2, g, h = at
    return ((1 - 2 * w) * t2 + h - 2 * (1 - w) * t1 * g) / (2 * w * (g - t1))


def contrast_of(weight: np.ndarray) -> np.ndarray:
    """c >= 0 with S(2 c^2) = weight in [1/2, 1)."""
    return np.sqrt(np.log(weight / (1 - weight)) / 2)


def stable(w: np.ndarray, nodes: Nodes, position: float) -> tuple[np.ndarray, np.ndarray]:
    """A at which the semantic and the positional end stop being minima along the arc."""
    x, weight = nodes
    mean = lambda z: float(weight @ z @ weight)
    u = x[:, None]
    v = x[None, :]
    t = expit(u * (u - v))
    slope = t * (1 - t)
    bend = slope * (1 - 2 * t)
    by_u = 2 * u - v  # of u (u - v); by v: -u
    along = by_u + u  # D of it, whose own D is 4
    f_m = mean(slope**2 * (by_u**2 + u**2))
    second = bend * along**2 + 4 * slope  # D^2 t
    f_ee = mean(t * second)
    h_ee = mean(2 * (slope * along) ** 2 + 2 * t * second)
    square = position**2
    keep = 1 - w
    # P^2 L_ee = L_m with L = 2 h - 4 (1 - w) f - 4 w A g
    semantic = (square * h_ee / 2 - keep * (square * f_ee - f_m)) / (
        w * square * mean(second)
    )
    s = expit((u + position) * (u - v + 2 * position))
    squares = (u**2 - 1 + 0 * v, v**2 - 1 + 0 * u)
    f_mm = sum(mean(t * z) * mean(s * z) for z in squares)
    f_mm += 2 * mean(t * u * v) * mean(s * u * v)  # tr(H_t H_s)
    g_e = mean(s * (u - v))
    h_e = mean(s**2 * (u - v))
    f_e = mean(t) * g_e
    # L_mm = P L_e there
    positional = (position * h_e / 2 + keep * (f_mm - position * f_e)) / (w * position * g_e)
    return semantic, positional
