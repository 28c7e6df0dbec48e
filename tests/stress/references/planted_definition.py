"""The mean loss of one head on a planted task with a label of its own, from its definition.

notation: u = X.k, w = X.v, y = X.V of a token; J the token that decides, of mean signal K + shift V
and scale gamma, others of mean 0 and scale 1; c = K.V; overlaps (k.K, k.V, v.K, v.V, k.v).

A trapezoidal sum over the scores u_1, ..., u_L and y_J. Given these the output T = sum_l a_l w_l is
normal: its mean M and variance come from a linear regression of w_l on (u_l, y_J), and

    E (f(y) - T)^2 = (f(y) - M)^2 + Var T,

or, for the logistic loss, one more sum over T. The error is the difference of two spacings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import erf, expit

__all__ = ["LABELS", "gradient", "risk"]

REACH = 9.0  # P(|N(0, 1)| > 9) = 2e-19: fourth powers add nothing beyond
SPACINGS = {2: (0.1, 0.13), 3: (0.22, 0.27), 4: (0.42, 0.5)}  # by the number of axes
ROUGHER = 1.3  # times these for differences, which take 20 sums
OUTPUTS = 0.45  # spacing of the sum over T, in its standard deviations: smooth in T
STEP = 2e-3  # of fourth-order differences: an error of STEP^4 times fifth derivatives
LABELS: dict[str, Callable[..., Any]] = {
    "tanh": lambda y, slope: np.tanh(slope * y),
    "bump": lambda y, slope: slope * y * np.exp(-(y**2) / 2),
    "square": lambda y, slope: slope * (y**2 - 1),
}


def _nodes(spacing: float) -> tuple[np.ndarray, np.ndarray]:
    count = int(REACH / spacing)
    x = spacing * np.arange(-count, count + 1)
    weight = np.exp(-(x**2) / 2)
    return x, weight / weight.sum()


def _weights(head: str, scores: list[np.ndarray]) -> list[np.ndarray]:
    if head == "erf":
        return [erf(x) for x in scores]
    top = scores[0]
    for x in scores[1:]:
        top = np.maximum(top, x)
    raised = [np.exp(x - top) for x in scores]
    total = sum(raised)
    return [x / total for x in raised]


def _mean_loss(s: Mapping[str, Any], o: np.ndarray, spacing: float) -> float:
    kappa, eta, theta, nu, rho = o
    length = s["length"]
    axes = length + 1
    x, weight = _nodes(spacing)
    grid = [x.reshape([-1 if i == j else 1 for j in range(axes)]) for i in range(axes)]
    gamma = s["gamma"]
    # of the deciding token: u and y by a triangular root, w by regression on both
    first = grid[0]
    second = eta * first + np.sqrt(1 - eta**2) * grid[1]
    by_u, by_y = np.linalg.solve([[1, eta], [eta, 1]], [rho, nu])
    left = max(1 - by_u * rho - by_y * nu, 0.0)
    u = [s["signal"] * kappa + s["shift"] * eta + gamma * first]
    y = s["signal"] * s["alignment"] + s["shift"] + gamma * second
    w = [s["signal"] * theta + s["shift"] * nu + gamma * (by_u * first + by_y * second)]
    spread = [gamma**2 * left]
    for i in range(2, axes):
        u.append(grid[i])
        w.append(rho * grid[i])
        spread.append(1 - rho**2)
    a = _weights(s["head"], [s["inverse_temperature"] * each for each in u])
    mean = sum(each * value for each, value in zip(a, w))
    variance = sum(each**2 * size for each, size in zip(a, spread))
    if s["label"] == "chances":
        losses = _logistic(mean, variance, expit(s["slope"] * y))
    else:
        losses = (LABELS[s["label"]](y, s["slope"]) - mean) ** 2 + variance
    losses = np.broadcast_to(losses, (len(x),) * axes)
    for _ in range(axes):
        losses = losses @ weight
    return float(losses)


def _logistic(mean: np.ndarray, variance: np.ndarray, p: np.ndarray) -> Any:
    """E over T ~ N(mean, variance) of p log(1 + e^-T) + (1 - p) log(1 + e^T)."""
    x, weight = _nodes(OUTPUTS)
    deviation = np.sqrt(variance)
    total: Any = 0.0
    for place, share in zip(x, weight):
        output = mean + deviation * place
        total = total + share * (np.logaddexp(0, -output) + (1 - p) * output)
    return total


def risk(s: Mapping[str, Any], o: np.ndarray) -> tuple[float, float]:
    """(mean loss without label noise, error) at overlaps (5,)."""
    fine, coarse = (_mean_loss(s, o, spacing) for spacing in SPACINGS[s["length"] + 1])
    return fine, abs(fine - coarse) + 1e-11 * max(1.0, abs(fine))


def gradient(s: Mapping[str, Any], o: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives in the five overlaps by fourth-order differences, and their errors."""
    spacings = [ROUGHER * spacing for spacing in SPACINGS[s["length"] + 1]]
    found = np.zeros((2, 5))
    rough = np.zeros(5)
    for row, spacing in enumerate(spacings):
        for i in range(5):
            step = STEP * np.eye(5)[i]
            near = [_mean_loss(s, o + n * step, spacing) for n in (-2, -1, 1, 2)]
            found[row, i] = (8 * (near[2] - near[1]) - near[3] + near[0]) / (12 * STEP)
            rough[i] = (near[2] - near[1]) / (2 * STEP)
    # the fourth-order formula is far nearer than its distance from the second-order one
    return found[0], np.abs(found[0] - found[1]) + np.abs(found[1] - rough) + 1e-9
