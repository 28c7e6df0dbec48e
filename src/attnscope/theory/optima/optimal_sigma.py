"""The best componentwise activation at the oracle (k*, v*), and its risk.

notation: p1 = N(s, gam^2) and p0 = N(0, 1) are the densities of the score u = X.k* of the
informative and of a background token.

With k* perp v* the oracle risk of any sigma is gam^2 E_1 (1 - sigma(u))^2 + (L-1) E_0 sigma(u)^2, a
pointwise quadratic in sigma(u), so

    sigma*(u) = gam^2 p1/(gam^2 p1 + (L-1) p0) = logistic(logit(u)),
    logit(u) = log gam - log(L-1) - (u-s)^2/(2 gam^2) + u^2/2,    R* = gam^2 int p1 (1 - sigma*) du.

R* falls exponentially in s^2, so it is integrated in log space: Gauss-Legendre panels around 0, s
and the roots of the logit, where the integrand (a smooth minimum of gam^2 p1 and (L-1) p0) has its
mass; the error is estimated by a coarser rule on the same panels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, logsumexp

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.integrals.quadrature import doubling_edges, panel_nodes
from attnscope.predictors.attention import Componentwise
from attnscope.tasks.base import checked_law
from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["OptimalSigma", "optimal_sigma", "optimal_sigma_log_excess"]

DENSITY_REACH_SIGMAS = 40.0  # standard deviations: the normal density is below 1e-347 there


@dataclass(frozen=True)
class Logit:
    """sigma* as a function of the score u; a quadratic logit a u^2 + b u + c."""

    gamma: float
    signal: float
    length: float

    @cached_property
    def coefficients(self) -> tuple[float, float, float]:
        g2 = self.gamma**2
        s = self.signal
        with np.errstate(divide="ignore"):
            # +inf at L = 1: sigma* = 1
            constant = np.log(self.gamma) - np.log(self.length - 1.0) - s * s / (2 * g2)
        return (1 - 1 / g2) / 2, s / g2, float(constant)

    def __call__(self, u: np.ndarray) -> np.ndarray:
        a, b, c = self.coefficients
        return expit(a * u * u + b * u + c)

    def turns(self) -> list[tuple[float, float]]:
        """The roots of the logit with the widths over which it changes by one;
        its vertex if there is no root.
        """
        a, b, c = self.coefficients
        if not np.isfinite(c):
            return []
        roots = (
            np.roots([x for x in (a, b, c) if x != 0 or x is c]) if a or b else np.array([])
        )
        places = [
            float(r.real) for r in roots if abs(r.imag) <= 1e-9 * (1 + abs(r.real))
        ] or ([-b / (2 * a)] if a else [])
        slope = [abs(2 * a * u + b) for u in places]
        return [(u, 1 / max(m, np.sqrt(abs(2 * a)), 1e-3)) for u, m in zip(places, slope)]


@dataclass(frozen=True, init=False, repr=False)
class OptimalSigma(Componentwise):
    """The best componentwise predictor for a task with given gamma, signal and length;
    inverse temperature 1.

    Args:
        gamma, signal: those of the task, as in SingleLocation.
        length: 1/length is the probability that a token is informative; any real number >= 1.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> best = at.optimal_sigma(task)
    >>> type(best).__name__, best.length
    ('OptimalSigma', 10)
    >>> round(at.risk(task, best, at.Overlaps.oracle()).value, 6)
    0.0
    """

    sigma: Logit

    def __init__(self, gamma: float, signal: float, length: float) -> None:
        of = "OptimalSigma"
        tokens = check.real(length, "length", of, 1)
        logit = Logit(
            check.real(gamma, "gamma", of, 0, strict=True),
            check.real(signal, "signal", of),
            int(tokens) if tokens.is_integer() else tokens,
        )
        super().__init__(logit, 1.0)

    @property
    def gamma(self) -> float:
        """Standard deviation of the informative token."""
        return self.sigma.gamma

    @property
    def signal(self) -> float:
        """Length of its mean."""
        return self.sigma.signal

    @property
    def length(self) -> float:
        """Number of tokens, or the inverse of a token's probability to be informative."""
        return self.sigma.length

    def turns(self) -> list[tuple[float, float]]:
        return self.sigma.turns()

    def __repr__(self) -> str:
        numbers = f"gamma={self.gamma:g}, signal={self.signal:g}, length={self.length}"
        return f"OptimalSigma({numbers})"


def optimal_sigma(task: SingleLocation) -> OptimalSigma:
    """The componentwise predictor of least risk at the oracle overlaps, usable in `risk` and
    `predict`.

    Args:
        task: a SingleLocation.

    >>> task = SingleLocation(dim=50, length=10)
    >>> float(optimal_sigma(task).weights(np.array([[0.0, 5.0]]))[0, 1]) > 0.99
    True
    """
    checked_law(task, SingleLocation, "optimal_sigma", "SingleLocation(dim=400, length=10)")
    if task.alignment != 0:
        raise bad(
            "task",
            "optimal_sigma",
            "one with key perpendicular to value",
            f"key.value = {task.alignment:.6g}",
            "an orthogonal value",
        )
    return OptimalSigma(task.gamma, task.signal, task.length)


def optimal_sigma_log_excess(gamma: float, signal: float, length: int) -> tuple[float, float]:
    """(log R*, its absolute error) at the oracle overlaps; -inf at length 1."""
    if length == 1:
        return -np.inf, 0.0
    places = [(0.0, 1.0), (signal, gamma), *Logit(gamma, signal, length).turns()]
    low = min(-DENSITY_REACH_SIGMAS, signal - DENSITY_REACH_SIGMAS * gamma)
    high = max(DENSITY_REACH_SIGMAS, signal + DENSITY_REACH_SIGMAS * gamma)
    edges = doubling_edges(places, low, high)
    fine, coarse = (
        _log_integral(*rule, gamma, signal, length) for rule in panel_nodes(edges)
    )
    # the logit is a difference of terms of size s^2/gam^2; its roundoff is that of the result
    return fine, abs(fine - coarse) + 1e-15 * (10 + (signal / gamma) ** 2)


def _log_integral(u: np.ndarray, width: np.ndarray, gam: float, s: float, L: int) -> float:
    log_p1 = 2 * np.log(gam) - np.log(gam) - ((u - s) / gam) ** 2 / 2
    log_p0 = np.log(L - 1.0) - u * u / 2
    # 1/(1/A + 1/B) = AB/(A+B)
    logs = np.log(width) - np.log(2 * np.pi) / 2 - np.logaddexp(-log_p1, -log_p0)
    return float(logsumexp(logs))
