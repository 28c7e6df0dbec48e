"""Exact Bayes risk and expected location error of single-location regression, as logarithms.

J has pmf pi on L positions, X_J ~ N(s k*, g^2 I_d), the other tokens are N(0, I_d), Y = X_J.v* +
noise, c = k*.v*. With the posterior p_j ~ pi_j e^{l(x_j)} and w_j = x_j.v*, changing the measure to
"all tokens background" turns one factor p into a likelihood and leaves one 1/S, S = sum_i pi_i
e^{l_i} = 1 / int_0^oo e^{-tS} dt, under which tokens are independent (docs/bayes_risk.md):

    R_B   = E sum_{j<m} p_j p_m (w_j - w_m)^2  = int dt sum_{j<m} B_j B_m [V_j + V_m + c^2 (mu_j -
        mu_m)^2] prod_i phi_0(pi_i t)
    1 - E[p_J] = E sum_{j!=m} p_j p_m               = int dt sum_{j!=m} B_j B_m prod_i phi_0(pi_i t)
    B_j = pi_j phi_1(pi_j t) / phi_0(pi_j t),
        V_j = (1 - c^2) g^2 ratio(pi_j t) + c^2 variance(pi_j t),   mu_j = mean(pi_j t),

phi_h and the moments from attnscope.numerics.integrals.mellin. Every term is >= 0 and is summed as
such (pairs j != m by running sums from both ends, never as all pairs minus the diagonal), so the
relative accuracy survives for risks like e^{-1e6}.

The integral over tau = log t is a trapezoid rule. |phi(t e^{i a})| <= phi(t cos a) for |a| < pi/2
gives, after optimising a, the RIGOROUS_ERROR relative error (4 pi e/h) e^{-pi^2/h} at step h: 3.4e-11 at
h = 11/32. Wider integrands start at a wider step and halve it until two steps agree.

Exact: the formulas and that bound. Estimated: the contour errors (mellin), agreement of two steps
where h > 11/32, interpolation of phi for pmfs with many distinct values (Chebyshev tails),
rounding. notation: y = tau - d log g, lam = log pi, n = counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.integrals.log_sums import coarsen, interleaved, log_pairs, log_spread
from attnscope.numerics.integrals.mellin import TERM_ROUNDING, TokenLaw, Transform
from attnscope.numerics.integrals.piecewise import Piecewise

__all__ = ["LogIntegral", "bayes_excess", "location_error"]

Array = np.ndarray
Evaluate = Callable[[Array], Transform]  # phi and its moments at a vector of y

# beyond these float64 keeps no digit of the log (dim, signal: terms of size d log g and s^2; gamma:
# 1 - gamma^2 must see gamma)
LARGEST_DIM = 1e12
LARGEST_SIGNAL = 1e5
LARGEST_GAMMA = 1e4
# dyadic, so that the nodes k * OUTER_STEP * 2**j are exact; the rigorous outer error is 3.4e-11 here
OUTER_STEP = 11 / 32
# 1.01 covers 1/sin(h/2pi) for 2pi/h
RIGOROUS_ERROR = 1.01 * 4 * np.pi * np.e / OUTER_STEP * np.exp(-(np.pi**2) / OUTER_STEP)
OUTER_AGREEMENT = (
    3e-10  # two outer steps that agree this well are accepted (above OUTER_STEP)
)
# the integrand is followed at least to e^-27 = 2e-12 of its peak; what lies beyond enters the error
# ...
BAYES_DEPTH_NATS = 27.0
# ... with 5 nats to spare where the range is found from saddle-point values
SEARCH_DEPTH_NATS = BAYES_DEPTH_NATS + 5
# outer nodes are not doubled beyond this (the widest of 1500 random settings took 417)
MOST_OUTER_NODES = 20_000
NEGLIGIBLE_LOG = -36.0  # log(1 - phi) below which phi is 1 to rounding
# up to so many (node, probability) pairs phi is computed at each; beyond, interpolated
DIRECT_PAIRS = 1200
BLOCK_PAIRS = 400_000  # (node, probability) pairs held in memory at a time


class LogIntegral(NamedTuple):
    """A positive integral as a logarithm (-inf for exactly 0)
    and the estimated relative error of its exponential.
    """

    log_value: float
    relative_error: float


def bayes_excess(
    dim: int, gamma: float, signal: float, probs: Array, counts: Array, alignment: float = 0.0
) -> LogIntegral:
    """log R_B, R_B = E[(Y - E[Y|X])^2] - noise^2, of single-location regression.

    probs (G,): the distinct position probabilities > 0; counts (G,): how many positions have each;
    alignment: c = k*.v*.

    >>> round(bayes_excess(10, 0.5**0.5, 5**0.5, np.array([0.1]), np.array([10])).log_value, 8)
    -2.21814407
    """
    across = (1 - alignment) * (1 + alignment) * gamma * gamma
    along = alignment**2
    return _Integral(dim, gamma, signal, *_prior(probs, counts), across, along, 0.0).value()


def location_error(
    dim: int, gamma: float, signal: float, probs: Array, counts: Array
) -> LogIntegral:
    """log(1 - E[p_J]): one minus the mean posterior probability of the true location;
    arguments as in bayes_excess.
    """
    return _Integral(dim, gamma, signal, *_prior(probs, counts), 0.0, 0.0, 1.0).value()


def _prior(probs: Array, counts: Array) -> tuple[Array, Array]:
    """lam and n, most probable first, with equal probabilities merged."""
    distinct, where = np.unique(np.asarray(probs, dtype=np.float64), return_inverse=True)
    n = np.bincount(where, weights=np.asarray(counts, dtype=np.float64))
    return np.log(distinct / (distinct @ n))[::-1], n[::-1]


@dataclass(frozen=True)
class _Integral:
    dim: int
    gamma: float
    signal: float
    lam: Array
    n: Array
    across: float  # (1 - c^2) g^2: weight of the ratio in V
    along: float  # c^2: weight of the variance of u in V, and of (mu_j - mu_m)^2
    constant: float  # 1 for the location error

    @cached_property
    def length(self) -> float:
        return float(self.n.sum())

    @cached_property
    def relevant(self) -> TokenLaw:
        return TokenLaw(self.dim, self.gamma, self.signal, relevant=True)

    @cached_property
    def background(self) -> TokenLaw:
        return TokenLaw(self.dim, self.gamma, self.signal, relevant=False)

    def value(self) -> LogIntegral:
        if self.length == 1:
            return LogIntegral(-np.inf, 0.0)
        self._within_reach()
        # overflow in rows that do not matter; the result is checked
        with np.errstate(all="ignore"):
            result = self._trapezoid(*self._integrand_range())
        if not (np.isfinite(result.log_value) and result.relative_error < 0.5):
            raise self._out_of_reach("rounding leaves no digit of it")
        return result

    def _within_reach(self) -> None:
        of = "the Bayes integral"
        if not self.dim <= LARGEST_DIM:
            raise bad("dim", of, f"at most {LARGEST_DIM:g}", self.dim)
        if not abs(self.signal) <= LARGEST_SIGNAL:
            raise bad("signal", of, f"at most {LARGEST_SIGNAL:g}", self.signal)
        if not 1 / LARGEST_GAMMA <= self.gamma <= LARGEST_GAMMA:
            raise bad(
                "gamma",
                of,
                f"between {1 / LARGEST_GAMMA:g} and {LARGEST_GAMMA:g}",
                self.gamma,
            )

    def _out_of_reach(self, why: str) -> AttnscopeError:
        got = (
            f"dim={self.dim}, gamma={self.gamma:g}, signal={self.signal:g}, "
            f"length={self.length:g} where {why}"
        )
        return bad(
            "the setting",
            "the Bayes integral",
            "within reach of float64",
            got,
            "gamma and signal closer to 1",
        )

    # ---- the outer integral
    # --------------------------------------------------------------------------------

    def _trapezoid(self, low: float, high: float, deviation: float) -> LogIntegral:
        """Trapezoid sums at h, h/2, ... until two agree or the rigorous bound holds."""
        h = OUTER_STEP * 2.0 ** max(0.0, np.floor(np.log2(0.5 * deviation / OUTER_STEP)))
        nodes, sources, values, errors = self._first_nodes(low, high, h)
        while True:
            total = logsumexp(values) + np.log(h)
            change = abs(
                np.expm1(logsumexp(values[nodes / h % 2 == 0]) + np.log(2 * h) - total)
            )
            # halving cannot do better than the evaluation of phi
            noise = np.exp(values + np.log(h) - total) @ errors
            if (
                h <= OUTER_STEP
                or not change >= max(OUTER_AGREEMENT, noise)
                or nodes.size > MOST_OUTER_NODES
            ):
                break
            between = nodes[:-1] + 0.5 * h
            more, more_errors = self._integrand(between, sources)
            nodes = interleaved(nodes, between)
            values = interleaved(values, more)
            errors = interleaved(errors, more_errors)
            h *= 0.5
        outer = min(change, RIGOROUS_ERROR) if h <= OUTER_STEP else change
        return self._log_integral(values, errors, total, h, outer)

    def _first_nodes(
        self, low: float, high: float, h: float
    ) -> tuple[Array, tuple[Evaluate, Evaluate | None], Array, Array]:
        """Nodes k h with their sources, values and errors;
        an end that is not BAYES_DEPTH_NATS nats down is moved out (rarely needed).
        """
        for _ in range(20):
            first = np.floor(low / h)
            last = np.ceil(high / h)
            if not last - first < MOST_OUTER_NODES:
                raise self._out_of_reach("its integrand is too wide for its finest structure")
            nodes = h * np.arange(first, last + 1)
            sources = self._transform_sources(nodes)
            values, errors = self._integrand(nodes, sources)
            high_ends = values[[0, -1]] > np.max(values) - BAYES_DEPTH_NATS
            if not high_ends.any():
                break
            low, high = (
                low - high_ends[0] * 0.3 * (high - low),
                high + high_ends[1] * 0.3 * (high - low),
            )
        return nodes, sources, values, errors

    def _log_integral(
        self, values: Array, errors: Array, total: float, h: float, outer: float
    ) -> LogIntegral:
        share = np.exp(values + np.log(h) - total)
        falls = np.maximum(
            [values[1] - values[0], values[-2] - values[-1]], 1e-3
        )  # log-concave: at least geometric beyond
        ends = share[[0, -1]] @ (1 / np.expm1(falls))
        shift = self.dim * np.log(self.gamma)
        rounding = TERM_ROUNDING * (4 + abs(total) + abs(shift))
        return LogIntegral(
            float(total + shift), float(outer + ends + share @ errors + rounding)
        )

    def _integrand(
        self, nodes: Array, sources: tuple[Evaluate, Evaluate | None]
    ) -> tuple[Array, Array]:
        """log of the integrand (without the constant d log g) and its relative error,
        in blocks of bounded memory.
        """
        blocks = np.array_split(
            nodes, min(nodes.size, -(-nodes.size * self.lam.size // BLOCK_PAIRS))
        )
        values, errors = zip(
            *(self._integrand_block(block, sources) for block in blocks), strict=True
        )
        return np.concatenate(values), np.concatenate(errors)

    def _integrand_block(
        self, y: Array, sources: tuple[Evaluate, Evaluate | None]
    ) -> tuple[Array, Array]:
        at = y[:, None] + self.lam
        one, log_one = _transform_at(sources[0], at)
        error = (
            2 * expit(one.logit) * one.error + (self.constant == 0) * one.moment_error
        ).max(1)
        log_zero = np.zeros_like(log_one)
        if sources[1]:
            zero, log_zero = _transform_at(sources[1], at)
            error += (expit(zero.logit) * zero.error) @ self.n
        weight = np.log(self.constant + self.across * one.ratio + self.along * one.variance)
        each = self.lam + log_one - log_zero
        pairs = log_pairs(each + weight, each, self.n)
        if self.along and self.lam.size > 1:
            pairs = np.logaddexp(
                pairs, np.log(self.along) + log_spread(each, one.mean, self.n)
            )
        return y + pairs + log_zero @ self.n, error

    # ---- where phi comes from
    # ------------------------------------------------------------------------------

    def _transform_sources(self, nodes: Array) -> tuple[Evaluate, Evaluate | None]:
        """phi_1 and phi_0 (not needed for two positions),
        computed at each argument or interpolated when there are many.
        """
        # log(1 - phi_0) below which phi_0^L is 1 to rounding
        silent = NEGLIGIBLE_LOG - np.log(self.length)
        one: Evaluate = lambda y: self.relevant.transform(y, self.along > 0, NEGLIGIBLE_LOG)
        zero: Evaluate = lambda y: self.background.transform(y, False, silent)
        if nodes.size * self.lam.size > DIRECT_PAIRS:
            low = nodes[0] + self.lam[-1]
            high = nodes[-1] + self.lam[0]
            one = Piecewise(
                self.relevant,
                self.along > 0,
                max(low, self.relevant.where_logit(NEGLIGIBLE_LOG)),
                high,
            )
            zero = Piecewise(
                self.background, False, max(low, self.background.where_logit(silent)), high
            )
        return one, zero if self.length > 2 else None

    # ---- the range of the outer integral
    # -------------------------------------------------------------------

    def _integrand_range(self) -> tuple[float, float, float]:
        """Ends of the integrand (SEARCH_DEPTH_NATS nats below its peak) and its standard deviation, from
        saddle-point values.

        Each pair's integrand is log-concave in y. If all probabilities were pi its peak would be at
        y_1 - log pi; every pair's peak then lies between y_1 - max lam and y_1 - min lam, and
        outside that interval the sum is monotone.
        """
        tables = np.concatenate([self.relevant.places, self.background.places])
        lam, n = coarsen(self.lam, self.n)
        grid = np.sort(tables)
        if lam.size > 1:
            peak = self._zoomed_grid(grid, np.zeros(1), np.array([self.length]))
            middle = peak[0][np.argmax(peak[1])]
            inner = np.linspace(
                middle - lam[0] - 2, middle - lam[-1] + 2, int(lam[0] - lam[-1]) + 8
            )
            grid = np.sort(np.concatenate([tables - lam[0], tables - lam[-1], inner]))
        grid, values = self._zoomed_grid(grid, lam, n)
        share = np.exp(values - logsumexp(values))
        mean = share @ grid
        return grid[0], grid[-1], float(np.sqrt(share @ (grid - mean) ** 2))

    def _zoomed_grid(self, grid: Array, lam: Array, n: Array) -> tuple[Array, Array]:
        """Shrink the grid to where the integrand is within SEARCH_DEPTH_NATS nats of its peak."""
        for _ in range(60):
            values = self._saddle_integrand(grid, lam, n)
            seen = np.flatnonzero(values > np.max(values) - SEARCH_DEPTH_NATS)
            if not seen.size:
                raise self._out_of_reach("it overflows")
            low = grid[max(seen[0] - 1, 0)]
            high = grid[min(seen[-1] + 1, grid.size - 1)]
            done = high - low > 0.7 * (grid[-1] - grid[0])
            grid = np.linspace(low, high, max(65, int(min(lam[0] - lam[-1], high - low))))
            if done:
                return grid, self._saddle_integrand(grid, lam, n)
        raise self._out_of_reach("its range was not found")

    def _saddle_integrand(self, y: Array, lam: Array, n: Array) -> Array:
        at = y[:, None] + lam
        one = -np.logaddexp(0, self.relevant.saddlepoint_logit(at.ravel()).reshape(at.shape))
        zero = np.zeros_like(one)
        if self.length > 2:
            zero = -np.logaddexp(
                0, self.background.saddlepoint_logit(at.ravel()).reshape(at.shape)
            )
        each = lam + one - zero
        values = y + log_pairs(each, each, n) + zero @ n
        return np.where(np.isfinite(values), values, -np.inf)


def _transform_at(source: Evaluate, y: Array) -> tuple[Transform, Array]:
    """The transform with its fields shaped like y, and log phi."""
    flat = source(y.ravel())
    shaped = Transform(*(field.reshape(y.shape) for field in flat))
    return shaped, -np.logaddexp(0, shaped.logit)
