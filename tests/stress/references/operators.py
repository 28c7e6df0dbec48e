"""Truths of attention as an operator, of its limits on the sphere and of its learning curves, from
their definitions.

notation: q, k_l, v_l query, keys, values; h = bandwidth; lam = ridge; t = q.k; P_m zonal harmonic;
          c_m = power of degree m; s = noise; g = gain; b = sink.

Operators are weighted sums or solutions of (K + lam I) a = v, in DIGITS digits. Eigenvalues on the
sphere are means over a uniform key, mu_m = E exp((t-1)/h) P_m(t), here
Gamma(d/2) (2h)^{d/2-1} e^{-1/h} I_{m+d/2-1}(1/h) with the Bessel function of DIGITS digits.

Error of softmax attention. Given the keys, f is Gaussian with covariance C = sum_m c_m P_m, so

    E[(g sum_l w_l v_l - f(q))^2 | keys] = 1 - 2 g w.C_q + g^2 (w.C w + s^2 |w|^2),

a mean over drawn keys; for one token an integral over t, for two with given scores the mean of
P_m(k_1.k_2) is P_m(t_1) P_m(t_2): a double integral.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mpmath as mp
import numpy as np
from scipy import special

from stress.references.exchangeable import zonal

__all__ = [
    "cme",
    "cme_error",
    "eigenvalue",
    "kernel_entry",
    "least_norm",
    "linear",
    "softmax",
    "softmax_error",
]

# an exponential kernel spans 1e-300 to 1e300 only in its entries, its condition number is below
# 1e40 here
DIGITS = 60
DRAWS = 20_000  # sets of keys
SIGMAS = 6.0  # as in references.exchangeable
NODES = 400  # of Gauss-Jacobi rules in t: bandwidths from 0.02 on


def softmax(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, bandwidth: float, sink: float | None
) -> list[float]:
    """sum_l e^{q.k_l/h} v_l / (sum_l e^{q.k_l/h} + e^b)."""
    with mp.workdps(DIGITS):
        scores = [mp.fdot(_exact(q), _exact(row)) / mp.mpf(bandwidth) for row in k]
        weights = [mp.exp(score) for score in scores]
        total = mp.fsum(weights) + (0 if sink is None else mp.exp(mp.mpf(sink)))
        return [
            float(mp.fdot(weights, _exact(column)) / total) if len(k) else 0.0
            for column in v.T
        ]


def linear(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float) -> list[float]:
    """scale sum_l (q.k_l) v_l."""
    with mp.workdps(DIGITS):
        scores = [mp.fdot(_exact(q), _exact(row)) for row in k]
        return [float(mp.mpf(scale) * mp.fdot(scores, _exact(column))) for column in v.T]


def _exact(x: Sequence[float] | np.ndarray) -> list[mp.mpf]:
    return [mp.mpf(float(a)) for a in x]


def kernel_entry(kernel: str, x: np.ndarray, y: np.ndarray, bandwidth: float) -> mp.mpf:
    """x.y, exp(x.y/h) or exp(-|x-y|^2/(2h))."""
    a = _exact(x)
    b = _exact(y)
    h = mp.mpf(bandwidth)
    if kernel == "linear":
        return mp.fdot(a, b)
    if kernel == "exponential":
        return mp.exp(mp.fdot(a, b) / h)
    return mp.exp(-mp.fsum((u - w) ** 2 for u, w in zip(a, b)) / (2 * h))


def cme(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, kernel: str, bandwidth: float, ridge: float
) -> tuple[list[float], float] | None:
    """(V^T (K + lam I)^-1 k_q, k(q, q) - k_q^T (K + lam I)^-1 k_q);
    None where the matrix is singular.
    """
    with mp.workdps(DIGITS):
        own = kernel_entry(kernel, q, q, bandwidth)
        if not len(k):
            return [0.0] * v.shape[1], float(own)
        K = mp.matrix([[kernel_entry(kernel, x, y, bandwidth) for y in k] for x in k])
        for i in range(len(k)):
            K[i, i] += mp.mpf(ridge)
        cross = [kernel_entry(kernel, q, y, bandwidth) for y in k]
        try:
            weights = mp.lu_solve(K, mp.matrix([[x] for x in cross]))
        except ZeroDivisionError:
            return None
        return [float(mp.fdot(weights, _exact(column))) for column in v.T], float(
            own - mp.fdot(weights, cross)
        )


def eigenvalue(dim: int, bandwidth: float, degree: int) -> mp.mpf:
    """mu_m of exp(-|q-k|^2/(2h)) under uniform keys on S^{dim-1}."""
    with mp.workdps(DIGITS):
        x = 1 / mp.mpf(bandwidth)
        half = mp.mpf(dim) / 2
        return (
            mp.gamma(half)
            * (2 / x) ** (half - 1)
            * mp.exp(-x)
            * mp.besseli(degree + half - 1, x)
        )


def harmonics(dim: int, degree: int) -> int:
    """How many there are of one degree on S^{dim-1}:
    polynomials of that degree less those that |x|^2 divides.
    """
    free = math.comb(degree + dim - 1, dim - 1)
    return free - (math.comb(degree + dim - 3, dim - 1) if degree > 1 else 0)


def cme_error(
    dim: int,
    length: int,
    ridge: float,
    bandwidth: float,
    noise: float,
    power: Sequence[float],
) -> float:
    """The deterministic equivalent of kernel ridge regression, its two equations solved in DIGITS
    digits.

    kap = lam/L + (kap/L) sum_m N_m mu_m/(mu_m + kap),
        error = (sum_m c_m (kap/(mu_m+kap))^2 + s^2)/(1 - G) - s^2
    """
    with mp.workdps(DIGITS // 2):
        mu: list[mp.mpf] = []
        counts: list[int] = []
        left = mp.mpf(1)
        while left > mp.mpf(10) ** -18 or len(mu) < len(power):
            mu.append(eigenvalue(dim, bandwidth, len(mu)))
            counts.append(harmonics(dim, len(counts)))
            left -= counts[-1] * mu[-1]
            if len(mu) > 400:
                return math.nan
        r, L = mp.mpf(ridge) / length, mp.mpf(length)

        def excess(kap: mp.mpf) -> mp.mpf:
            return kap - r - kap / L * mp.fsum(n * m / (m + kap) for n, m in zip(counts, mu))

        low = r
        high = r + mp.mpf(1.01) / L
        for _ in range(90):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) < 0 else (low, middle)
        G = mp.fsum(n * (m / (m + low)) ** 2 for n, m in zip(counts, mu)) / L
        c = [mp.mpf(float(x)) / mp.fsum(map(mp.mpf, power)) for x in power]
        lost = mp.fsum(x * (low / (m + low)) ** 2 for x, m in zip(c, mu))
        return float((lost + mp.mpf(noise) ** 2) / (1 - G) - mp.mpf(noise) ** 2)


def softmax_error(
    dim: int,
    length: int,
    bandwidth: float,
    noise: float,
    power: Sequence[float],
    gain: float,
    sink: float | None,
    seed: int,
) -> tuple[float, float]:
    """Error of softmax attention at a uniform query, and the reference's own error."""
    c = np.asarray(power, dtype=float) / np.sum(power)
    if length <= 2 and bandwidth >= 0.02 and dim <= 60:
        return _few_tokens(dim, length, bandwidth, noise, c, gain, sink), 1e-11 * (
            1 + gain**2 * (1 + noise**2)
        )
    rng = np.random.default_rng(seed)
    draws = max(200, min(DRAWS, 200_000 // (length * max(length, dim))))
    k = rng.standard_normal((draws, length, dim))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    t = k[..., 0]  # the query is the first axis
    w = _weights(t, bandwidth, sink)
    near = sum(x * zonal(dim, m, t) for m, x in enumerate(c) if x)
    gram = np.clip(k @ k.swapaxes(1, 2), -1, 1)
    C = sum(x * zonal(dim, m, gram) for m, x in enumerate(c) if x)
    square = np.sum(w * (C @ w[..., None])[..., 0], axis=-1) + noise**2 * np.sum(
        w**2, axis=-1
    )
    found = 1 - 2 * gain * np.sum(w * near, axis=-1) + gain**2 * square
    return float(found.mean()), SIGMAS * float(found.std(ddof=1)) / draws**0.5


def _weights(t: np.ndarray, bandwidth: float, sink: float | None) -> np.ndarray:
    """Softmax weights over the last axis of scores t/h, with the sink in the denominator."""
    scores = t / bandwidth
    top = scores.max(axis=-1, keepdims=True)
    if sink is not None:
        top = np.maximum(top, sink)
    e = np.exp(scores - top)
    return e / (e.sum(axis=-1, keepdims=True) + (0.0 if sink is None else np.exp(sink - top)))


def _few_tokens(
    dim: int,
    length: int,
    bandwidth: float,
    noise: float,
    c: np.ndarray,
    gain: float,
    sink: float | None,
) -> float:
    """One or two tokens: Gauss-Jacobi in t, whose weight (1 - t^2)^{(d-3)/2} is the law of a
    coordinate.
    """
    x, p = special.roots_jacobi(NODES, (dim - 3) / 2, (dim - 3) / 2)
    p = p / p.sum()
    P = {m: zonal(dim, m, x) for m in range(len(c)) if c[m]}
    if length == 1:
        w = _weights(x[:, None], bandwidth, sink)[:, 0]
        near = sum(c[m] * P[m] for m in P)
        return float(p @ (1 - 2 * gain * w * near + gain**2 * (1 + noise**2) * w**2))
    t = np.stack(np.broadcast_arrays(x[:, None], x[None, :]), axis=-1)
    w = _weights(t, bandwidth, sink)
    near = sum(c[m] * (w[..., 0] * P[m][:, None] + w[..., 1] * P[m][None, :]) for m in P)
    both = sum(c[m] * P[m][:, None] * P[m][None, :] for m in P)
    square = (1 + noise**2) * np.sum(w**2, axis=-1) + 2 * w[..., 0] * w[..., 1] * both
    return float(p @ (1 - 2 * gain * near + gain**2 * square) @ p)


def least_norm(T: np.ndarray, label: np.ndarray) -> float | None:
    """|w|/|a| for the shortest w with T^T w = a, T with independent rows and a in their span:
    w = (T T^T)^-1 T a.
    """
    with mp.workdps(DIGITS):
        rows = [_exact(row) for row in T]
        a = _exact(label)
        gram = mp.matrix([[mp.fdot(x, y) for y in rows] for x in rows])
        try:
            w = mp.lu_solve(gram, mp.matrix([[mp.fdot(x, a)] for x in rows]))
        except ZeroDivisionError:
            return None
        return float(mp.sqrt(mp.fdot(w, w) / mp.fdot(a, a)))
