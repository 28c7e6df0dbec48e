"""The saddle point of ridge ERM, with its error, and whether replica symmetry holds there.

notation: that of ridge_channel.py; l_k, l_v the ridges, alpha = n/d.

The fit minimises sum_i (y_i - f_i)^2/2 + (d/2)(l_k |k|^2 + l_v |v|^2). Six numbers describe it as
d -> inf, m, q, V of the key and of the value: with the averages of ridge_channel.py

    key     qh = alpha E|g_u|^2,   mh = alpha sqrt(nu) E g_u1,   Vh = -alpha E xi.g_u/sqrt q_k
    value   qh = alpha E|g_w|^2,   mh = alpha c,   Vh = -alpha (E zeta.g_w - c_v c)/sqrt q_v,
            c = E dg_w1/dy
    both    V = 1/(l + Vh),   m = mh V,   q = (mh^2 + qh) V^2.

The overlaps of the key with v* and of the value with k* are zero: they are on the branch on which
the roles are not swapped, by the symmetry (v, v*, y) -> -(v, v*, y). A solution in which the fitted
key points to v* is outside.

Solved by Newton's method for fixed nodes in (atanh of the cosine, log q, log V): plain iteration
diverges where the data are many. First on one set of nodes, from a few damped steps; then on all
of them with the derivative of the first.

Error: set r moves the averages by dA_r and the solution by dx_r = J^-1 (d new/dA) dA_r, J = 1 - d
new/dx; the spread of (d risk/dx).dx_r over sets, by the root of their number, is the standard
error (widened for the few sets, sampled_estimate.py).

Stability: a perturbation of the replicas grows by the spectral radius of

    T = alpha [E |d(u, w)/d(o, z) - I|^2 by blocks],

Frobenius norms; replica symmetry is consistent where it is below 1. A jump of the minimum makes it
infinite in the strict sense, and nodes do not see that: so the share of bags with two minima is
reported beside it, and both have their limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import root

from attnscope.errors import AttnscopeError
from attnscope.numerics.border.sampled_estimate import widened
from attnscope.theory.samples.ridge_channel import Channel, Order

__all__ = ["Saddle", "Setting", "coarse_saddle", "saddle_point"]

# (cosine, square) of key and value to begin with
STARTS = (
    (0.5, 0.5, 0.5, 0.3),
    (0.9, 2.0, 0.9, 0.8),
    (0.2, 0.1, 0.2, 0.1),
)
EASIER = (
    300.0,
    100.0,
    30.0,
    10.0,
    5.0,
    3.0,
    2.0,
    1.5,
    1.0,
)  # times the ridges, on the way down
DAMPED = 12  # steps before Newton: from there it converged in every setting tried
DAMPING = 0.4
# Half-width of difference quotients. A bag whose minimum flips within it adds 1/(its number of
# nodes): over 1e-2 these average out, and the curvature left is 1e-4.
WIDTH = 1e-2
COARSE = 0.02  # residual that the first solution must reach: the second starts from there
CHORDS = 20  # steps with all nodes: 3 to 6 are usual
RENEWED = (
    0.3  # a step longer than this share of the one before it has the derivative made anew
)
# Of its standard error: a step this short ends the solution. Where bags flip, steps stay of the
# size of one of them; the last step is added to the error.
SMALL = 0.02
FARTHEST = 0.5  # longest step: beyond, the derivative is another one
LATE = 8  # steps after which ten times that is short enough
EXACT = 1e-9  # a step this short ends it too
LEAST = 1e-3  # of l: floor of l + Vh on the way, where a wild step would make V negative
LIMIT = 80.0  # of logarithms on the way: beyond it exponentials leave float64


class Setting(NamedTuple):
    """alpha, strength nu, ridges of key and value."""

    alpha: float
    strength: float
    key_ridge: float
    value_ridge: float


class Saddle(NamedTuple):
    """The solution: order parameters, risk, overlaps and mean squared residual with standard
    errors; stability: spectral radius; two_minima: share of bags.
    """

    order: Order
    risk: float
    risk_error: float
    overlap_error: float
    training: float
    training_error: float
    stability: float
    two_minima: float


def coarse_saddle(
    setting: Setting, channel: Channel, start: np.ndarray | None = None
) -> tuple[np.ndarray, Saddle] | None:
    """The solution on one set of nodes: its coordinates, from which another may start, and what is
    told of it, without errors; None where there is none to be found.
    """
    x = None
    if start is not None:
        x, residual = _newton(setting, channel, start)
        x = x if residual < COARSE else None
    x = _first_solution(setting, channel) if x is None else x
    if x is None:
        return None
    order = order_of(x)
    A = channel.averages(order).mean(axis=0)
    radius = _radius(setting, channel, order)
    told = channel.risk(order), 0.0, 0.0, float(A[6]), 0.0, radius, float(A[7])
    return x, Saddle(order, *told)


def saddle_point(
    setting: Setting, coarse: Channel, fine: Channel, start: np.ndarray
) -> Saddle:
    """The solution on the fine nodes, from that on the coarse ones."""
    return _refined(setting, fine, start, _slope(setting, coarse, start))


def order_of(x: np.ndarray) -> Order:
    """The six numbers from the coordinates that are solved for."""
    c_k, q_k, V_k, c_v, q_v, V_v = x
    big = lambda t: math.exp(min(max(t, -LIMIT), LIMIT))
    return Order(math.tanh(c_k), big(q_k), big(V_k), math.tanh(c_v), big(q_v), big(V_v))


def renewed(setting: Setting, x: Order, A: np.ndarray) -> np.ndarray:
    """The right-hand sides, from the averages A (8,), in the coordinates that are solved for."""
    so = math.sqrt(x.key_square)
    sz = math.sqrt(x.value_square)
    c = A[4]
    rows = (
        (setting.key_ridge, A[0], math.sqrt(setting.strength) * A[1], -A[2] / so),
        (setting.value_ridge, A[3], c, -(A[5] - x.value_cosine * c) / sz),
    )
    out = []
    for ridge, square, mean, hat in rows:
        V = 1 / max(ridge + setting.alpha * hat, LEAST * ridge)
        mh = setting.alpha * mean
        qh = setting.alpha * square
        # |m|/sqrt q = mh/sqrt(mh^2 + qh), so atanh is asinh of their ratio
        out += [
            math.asinh(mh / math.sqrt(qh)),
            math.log((mh * mh + qh) * V * V),
            math.log(V),
        ]
    return np.array(out)


def _equations(setting: Setting, channel: Channel) -> Callable[[np.ndarray], np.ndarray]:
    def step(x: np.ndarray) -> np.ndarray:
        order = order_of(x)
        return renewed(setting, order, channel.averages(order).mean(axis=0)) - x

    return step


def _first_solution(setting: Setting, channel: Channel) -> np.ndarray | None:
    """From a few starts; where none serves, from larger ridges down."""
    step = _equations(setting, channel)
    for start in STARTS:
        x = _coordinates(setting, *start)
        for _ in range(DAMPED):
            x = x + DAMPING * step(x)
        x, residual = _newton(setting, channel, x)
        if residual < COARSE:
            return x
    x = _coordinates(setting._replace(**_times(setting, EASIER[0])), *STARTS[-1])
    for factor in EASIER:
        x, residual = _newton(setting._replace(**_times(setting, factor)), channel, x)
        if not math.isfinite(residual):
            return None
    return x if residual < COARSE else None


def _times(setting: Setting, factor: float) -> dict[str, float]:
    return {
        "key_ridge": setting.key_ridge * factor,
        "value_ridge": setting.value_ridge * factor,
    }


def _coordinates(
    setting: Setting, c_k: float, q_k: float, c_v: float, q_v: float
) -> np.ndarray:
    """Of a start with these cosines and squares."""
    V_k = 0.5 / math.sqrt(setting.key_ridge)
    V_v = 0.5 / math.sqrt(setting.value_ridge)
    key = [math.atanh(c_k), math.log(q_k), math.log(V_k)]
    return np.array([*key, math.atanh(c_v), math.log(q_v), math.log(V_v)])


def _newton(setting: Setting, channel: Channel, x: np.ndarray) -> tuple[np.ndarray, float]:
    """Where Newton's method ends from x, and its residual (inf where that is not a number)."""
    step = _equations(setting, channel)
    found = root(step, x, method="hybr", options={"eps": WIDTH**2, "xtol": 1e-6})
    residual = float(np.abs(found.fun).max())
    return found.x, residual if math.isfinite(residual) else math.inf


def _slope(setting: Setting, channel: Channel, x: np.ndarray) -> np.ndarray:
    """(7, 6) by central differences: of the six equations, and of E rho^2."""

    def told(x: np.ndarray) -> np.ndarray:
        order = order_of(x)
        A = channel.averages(order).mean(axis=0)
        return np.append(renewed(setting, order, A) - x, A[6])

    moves = WIDTH * np.eye(6)
    return np.stack([(told(x + e) - told(x - e)) / (2 * WIDTH) for e in moves], axis=1)


def _refined(setting: Setting, channel: Channel, x: np.ndarray, slope: np.ndarray) -> Saddle:
    """Newton steps with all nodes, the derivative held as long as it serves."""
    last = math.inf
    for count in range(CHORDS):
        order = order_of(x)
        by_set = channel.averages(order)
        residual = renewed(setting, order, by_set.mean(axis=0)) - x
        move = -np.linalg.solve(slope[:6], residual)
        spread = _moved(setting, order, by_set, slope[:6])
        error = spread.std(axis=0, ddof=1) / math.sqrt(channel.sets)
        size = float(np.abs(move).max())
        short = SMALL * (10 if count >= LATE else 1) * error
        if size < EXACT or bool((np.abs(move) < short).all()):
            return _finished(setting, channel, x, move, by_set, spread, slope[6])
        x = x + move * min(1.0, FARTHEST / size)
        if size > RENEWED * last and bool((np.abs(move) > error).any()):
            slope = _slope(setting, channel, x)
        last = size
    raise AttnscopeError(
        "the saddle point of learning_curve must be found by Newton's method, got steps that do "
        f"not end at alpha {setting.alpha:g}, ridge ({setting.key_ridge:g}, "
        f"{setting.value_ridge:g}); try a larger ridge."
    )


def _moved(
    setting: Setting, order: Order, by_set: np.ndarray, slope: np.ndarray
) -> np.ndarray:
    """(sets, 6): how far each set alone would move the solution, to first order."""
    mean = by_set.mean(axis=0)
    here = renewed(setting, order, mean)
    spread = by_set - mean
    scale = np.maximum(np.abs(mean), 1e-12)
    moved = np.zeros((len(by_set), 6))
    for j in range(6):  # the last two averages enter no equation
        nudge = np.zeros_like(mean)
        nudge[j] = 1e-6 * scale[j]  # rounding 1e-10, curvature 1e-6
        moved += np.outer(
            spread[:, j], (renewed(setting, order, mean + nudge) - here) / nudge[j]
        )
    return -np.linalg.solve(slope, moved.T).T


def _finished(
    setting: Setting,
    channel: Channel,
    x: np.ndarray,
    move: np.ndarray,
    by_set: np.ndarray,
    spread: np.ndarray,
    training_slope: np.ndarray,
) -> Saddle:
    """What is told of the solution x; `move` is the step that was not taken any more."""
    order = order_of(x)
    told = lambda at: np.array([channel.risk(order_of(at)), *_overlaps(order_of(at))])
    moves = WIDTH * np.eye(6)
    slopes = np.stack([(told(x + e) - told(x - e)) / (2 * WIDTH) for e in moves], axis=1)
    slopes = np.vstack([slopes, training_slope])
    spreads = spread @ slopes.T
    spreads[:, 3] += by_set[:, 6]
    sampled = spreads.std(axis=0, ddof=1) / math.sqrt(channel.sets)
    error = [widened(float(e), channel.sets) for e in sampled] + np.abs(slopes @ move)
    return Saddle(
        order,
        channel.risk(order),
        float(error[0]),
        float(max(error[1], error[2])),
        float(by_set[:, 6].mean()),
        float(error[3]),
        _radius(setting, channel, order),
        float(by_set[:, 7].mean()),
    )


def _radius(setting: Setting, channel: Channel, order: Order) -> float:
    T = setting.alpha * channel.response(order)
    return float(np.abs(np.linalg.eigvals(T)).max())


def _overlaps(x: Order) -> tuple[float, float]:
    """(k.k*, v.v*)."""
    return (
        x.key_cosine * math.sqrt(x.key_square),
        x.value_cosine * math.sqrt(x.value_square),
    )
