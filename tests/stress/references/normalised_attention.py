"""Risks of softmax, softmax-plus-one and softplus attention on single-location regression, from the
definition.

notation: as in single_location.py; weights a_l = h(lam u_l)/(sink + sum_m h(lam u_m)).

Given all scores the projections are normal and the weights are numbers, so with F = Y - sum_l a_l
w_l

    R = E [ (E[F | u])^2 + Var(F | u) ],
    E[F | u] = s c + gam eta g - a_J (s the + gam rho g) - rho sum_l a_l g_l,
    Var(F | u) = gam^2 (1 - eta^2 - 2 a_J (nu - eta rho) + a_J^2 (1 - rho^2))
        + (1 - rho^2) sum_l a_l^2.

    L = 1   softmax and softplus give F = Y - w; softmax-plus-one is the logistic activation, token
        by token
    L = 2         softmax depends on u_J - u_1 alone: one integral, in mpmath
    L = 2, 3   the others: trapezoid sums over the two scores, twice; out of reach where weights are
        steep
    any L         plain sampling of the scores (the projections are averaged exactly)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpmath import mp, mpf

from stress.references.activation_moments import FEW, SMOOTH, integral, value
from stress.references.single_location import (
    Exact,
    componentwise_gradient,
    componentwise_risk,
)

__all__ = ["pair_grid", "pair_softmax", "pair_softmax_gradient", "sampled", "single_token"]

STEP = 10  # step 1e-10 of differences, at SMOOTH digits: truncation 1e-20
REACH = 9.5  # standard deviations of the two-dimensional rule: 2e-21 is outside
# its step; poles of the weights are pi/(2 lam) away or farther, so lam <= STEEPEST makes the error
# e^-40
GRID = 0.04
STEEPEST = 5.0
DRAWS = 400_000  # numbers of a plain sample


def single_token(kind: str, o: tuple, lam: float, gam: float, s: float, c: float) -> Exact:
    """R at L = 1."""
    if kind == "softmax_one":
        return componentwise_risk(("logistic",), o, lam, gam, s, 1, c)
    return componentwise_risk(("pieces", ((-mp.inf, mp.inf, (1,)),)), o, lam, gam, s, 1, c)


def single_token_gradient(
    kind: str, o: tuple, lam: float, gam: float, s: float, c: float
) -> list[Exact]:
    """dR at L = 1."""
    if kind == "softmax_one":
        return componentwise_gradient(("logistic",), o, lam, gam, s, 1, c)
    return componentwise_gradient(
        ("pieces", ((-mp.inf, mp.inf, (1,)),)), o, lam, gam, s, 1, c
    )


def _pair(o: tuple, lam: Any, gam: Any, s: Any, c: Any) -> Any:
    """R at L = 2 of softmax: given x = u_J - u_1 = s kap + tau h, tau^2 = 1 + gam^2,
    all three projections are normal.
    """
    kap, eta, the, nu, rho = o
    g2 = gam * gam
    tau = mp.sqrt(1 + g2)
    # covariances with h
    along_y = g2 * eta / tau
    along_w = g2 * rho / tau
    along_b = -rho / tau
    yy = g2 - along_y**2
    ww = g2 - along_w**2
    bb = 1 - along_b**2
    yw = g2 * nu - along_y * along_w
    yb = -along_y * along_b
    wb = -along_w * along_b

    def density(h: Any) -> list[Any]:
        a = value(("logistic",), lam * (s * kap + tau * h))
        b = value(("logistic",), -lam * (s * kap + tau * h))
        mean = s * (c - a * the) + h * (along_y - a * along_w - b * along_b)
        spread = yy + a * a * ww + b * b * bb - 2 * a * yw - 2 * b * yb + 2 * a * b * wb
        return [(mean * mean + spread) * mp.exp(-h * h / 2)]

    reach = mp.sqrt(2 * mp.log(10) * (mp.dps - 6))
    edges = [reach * i / 6 for i in range(-6, 7)]
    if lam > 0:
        centre = -s * kap / tau
        unit = 1 / (lam * tau)
        edges += [
            centre,
            *(
                centre + sign * unit * x
                for x in (0.75, 1.5, 3, 6, 12, 24, 48, 96, 192)
                for sign in (-1, 1)
            ),
        ]
    inside = sorted(x for x in edges if -reach <= x <= reach)
    return integral(density, inside, FEW)[0] / mp.sqrt(2 * mp.pi)


def pair_softmax(o: tuple, lam: float, gam: float, s: float, c: float) -> Exact:
    """R at L = 2 of softmax."""
    with mp.workdps(SMOOTH):
        numbers = [mpf(x) for x in (lam, gam, s, c)]
        size = numbers[2] ** 2 + numbers[1] ** 2 + 1
        return Exact(_pair(tuple(mpf(x) for x in o), *numbers), size)


def pair_softmax_gradient(
    o: tuple, lam: float, gam: float, s: float, c: float
) -> list[Exact]:
    """dR in overlaps and inverse temperature at L = 2 of softmax."""
    with mp.workdps(SMOOTH):
        at = [mpf(x) for x in (*o, lam)]
        gam, s, c = mpf(gam), mpf(s), mpf(c)
        steep = 1 + at[5] * (s + gam + 1)
        size = (s * s + gam * gam + 1) * steep
        out = []
        for i in range(6):
            h = mpf(10) ** -STEP / steep
            ends = []
            for sign in (1, -1):
                x = [a + sign * h * (i == j) for j, a in enumerate(at)]
                ends.append(_pair(tuple(x[:5]), x[5], gam, s, c))
            out.append(Exact((ends[0] - ends[1]) / (2 * h), size))
        return out


def _log_h(kind: str, x: np.ndarray) -> np.ndarray:
    """log h(x); softplus(x) = e^x to rounding below -40."""
    if kind != "softplus":
        return x
    with np.errstate(divide="ignore"):
        return np.where(x < -40, x, np.log(np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)))


def _conditional(
    kind: str,
    o: tuple,
    lam: float,
    gam: float,
    s: float,
    c: float,
    g: np.ndarray,
    back: np.ndarray,
) -> np.ndarray:
    """E[F^2 | u] for normals g (n,) of the informative token and back (n, L-1) of the others."""
    kap, eta, the, nu, rho = o
    logs = np.concatenate(
        [_log_h(kind, lam * (s * kap + gam * g))[:, None], _log_h(kind, lam * back)], axis=1
    )
    top = logs.max(axis=1, keepdims=True)
    if kind == "softmax_one":
        top = np.maximum(top, 0)
    h = np.exp(logs - top)
    total = h.sum(axis=1) + (np.exp(-top[:, 0]) if kind == "softmax_one" else 0)
    a = h / total[:, None]
    aJ = a[:, 0]
    rest = a[:, 1:]
    mean = s * (c - aJ * the) + gam * g * (eta - aJ * rho) - rho * np.sum(rest * back, axis=1)
    spread = gam**2 * (1 - eta**2 - 2 * aJ * (nu - eta * rho) + aJ**2 * (1 - rho**2))
    return mean**2 + spread + (1 - rho**2) * np.sum(rest**2, axis=1)


def pair_grid(
    kind: str, o: tuple, lam: float, gam: float, s: float, c: float
) -> tuple[float, float] | None:
    """(R, its error) at L = 2 by the trapezoid rule over both scores;
    None where the weights are too steep for it.
    """
    if lam * max(1.0, gam) > STEEPEST:
        return None
    x = np.arange(-REACH, REACH + GRID / 2, GRID)
    weight = np.exp(-x * x / 2) / np.exp(-x * x / 2).sum()
    g, b = (axis.ravel() for axis in np.meshgrid(x, x, indexing="ij"))
    values = _conditional(kind, o, lam, gam, s, c, g, b[:, None]).reshape(len(x), len(x))
    fine = float(weight @ values @ weight)
    thin = weight[::2] / weight[::2].sum()
    coarse = float(thin @ values[::2, ::2] @ thin)
    size = (s * (abs(c) + abs(o[2]))) ** 2 + gam**2 + 1
    return fine, abs(fine - coarse) + 1e-13 * size


def sampled(
    kind: str,
    o: tuple,
    lam: float,
    gam: float,
    s: float,
    L: int,
    c: float,
    seed: int = 0,
    draws: int = DRAWS,
) -> tuple[float, float]:
    """(R, standard error) from plain draws of the scores."""
    n = max(draws // L, 500)
    rng = np.random.default_rng(seed)
    g = rng.standard_normal(n)
    back = rng.standard_normal((n, L - 1))
    values = _conditional(kind, o, lam, gam, s, c, g, back)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(n))
