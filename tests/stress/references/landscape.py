"""The risk as a function of two points on spheres, by differences along great circles, in mpmath.

notation: k, v unit vectors in R^m with k* = e_1, v* = e_2; F(t) the risk at (k cos|a| + a^ sin|a|,
v cos|b| + b^ sin|b|), (a, b) = sum_i t_i e_i over an orthonormal basis e_i of the tangent space.

    gradient_i = (F(h e_i) - F(-h e_i))/(2 h),     H_ii = (F(h e_i) - 2 F(0) + F(-h e_i))/h^2,
    H_ij = (F(h, h) - F(h, -h) - F(-h, h) + F(-h, -h))/(4 h^2),

errors of order (h steepness)^2 at h = 10^-STEP/steepness. In R^d the directions outside span{k, v,
k*, v*} are all alike, so m = min(d, 5) shows every eigenvalue that R^d has.

Oracle: k = k*, v = v*. The directions that turn k towards v* and v towards k* (eta, theta) decide
whether it is a minimum: `oracle_block` is their 2 x 2 Hessian. Saddle: with all four vectors
orthogonal the directions (kap, eta, the, nu) of k and v towards k*, v* have a 4 x 4 Hessian, whose
negative eigenvalues are the rates of escape.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpmath import mp, mpf

from stress.references.activation_moments import DIGITS
from stress.references.single_location import risk_terms

__all__ = ["curvature", "oracle_block", "rounded_curvature", "saddle_block"]

EPS = 2.0**-52
STEP = 16  # differences of step 1e-16: truncation 1e-32, rounding 10^-(DIGITS - 32)
Vector = list[Any]


def _dot(a: Vector, b: Vector) -> Any:
    return sum((x * y for x, y in zip(a, b, strict=True)), mpf(0))


def _basis(x: Vector) -> list[Vector]:
    """Orthonormal vectors that with x span R^m."""
    found = [x]
    for i in range(len(x)):
        e = [mpf(i == j) for j in range(len(x))]
        for _ in range(2):
            for y in found:
                part = _dot(e, y)
                e = [p - part * q for p, q in zip(e, y, strict=True)]
        size = mp.sqrt(_dot(e, e))
        if size > mpf(10) ** (-DIGITS // 2):
            found.append([p / size for p in e])
    return found[1 : len(x)]


def _vectors(o: tuple, m: int) -> tuple[Vector, Vector]:
    """k, v in R^m with these overlaps, k* = e_1, v* = e_2;
    what rounding leaves below 0 counts as 0.
    """
    kap, eta, the, nu, rho = (mpf(x) for x in o)
    k = [kap, eta, mp.sqrt(max(0, 1 - kap**2 - eta**2)), mpf(0), mpf(0)]
    room = mp.sqrt(max(0, 1 - the**2 - nu**2))
    # below 1e-8 it is what a rounding of kap^2 + eta^2 leaves
    third = (rho - kap * the - eta * nu) / k[2] if k[2] > mpf(10) ** -8 else mpf(0)
    third = min(room, max(-room, third))
    v = [the, nu, third, mp.sqrt(max(0, 1 - the**2 - nu**2 - third**2)), mpf(0)]
    if m == 3:
        v = [the, nu, mp.sqrt(max(0, 1 - the**2 - nu**2)) * (-1 if third < 0 else 1)]
        k = k[:3]
    k = k[:m]
    v = v[:m]
    return tuple([x / mp.sqrt(_dot(y, y)) for x in y] for y in (k, v))  # type: ignore[return-value]


class _Sphere:
    """F around (k, v)."""

    def __init__(
        self, sigma: tuple, o: tuple, lam: float, gam: float, s: float, L: int, m: int
    ) -> None:
        self.sigma, self.numbers = sigma, (mpf(lam), mpf(gam), mpf(s), L)
        self.k, self.v = _vectors(o, m)
        zero = [mpf(0)] * m
        self.directions = [(x, zero) for x in _basis(self.k)] + [
            (zero, x) for x in _basis(self.v)
        ]
        self.h = mpf(10) ** -STEP / (1 + mpf(lam) * (mpf(s) + mpf(gam) + 1))

    def at(self, steps: dict[int, int]) -> Any:
        """F at h times the given multiples of basis directions."""
        m = len(self.k)
        a = [mpf(0)] * m
        b = [mpf(0)] * m
        for i, n in steps.items():
            a = [x + n * self.h * y for x, y in zip(a, self.directions[i][0], strict=True)]
            b = [x + n * self.h * y for x, y in zip(b, self.directions[i][1], strict=True)]
        k = _along(self.k, a)
        v = _along(self.v, b)
        lam, gam, s, L = self.numbers
        o = (k[0], k[1], v[0], v[1], _dot(k, v))
        return sum(risk_terms(self.sigma, o, lam, gam, s, L, mpf(0)))


def _along(x: Vector, step: Vector) -> Vector:
    """The end of the great circle from x in the tangent direction and length of step."""
    length = mp.sqrt(_dot(step, step))
    if length == 0:
        return x
    return [
        mp.cos(length) * p + mp.sin(length) / length * q for p, q in zip(x, step, strict=True)
    ]


def curvature(
    sigma: tuple, o: tuple, lam: float, gam: float, s: float, L: int, d: int
) -> tuple[float, np.ndarray]:
    """(norm of the gradient, eigenvalues of the Hessian ascending) on the product of spheres of
    R^min(d, 5), key perpendicular to value.
    """
    with mp.workdps(DIGITS):
        sphere = _Sphere(sigma, o, lam, gam, s, L, min(d, 5))
        n = len(sphere.directions)
        h = sphere.h
        here = sphere.at({})
        sides, gradient = _slopes(sphere)
        H = mp.zeros(n)
        for i in range(n):
            H[i, i] = (sides[i][0] - 2 * here + sides[i][1]) / h**2
            for j in range(i):
                parts = [a * b * sphere.at({i: a, j: b}) for a in (1, -1) for b in (1, -1)]
                H[i, j] = H[j, i] = sum(parts) / (4 * h**2)
        values = mp.eigsy(H, eigvals_only=True)
        return float(mp.sqrt(_dot(gradient, gradient))), np.sort([float(x) for x in values])


def _slopes(sphere: Any) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """The risk one step to both sides in every direction, and the gradient."""
    sides = [(sphere.at({i: 1}), sphere.at({i: -1})) for i in range(len(sphere.directions))]
    return sides, [(up - down) / (2 * sphere.h) for up, down in sides]


def rounded_curvature(
    sigma: tuple, o: tuple, lam: float, gam: float, s: float, L: int, d: int
) -> tuple[float, float]:
    """By how much the gradient's norm and the eigenvalues change where every overlap moves by a
    rounding of 1.

    Overlaps of 1, and of vectors in one plane, decide a direction by their last digit.
    """
    here, spectrum = curvature(sigma, o, lam, gam, s, L, d)
    norms = 0.0
    values = 0.0
    for i in range(5):  # each is rounded by itself
        moved = []
        for step in (-EPS, EPS):
            near = list(o)
            near[i] = min(1.0, max(-1.0, near[i] + step))
            moved.append(curvature(sigma, tuple(near), lam, gam, s, L, d))
        norms += max(abs(norm - here) for norm, _ in moved)
        values += max(float(np.abs(other - spectrum).max()) for _, other in moved)
    return norms, values


def oracle_block(
    sigma: tuple, lam: float, gam: float, s: float, L: int
) -> tuple[Any, Any, Any]:
    """(eta eta, eta theta, theta theta) of the Hessian at k = k*, v = v*."""
    with mp.workdps(DIGITS):
        # in R^2 these are the only directions
        sphere = _Sphere(sigma, (1, 0, 0, 1, 0), lam, gam, s, L, 2)
        h = sphere.h
        here = sphere.at({})
        own = [(sphere.at({i: 1}) - 2 * here + sphere.at({i: -1})) / h**2 for i in (0, 1)]
        cross = sum(a * b * sphere.at({0: a, 1: b}) for a in (1, -1) for b in (1, -1)) / (
            4 * h**2
        )
        return own[0], cross, own[1]


def saddle_block(sigma: tuple, lam: float, gam: float, s: float, L: int) -> np.ndarray:
    """The 4 x 4 Hessian in (kap, eta, the, nu) where k, v, k*, v* are orthogonal and rho = 0."""
    with mp.workdps(DIGITS):
        h = mpf(10) ** -STEP / (1 + mpf(lam) * (mpf(s) + mpf(gam) + 1))
        numbers = mpf(lam), mpf(gam), mpf(s), L, mpf(0)

        def at(steps: dict[int, int]) -> Any:
            """The risk that many steps of h away in each of the four overlaps."""
            moved = [h * steps.get(i, 0) for i in range(4)]
            return sum(risk_terms(sigma, (*moved, mpf(0)), *numbers))

        H = np.zeros((4, 4))
        for i in range(4):
            H[i, i] = float((at({i: 1}) - 2 * at({}) + at({i: -1})) / h**2)
            for j in range(i):
                total = sum(a * b * at({i: a, j: b}) for a in (1, -1) for b in (1, -1))
                H[i, j] = H[j, i] = float(total / (4 * h**2))
        return H
