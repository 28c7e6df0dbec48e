"""The learning curve of attention whose key is fixed and whose value is fitted by ridge: convex.

notation: s1 = sig_1 the weight of the informative token, s2 = |sig|^2, over bags whose scores are
N(sqrt(nu) m_k [l = 1], q_k), m_k = k.k*, q_k = |k|^2; D = noise^2, l the ridge, alpha = n/d.

The fit is ridge regression on the features sum_l sig_l X_l, whose rows have random lengths. One
equation,

    V = 1/(l + alpha E[s2/(1 + V s2)]),

has one solution (its two sides cross once), and the rest follows:

    mh = alpha E[s1/(1 + V s2)],   m = V mh,   a = s2/(1 + V s2)^2,
    q = V^2 {mh^2 + alpha [(1 + D) E a - 2 m E(a s1)]}/(1 - V^2 alpha E(a s2)),
    risk = 1 - 2 m E s1 + q E s2 (+ D),    E rho^2 = E[(1 + D - 2 m s1 + q s2)/(1 + V s2)^2].

m = v.v*, q = |v|^2, rho the residual of the fit. Known theory of ridge regression with random row
scales; the finitely many directions in which the features are not centred are left out (they
correlate with nothing in the label). No replica argument is needed.

Averages: for softmax of few tokens trapezoid sums over the L - 1 normal numbers that the weights
depend on, twice, shifted by half a step: their mean is the value, their difference its error. For
more tokens and for linear attention 16 scrambled Sobol sets, whose spread is the error.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import estimate
from attnscope.numerics.border.sampled_estimate import widened
from attnscope.theory.samples.curve import LEARNING_CURVE_NAME, LearningCurve
from attnscope.theory.samples.ridge_nodes import (
    NODE_SET_COUNT,
    linear_nodes,
    sobol_nodes,
    token_basis,
)
from attnscope.theory.samples.ridge_setting import Kind, Spike, kind_of, ridges, spike_of

__all__ = ["fixed_key_curve", "fixed_key_fit"]


FIXED_KEY_REACH_SIGMAS = 7.0  # 3e-12 of the normal mass is beyond
# Nats of the grids' error. 1/(1 + V s2) has its nearest pole at a difference of scores of i pi/2
# or farther, and differences have sd sqrt(2 q_k): 2 pi (pi/2)/(sqrt(2 q_k) step) nats.
GRID_ERROR_NATS = 21.0
LARGEST_GRID_NODES = 1 << 21  # of one grid; where more are needed, Sobol sets are used
SOBOL_SET_BITS = 13  # 2^13 points in each set
FIXED_KEY_SEED = 17
AVERAGE_ROUNDING = 1e-12  # relative: averages of bounded numbers, and the root V


class Weights(NamedTuple):
    """s1, s2 (N,) at the nodes of one rule, and their probabilities (N,)."""

    s1: np.ndarray
    s2: np.ndarray
    p: np.ndarray


class Fit(NamedTuple):
    """risk without noise, v.v*, |v|^2, mean squared residual."""

    risk: float
    overlap: float
    square: float
    training: float


def fixed_key_curve(
    task: object, alpha: np.ndarray, predictor: object, ridge: object, key: object
) -> LearningCurve:
    """Ridge on the value at each of the alphas (n,).

    key: "oracle" (the key that is best at the truth: sqrt(nu) k* of scores for softmax), "mean"
    (the zero key: all tokens alike), or (k.k*, |k|^2) of the predictor's own key.

    >>> import numpy as np
    >>> from attnscope.predictors.attention import Softmax
    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> task = SingleLocation.spiked(dim=600, length=3, strength=5.0, noise=0.1**0.5)
    >>> fixed_key_curve(task, np.array([2.0]), Softmax(1.0), 0.1, "oracle").risk.excess.round(4)
    array([0.3254])
    """
    kind = kind_of(predictor, LEARNING_CURVE_NAME)
    units = kind.units(predictor, LEARNING_CURVE_NAME)
    spike = spike_of(task, LEARNING_CURVE_NAME, noisy=False)
    _, l_v = ridges(ridge, LEARNING_CURVE_NAME, both=False)
    overlap, square = _key_overlaps(key, kind, spike, units.key_scale)
    penalty = l_v / units.value_scale**2
    rules = _weight_rules(kind, spike, overlap, square)
    fits = [_with_error(rules, float(a), penalty, spike.variance) for a in alpha]
    fitted = np.array([fit for fit, _ in fits])
    error = np.array([e for _, e in fits])
    method = "one equation, " + ("trapezoid sums" if len(rules) == 2 else "16 Sobol sets")
    each = np.ones(len(alpha))
    return LearningCurve(
        alpha=alpha,
        risk=estimate(fitted[:, 0], error[:, 0], method, spike.variance**0.5),
        key_overlap=overlap / units.key_scale * each,
        value_overlap=fitted[:, 1] / units.value_scale,
        branch="ridge",
        overlap_error=error[:, 1] / abs(units.value_scale),
        norms=(square / units.key_scale**2 * each, fitted[:, 2] / units.value_scale**2),
        training_error=fitted[:, 3],
    )


def fixed_key_fit(w: Weights, alpha: float, ridge: float, variance: float) -> Fit:
    """The equations of the module docstring, averages by the given nodes."""
    mean = lambda x: float(w.p @ x)

    def excess(log_v: float) -> float:
        v = math.exp(log_v)
        return v * (ridge + alpha * mean(w.s2 / (1 + v * w.s2))) - 1

    # V is between its values for E[...] at its largest, at V = 0, and for none
    low = -math.log(ridge + alpha * mean(w.s2))
    V = math.exp(brentq(excess, low - 1e-9, -math.log(ridge) + 1e-9, xtol=1e-13, rtol=1e-14))
    t = 1 + V * w.s2
    a = w.s2 / t**2
    mh = alpha * mean(w.s1 / t)
    m = V * mh
    top = mh * mh + alpha * ((1 + variance) * mean(a) - 2 * m * mean(a * w.s1))
    q = V * V * top / (1 - V * V * alpha * mean(a * w.s2))
    risk = 1 - 2 * m * mean(w.s1) + q * mean(w.s2)
    return Fit(risk, m, q, mean((1 + variance - 2 * m * w.s1 + q * w.s2) / t**2))


def _with_error(
    rules: list[Weights], alpha: float, ridge: float, variance: float
) -> tuple[Fit, np.ndarray]:
    """The fit with all nodes, and the error of each of its numbers from the rules' own fits."""
    each = np.array([fixed_key_fit(w, alpha, ridge, variance) for w in rules])
    joined = Weights(*(np.concatenate(part) for part in zip(*rules)))
    fit = fixed_key_fit(joined._replace(p=joined.p / len(rules)), alpha, ridge, variance)
    if len(rules) == 2:
        return fit, np.abs(each[1] - each[0]) + AVERAGE_ROUNDING * (1 + np.abs(each[0]))
    sampled = each.std(axis=0, ddof=1) / math.sqrt(len(rules))
    return fit, np.array([widened(float(e), len(rules)) for e in sampled])


def _key_overlaps(key: object, kind: Kind, spike: Spike, scale: float) -> tuple[float, float]:
    """(m_k, q_k) in units without inverse temperature."""
    if isinstance(key, str) and key == "oracle":
        length = kind.oracle(spike.strength, spike.length)
        return length, length**2
    if isinstance(key, str) and key == "mean":
        return 0.0, 0.0
    must = "'oracle', 'mean' or a pair (k.k*, |k|^2)"
    if not isinstance(key, (tuple, list)) or len(key) != 2:
        raise bad("key", LEARNING_CURVE_NAME, must, key, 'key="oracle"')
    overlap = check.real(key[0], "key", LEARNING_CURVE_NAME, -1e3, 1e3, hint="key=(1.0, 2.0)")
    square = check.real(key[1], "key", LEARNING_CURVE_NAME, 0, 1e6, hint="key=(1.0, 2.0)")
    if overlap**2 > square * (1 + 1e-9):
        raise bad(
            "key", LEARNING_CURVE_NAME, "a pair with (k.k*)^2 <= |k|^2", key, "key=(1.0, 2.0)"
        )
    return scale * overlap, scale**2 * square


def _weight_rules(kind: Kind, spike: Spike, overlap: float, square: float) -> list[Weights]:
    """Two grids, or SETS Sobol sets."""
    lift = math.sqrt(spike.strength) * overlap
    if not kind.normalised:
        return _linear_sets(spike.length, lift, square)
    L = spike.length
    step = min(0.5, math.pi**2 / (math.sqrt(2 * square) * GRID_ERROR_NATS)) if square else 0.5
    count = 2 * math.ceil(FIXED_KEY_REACH_SIGMAS / step)
    basis = token_basis(L)
    if count ** (L - 1) <= LARGEST_GRID_NODES:
        axis = step * np.arange(-count // 2, count // 2)
        return [_softmax_grid(axis + shift, basis, lift, square) for shift in (0.0, step / 2)]
    nodes = sobol_nodes(L - 1, SOBOL_SET_BITS, NODE_SET_COUNT, FIXED_KEY_SEED)
    each = np.full(1 << SOBOL_SET_BITS, 0.5**SOBOL_SET_BITS)
    return [
        _softmax_weights(nodes.points[nodes.group == i], each, basis, lift, square)
        for i in range(NODE_SET_COUNT)
    ]


def _softmax_grid(axis: np.ndarray, basis: np.ndarray, lift: float, square: float) -> Weights:
    dimension = basis.shape[1]
    grid = np.stack(np.meshgrid(*[axis] * dimension, indexing="ij"), axis=-1)
    points = grid.reshape(-1, dimension)
    density = np.exp(-0.5 * np.sum(points**2, axis=1))
    kept = density > 1e-14  # what is left out adds up to 1e-12 at most
    p = density[kept] / density.sum()
    return _softmax_weights(points[kept], p, basis, lift, square)


def _softmax_weights(
    points: np.ndarray, p: np.ndarray, basis: np.ndarray, lift: float, square: float
) -> Weights:
    scores = math.sqrt(square) * points @ basis.T
    scores[:, 0] += lift
    sig = softmax(scores, axis=1)
    return Weights(sig[:, 0], np.sum(sig**2, axis=1), p)


def _linear_sets(L: int, lift: float, square: float) -> list[Weights]:
    """Weights 1 + u: s1, and the squared length of the other L - 1, along their mean and across."""
    points, squares = linear_nodes(L, SOBOL_SET_BITS, NODE_SET_COUNT, FIXED_KEY_SEED)
    root = math.sqrt(square)
    s1 = 1 + lift + root * points[:, 0]
    s2 = s1**2 + (math.sqrt(L - 1) + root * points[:, 3]) ** 2 + square * squares[:, 0]
    each = np.full(1 << SOBOL_SET_BITS, 0.5**SOBOL_SET_BITS)
    return [
        Weights(s1[i::NODE_SET_COUNT], s2[i::NODE_SET_COUNT], each)
        for i in range(NODE_SET_COUNT)
    ]
