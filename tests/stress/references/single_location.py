"""Risks of token-by-token attention on single-location regression, from the definition, in mpmath.

notation: one informative token with projections u = s kap + gam g on k, w on v, Y on v*; L - 1
background tokens with u = g; overlaps o = (kap, eta, the, nu, rho), c = k*.v*; A = sigma(lam u) w
of the informative token, B of a background token.

    T = A + sum B_l,   R = E(Y - T)^2
      = E Y^2 - 2 E YA + E A^2 - 2 (L-1) (E Y - E A) E B + (L-1) E B^2 + (L-1)(L-2) (E B)^2,

and given g the pair (Y, w) is normal with means (s c + gam eta g, s the + gam rho g) and covariance
gam^2 [[1 - eta^2, nu - eta rho], [., 1 - rho^2]]; for a background token w has mean rho g and
variance 1 - rho^2. So R is a polynomial in the overlaps and in the moments of sigma
(activation_moments). Terms cancel; DIGITS is chosen so that they may.

Gradients are second-order differences of step 10^-STEP at DIGITS digits: truncation 10^-2 STEP
relative to third derivatives.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from mpmath import mp, mpf

from stress.references.activation_moments import DIGITS, SMOOTH, moments

__all__ = [
    "Exact",
    "componentwise_gradient",
    "componentwise_risk",
    "gram_defect",
    "linear_optimum",
    "linear_risk",
    "normalised_linear",
    "risk_terms",
]

# differences of step 1e-24: truncation (1e-24 steepness)^2, rounding 10^-(DIGITS - STEP/2)
STEP = 24
# (place, weight) of second-order differences
SYMMETRIC = ((1, mpf(1) / 2), (-1, -mpf(1) / 2))
FORWARD = ((0, -mpf(3) / 2), (1, mpf(2)), (2, -mpf(1) / 2))
COARSE = 10  # the same at SMOOTH digits: 1e-20 and 1e-31


class Exact(NamedTuple):
    """A value and the size of the terms that were added up for it."""

    value: Any
    size: Any


# differences in directions that leave kappa alone ask for the same moments
@lru_cache(maxsize=1024)
def _remembered(sigma: tuple, m: Any, b: Any, digits: int) -> tuple:
    return moments(sigma, m, b)


def risk_terms(
    sigma: tuple, o: tuple, lam: Any, gam: Any, s: Any, L: int, c: Any
) -> list[Any]:
    """The terms that add up to R, in the precision that is active."""
    kap, eta, the, nu, rho = o
    f, f2 = _remembered(sigma, lam * s * kap, lam * gam, mp.dps)
    b, b2 = _remembered(sigma, mpf(0), lam, mp.dps)
    g2 = gam * gam
    YA = [
        f[0] * s * s * c * the,
        f[0] * g2 * (nu - eta * rho),
        f[1] * s * gam * (c * rho + eta * the),
        f[2] * g2 * eta * rho,
    ]
    A2 = [
        f2[0] * s * s * the * the,
        f2[0] * g2 * (1 - rho * rho),
        2 * f2[1] * s * the * gam * rho,
        f2[2] * g2 * rho * rho,
    ]
    gap = [s * c, -f[0] * s * the, -f[1] * gam * rho]  # E Y - E A
    B = rho * b[1]
    B2 = [b2[0] * (1 - rho * rho), b2[2] * rho * rho]
    out = [s * s * c * c, g2, *(-2 * x for x in YA), *A2]
    out += [-2 * (L - 1) * x * B for x in gap]
    out += [(L - 1) * x for x in B2]
    return [*out, (L - 1) * (L - 2) * B * B]


def _digits(sigma: tuple) -> int:
    return SMOOTH if sigma[0] in ("tanh", "logistic") else DIGITS


def _exactly(o: tuple, *numbers: Any) -> tuple:
    return (tuple(mpf(x) for x in o), *(mpf(x) for x in numbers))


def componentwise_risk(
    sigma: tuple, o: tuple, lam: float, gam: float, s: float, L: int, c: float
) -> Exact:
    """R and the sum of the absolute values of its terms."""
    with mp.workdps(_digits(sigma)):
        o, lam, gam, s, c = _exactly(o, lam, gam, s, c)
        terms = risk_terms(sigma, o, lam, gam, s, L, c)
        return Exact(sum(terms), sum(abs(x) for x in terms))


def componentwise_gradient(
    sigma: tuple, o: tuple, lam: float, gam: float, s: float, L: int, c: float
) -> list[Exact]:
    """dR in the five overlaps, as free variables, and in the inverse temperature (from the right at
    0), each with its terms' size.
    """
    step = STEP if _digits(sigma) == DIGITS else COARSE
    with mp.workdps(_digits(sigma) + step // 2):
        o, lam, gam, s, c = _exactly(o, lam, gam, s, c)
        steep = 1 + abs(lam) * (s + gam + 1)  # the risk varies over 1/steep
        out = []
        for i in range(6):
            h = mpf(10) ** -step / (steep if i < 5 else 1 + s + gam)
            # inverse temperatures are not negative
            stencil = FORWARD if i == 5 and lam == 0 else SYMMETRIC
            rows = []
            for place, weight in stencil:
                point = tuple(x + place * h * (i == j) for j, x in enumerate(o))
                terms = risk_terms(sigma, point, lam + place * h * (i == 5), gam, s, L, c)
                rows.append([weight * x / h for x in terms])
            slopes = [sum(column) for column in zip(*rows, strict=True)]
            out.append(Exact(sum(slopes), sum(abs(x) for x in slopes)))
        return out


def gram_defect(o: tuple, c: float) -> float:
    """How far the Gram matrix of (k, v, k*, v*) is from positive semidefinite:
    minus its least eigenvalue, or 0.
    """
    kap, eta, the, nu, rho = o
    with mp.workdps(40):
        rows = [[1, rho, kap, eta], [rho, 1, the, nu], [kap, the, 1, c], [eta, nu, c, 1]]
        least = min(
            mp.eigsy(mp.matrix([[mpf(x) for x in row] for row in rows]), eigvals_only=True)
        )
        return float(max(-least, mpf(0)))


def linear_risk(gam: float, s: float, probs: list[float], c: float) -> Exact:
    """Var Y - Cov(Y, X) Cov(X)^-1 Cov(X, Y) over the coordinates along k* and v*, the others being
    uncorrelated with Y.

    Cov X_l = (1 - pi_l) I + pi_l (gam^2 I + mu mu') - pi_l^2 mu mu', Cov(X_l, X_m) = -pi_l pi_m mu
    mu', Cov(Y, X_l) = pi_l gam^2 v* + pi_l s c mu - s c pi_l mu, mu = s k*.
    """
    with mp.workdps(DIGITS):
        gam = mpf(gam)
        s = mpf(s)
        c = mpf(c)
        pi = [mpf(p) for p in probs if p > 0]
        pi = [p / sum(pi) for p in pi]
        flat = abs(c) == 1
        axes = 1 if flat else 2
        value = [c] if flat else [c, mp.sqrt(1 - c * c)]
        n = axes * len(pi)
        C = mp.zeros(n)
        y = mp.zeros(n, 1)
        for l, p in enumerate(pi):
            for i in range(axes):
                C[axes * l + i, axes * l + i] += 1 - p + p * gam**2
                y[axes * l + i] = p * gam**2 * value[i]
            C[axes * l, axes * l] += p * s * s
            for m, q in enumerate(pi):
                C[axes * l, axes * m] -= p * q * s * s
        explained = (y.T * mp.lu_solve(C, y))[0]
        return Exact(gam**2 - explained, gam**2)


def linear_optimum(gam: float, s: float, L: int) -> tuple[Exact, Any, Any]:
    """(R, inverse temperature, offset): least squares of Y on a = sum_l w_l and b = sum_l u_l w_l
    at (k*, v*), k* perp v*.
    """
    with mp.workdps(DIGITS):
        gam = mpf(gam)
        s = mpf(s)
        g2 = gam * gam
        # u and w are independent; E w = 0
        aa = g2 + L - 1
        ab = s * g2
        bb = (s * s + g2) * g2 + L - 1
        ya = g2
        yb = s * g2
        det = aa * bb - ab * ab
        offset = (bb * ya - ab * yb) / det
        slope = (aa * yb - ab * ya) / det
        return Exact(g2 - offset * ya - slope * yb, g2), slope, offset


def normalised_linear(gam: float, s: float, L: int) -> tuple[Exact, Any]:
    """(R, slope) of weights 1/L + slope (u_l - mean u): least squares of Y - mean w on sum_l (u_l -
    mean u) w_l.

    E[(sum_l a_l w_l)(sum_l b_l w_l)] = gam^2 E a_J b_J + (L-1) E a_1 b_1 for weights that depend on
    u alone; u_J - mean u has mean s (1 - 1/L) and variance gam^2 (1 - 1/L)^2 + (L-1)/L^2; u_1 -
    mean u has mean -s/L and variance (1 - 1/L)^2 + (L-2 + gam^2)/L^2.
    """
    with mp.workdps(DIGITS):
        gam = mpf(gam)
        s = mpf(s)
        L = mpf(L)
        g2 = gam * gam
        share = 1 - 1 / mpf(L)
        J1 = s * share
        J2 = (s * share) ** 2 + g2 * share**2 + (L - 1) / L**2
        B1 = -s / L
        B2 = (s / L) ** 2 + share**2 + (L - 2 + g2) / L**2
        if L == 1:
            return Exact(mpf(0), g2), mpf(0)
        pool = g2 * share**2 + (L - 1) / L**2  # E (Y - mean w)^2
        cross = g2 * share * J1 - (L - 1) / L * B1
        square = g2 * J2 + (L - 1) * B2
        return Exact(pool - cross**2 / square, pool), cross / square
