"""The least risk of any activation at (k*, v*), in mpmath, and the leading risk of the erf oracle.

notation: p1 = N(s, gam^2), p0 = N(0, 1) the densities of the score of the informative and of a
background token, k* perp v*.

    R(sigma) = int [gam^2 p1 (1 - sigma)^2 + (L-1) p0 sigma^2] du,
        sigma* = gam^2 p1/(gam^2 p1 + (L-1) p0),
    R* = int A B/(A + B) du,   A = gam^2 p1, B = (L-1) p0:

panels that double in width away from 0, s and the places where A = B, where the integrand bends
within 1/|(log A/B)'|.
"""

from __future__ import annotations

from typing import Any

from mpmath import mp, mpf

from stress.references.activation_moments import FEW, SMOOTH, integral

__all__ = ["leading_risk", "least_risk", "weight"]

REACH = 26  # standard deviations kept beyond 0 and s: e^-338
FIRST = mpf(1) / 4  # first panel beside a place, in units of its width


def _logs(u: Any, gam: Any, s: Any, L: int) -> tuple[Any, Any]:
    return mp.log(gam) - ((u - s) / gam) ** 2 / 2, mp.log(L - 1) - u * u / 2


def weight(u: float, gam: float, s: float, L: int) -> Any:
    """sigma*(u)."""
    with mp.workdps(SMOOTH):
        if L == 1:
            return mpf(1)
        a, b = _logs(mpf(u), mpf(gam), mpf(s), L)
        return 1 / (1 + mp.exp(b - a))


def least_risk(gam: float, s: float, L: int) -> Any:
    """R*; 0 at L = 1."""
    with mp.workdps(SMOOTH):
        gam, s = mpf(gam), mpf(s)
        if L == 1:
            return mpf(0)
        low = min(-mpf(REACH), s - REACH * gam)
        high = max(mpf(REACH), s + REACH * gam)
        edges = {low, high}
        for place, width in [(mpf(0), mpf(1)), (s, gam), *_crossings(gam, s, L)]:
            edges |= {place}
            step = FIRST * width
            while step < high - low:
                edges |= {place - step, place + step}
                step *= mpf(3) / 2
        inside = sorted(x for x in edges if low <= x <= high)

        def density(u: Any) -> list[Any]:
            a, b = _logs(u, gam, s, L)
            return [1 / (mp.exp(-a) + mp.exp(-b))]

        return integral(density, inside, FEW)[0] / mp.sqrt(2 * mp.pi)


def _crossings(gam: Any, s: Any, L: int) -> list[tuple[Any, Any]]:
    """Where log A - log B = x u^2 + y u + z vanishes (or turns),
    with the width over which it changes by one.
    """
    x = (1 - 1 / gam**2) / 2
    y = s / gam**2
    z = mp.log(gam) - mp.log(L - 1) - (s / gam) ** 2 / 2
    if x == 0:
        return [(-z / y, 1 / y)] if y else []
    turn = -y / (2 * x)
    root = y * y - 4 * x * z
    out = [(turn, 1 / mp.sqrt(abs(2 * x)))]
    if root > 0:
        places = [(-y + sign * mp.sqrt(root)) / (2 * x) for sign in (1, -1)]
        out += [(u, 1 / max(abs(2 * x * u + y), mp.sqrt(abs(2 * x)))) for u in places]
    return out


def leading_risk(lam: float, gam: float, s: float, L: int) -> Any:
    """gam^2 erfc(lam s)^2 + (4/pi) (L-1) lam^2."""
    with mp.workdps(SMOOTH):
        lam, gam, s = mpf(lam), mpf(gam), mpf(s)
        return gam**2 * mp.erfc(lam * s) ** 2 + 4 / mp.pi * (L - 1) * lam**2
