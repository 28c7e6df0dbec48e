"""The saddle point of ridge ERM, with its error, and whether replica symmetry holds there.

notation: that of ridge_channel.py; l_k, l_v the ridges, alpha = n/d.

The fit minimises sum_i (y_i - f_i)^2/2 + (d/2)(l_k |k|^2 + l_v |v|^2). Six numbers describe it as
d -> inf, m, q, V of the key and of the value: with the averages of ridge_channel.py

    key     qh = alpha E|g_u|^2,   mh = alpha sqrt(nu) E g_u1,   Vh = -alpha E xi.g_u/sqrt q_k
    value   qh = alpha E|g_w|^2,   mh = alpha c,   Vh = -alpha (E zeta.g_w - c_v c)/sqrt q_v,
            c = E dg_w1/dy
    both    V = 1/(l + Vh),   m = mh V,   q = (mh^2 + qh) V^2.

The overlaps of the key with v* and of the value with k* are zero: they are on the branch on which
the roles are not swapped, by the symmetry (v, v*, y) -> -(v, v*, y). Role-swapped solutions, in
which the fitted key points to v*, are outside.

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

# (cosine, square) of key and value at each start
START_COSINES_AND_SQUARES = (
    (0.5, 0.5, 0.5, 0.3),
    (0.9, 2.0, 0.9, 0.8),
    (0.2, 0.1, 0.2, 0.1),
)
# times the ridges: solutions are followed from large ridges down
RIDGE_FACTORS = (300.0, 100.0, 30.0, 10.0, 5.0, 3.0, 2.0, 1.5, 1.0)
DAMPED_STEPS = 12  # before Newton's method, which then converged in every setting tested
DAMPING_FACTOR = 0.4
# Half-width of difference quotients. A bag whose minimum flips within it adds 1/(its number of
# nodes): over 1e-2 these average out, and the curvature left is 1e-4.
DIFFERENCE_HALF_WIDTH = 1e-2
COARSE_RESIDUAL = 0.02  # the first solution must reach it: the second starts from there
LARGEST_CHORD_STEPS = 20  # with all nodes; 3 to 6 are usual
# the derivative is recomputed if a step is longer than this share of the previous one
RENEWAL_RATIO = 0.3
# The iteration ends at a step this short, in standard errors of the solution. Where bags flip,
# steps stay of the size of one of them; the last step is added to the error.
FINAL_STEP_STANDARD_ERRORS = 0.02
LONGEST_STEP = 0.5  # beyond it the derivative has changed
LATE_STEP_COUNT = 8  # after so many steps, one of ten times that length is short enough
EXACT_STEP = 1e-9  # a step this short also ends the iteration
SMALLEST_RIDGE_SHARE = 1e-3  # floor of (l + Vh)/l, so that no wild step makes V negative
LARGEST_LOGARITHM = 80.0  # of intermediate values: beyond it exponentials overflow float64


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
    """The solution on one set of nodes: its coordinates, from which another may start, and its
    properties without errors; None where none is found.
    """
    x = None
    if start is not None:
        x, residual = _newton_end(setting, channel, start)
        x = x if residual < COARSE_RESIDUAL else None
    x = _first_solution(setting, channel) if x is None else x
    if x is None:
        return None
    order = order_of(x)
    A = channel.averages(order).mean(axis=0)
    radius = _stability_radius(setting, channel, order)
    properties = channel.risk(order), 0.0, 0.0, float(A[6]), 0.0, radius, float(A[7])
    return x, Saddle(order, *properties)


def saddle_point(
    setting: Setting, coarse: Channel, fine: Channel, start: np.ndarray
) -> Saddle:
    """The solution on the fine nodes, from that on the coarse ones."""
    return _refined_saddle(setting, fine, start, _jacobian(setting, coarse, start))


def order_of(x: np.ndarray) -> Order:
    """The six numbers from the coordinates that are solved for."""
    c_k, q_k, V_k, c_v, q_v, V_v = x
    big = lambda t: math.exp(min(max(t, -LARGEST_LOGARITHM), LARGEST_LOGARITHM))
    return Order(math.tanh(c_k), big(q_k), big(V_k), math.tanh(c_v), big(q_v), big(V_v))


def right_hand_sides(setting: Setting, x: Order, A: np.ndarray) -> np.ndarray:
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
        V = 1 / max(ridge + setting.alpha * hat, SMALLEST_RIDGE_SHARE * ridge)
        mh = setting.alpha * mean
        qh = setting.alpha * square
        # |m|/sqrt q = mh/sqrt(mh^2 + qh), so atanh is asinh of their ratio
        out += [
            math.asinh(mh / math.sqrt(qh)),
            math.log((mh * mh + qh) * V * V),
            math.log(V),
        ]
    return np.array(out)


def _residual_function(
    setting: Setting, channel: Channel
) -> Callable[[np.ndarray], np.ndarray]:
    def step(x: np.ndarray) -> np.ndarray:
        order = order_of(x)
        return right_hand_sides(setting, order, channel.averages(order).mean(axis=0)) - x

    return step


def _first_solution(setting: Setting, channel: Channel) -> np.ndarray | None:
    """The solution from a few starts; if none converges, from larger ridges down."""
    step = _residual_function(setting, channel)
    for start in START_COSINES_AND_SQUARES:
        x = _start_coordinates(setting, *start)
        for _ in range(DAMPED_STEPS):
            x = x + DAMPING_FACTOR * step(x)
        x, residual = _newton_end(setting, channel, x)
        if residual < COARSE_RESIDUAL:
            return x
    x = _start_coordinates(
        setting._replace(**_scaled_ridges(setting, RIDGE_FACTORS[0])),
        *START_COSINES_AND_SQUARES[-1],
    )
    for factor in RIDGE_FACTORS:
        x, residual = _newton_end(
            setting._replace(**_scaled_ridges(setting, factor)), channel, x
        )
        if not math.isfinite(residual):
            return None
    return x if residual < COARSE_RESIDUAL else None


def _scaled_ridges(setting: Setting, factor: float) -> dict[str, float]:
    return {
        "key_ridge": setting.key_ridge * factor,
        "value_ridge": setting.value_ridge * factor,
    }


def _start_coordinates(
    setting: Setting, c_k: float, q_k: float, c_v: float, q_v: float
) -> np.ndarray:
    """Coordinates of a start with these cosines and squares."""
    V_k = 0.5 / math.sqrt(setting.key_ridge)
    V_v = 0.5 / math.sqrt(setting.value_ridge)
    key = [math.atanh(c_k), math.log(q_k), math.log(V_k)]
    return np.array([*key, math.atanh(c_v), math.log(q_v), math.log(V_v)])


def _newton_end(
    setting: Setting, channel: Channel, x: np.ndarray
) -> tuple[np.ndarray, float]:
    """Where Newton's method ends from x, and its residual (inf where that is not a number)."""
    step = _residual_function(setting, channel)
    found = root(
        step, x, method="hybr", options={"eps": DIFFERENCE_HALF_WIDTH**2, "xtol": 1e-6}
    )
    residual = float(np.abs(found.fun).max())
    return found.x, residual if math.isfinite(residual) else math.inf


def _jacobian(setting: Setting, channel: Channel, x: np.ndarray) -> np.ndarray:
    """(7, 6) by central differences: of the six equations, and of E rho^2."""

    def equations(x: np.ndarray) -> np.ndarray:
        order = order_of(x)
        A = channel.averages(order).mean(axis=0)
        return np.append(right_hand_sides(setting, order, A) - x, A[6])

    moves = DIFFERENCE_HALF_WIDTH * np.eye(6)
    return np.stack(
        [(equations(x + e) - equations(x - e)) / (2 * DIFFERENCE_HALF_WIDTH) for e in moves],
        axis=1,
    )


def _refined_saddle(
    setting: Setting, channel: Channel, x: np.ndarray, slope: np.ndarray
) -> Saddle:
    """Newton steps with all nodes; the derivative is kept as long as the steps shrink."""
    last = math.inf
    for count in range(LARGEST_CHORD_STEPS):
        order = order_of(x)
        by_set = channel.averages(order)
        residual = right_hand_sides(setting, order, by_set.mean(axis=0)) - x
        move = -np.linalg.solve(slope[:6], residual)
        spread = _moves_by_set(setting, order, by_set, slope[:6])
        error = spread.std(axis=0, ddof=1) / math.sqrt(channel.sets)
        size = float(np.abs(move).max())
        short = FINAL_STEP_STANDARD_ERRORS * (10 if count >= LATE_STEP_COUNT else 1) * error
        if size < EXACT_STEP or bool((np.abs(move) < short).all()):
            return _saddle_with_errors(setting, channel, x, move, by_set, spread, slope[6])
        x = x + move * min(1.0, LONGEST_STEP / size)
        if size > RENEWAL_RATIO * last and bool((np.abs(move) > error).any()):
            slope = _jacobian(setting, channel, x)
        last = size
    raise AttnscopeError(
        "the saddle point of learning_curve must be found by Newton's method, got steps that do "
        f"not end at alpha {setting.alpha:g}, ridge ({setting.key_ridge:g}, "
        f"{setting.value_ridge:g}); try a larger ridge."
    )


def _moves_by_set(
    setting: Setting, order: Order, by_set: np.ndarray, slope: np.ndarray
) -> np.ndarray:
    """(sets, 6): how far each set alone would move the solution, to first order."""
    mean = by_set.mean(axis=0)
    here = right_hand_sides(setting, order, mean)
    spread = by_set - mean
    scale = np.maximum(np.abs(mean), 1e-12)
    moved = np.zeros((len(by_set), 6))
    for j in range(6):  # the last two averages enter no equation
        nudge = np.zeros_like(mean)
        nudge[j] = 1e-6 * scale[j]  # rounding 1e-10, curvature 1e-6
        moved += np.outer(
            spread[:, j], (right_hand_sides(setting, order, mean + nudge) - here) / nudge[j]
        )
    return -np.linalg.solve(slope, moved.T).T


def _saddle_with_errors(
    setting: Setting,
    channel: Channel,
    x: np.ndarray,
    move: np.ndarray,
    by_set: np.ndarray,
    spread: np.ndarray,
    training_slope: np.ndarray,
) -> Saddle:
    """The properties of the solution x with errors; `move` is the last step, which was not taken."""
    order = order_of(x)
    outcome = lambda at: np.array(
        [channel.risk(order_of(at)), *_teacher_overlaps(order_of(at))]
    )
    moves = DIFFERENCE_HALF_WIDTH * np.eye(6)
    slopes = np.stack(
        [(outcome(x + e) - outcome(x - e)) / (2 * DIFFERENCE_HALF_WIDTH) for e in moves],
        axis=1,
    )
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
        _stability_radius(setting, channel, order),
        float(by_set[:, 7].mean()),
    )


def _stability_radius(setting: Setting, channel: Channel, order: Order) -> float:
    T = setting.alpha * channel.response(order)
    return float(np.abs(np.linalg.eigvals(T)).max())


def _teacher_overlaps(x: Order) -> tuple[float, float]:
    """(k.k*, v.v*)."""
    return (
        x.key_cosine * math.sqrt(x.key_square),
        x.value_cosine * math.sqrt(x.value_square),
    )
