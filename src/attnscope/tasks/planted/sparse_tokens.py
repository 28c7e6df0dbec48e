"""Sparse-token classification: is one of these tokens (or R of them) shifted, or is everything
noise?

notation: d = dim, L = length, theta = strength, R = marked, xi = direction (unit), u_l = x_l.xi,
r_l = exp(theta u_l - theta^2/2).

    y = -1:  all tokens N(0, I_d)   y = +1:  R of the L tokens, a uniform subset, are N(theta xi,
        I_d)   P(y = 1) = 1/2

(Barnfield, Cui, Lu, ICLR 2026, arXiv 2509.25153.) With e_R the elementary symmetric polynomial, the
likelihood ratio is e_R(r)/binom(L, R); for R = 1 it is mean_l r_l, so that the Bayes test
thresholds the logsumexp of attention scores at inverse temperature theta. Errors of three tests:

    Bayes    E min(p, 1 - p) = E_{-1} min(1, e_R(r)/binom(L, R))/2
    max      y = 1 iff max_l u_l > t:   min_t [1 - Phi(t)^L + Phi(t)^(L-R) Phi(t - theta)^R]/2
    linear   y = 1 iff sum_l u_l > R theta/2:   Phi(-R theta/(2 sqrt L))

Exact: linear and max in closed form; Bayes for R = 1 by Laplace inversion of the law of a sum of
lognormals (numerics.integrals.lognormal_sum), for R = L as Phi(-theta sqrt(L)/2). In between it is
importance-sampled: u is drawn from a mixture q of laws Q_z in which R tokens of a uniform subset
are shifted by z theta only, so that dQ_z/dp_0 = e_R(exp(z theta u - z^2 theta^2/2))/binom(L, R),
and min(p_0, p_1)/q is averaged. Mistakes happen where the likelihood ratio is 1: around z = 1/2 +
log binom(L, R)/(R theta^2), which q contains with a step either way; Q_0 = p_0 and Q_1 = p_1 are
among its at most 6 parts, so that no weight exceeds 6. The error is a standard error.

The strength that keeps an error fixed grows like sqrt(2 log L) for Bayes and the max test, and like
sqrt(L) for the linear test (docs/sparse_and_correlated.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr, ndtri

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.sampled_estimate import (
    affordable,
    grouped_log_mean,
    groups_of,
    sampled_estimate,
)
from attnscope.numerics.integrals.lognormal_sum import LARGEST_STRENGTH, capped_mean
from attnscope.numerics.integrals.tilted import LAW_SPACING_SIGMAS
from attnscope.tasks.planted.marked_tokens import BLOCK_SCORES, MarkedTokens

__all__ = ["SparseTokenClassification"]

TESTS = ("bayes", "max", "linear")
# steps e <- e + r e of one sampled error, about 6 s: fewer draws where they would need more
ERROR_STEPS = 1.5e10
EXTRA_STEPS_PER_TOKEN = 100  # of these steps drawing and sorting a token takes
FEWEST_DRAWS_PER_LAW = 16  # draws of each planted law that an error can be taken from
TINY_STRENGTH = (
    1e-4  # strengths below get the bound theta/4 on |error - 1/2| instead of an integral
)
SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)  # errors below are 0 to float64
# relative, of the closed forms: tails of a normal law, which scipy gives to 1e-14, and their powers
CLOSED_FORM_ROUNDING = 4e-14


class SparseTokenClassification(MarkedTokens):
    """R of L tokens are shifted by theta xi (y = +1), or none is (y = -1), with equal probability.

    Args:
        dim: d >= 1. No array of this length is made before `direction` or `sample` is used; no
            error depends on it.
        length: L >= 1.
        strength: theta >= 0.
        marked: R, 1 <= R <= L.
        direction: xi, a unit vector (dim,); drawn from `seed` on first access if None.

    >>> task = SparseTokenClassification(dim=200, length=10, strength=5.0)
    >>> [round(e.value, 4) for e in (task.bayes_error(), task.max_test_error(), task.linear_error())]
    [0.0178, 0.0178, 0.2146]
    >>> task.posterior(task.sample(5, seed=1).tokens).shape
    (5,)
    """

    # -- errors ------------------------------------------------------------------------------------

    def bayes_error(self, samples: int = 100_000, seed: int = 0) -> Estimate:
        """The smallest error any test can have; `samples` and `seed` are used only where it has to
        be sampled (1 < R < L).

        Fewer are drawn where that many would take more than seconds (length x marked of thousands).
        """
        of = "SparseTokenClassification.bayes_error"
        samples = check.integer(samples, "samples", of, 2)
        seed = check.seed_value(seed, of)
        L = self.length
        R = self.marked
        theta = self.strength
        if theta == 0 or R == L:
            return _normal_tail(theta * math.sqrt(L) / 2)
        if R > 1:
            return self._sampled_error(samples, seed)
        check.real(
            theta,
            "strength",
            of,
            0,
            LARGEST_STRENGTH,
            hint="max_test_error(), an upper bound",
        )
        # total variation <= theta/2 by Pinsker: nothing for a contour to find
        if theta < TINY_STRENGTH:
            return estimate(0.5, theta / 4, "bound")
        value, error = capped_mean(L, theta)
        return estimate(value / 2, error / 2, "Laplace inversion")

    def max_test_error(self) -> Estimate:
        """The error of "y = 1 iff some u_l exceeds a threshold", at its best threshold."""
        t = self.max_threshold()
        L = self.length
        R = self.marked
        value = float(self._max_error(t))
        exponent = (L - R) * abs(float(log_ndtr(t))) + R * abs(
            float(log_ndtr(t - self.strength))
        )
        missed = math.exp(-exponent) / 2  # known to its exponent's rounding
        tail = 1 + t * t / 8  # e^{-t^2/2} is known to the rounding of its exponent
        lost = SMALLEST_NORMAL * (1 + L)  # log Phi(t) is lost below the least float, L times
        return estimate(
            value,
            CLOSED_FORM_ROUNDING * tail * (value + exponent * missed) + lost,
            "closed form",
        )

    def max_threshold(self) -> float:
        """The best threshold t of the max test."""
        # beyond, max_l u_l has no mass to speak of
        top = self.strength + math.sqrt(2 * math.log(self.length)) + 8
        grid = np.linspace(-8.0, top, 400)
        i = int(np.argmin(self._max_error(grid)))
        ends = (grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)])
        t = float(
            minimize_scalar(
                self._max_error, bounds=ends, method="bounded", options={"xatol": 1e-9}
            ).x
        )
        # where many are marked the minimum is sharp: its condition decides, to the last digit
        near = (t - 1e-3, t + 1e-3)
        return (
            float(brentq(self._max_slope, *near))
            if self._max_slope(near[0]) * self._max_slope(near[1]) < 0
            else t
        )

    def _max_slope(self, t: float) -> float:
        """log of (fall of the misses)/(fall of the false alarms) as t grows:
        0 at the best threshold.
        """
        L = self.length
        R = self.marked
        theta = self.strength
        here = float(log_ndtr(t))
        there = float(log_ndtr(t - theta))
        # of phi/Phi at t - theta and at t
        ratio = math.exp(min(theta * t - theta**2 / 2 + here - there, 700.0))
        return R * (there - here) + math.log((1 - R / L) + R / L * ratio)

    def _max_error(self, t: Any) -> Any:
        L = self.length
        R = self.marked
        missed = np.exp((L - R) * log_ndtr(t) + R * log_ndtr(t - self.strength))
        return 0.5 * (missed - np.expm1(L * log_ndtr(t)))

    def linear_error(self) -> Estimate:
        """The error of the linear test on the sum of all tokens, Phi(-R theta/(2 sqrt L))."""
        return _normal_tail(self.marked * self.strength / (2 * math.sqrt(self.length)))

    def strength_needed(self, error: float = 0.1, test: str = "bayes") -> float:
        """The strength at which the test ("bayes", "max" or "linear") has the given error, other
        numbers as in this task.

        >>> task = SparseTokenClassification(dim=2, length=100, strength=0.0)
        >>> [round(task.strength_needed(0.1, test), 3) for test in ("bayes", "max", "linear")]
        [4.261, 4.266, 25.631]
        """
        of = "SparseTokenClassification.strength_needed"
        error = check.real(error, "error", of, 1e-100, 0.499, hint="error=0.1")
        if test not in TESTS:
            raise bad("test", of, f"one of {TESTS}", test)
        if test == "bayes" and 1 < self.marked < self.length:
            raise bad(
                "marked",
                of,
                "1 or length for the Bayes test",
                self.marked,
                "test='max', an upper bound",
            )
        if test == "linear" or (test == "bayes" and self.marked == self.length):
            return float(-2 * math.sqrt(self.length) * ndtri(error) / self.marked)
        low = (
            -2 * ndtri(error) / math.sqrt(self.marked)
        )  # with the marked tokens known, Phi(-theta sqrt(R)/2) is reached
        high = low + 2 * math.sqrt(2 * math.log(self.length)) + 2

        def gap(theta: float) -> float:
            reached = float(self._with_strength(theta)._error_of_test(test))
            return math.log(max(reached, SMALLEST_NORMAL) / error)

        return float(brentq(gap, low * (1 - 1e-9), high, xtol=1e-10))

    def _with_strength(self, theta: float) -> SparseTokenClassification:
        return SparseTokenClassification(self.dim, self.length, theta, self.marked)

    def _error_of_test(self, test: str) -> Estimate:
        return self.bayes_error() if test == "bayes" else self.max_test_error()

    def _sampled_error(self, samples: int, seed: int) -> Estimate:
        """The Bayes error by importance sampling (module docstring),
        `samples` draws of u in all.
        """
        shares = self._shift_shares()
        groups, each = groups_of(self._affordable_draws(samples, len(shares)), len(shares))
        rng = np.random.default_rng([seed, 5])
        rows = max(1, BLOCK_SCORES // self.length)
        logs = []
        for z in shares:
            for i in range(0, each * groups, rows):
                u = rng.standard_normal((min(rows, each * groups - i), self.length))
                # which tokens does not matter: all else is symmetric
                u[:, : self.marked] += z * self.strength
                logs.append(self._log_smaller(u, shares))
        out = grouped_log_mean(np.concatenate(logs) - math.log(2), groups)
        ceiling = min(0.5, float(self.max_test_error()), float(self.linear_error()))
        return sampled_estimate(out, ceiling, 0.0, "importance-sampled min(p, 1-p)")

    def _affordable_draws(self, samples: int, parts: int) -> int:
        """How many draws ERROR_STEPS lets in, at most `samples`."""
        one = float(self.length) * (self.marked + EXTRA_STEPS_PER_TOKEN) * parts
        draws = affordable(samples, one, ERROR_STEPS, FEWEST_DRAWS_PER_LAW * parts)
        if not draws:
            most = f"at most {ERROR_STEPS / (FEWEST_DRAWS_PER_LAW * parts**2):.3g}"
            got = f"{self.length} x ({self.marked} + {EXTRA_STEPS_PER_TOKEN})"
            what = f"length x (marked + {EXTRA_STEPS_PER_TOKEN})"
            raise bad(
                what,
                "SparseTokenClassification.bayes_error",
                most,
                got,
                "max_test_error(), an upper bound",
            )
        return draws

    def _shift_shares(self) -> list[float]:
        """The shares z: 0 and 1, 1/2, and a step either way around where the typical likelihood
        ratio is 1.
        """
        # standard deviations from z = 0 to z = 1
        width = self.strength * math.sqrt(self.marked)
        even = 0.5 + self._log_choices() / width**2
        around = [
            even + step / width for step in (-LAW_SPACING_SIGMAS, 0.0, LAW_SPACING_SIGMAS)
        ]
        return sorted({min(max(z, 0.0), 1.0) for z in (0.0, 0.5, 1.0, *around)})

    def _log_smaller(self, u: np.ndarray, shares: list[float]) -> np.ndarray:
        """log of min(p_0, p_1)/q at scores u (n, L), q the mixture of all planted laws."""
        at = [z * self.strength for z in shares]
        planted = [self._log_ratio(u, theta) for theta in at]
        log_q = np.logaddexp.reduce(planted, axis=0) - math.log(len(shares))
        return np.minimum(planted[-1], 0.0) - log_q


def _normal_tail(x: float) -> Estimate:
    """Phi(-x); a rounding of x moves it by x^2 of that, relatively."""
    error = float(ndtr(-x))
    return estimate(
        error,
        CLOSED_FORM_ROUNDING * (1 + x * x / 40) * error + SMALLEST_NORMAL,
        "closed form",
    )
