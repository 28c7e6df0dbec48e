"""Errors of tests of "are R of these L tokens shifted?" for few tokens, and of the max test for any
number.

notation: theta = strength, u_l = the tokens' scores, r_l = e^{theta u_l - theta^2/2}, e_R = sum
over R-subsets of products of r, Phi = normal distribution function.

    Bayes   (P(e_R >= binom(L, R) | none) + P(e_R < binom(L, R) | marked))/2: given all tokens but
        the last, each is a tail of Phi
    max     min over t of [1 - Phi(t)^L + Phi(t)^(L-R) Phi(t - theta)^R]/2, in 50 digits
    linear  Phi(-R theta/(2 sqrt L)), by `tail`
    head   of sign(sum_l a_l w_l), a the weights of the scores u_l = x_l.k: given these, w_l = x_l.v
            are normal with means m_l = shift v.xi + rho (u_l - shift k.xi) and variance 1 - rho^2,
            so that P(positive) = Phi(a.m/(|a| sqrt(1 - rho^2)))

The Bayes error's error is its change under a rule with fewer nodes, plus rounding.
"""

from __future__ import annotations

import math
from itertools import combinations, permutations

import mpmath as mp
import numpy as np
from scipy.special import erf, log_ndtr, ndtr, softmax

__all__ = ["max_test", "sparse_bayes", "tail", "wrong_signs"]

Pair = tuple[float, float]
REACH = 9.5  # standard deviations followed: 2e-21 outside


def tail(x: float) -> float:
    """Phi(-x) to 30 digits, rounded."""
    with mp.workdps(30):
        return float(mp.ncdf(-mp.mpf(x)))


def wrong_signs(
    kind: str,
    inverse_temperature: float,
    task: tuple[int, int, float],
    overlaps: tuple[float, float, float],
) -> Pair:
    """The error of a head for tasks (L, R, theta) of few tokens, at (k.xi, v.xi, k.v),
    |k.v| < 1: of two tokens at most for erf, of three for softmax.
    """
    rules = (48, 32) if kind == "softmax" else (12, 8)
    fine, coarse = (
        _signs(kind, inverse_temperature, task, overlaps, nodes) for nodes in rules
    )
    return fine, abs(fine - coarse) + 1e-13


def _signs(
    kind: str,
    inverse_temperature: float,
    task: tuple[int, int, float],
    overlaps: tuple[float, float, float],
    nodes: int,
) -> float:
    length, marked, strength = task
    kappa, theta, rho = overlaps
    total = 0.0
    for shifted, label in ((0, -1.0), (marked, 1.0)):
        # which tokens are marked does not matter
        shift = strength * (np.arange(length) < shifted)
        rules = [_score_rule(kind, -kappa * place, nodes) for place in shift]
        z = np.stack(np.meshgrid(*[x for x, _ in rules], indexing="ij"), -1)
        z = z.reshape(-1, length)
        masses = np.stack(np.meshgrid(*[w for _, w in rules], indexing="ij"), -1)
        chance = masses.reshape(-1, length).prod(1)
        scores = inverse_temperature * (z + kappa * shift)
        a = softmax(scores, axis=1) if kind == "softmax" else erf(scores)
        mean = (a * (theta * shift + rho * z)).sum(1)
        spread = np.sqrt((1 - rho**2) * (a * a).sum(1))
        total += float(chance @ ndtr(-label * mean / spread)) / 2
    return total


def _score_rule(kind: str, zero: float, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and masses of a standard normal.

    For erf the weights vanish at `zero`, and the sign of one token's output jumps there (that of
    several in the corner where all vanish): panels end at it and are halved towards it.
    """
    if kind == "softmax":
        x, mass = np.polynomial.hermite_e.hermegauss(nodes)
        return x, mass / math.sqrt(2 * math.pi)
    x, w = np.polynomial.legendre.leggauss(nodes)
    reach = REACH + abs(zero)
    steps = np.concatenate([[0.0], 2.0 ** np.arange(-12, 0), np.arange(1.0, reach + 1)])
    ends = zero + np.concatenate([-steps[:0:-1], steps])
    half = np.diff(ends) / 2
    z = ((ends[:-1] + half)[:, None] + half[:, None] * x).ravel()
    return z, (half[:, None] * w).ravel() * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


def sparse_bayes(length: int, marked: int, strength: float) -> Pair:
    """(P(ratio >= 1 | none) + P(ratio < 1 | marked))/2 for two or three tokens: the last one is
    integrated out.

    Where the other tokens alone reach the ratio 1, the score that the last one needs falls to
    -infinity like a logarithm: panels are halved towards that place.
    """
    values = [_sparse_sum(length, marked, strength, nodes) for nodes in (10, 7)]
    fine, coarse = values
    return fine, abs(fine - coarse) + 1e-13 * fine


def _sparse_sum(length: int, marked: int, strength: float, nodes: int) -> float:
    level = math.log(math.comb(length, marked))
    first, first_mass = _graded(np.array([level / strength + strength / 2]), strength, nodes)
    log_first = strength * first - strength**2 / 2
    total = 0.0
    if length == 2:
        needed = _needed([log_first], marked, level, strength)
        for shifts, share in _marks(length, marked):
            log_mass = np.log(first_mass) - (first - strength * shifts[0]) ** 2 / 2
            total += (
                share / 2 * float(np.sum(np.exp(log_mass + _wrong(needed, shifts, strength))))
            )
        return total / math.sqrt(2 * math.pi)
    # where the second alone completes the ratio: r_2 = 3 - r_1 for one marked token, 3/r_1 for two
    left = -np.expm1(np.minimum(log_first - level, 0.0))
    with np.errstate(divide="ignore"):
        enough = level + np.log(left) if marked == 1 else level - log_first
    place = np.where(np.isfinite(enough), enough / strength + strength / 2, 0.0)
    second, second_mass = _graded(place[0], strength, nodes)
    log_second = strength * second - strength**2 / 2
    needed = _needed([log_first.T, log_second], marked, level, strength)
    for shifts, share in _marks(length, marked):
        log_mass = np.log(first_mass.T) + np.log(second_mass)
        log_mass = (
            log_mass
            - (first.T - strength * shifts[0]) ** 2 / 2
            - (second - strength * shifts[1]) ** 2 / 2
        )
        total += (
            share / 2 * float(np.sum(np.exp(log_mass + _wrong(needed, shifts, strength))))
        )
    return total / (2 * math.pi)


def _graded(places: np.ndarray, strength: float, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights (places, n) over all scores that matter,
    panels at most 1 wide and halved towards each place.
    """
    x, w = np.polynomial.legendre.leggauss(nodes)
    reach = 2 * strength + 2 * REACH + abs(float(np.max(np.abs(places))) - strength / 2)
    steps = np.concatenate(
        [[0.0], 2.0 ** np.arange(-24, 0), np.arange(1.0, min(reach, 120.0) + 1)]
    )
    ends = np.concatenate([-steps[:0:-1], steps])
    half = np.diff(ends) / 2
    offsets = ((ends[:-1] + half)[:, None] + half[:, None] * x).ravel()
    return places[:, None] + offsets, np.tile((half[:, None] * w).ravel(), (len(places), 1))


def _wrong(needed: np.ndarray, shifts: tuple[int, ...], strength: float) -> np.ndarray:
    """log of the probability that the last token, given whether it is shifted,
    makes the test err.
    """
    last = needed - strength * shifts[-1]
    return log_ndtr(last) if any(shifts) else log_ndtr(-last)


def _marks(length: int, marked: int) -> list[tuple[tuple[int, ...], float]]:
    """Which tokens are shifted, up to exchange of the first ones, and how likely:
    none, the last among them, the last not.
    """
    found: list[tuple[tuple[int, ...], float]] = [((0,) * length, 1.0)]
    for shifts in sorted(set(permutations([1] * marked + [0] * (length - marked)))):
        found.append((shifts, 1 / math.comb(length, marked)))
    return found


def _needed(logs: list[np.ndarray], marked: int, level: float, strength: float) -> np.ndarray:
    """The score u of the last token from which e_R(r) >= binom(L, R) = e^level;
    -inf where the others suffice.
    """
    without = _log_symmetric(logs, marked)
    with_it = _log_symmetric(logs, marked - 1)
    missing = -np.expm1(np.minimum(without - level, 0.0))  # 1 - e_R(others)/binom
    with np.errstate(divide="ignore"):
        log_r = np.where(
            missing > 0, level + np.log(np.maximum(missing, 0.0)) - with_it, -np.inf
        )
    return (log_r + strength**2 / 2) / strength


def _log_symmetric(logs: list[np.ndarray], order: int) -> np.ndarray:
    shape = np.broadcast_shapes(*(x.shape for x in logs))
    if order == 0:
        return np.zeros(shape)
    if order > len(logs):
        return np.full(shape, -np.inf)
    terms = [np.broadcast_to(sum(c), shape) for c in combinations(logs, order)]
    return np.logaddexp.reduce(terms)


def max_test(length: int, marked: int, strength: float) -> float:
    """min over t of [1 - Phi(t)^L + Phi(t)^(L-R) Phi(t - theta)^R]/2 in 50 digits:
    a lattice, then golden sections.
    """
    with mp.workdps(50):
        theta = mp.mpf(strength)

        def error(t: mp.mpf) -> mp.mpf:
            log_all = length * mp.log1p(-mp.ncdf(-t))
            missed = mp.exp(
                (length - marked) * mp.log1p(-mp.ncdf(-t))
                + marked * mp.log(mp.ncdf(t - theta))
            )
            return (missed - mp.expm1(log_all)) / 2

        top = strength + math.sqrt(2 * math.log(length)) + 12
        lattice = np.linspace(-12, top, 160)
        with np.errstate(under="ignore"):
            rough_missed = np.exp(
                (length - marked) * log_ndtr(lattice) + marked * log_ndtr(lattice - strength)
            )
            rough = rough_missed - np.expm1(length * log_ndtr(lattice))
        i = int(np.argmin(rough))
        low = mp.mpf(lattice[max(i - 1, 0)])
        high = mp.mpf(lattice[min(i + 1, 159)])
        golden = (mp.sqrt(5) - 1) / 2
        for _ in range(60):  # .618^60 = 3e-13: the value is then off by its square
            a = high - golden * (high - low)
            b = low + golden * (high - low)
            if error(a) < error(b):
                high = b
            else:
                low = a
        return float(min(error((low + high) / 2), error(mp.mpf(lattice[i]))))
