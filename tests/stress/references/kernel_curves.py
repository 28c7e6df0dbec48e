"""Truths of learning curves of kernels, from their equations in DIGITS digits.

notation: mu_i, N_i = eigenvalues and multiplicities, s = noise, L = length, kappa = effective
ridge.

The curve: bias and variance of kernel ridge regression, [b + s^2]/(1 - G) - s^2, at the fixed point
found by bisection; not the short form that the project uses. Product kernels: every product of
frequencies, one by one. Sharing a layer: E 1/Gamma(n) and E 1/chi2_n as integrals.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import mpmath as mp

__all__ = ["curve", "korobov", "layer", "sphere"]

DIGITS = 60


def curve(mu: Sequence[float], N: Sequence[float], noise: float, length: int) -> float:
    """The excess error."""
    with mp.workdps(DIGITS):
        m = [mp.mpf(float(x)) for x in mu]
        n = [mp.mpf(float(x)) for x in N]
        s2 = mp.mpf(noise) ** 2
        low = s2 / length
        high = (s2 + mp.fsum(a * b for a, b in zip(m, n))) / length
        for _ in range(int(4 * DIGITS)):
            k = mp.sqrt(low * high)
            sums = mp.fsum(b * a / (a + k) for a, b in zip(m, n))
            if s2 + k * sums > length * k:
                low = k
            else:
                high = k
        k = mp.sqrt(low * high)
        bias = mp.fsum(b * a * (k / (a + k)) ** 2 for a, b in zip(m, n))
        G = mp.fsum(b * (a / (a + k)) ** 2 for a, b in zip(m, n)) / length
        return float((bias + s2) / (1 - G) - s2)


def korobov(
    smoothness: Sequence[float], weights: Sequence[float], cut: float
) -> tuple[float, float, float]:
    """(number of eigenvalues >= cut, their sum, the trace)."""
    with mp.workdps(DIGITS):
        factors = []
        trace = mp.mpf(1)
        for a, w in zip(smoothness, weights):
            kept = [mp.mpf(1)]
            k = 1
            while mp.mpf(w) * mp.mpf(k) ** (-2 * mp.mpf(a)) >= cut:
                kept += [mp.mpf(w) * mp.mpf(k) ** (-2 * mp.mpf(a))] * 2
                k += 1
            factors.append(kept)
            trace *= 1 + 2 * mp.mpf(w) * mp.zeta(2 * mp.mpf(a))
        found = [x for x in map(mp.fprod, product(*factors)) if x >= cut]
        return float(len(found)), float(mp.fsum(found)), float(trace)


def sphere(dimension: int, smoothness: float, top: int) -> tuple[list[float], list[float]]:
    """(eigenvalues of trace 1, numbers of harmonics) of the degrees 0 to `top`."""
    with mp.workdps(DIGITS):
        d = dimension + 1
        count = [
            mp.binomial(l + d - 1, d - 1) - (mp.binomial(l + d - 3, d - 1) if l > 1 else 0)
            for l in range(top + 1)
        ]
        size = [
            mp.mpf(1 + l) ** -(2 * mp.mpf(smoothness) + dimension) for l in range(top + 1)
        ]
        Z = mp.fsum(a * b for a, b in zip(count, size))
        return [float(x / Z) for x in size], [float(x) for x in count]


def layer(positions: int, sequences: int, noise: float, shared: bool) -> float:
    """The excess error per position."""
    with mp.workdps(DIGITS // 2):
        if not shared:
            # each entry of the diagonal of an inverse Wishart matrix is 1/chi2_{n - N + 1}
            each = _inverse_gamma(mp.mpf(sequences - positions + 1) / 2) / 2
            return float(mp.mpf(noise) ** 2 * positions * each)
        real = 1 if positions % 2 else 2
        whole = (positions - real) * _inverse_gamma(mp.mpf(sequences))
        whole += real * _inverse_gamma(mp.mpf(sequences) / 2) / 2
        return float(mp.mpf(noise) ** 2 * whole / positions)


def _inverse_gamma(shape: mp.mpf) -> mp.mpf:
    """E 1/Gamma(shape), an integral in log x around its largest value."""
    peak = mp.log(shape - 1) if shape > 2 else mp.mpf(0)
    width = 40 / mp.sqrt(shape) + 60 / (shape - 1) if shape < 1000 else 40 / mp.sqrt(shape)

    def density(y: mp.mpf) -> mp.mpf:
        return mp.exp((shape - 1) * y - mp.exp(y) - mp.loggamma(shape))

    points = [peak + width * mp.mpf(i) / 16 for i in range(-16, 17)]
    return mp.quad(density, points)
