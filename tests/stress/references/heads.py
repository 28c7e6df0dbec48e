"""Risks of heads where tokens are few or weights polynomial.

notation: u_l = x_l.k, lam = inverse temperature, h(x) = e^x (softmax, softmax-1) or log(1 + e^x)
(softplus), a_l = weight of token l, b = gain, D_l = the label's weight of token l, z standard
normal.

    two tokens  softmax weights depend on u_1 - u_2 alone, one normal variable
    polynomial  for linear attention a token adds c + b.z + z^T A z to T - Y, of mean c + tr A and
    variance |b|^2 + 2 |A|^2 background  given its score u a token's value and label are normal with
    known lines: one integral each; a Student t token is a
                normal one of random scale, one more integral
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import erf

from stress.references.planted_risks import (
    Pair,
    lattice_mean,
    max_agreement,
    max_disagreement,
    one_normal,
)

__all__ = ["correlated_excess", "linear_heads", "max_head", "multi_head"]


# -- one head on tasks with several informative tokens ---------------------------------------------


def multi_head(
    kind: str,
    lam: float,
    gain: float,
    gamma: float,
    signal: float,
    count_probs: np.ndarray,
    mean: np.ndarray,
    square: np.ndarray,
) -> Pair | None:
    """E(sum_{l in S} D_l w_l - b sum_l a_l w_l)^2 at the oracle: w independent of the scores,
    variance gamma^2 inside S, 1 outside.

    mean, square (L+1,): E[D | m], E[D^2 | m]. Any length for erf and linear weights, else two
    tokens.
    """
    L = len(count_probs) - 1
    total, error = 0.0, 0.0
    for m in np.flatnonzero(count_probs):
        found = _head_moments(kind, lam, gamma, signal, int(m), L)
        if found is None:
            return None
        (first, e1), (second, e2), (outside, e3) = found
        g2 = gamma**2
        b = gain
        part = (
            g2 * m * (square[m] - 2 * b * mean[m] * first + b * b * second)
            + b * b * (L - m) * outside
        )
        more = g2 * m * (2 * abs(b) * mean[m] * e1 + b * b * e2) + b * b * (L - m) * e3
        size = g2 * m * (square[m] + 2 * abs(b * mean[m] * first))
        total += float(count_probs[m] * part)
        error += float(count_probs[m] * (more + 1e-15 * size))
    return total, error


def _head_moments(
    kind: str, lam: float, gamma: float, signal: float, m: int, L: int
) -> tuple[Pair, Pair, Pair] | None:
    """E a, E a^2 of an informative token and E a^2 of another one, with m of L informative."""
    nothing = (0.0, 0.0)
    if kind in ("erf", "linear"):

        def power(order: int, mean: float, sd: float) -> Pair:
            steep = lam * sd
            place, scale = (-mean / sd, 1 / steep) if steep > 0 else (0.0, 1.0)
            return one_normal(
                lambda z: _sigma(kind, lam * (mean + sd * z)) ** order, place, min(scale, 1.0)
            )

        return power(1, signal, gamma), power(2, signal, gamma), power(2, 0.0, 1.0)
    if L != 2:
        return None
    if kind == "softmax":

        def softmax(order: int, mean: float, sd: float) -> Pair:
            steep = max(lam * sd, 1e-300)
            return one_normal(
                lambda z: _expit(lam * (mean + sd * z)) ** order,
                -mean / sd,
                min(1 / steep, 1.0),
            )

        if m == 1:
            sd = math.hypot(1.0, gamma)
            return softmax(1, signal, sd), softmax(2, signal, sd), softmax(2, -signal, sd)
        sd = math.sqrt(2) * (gamma if m else 1.0)
        return (
            softmax(1, 0.0, sd),
            softmax(2, 0.0, sd),
            (nothing if m else softmax(2, 0.0, sd)),
        )
    if lam * max(1.0, gamma) > 4:  # the lattice below resolves h to 1e-12 up to here
        return None
    means = [signal if l < m else 0.0 for l in (0, 1)]
    sds = [gamma if l < m else 1.0 for l in (0, 1)]
    sink = 1.0 if kind == "softmax-1" else 0.0

    def weight(token: int, order: int) -> Pair:
        def value(y: np.ndarray, z: np.ndarray) -> np.ndarray:
            h = [_positive(kind, lam * (means[i] + sds[i] * x)) for i, x in enumerate((y, z))]
            return (h[token] / (sink + h[0] + h[1])) ** order

        return lattice_mean(value, 2, 0.06)

    return weight(0, 1), weight(0, 2), weight(1, 2)


def max_head(kind: str, lam: float, gain: float, strength: float) -> Pair | None:
    """E(w_J - b sum_l a_l w_l)^2 for two tokens: 1 - 2 b E sum p_l a_l + b^2 E sum a_l^2."""
    if kind == "softmax":
        both = max_agreement(strength, lam)
        apart = max_disagreement(lam, 2)
        assert apart is not None
        squares = (1 - apart[0], apart[1])
    elif kind == "erf" and max(lam, strength) <= 4:
        both = lattice_mean(
            lambda y, z: 2 * _expit(strength * (y - z)) * erf(lam * y), 2, 0.05
        )
        alone = one_normal(lambda z: erf(lam * z) ** 2)
        squares = (2 * alone[0], 2 * alone[1])
    else:
        return None
    value = 1 - 2 * gain * both[0] + gain**2 * squares[0]
    return value, 2 * abs(gain) * both[1] + gain**2 * squares[1] + 1e-15 * (
        1 + 2 * abs(gain) + gain**2
    )


def _expit(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -x))


def _sigma(kind: str, x: np.ndarray) -> np.ndarray:
    return erf(x) if kind == "erf" else x


def _positive(kind: str, x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, x) if kind == "softplus" else np.exp(x)


# -- several heads ---------------------------------------------------------------------------------


def linear_heads(
    keys: np.ndarray,
    values: np.ndarray,
    teachers: tuple[np.ndarray, np.ndarray],
    lam: float,
    offset: float,
    length: int,
    gamma: float,
    signal: float,
) -> tuple[float, float]:
    """(excess, size): sum_h sum_l (offset + lam x_l.k_h) x_l.v_h against sum_f x_f.v_f*,
    and the size of what cancels in it.
    """
    k_star, v_star = teachers
    d = keys.shape[1]
    F = len(k_star)
    form = sum(
        lam * (np.outer(k, v) + np.outer(v, k)) / 2 for k, v in zip(keys, values, strict=True)
    )
    line = offset * values.sum(0)

    def token(shift: np.ndarray, sd: float, label: np.ndarray) -> tuple[float, float, float]:
        c = float(shift @ form @ shift + (line - label) @ shift)
        b = sd * (2 * form @ shift + line - label)
        A = sd**2 * form
        mean, spread = c + float(np.trace(A)), float(b @ b + 2 * np.sum(A * A))
        return (
            mean,
            spread,
            float(np.abs(form).sum() * (shift @ shift + sd**2)) + float(np.abs(b).sum()),
        )

    mean, spread, size = token(np.zeros(d), 1.0, np.zeros(d))
    total = (length - F) * mean
    variance = (length - F) * spread
    sizes = (length - F) * size
    for f in range(F):
        mean, spread, size = token(signal * k_star[f], gamma, v_star[f])
        total = total + mean
        variance = variance + spread
        sizes = sizes + size
    return variance + total**2, variance + sizes**2


# -- before a correlated background ----------------------------------------------------------------


def correlated_excess(
    lam: float,
    vectors: tuple[np.ndarray, np.ndarray, np.ndarray],
    background: tuple[np.ndarray, np.ndarray, float | None],
    informative: tuple[np.ndarray, np.ndarray],
    length: int,
    intercept: bool,
) -> Pair:
    """E(Y - sum_l erf(lam x_l.k) x_l.v - c)^2, c = 0 or the best constant; vectors = (k, v, v*)."""
    k, v, star = vectors
    mean0, cov0, freedom = background
    mean1, cov1 = informative
    first, first_error = _given_score(mean1, cov1, k, lam, star, v)
    zero = np.zeros(len(k))
    other, other_error = _student_score(mean0, cov0, k, lam, zero, v, freedom)
    variance = first[1] - first[0] ** 2 + (length - 1) * (other[1] - other[0] ** 2)
    bias = 0.0 if intercept else first[0] + (length - 1) * other[0]
    sizes = first[1] + (length - 1) * other[1]
    errors = first_error * (1 + 2 * abs(first[0])) + (length - 1) * other_error * (
        1 + 2 * abs(other[0])
    )
    errors += 2 * abs(bias) * (first_error + (length - 1) * other_error)
    rounding = 1e-14 * (sizes + first[0] ** 2 + (length - 1) * other[0] ** 2 + bias**2)
    return variance + bias**2, errors + rounding


def _given_score(
    mean: np.ndarray,
    cov: np.ndarray,
    k: np.ndarray,
    lam: float,
    star: np.ndarray,
    v: np.ndarray,
    scale: float = 1.0,
) -> tuple[tuple[float, float], float]:
    """((E e, E e^2), error) of e = x.star - erf(lam x.k) x.v for a normal token,
    its covariance times scale^2.
    """
    sd = math.sqrt(max(float(k @ cov @ k), 0.0)) * scale
    centre = float(mean @ k)
    line = [float(cov @ k @ a) * scale**2 / sd if sd > 0 else 0.0 for a in (star, v)]
    rest = scale**2 * np.array(
        [[a @ cov @ b for b in (star, v)] for a in (star, v)]
    ) - np.outer(line, line)

    def moment(order: int) -> Callable[[np.ndarray], np.ndarray]:
        def value(z: np.ndarray) -> np.ndarray:
            s = erf(lam * (centre + sd * z))
            e = float(mean @ star) + line[0] * z - s * (float(mean @ v) + line[1] * z)
            spread = rest[0, 0] - 2 * s * rest[0, 1] + s * s * rest[1, 1]
            return e if order == 1 else e * e + np.maximum(spread, 0.0)

        return value

    steep = lam * sd
    place, width = (-centre / sd, min(1 / steep, 1.0)) if steep > 0 else (0.0, 1.0)
    (one, e1), (two, e2) = (one_normal(moment(order), place, width) for order in (1, 2))
    return (one, two), max(e1, e2)


def _student_score(
    mean: np.ndarray, cov: np.ndarray, k: np.ndarray, lam: float,
    star: np.ndarray, v: np.ndarray, freedom: float | None,
) -> tuple[tuple[float, float], float]:  # fmt: skip
    """The same for a Student t token of this covariance:
    normal with the scale sqrt((n - 2)/c), c chi-square of n degrees.
    """
    if freedom is None:
        return _given_score(mean, cov, k, lam, star, v)
    n = freedom
    # in y = log c the density is e^{n y/2 - e^y/2}, and e^2 grows like e^{-y}: steps of .1 are
    # exact to 1e-15 for both
    spread = math.sqrt(2 / n)
    low = math.log(n) - max(80 / (n - 2), 12 * spread)
    high = math.log(n) + max(6.0 * min(1.0, 3 * spread), 12 * spread)
    step = min(0.1, spread / 4)
    y = np.arange(low, high + step, step)
    logs = n * y / 2 - np.exp(y) / 2
    mass = np.exp(logs - logs.max())
    mass = mass / mass.sum()
    kept = mass * np.exp(-y) > 1e-18 * float((mass * np.exp(-y)).max())
    total = np.zeros(2)
    error = 0.0
    for p, at in zip(mass[kept], y[kept], strict=True):
        (one, two), e = _given_score(
            mean, cov, k, lam, star, v, math.sqrt((n - 2) / math.exp(at))
        )
        total += p * np.array([one, two])
        error += p * e
    return (float(total[0]), float(total[1])), float(error) + 1e-12 * float(total[1])
