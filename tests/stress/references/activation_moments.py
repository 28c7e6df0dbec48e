"""Gaussian moments of an activation and of its square, in mpmath.

notation: x = m + b g with g ~ N(0, 1); M(f) = (E f(x), E f(x) g, E f(x) g^2).

    erf   E erf(x) = erf(m/S), S^2 = 1 + 2 b^2;  E erf(x)^2 = 1 - 8 T(sqrt2 m/S, 1/sqrt(1 + 4 b^2)),
        T Owen's function,
              T(h, r) = int_0^r exp(-h^2 (1 + y^2)/2)/(1 + y^2) dy / (2 pi)
    cos       E exp(i q g) g^n = (1, i q, 1 - q^2) exp(-q^2/2)
    bump      exp(-((x - a)/w)^2) tilts N(0, 1) into another normal law
    pieces    a polynomial on each interval: moments of the truncated normal law, by parts
    tanh, logistic     Gauss-Legendre panels that shrink around x = 0

Where E f is known as a function of m, E f g = b dE/dm and E f g^2 = E f + b^2 d^2E/dm^2 (Stein).
An activation is plain data: ("erf",), ("cos", q, p), ("bump", a, w), ("pieces", ((low, high, (c0,
c1, ..)), ..)), ("tanh",), ("logistic",). Everything is exact to about 10^-DIGITS of its largest
intermediate term.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mpmath
from mpmath import mp, mpf

__all__ = ["DIGITS", "FEW", "SMOOTH", "integral", "moments", "value"]

DIGITS = 70  # L^2 s^2 may be 1e40 above the result; 30 digits remain
SMOOTH = 36  # digits for activations that need quadrature at every call
# Gauss-Legendre nodes of a panel: Bernstein ellipses of sum of axes > 4 give 4^-88 = 1e-53
NODES = 44
FEW = 26  # the same at SMOOTH digits: 4^-52 = 5e-32
Moments = tuple[Any, Any, Any]


@lru_cache(maxsize=4)
def _legendre(nodes: int) -> list[tuple[Any, Any]]:
    """Nodes and weights on [-1, 1] by Newton's method on the Legendre polynomial."""
    with mp.workdps(2 * nodes):
        out = []
        for i in range(nodes):
            x = mp.cos(mp.pi * (i + mpf(3) / 4) / (nodes + mpf(1) / 2))
            for _ in range(8):  # quadratic convergence from 3 digits
                p = mpf(1)
                q = x
                for n in range(2, nodes + 1):
                    p, q = q, ((2 * n - 1) * x * q - (n - 1) * p) / n
                slope = nodes * (x * q - p) / (x * x - 1)
                x -= q / slope
            out.append((x, 2 / ((1 - x * x) * slope**2)))
        return out


def integral(
    f: Callable[[Any], list[Any]], edges: list[Any], nodes: int = NODES
) -> list[Any]:
    """Gauss-Legendre on the panels between the edges, of a list of integrands."""
    total: list[Any] = []
    for low, high in itertools.pairwise(edges):
        half = (high - low) / 2
        middle = (high + low) / 2
        for x, weight in _legendre(nodes):
            parts = f(middle + half * x)
            scaled = [weight * half * part for part in parts]
            total = (
                scaled if not total else [a + b for a, b in zip(total, scaled, strict=True)]
            )
    return total


def value(sigma: tuple, x: Any) -> Any:
    """sigma(x)."""
    kind = sigma[0]
    if kind == "erf":
        return mp.erf(x)
    if kind == "cos":
        return mp.cos(sigma[1] * mpf(x) + sigma[2])
    if kind == "bump":
        return mp.exp(-(((x - mpf(sigma[1])) / sigma[2]) ** 2))
    if kind == "tanh":
        return mp.tanh(x)
    if kind == "logistic":
        return 1 / (1 + mp.exp(-x)) if x > 0 else mp.exp(x) / (1 + mp.exp(x))
    for low, high, coefficients in sigma[1]:
        if low <= x < high:
            return sum(c * mpf(x) ** i for i, c in enumerate(coefficients))
    return mpf(0)


def moments(sigma: tuple, m: Any, b: Any) -> tuple[Moments, Moments]:
    """M(sigma), M(sigma^2)."""
    m, b = mpf(m), mpf(b)
    if b == 0:
        f = value(sigma, m)
        return (f, mpf(0), f), (f * f, mpf(0), f * f)
    kind = sigma[0]
    if kind == "erf":
        return _erf(m, b)
    if kind == "cos":
        return _cos(mpf(sigma[1]), mpf(sigma[2]), m, b)
    if kind == "bump":
        A = (m - mpf(sigma[1])) / sigma[2]
        B = b / mpf(sigma[2])
        root = mp.sqrt(2)
        return _bump(A, B), _bump(root * A, root * B)
    if kind == "pieces":
        return _pieces(sigma[1], m, b, 1), _pieces(sigma[1], m, b, 2)
    return _smooth(sigma, m, b)


def _erf(m: Any, b: Any) -> tuple[Moments, Moments]:
    S2 = 1 + 2 * b * b
    slope = 2 / mp.sqrt(mp.pi * S2) * mp.exp(-m * m / S2)  # dE/dm
    mean = mp.erf(m / mp.sqrt(S2))
    first = (mean, b * slope, mean + b * b * (-2 * m / S2) * slope)
    square = 1 - 8 * _owen(mp.sqrt(2 / S2) * m, 1 / mp.sqrt(1 + 4 * b * b))
    # d E erf^2/dm = 2 E erf erf' = (4/sqrt pi) mass E~ erf, E~ the law tilted by exp(-x^2)
    # mean m/S2, variance b^2/S2: m/S2 / sqrt(1 + 2 b^2/S2) = m k
    k = 1 / mp.sqrt(S2 * (1 + 4 * b * b))
    mass = mp.exp(-m * m / S2) / mp.sqrt(S2)
    front = 4 / mp.sqrt(mp.pi)
    slope2 = front * mass * mp.erf(k * m)
    curve2 = (
        front
        * mass
        * (2 * k / mp.sqrt(mp.pi) * mp.exp(-((k * m) ** 2)) - 2 * m / S2 * mp.erf(k * m))
    )
    return first, (square, b * slope2, square + b * b * curve2)


def _owen(h: Any, r: Any) -> Any:
    """T(h, r) for 0 <= r <= 1."""
    h = abs(h)
    reach = mp.sqrt(2 * mp.dps * mp.log(10))
    end = r if h * r <= reach else reach / h
    edges = [end * i / 8 for i in range(9)]
    return integral(lambda y: [mp.exp(-h * h * (1 + y * y) / 2) / (1 + y * y)], edges)[0] / (
        2 * mp.pi
    )


def _cos(q: Any, p: Any, m: Any, b: Any) -> tuple[Moments, Moments]:
    def wave(q: Any, p: Any) -> Moments:
        k = q * b
        size = mp.exp(-k * k / 2)
        c, s = mp.cos(q * m + p), mp.sin(q * m + p)
        return size * c, -k * size * s, (1 - k * k) * size * c

    double = wave(2 * q, 2 * p)
    half = mpf(1) / 2
    return wave(q, p), (half + half * double[0], half * double[1], half + half * double[2])


def _bump(A: Any, B: Any) -> Moments:
    """Moments of exp(-(A + B g)^2)."""
    precision = 1 + 2 * B * B
    mass = mp.exp(-A * A / precision) / mp.sqrt(precision)
    mean = -2 * A * B / precision
    return mass, mass * mean, mass * (mean * mean + 1 / precision)


def _pieces(pieces: tuple, m: Any, b: Any, power: int) -> Moments:
    total = [mpf(0)] * 3
    for low, high, coefficients in pieces:
        c = [mpf(x) for x in coefficients]
        if power == 2:
            c = [
                sum(c[j] * c[i - j] for j in range(len(c)) if 0 <= i - j < len(c))
                for i in range(2 * len(c) - 1)
            ]
        in_g = [mpf(0)] * len(c)  # the polynomial in g
        for i, ci in enumerate(c):
            for j in range(i + 1):
                in_g[j] += ci * mpmath.binomial(i, j) * m ** (i - j) * b**j
        truncated = _truncated((low - m) / b, (high - m) / b, len(c) + 2)
        for n in range(3):
            total[n] += sum(a * truncated[i + n] for i, a in enumerate(in_g))
    return total[0], total[1], total[2]


def _truncated(a: Any, b: Any, count: int) -> list[Any]:
    """int_a^b g^n phi(g) dg for n < count."""
    phi = lambda x: mp.npdf(x) if mp.isfinite(x) else mpf(0)
    edge = lambda x, n: x**n * phi(x) if mp.isfinite(x) else mpf(0)
    upper = mp.erfc(a / mp.sqrt(2)) / 2 - mp.erfc(b / mp.sqrt(2)) / 2
    out = [upper, phi(a) - phi(b)]
    for n in range(2, count):
        out.append((n - 1) * out[n - 2] + edge(a, n - 1) - edge(b, n - 1))
    return out[:count]


def _smooth(sigma: tuple, m: Any, b: Any) -> tuple[Moments, Moments]:
    reach = mp.sqrt(2 * mp.log(10) * (mp.dps - 6))
    centre = -m / b
    near = [
        centre + sign * mpf(x) / b
        for x in (0.75, 1.5, 3, 6, 12, 24, 48, 96, 192)
        for sign in (-1, 1)
    ]
    count = int(mp.ceil(reach / 2))
    whole = [reach * i / count for i in range(-count, count + 1)]
    edges = sorted(x for x in [*near, centre, *whole] if -reach <= x <= reach)

    def weighted(g: Any) -> list[Any]:
        f = value(sigma, m + b * g)
        first = f * mp.exp(-g * g / 2)
        second = f * first
        return [first, first * g, first * g * g, second, second * g, second * g * g]

    root = mp.sqrt(2 * mp.pi)
    out = [
        x / root for x in integral(weighted, edges, NODES if mp.dps > DIGITS - 10 else FEW)
    ]
    return (out[0], out[1], out[2]), (out[3], out[4], out[5])
