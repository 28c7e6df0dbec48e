"""The posterior of a random code: the expected mass on wrong columns, exactly.

notation: as in random_code; D_j = |x_j - y|^2, t_j = D_j/(2 s^2), so that the posterior of J is
w = softmax(-t); rho = |y|/sqrt(1 + s^2) ~ chi_n; E over the right column's t given rho unless said.

Given y, the right column has the density e^{-t} f_wrong(t)/Z in t, with

    Z = E_wrong e^{-t} = (s^2/(1 + s^2))^{n/2} e^{-rho^2/2},
    2 (1 + s^2) t = c^2 ~ ncx2(n, s^2 rho^2),

so one law serves both. With 1/S = int e^{-uS} du, u = e^tau,

    1 - E w_J = (m-1) E_rho Z int e^tau phi(tau)^2 (1 - psi(tau))^{m-2} dtau,
    phi = E exp(-e^{tau-t}),   psi = Z e^tau E k(tau - t),   k(y) = (1 - exp(-e^y))/e^y:

positive terms only, so that small masses keep their digits; (m-1) Z enters by its logarithm, so m
may be astronomic. In words: 1 - E w_J is how often a wrong column has the least t +
log(exponential).

Trapezoid sums in tau, in c = log(1 + e^x) and in rho = log(1 + e^x'): all integrands are analytic
in strips (|Im tau| < pi/2 bounds the kernels), so that errors fall like e^{-pi^2/TAU_STEP}; the step in
c and rho is TAU_STEP over the slope of tau in them. The error is that of the halved outer rules, and
CODE_RULE_ERROR.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, ive

from attnscope.errors import bad
from attnscope.numerics.integrals.log_sums import quiet_log
from attnscope.numerics.integrals.max_integral import TAU_STEP
from attnscope.numerics.integrals.quadrature import EPS, NORMAL_REACH_SIGMAS

__all__ = ["wrong_mass"]

CODE_RULE_ERROR = 2e-12  # the rules in tau, c and rho, and the Bessel functions
CHI_REACH = 6.5  # of chi_n around its centre: 9 standard deviations
CODE_DEPTH_NATS = 41.0  # e^-41 = 1.6e-18
MOST_PRODUCTS = 2e10  # products of one call: some 15 seconds of one core
# what else takes time, in products (0.8 ns): a Bessel function of a pair (c, rho), and the
# exponentials of a pair (tau, c)
BESSEL_PRODUCTS, EXPONENTIAL_PRODUCTS = 400, 40
BLOCK_PRODUCTS = 1 << 21  # of them at a time
SOFTPLUS_LINEAR_FROM = 40.0  # e^-40 is below rounding
ZERO_WINDOW_START = 1e-3  # a window that begins below begins at 0
# the slope that steps resolve is the one SLOPE_OFFSET above the centre: further out kernels are e^-SLOPE_OFFSET^2
# of the whole and twice as steep at most
SLOPE_OFFSET = 3.0
LARGEST_CHI_STEP = 0.25  # in c and rho at most: their laws have standard deviation below 1
BESSEL_TERMS = 40  # of the Bessel series where x^2/4 <= nu + 1: the last is below 1/40!^2


def wrong_mass(n: int, others: float, s: float, of: str) -> tuple[float, float]:
    """(log(1 - E w_J), relative error), n >= 1 and others >= 1."""
    windows = _integration_windows(n, math.log(others), s)
    if _product_count(windows, n) > MOST_PRODUCTS:
        must = (
            "such that the posterior's integral takes seconds (up to about 150 examples at little "
            "noise, 5 at noise 1000, none at noise 10000)"
        )
        raise bad("length", of, must, n, "retrieval_probability, which has no such limit")
    c, c_weight = windows[0].softplus(n)
    rho, weight = windows[1].softplus(n)
    rho_weight = _chi_law(n, rho, weight)
    tau = windows[2].low + TAU_STEP * np.arange(math.ceil(windows[2].nodes) + 1)
    log_z = -n / 2 * math.log1p(1 / s**2) - rho**2 / 2
    laws = _right_law(n, s, c, rho)  # (c, rho)
    laws *= c_weight[:, None]
    laws /= laws.sum(axis=0)
    t = c**2 / (2 * (1 + s * s))
    logs = np.empty((tau.size, rho.size))
    for part in np.array_split(
        np.arange(tau.size), max(1, tau.size * c.size // BLOCK_PRODUCTS)
    ):
        y = tau[part, None] - t
        e = np.exp(np.minimum(y, 700.0))
        phi = np.exp(-e) @ laws
        # k(y) = (1 - e^-u)/u, u = e^y; 1 where u is 0
        kernel = -np.expm1(-e) / np.maximum(e, 1e-300)
        psi = np.where(y < -700, 1.0, kernel) @ laws
        level = tau[part, None] + log_z
        logs[part] = (
            level + 2 * quiet_log(phi) + (others - 1) * _log_rest(level + quiet_log(psi))
        )
    top = float(logs.max())
    terms = np.exp(logs - top)
    sums = TAU_STEP * terms.sum(axis=0)
    coarse = 2 * TAU_STEP * terms[::2].sum(axis=0)
    value = float(sums @ rho_weight)
    # the halved rules are off by the square root of what the whole ones are
    halves = abs(float(coarse @ rho_weight) / value - 1)
    halves += abs(2 * float(sums[::2] @ rho_weight[::2]) / value - 1)
    log_value = math.log(others) + top + math.log(value)
    rounding = EPS * (16 * n + abs(top) + abs(math.log(others)))
    return min(
        log_value, math.log(others / (others + 1))
    ), halves**2 + CODE_RULE_ERROR + rounding


def _product_count(windows: tuple[_Window, _Window, _Window], n: int) -> float:
    """What `wrong_mass` takes, in products."""
    c, rho = (window.softplus_nodes(n) for window in windows[:2])
    tau = windows[2].nodes
    return c * rho * (tau + BESSEL_PRODUCTS) + c * tau * EXPONENTIAL_PRODUCTS


class _Window(NamedTuple):
    """An interval and the step of its rule."""

    low: float
    high: float
    step: float

    @property
    def nodes(self) -> float:
        return (self.high - self.low) / self.step

    def softplus_nodes(self, n: int) -> float:
        """How many nodes `softplus` has."""
        return (self.high - self._softplus_start(n)) / self.step + 1

    def _softplus_start(self, n: int) -> float:
        """Of x; log(e^low - 1) is low to rounding where e^low would overflow."""
        if self.low > SOFTPLUS_LINEAR_FROM:
            return self.low
        return (
            math.log(math.expm1(self.low))
            if self.low > ZERO_WINDOW_START
            else -CODE_DEPTH_NATS / n - 1
        )

    def softplus(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Nodes log(1 + e^x) with the weights of a trapezoid sum in x; from 0 on where low is 0:
        densities vanish there like the power n - 1.
        """
        x = np.arange(self._softplus_start(n), self.high + self.step, self.step)
        return np.logaddexp(0.0, x), self.step / (1 + np.exp(-x))


def _integration_windows(
    n: int, log_others: float, s: float
) -> tuple[_Window, _Window, _Window]:
    """Of c, rho and tau."""
    near = max(0.0, math.sqrt(n / 2) - CHI_REACH)
    far = math.sqrt(n) + CHI_REACH
    # where e^tau P(t > tau)^2 is largest: rare errors are made by columns far out
    tilt = 2 * (1 + s * s) / (1 + 2 * s * s)
    low = max(0.0, math.sqrt(n - 0.5 + (s * near) ** 2) - NORMAL_REACH_SIGMAS)
    high = tilt * math.hypot(math.sqrt(n), s * far) + NORMAL_REACH_SIGMAS
    unit = 2 * (1 + s * s)
    t_low = low**2 / unit
    t_high = high**2 / unit
    # tau at which (m-1) Z e^tau = 1, for the largest and the least Z
    level = n / 2 * math.log1p(1 / s**2) - log_others
    bottom = min(t_low, level + near**2 / 2) - CODE_DEPTH_NATS
    top = min(t_high, max(level + far**2 / 2, t_low) + t_high - t_low) + 4
    return (
        _Window(
            low,
            high,
            min(
                LARGEST_CHI_STEP,
                TAU_STEP * (1 + s * s) / (high - NORMAL_REACH_SIGMAS + SLOPE_OFFSET),
            ),
        ),
        _Window(
            near, far, min(LARGEST_CHI_STEP, TAU_STEP / (far - CHI_REACH + SLOPE_OFFSET))
        ),
        _Window(bottom, top, TAU_STEP),
    )


def _chi_law(n: int, rho: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Probabilities of the nodes of rho under the law of chi_n."""
    logs = (n - 1) * np.log(rho) - rho**2 / 2
    law = weight * np.exp(logs - logs.max())
    return law / law.sum()


def _right_law(n: int, s: float, c: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """(c, rho): the density of the noncentral chi law of n degrees around s rho, up to a factor
    that depends on rho.

    f = c^{n-1} e^{-(c^2 + a^2)/2} 0F1(n/2; (a c)^2/4) up to constants, a = s rho.
    """
    nu = n / 2 - 1
    a = s * rho
    x = c[:, None] * a
    logs = np.empty_like(x)
    few = x * x / 4 <= nu + 1
    logs[few] = _log_series(nu, x[few] ** 2 / 4) - x[few]
    many = ~few
    shift = float(gammaln(nu + 1))
    logs[many] = np.log(ive(nu, x[many])) + shift - nu * np.log(x[many] / 2)
    logs += (n - 1) * np.log(c)[:, None] - (c[:, None] - a) ** 2 / 2
    return np.exp(logs - logs.max(axis=0))


def _log_series(nu: float, u: np.ndarray) -> np.ndarray:
    """log 0F1(nu + 1; u), u <= nu + 1."""
    total = np.ones_like(u)
    term = np.ones_like(u)
    for k in range(1, BESSEL_TERMS):
        term = term * u / (k * (nu + k))
        total += term
    return np.log(total)


def _log_rest(log_psi: np.ndarray) -> np.ndarray:
    """log(1 - psi)."""
    psi = np.exp(np.minimum(log_psi, 0.0))
    return np.log1p(-np.minimum(psi, 1 - EPS / 2))
