"""E min(1, S/L) for a sum S of L independent lognormals of mean 1, by a Laplace inversion that
keeps relative accuracy.

notation: S = sum_l r_l, r = e^{theta g - theta^2/2}, g standard normal, phi(z) = E e^{-z r}, q = 1
- phi.

The law of S has no closed form, but min(S, a) and (a - S)^+ have the Laplace transforms (1 -
e^{-zS})/z^2 and e^{-zS}/z^2 in a, so with z = w/L

    E min(1, S/L) = (1/2 pi i) int e^w [1 - phi(w/L)^L]/w^2 dw  =  1 - (1/2 pi i) int e^w
        phi(w/L)^L/w^2 dw   (Re w > 0).

phi is analytic off the negative axis: turning the line of g by -i beta/theta gives, with no
approximation,

    q(z) = E (1 - exp(-z e^{-i beta} r)) e^{i beta g/theta + beta^2/(2 theta^2)},

which for beta = arg z does not oscillate; |beta| <= 2 theta keeps the factor below e^2. So the
contour may be bent to the left, on the hyperbola w = mu (1 + sin(ix - bend)) (Weideman and
Trefethen 2007), where the trapezoid rule in x converges geometrically. The first form, a small
number as an integral of small numbers, keeps relative accuracy; where S concentrates at L (small
theta, or L > e^{theta^2}) phi^L explodes to the left, faster than e^w falls, and only the product
in the second form is tame. Where both can be had, the one with the smaller error estimate is taken.

Exact: the formulas. Approximate: the trapezoid rules in g (to rounding) and in x (error estimated
by doubling the step), the end of the contour, rounding.
"""

from __future__ import annotations

import numpy as np

from attnscope.numerics.integrals.quadrature import NORMAL_REACH_SIGMAS

__all__ = ["LARGEST_STRENGTH", "capped_mean"]

# E min(1, S/L) is about 2 Phi(-theta/2) at least: 1e-269 here, near the end of float64
LARGEST_STRENGTH = 70.0
# angle of the hyperbola, and where it crosses the real axis: flat optima, found by trying
CONTOUR_ANGLE = 0.65
CONTOUR_CROSSING = 1.0
CONTOUR_STEP = 0.05  # in x; the rule at 2 CONTOUR_STEP already agrees to 1e-13
CONTOUR_DEPTH_NATS = (
    40.0  # the contour ends where e^w = e^-40, if nothing else makes it end earlier
)
BETA_PER_THETA = 2.0  # |beta| <= BETA_PER_THETA theta
# theta times the step in g: pi^2/0.27 = 36.5 nats for the strip |Im theta g| < pi/2
THETA_STEP = 0.27
# step in g where theta is small: resolves the oscillation left over when beta is limited
COARSEST_STEP = 0.1
SUMMAND_ROUNDING = 4e-15  # per summand: some twenty roundings each
EXPONENT_ROUNDING = 2.2e-16  # exponents of size theta^2 are rounded once
LARGEST_EXPONENT = 600.0  # r beyond e^600 counts as e^600: e^{-z r} is 0 for every z used
SMALLEST_PHI_SQUARED = (
    1e-15  # |phi|^2 below rounding is set to this: such a phi contributes nothing
)
BLOCK_NUMBERS = 1 << 20  # complex numbers held at a time: 16 MB


def capped_mean(length: int, theta: float) -> tuple[float, float]:
    """(E min(1, S/L), its absolute error) for L = length >= 1 and 0 < theta <= 70.

    >>> value, error = capped_mean(1, 2.0)
    >>> abs(value - 0.31731050786291415) <= error < 1e-14
    True
    """
    bend = CONTOUR_ANGLE * min(
        1.0, theta
    )  # a larger one would ask for |beta| > BETA_PER_THETA theta
    mu = CONTOUR_CROSSING / (1 - np.sin(bend))
    # phi^L e^w falls at least like a normal density of w theta/sqrt(L), and like e^{Re w} once
    # phi^L is flat
    above, error = _contour_integral(
        length,
        theta,
        mu,
        bend,
        10 * np.sqrt(length) / theta + CONTOUR_DEPTH_NATS / np.sin(bend),
        False,
    )
    candidates = [(error, 1 - above)]
    if theta >= 1:
        below, error = _contour_integral(
            length, theta, mu, bend, CONTOUR_DEPTH_NATS / np.sin(bend), True
        )
        candidates.append((error, below))
    error, value = min(candidates)
    return float(value), float(error)


def _contour_integral(
    length: int, theta: float, mu: float, bend: float, reach: float, small: bool
) -> tuple[float, float]:
    """(integral, error) of the first form (small) or of the second one's integral,
    along the hyperbola to |w| = reach.
    """
    x = CONTOUR_STEP * np.arange(np.ceil(np.log(2 * reach / mu) / CONTOUR_STEP) + 1)
    w = mu * (1 + np.sin(1j * x - bend))
    log_power = length * _log_transform(w / length, theta)
    inner = _exp_difference(w, log_power) if small else np.exp(w + log_power)
    # both halves of the contour, which mirror each other
    terms = inner / w**2 * mu * np.cos(1j * x - bend) / np.pi
    terms[0] /= 2
    fine = CONTOUR_STEP * np.sum(terms.real)
    coarse = 2 * CONTOUR_STEP * np.sum(terms[::2].real)
    beyond = abs(terms[-1])  # the integrand falls at least like 1/w = e^{-x}
    rounding = CONTOUR_STEP * np.sum(
        np.abs(terms) * (SUMMAND_ROUNDING * (1 + np.abs(w)) + EXPONENT_ROUNDING * theta**2)
    )
    return fine, abs(fine - coarse) + beyond + rounding


def _exp_difference(w: np.ndarray, log_power: np.ndarray) -> np.ndarray:
    """e^w - e^{w + log_power}, without cancellation or overflow."""
    near = np.abs(log_power) < 1
    return np.where(
        near,
        -np.exp(w) * np.expm1(np.where(near, log_power, 0)),
        np.exp(w) - np.exp(w + np.where(near, 0, log_power)),
    )


def _log_transform(z: np.ndarray, theta: float) -> np.ndarray:
    """log phi(z) = log(1 - q), with relative accuracy as q -> 0 (NumPy's complex log1p keeps only
    the absolute one).
    """
    step = min(COARSEST_STEP, THETA_STEP / theta)
    g = np.arange(-NORMAL_REACH_SIGMAS, theta + NORMAL_REACH_SIGMAS + step, step)
    block = max(1, BLOCK_NUMBERS // g.size)
    q = np.concatenate(
        [_one_minus_transform(z[i : i + block], theta, g) for i in range(0, z.size, block)]
    )
    square = np.maximum(np.abs(q) ** 2 - 2 * q.real, SMALLEST_PHI_SQUARED - 1)  # |phi|^2 - 1
    return 0.5 * np.log1p(square) + 1j * np.arctan2(-q.imag, 1 - q.real)


def _one_minus_transform(z: np.ndarray, theta: float, g: np.ndarray) -> np.ndarray:
    beta = np.clip(np.angle(z), -BETA_PER_THETA * theta, BETA_PER_THETA * theta)[:, None]
    r = np.exp(np.minimum(theta * g - theta**2 / 2, LARGEST_EXPONENT))
    density = (
        (g[1] - g[0]) / np.sqrt(2 * np.pi) * np.exp(-0.5 * g * g + 0.5 * (beta / theta) ** 2)
    )
    turned = z[:, None] * np.exp(-1j * beta) * r
    return np.sum(-np.expm1(-turned) * np.exp(1j * beta / theta * g) * density, axis=1)
