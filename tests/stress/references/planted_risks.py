"""Bayes, affine and null risks of planted tasks where few tokens leave a sum over latents and an
integral over few normal variables.

notation: sig = logistic function, s = signal, g = gamma, D = log-odds.

Each risk is written down from its definition for two or three tokens, where symmetry leaves one or
two Gaussian integrals:

    two tokens, one hidden exchange   D ~ N(2 a, 4 a), R = E[sig(D) sig(-D) (difference of what the
        two latents say)^2]
    scores on a lattice   E f(u) = sum over a lattice of f(u) times the normal density times the
        cell: exponentially
                                       accurate for smooth f, and checked by a lattice of 1.5 times
                                       the spacing
    affine   least squares of Y on all L d numbers, from the moments of the tokens given the
        location

`value, error` pairs: the error is the change under the coarser rule, plus rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations, product

import mpmath as mp
import numpy as np
from scipy.special import expit

__all__ = [
    "Pair",
    "affine_risk",
    "direction_variance",
    "exchange_risk",
    "lattice_mean",
    "line_spikes",
    "max_agreement",
    "max_disagreement",
    "multi_affine",
    "one_normal",
    "two_tokens",
]

Pair = tuple[float, float]
REACH = 9.5  # standard deviations followed: 2e-21 outside
NODES = 24  # Gauss-Legendre nodes per panel; 16 in the coarser rule
# relative: sums of some thousand positive terms of rounding 1e-16 each, and the functions in them
ROUNDOFF = 4e-15


# -- integration -----------------------------------------------------------------------------------


def one_normal(
    f: Callable[[np.ndarray], np.ndarray], place: float = 0.0, scale: float = 1.0
) -> Pair:
    """E f(z), z standard normal, for an f that varies on `scale` around `place` and slowly
    elsewhere.
    """
    ends = np.arange(-38.0, 38.5, 0.5)
    near = place + scale * np.concatenate(
        [-(2.0 ** np.arange(-2, 40)), [0.0], 2.0 ** np.arange(-2, 40)]
    )
    ends = np.unique(np.concatenate([ends, near[np.abs(near) < 38.0]]))
    values = []
    for nodes in (NODES, 16):
        x, w = np.polynomial.legendre.leggauss(nodes)
        half = np.diff(ends)[:, None] / 2
        z = (ends[:-1, None] + half) + half * x
        density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        values.append(float(np.sum(half * w * density * f(z))))
    fine, coarse = values
    return fine, abs(fine - coarse) + ROUNDOFF * abs(fine)


def lattice_mean(f: Callable[..., np.ndarray], variables: int, spacing: float) -> Pair:
    """E f(z_1, .., z_n) of independent standard normals, f smooth on the scale of the spacing."""
    values = []
    for h in (spacing, 1.5 * spacing):
        axis = h * np.arange(-math.ceil(REACH / h), math.ceil(REACH / h) + 1)
        grids = np.meshgrid(*[axis] * variables, indexing="ij", sparse=True)
        mass = np.exp(-(axis**2) / 2) * h / math.sqrt(2 * math.pi)
        total = f(*grids)
        for _ in range(variables):
            total = (
                total @ mass
                if total.ndim == 1
                else np.tensordot(total, mass, axes=([-1], [0]))
            )
        values.append(float(total))
    fine, coarse = values
    return fine, abs(fine - coarse) + ROUNDOFF * abs(fine)


def _logistic_pair(x: np.ndarray) -> np.ndarray:
    """sig(x) sig(-x)."""
    return expit(x) * expit(-x)


# -- two tokens ------------------------------------------------------------------------------------


def exchange_risk(
    key_gap: np.ndarray, value_gap: np.ndarray, gamma: float, signal: float
) -> Pair:
    """Two tokens, two directions at distinct positions: only which is where is hidden.

    x_1 - x_2 ~ N(s (k_1 - k_2), 2 g^2 I), the log-odds are (s/g^2)(k_1 - k_2).(x_1 - x_2), and the
    two latents say numbers that differ by (v_1 - v_2).(x_1 - x_2).
    """
    across, size = float(key_gap @ value_gap), float(key_gap @ key_gap)
    if signal == 0 or size == 0:  # even odds
        mean = signal * across
        return (2 * gamma**2 * float(value_gap @ value_gap) + mean**2) / 4, 1e-14 * gamma**2
    strength = signal**2 * size / gamma**2
    mean, sd = strength, math.sqrt(2 * strength)
    # of the difference on z, the standardised log-odds
    slope = math.sqrt(2) * gamma * across / math.sqrt(size)
    rest = 2 * gamma**2 * max(float(value_gap @ value_gap) - across**2 / size, 0.0)

    def variance(z: np.ndarray) -> np.ndarray:
        return _logistic_pair(mean + sd * z) * ((signal * across + slope * z) ** 2 + rest)

    return one_normal(variance, -mean / sd, 1 / sd)


def max_disagreement(strength: float, length: int) -> Pair | None:
    """E sum_{j != m} p_j p_m for p = softmax(strength chi), chi iid normal;
    for two or three tokens.
    """
    if length == 1:
        return 0.0, 0.0
    if length == 2:
        sd = math.sqrt(2) * strength
        value, error = one_normal(lambda z: 2 * _logistic_pair(sd * z), 0.0, 1 / max(sd, 1.0))
        return value, error
    # differences (a, b) to the third, covariance ((2, 1), (1, 2))
    if length == 3 and strength <= 8:

        def disagreement(y: np.ndarray, z: np.ndarray) -> np.ndarray:
            a = strength * math.sqrt(2) * y
            b = strength * (y / math.sqrt(2) + math.sqrt(1.5) * z)
            top = np.maximum(np.maximum(a, b), 0.0)
            e = [np.exp(a - top), np.exp(b - top), np.exp(-top)]
            total = e[0] + e[1] + e[2]
            return 2 * (e[0] * e[1] + e[0] * e[2] + e[1] * e[2]) / total**2

        return lattice_mean(disagreement, 2, 0.05)
    return None


def max_agreement(strength: float, inverse_temperature: float) -> Pair:
    """E sum_l p_l a_l for two tokens, p and a the softmax of the same scores at two
    inverse temperatures.
    """
    sharp, other = math.sqrt(2) * strength, math.sqrt(2) * inverse_temperature

    def agreement(z: np.ndarray) -> np.ndarray:
        p, a = expit(sharp * z), expit(other * z)
        return p * a + expit(-sharp * z) * expit(-other * z)

    return one_normal(agreement, 0.0, 1 / max(sharp, other, 1.0))


def two_tokens(
    signal: float,
    count_probs: np.ndarray,
    mean: np.ndarray,
    square: np.ndarray,
    spacing: float = 0.08,
) -> Pair:
    """Two tokens, gamma = 1, number of informative ones random: R = E sum_l w_l^2 Var(D_l 1{l in S}
    | u), E w^2 = 1.

    mean, square (3,): E[D | m], E[D^2 | m] of an informative token.
    """
    prior = np.array([count_probs[0], count_probs[1] / 2, count_probs[1] / 2, count_probs[2]])
    inside = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    size = inside.sum(1)
    total, error = 0.0, 0.0
    for true in np.flatnonzero(prior):

        def variance(y: np.ndarray, z: np.ndarray, true: int = int(true)) -> np.ndarray:
            u = [y + signal * inside[true, 0], z + signal * inside[true, 1]]
            ratio = [signal * x - signal**2 / 2 for x in u]
            logs = [
                np.log(prior[i]) + ratio[0] * a + ratio[1] * b
                for i, (a, b) in enumerate(inside)
                if prior[i]
            ]
            kept = [i for i in range(4) if prior[i]]
            top = np.max(np.broadcast_arrays(*logs), axis=0)
            weights = [np.exp(x - top) for x in logs]
            norm = sum(weights)
            out = np.zeros(np.broadcast_shapes(y.shape, z.shape))
            for token in (0, 1):
                first = (
                    sum(
                        w * mean[size[i]] * inside[i, token]
                        for w, i in zip(weights, kept, strict=True)
                    )
                    / norm
                )
                for w, i in zip(weights, kept, strict=True):
                    says = mean[size[i]] * inside[i, token]
                    hidden = (square[size[i]] - mean[size[i]] ** 2) * inside[i, token]
                    out = out + w / norm * ((says - first) ** 2 + hidden)
            return out

        part, more = lattice_mean(variance, 2, spacing)
        total += float(prior[true]) * part
        error += float(prior[true]) * more
    return total, error


def line_spikes(strengths: np.ndarray, prior: np.ndarray) -> Pair:
    """Two tokens, gamma = 1, spikes along one line at `strengths`, one output across it:
    R = E P(J = 2 | X) given J = 1.
    """

    def log_ratio(u: np.ndarray) -> np.ndarray:
        return np.logaddexp.reduce(
            [np.log(p) + a * u - a * a / 2 for p, a in zip(prior, strengths, strict=True)]
        )

    total, error = 0.0, 0.0
    for p, a in zip(prior, strengths, strict=True):
        part, more = lattice_mean(
            lambda y, z, a=a: 2 * _logistic_pair(log_ratio(z) - log_ratio(a + y)),
            2,
            0.4 / max(4.0, float(np.max(np.abs(strengths)))),
        )
        total += float(p) * part
        error += float(p) * more
    return total, error


# -- affine predictors and variances ---------------------------------------------------------------


def affine_risk(
    probs: np.ndarray,
    background: tuple[np.ndarray, np.ndarray],
    informative: tuple[np.ndarray, np.ndarray],
    value: np.ndarray,
) -> tuple[float, float]:
    """(null, affine) risk of Y = X_J.v*: least squares of Y on all L d numbers, their moments
    averaged over J, in 50 digits.
    """
    with mp.workdps(50):
        (mu0, S0), (mu1, S1) = background, informative
        L = len(probs)
        d = len(value)
        v = mp.matrix(value.tolist())
        weights = [mp.mpf(float(p)) for p in probs]
        total = sum(weights)
        weights = [w / total for w in weights]
        gap = mp.matrix((mu1 - mu0).tolist())
        base = mp.matrix(S0.tolist())
        informed = mp.matrix(S1.tolist())
        spread = mp.matrix(L * d, L * d)
        cross = mp.matrix(L * d, 1)
        # x_l = mu0 + 1{J = l} (gap + ...): given J independent, so covariances come from the
        # location alone
        said = informed * v
        for l, m in product(range(L), repeat=2):
            shared = (weights[l] if l == m else mp.mpf(0)) - weights[l] * weights[m]
            for i, j in product(range(d), repeat=2):
                own = (
                    (1 - weights[l]) * base[i, j] + weights[l] * informed[i, j]
                    if l == m
                    else mp.mpf(0)
                )
                spread[l * d + i, m * d + j] = own + shared * gap[i] * gap[j]
        for l, i in product(range(L), range(d)):
            cross[l * d + i] = weights[l] * said[i]  # E Y is the same whatever J is
        null = (v.T * informed * v)[0]
        solved = mp.lu_solve(spread, cross)
        return float(null), float(null - (cross.T * solved)[0])


def multi_affine(
    gamma: float, length: int, count_probs: list[mp.mpf], weights: str, concentration: float
) -> tuple[float, float]:
    """(null, affine) risk of MultiLocation from second moments in 40 digits;
    count_probs may be exact numbers of mpmath.
    """
    with mp.workdps(40):
        g2 = mp.mpf(gamma) ** 2
        a = mp.mpf(concentration)
        total = sum(count_probs)
        null = pull = inside = mp.mpf(0)
        for m in range(1, length + 1):
            p = mp.mpf(count_probs[m]) / total
            first = mp.mpf(1) if weights == "sum" else mp.mpf(1) / m
            second = first**2
            if weights == "dirichlet":  # E D^2 = (a + 1)/(m (m a + 1))
                second = (a + 1) / (m * (m * a + 1))
            null += p * m * second
            pull += p * m * first
            inside += p * m
        q = inside / length
        linear = g2 * null - (g2 * pull) ** 2 / (length * (1 - q + q * g2))
        return float(g2 * null), float(linear)


def direction_variance(
    keys: np.ndarray,
    values: np.ndarray,
    length: int,
    gamma: float,
    signal: float,
    distinct: bool,
) -> float:
    """Var Y by the law of total variance over all choices of positions."""
    F = len(keys)
    choices = list(
        permutations(range(length), F) if distinct else product(range(length), repeat=F)
    )
    means = []
    spreads = []
    for J in choices:
        mean, spread = 0.0, 0.0
        for l in set(J):
            here = [f for f in range(F) if J[f] == l]
            shift = signal * keys[here].sum(0)
            read = values[here].sum(0)
            mean += float(shift @ read)
            spread += gamma**2 * float(read @ read)
        means.append(mean)
        spreads.append(spread)
    centred = np.array(means) - np.mean(means)
    return float(np.mean(spreads) + np.mean(centred**2))
