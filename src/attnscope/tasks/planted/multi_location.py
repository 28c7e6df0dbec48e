"""Several informative tokens: a random subset S of the positions carries the label.

notation: d = dim, L = length, m = |S|, gam = gamma, s = signal, k* = key, v* = value
(perpendicular), w_l = X_l.v*, h = E[D | m].

    S uniform among the subsets of its size m,   X_l ~ N(s k*, gam^2 I) for l in S, N(0, I) else,
        Y = sum_{l in S} D_l w_l + noise N(0, 1)

m is fixed, or binomial (every token informative with probability q, independently), or has given
probabilities. Weights D_l:

    "equal"   1/m (0 if S is empty)   "sum"   1   "dirichlet"
        (D_l)_{l in S} ~ Dirichlet(a, ..., a), hidden, a = concentration

The posterior of S has the weights prod_{l in S} r_l, r = e^{l(x)} the likelihood ratio of
single_location.py; numerics.subsets sums them exactly. With p_l = P(l in S | X) and constant h =
E[D_l | l in S] the Bayes predictor is sum_l h p_l w_l; with a random number and weights 1/m it is
sum_l E[1/m 1{l in S} | X] w_l. For independent inclusion p_l = sigmoid(l(x_l) + logit q): sigmoid
attention is then Bayes.

Bayes risk. r does not change when w_l changes sign, so the cross terms of the posterior variance
average to 0:

    R_B = E sum_l w_l^2 Var(D_l 1{l in S} | X) = E sum_l w_l^2 [h^2 p_l (1 - p_l) + p_l Var(D_l)].

Exact where it reduces to one dimension: m = 1 (single_location), m = L, and independent inclusion
with "sum", where tokens decouple: R_B = L q gam^2 int dt e^{-t} phi_1(t q/(1-q)) ratio (Transform
of numerics.integrals.mellin). Otherwise 1/e_m(r) does not factorise over tokens, and the risk is
sampled, size by size and where mistakes happen (subset_draws); the error is then one standard
error.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.sampled_estimate import (
    SampledLog,
    affordable,
    sampled_estimate,
)
from attnscope.numerics.integrals.bayes_integral import OUTER_STEP, bayes_excess
from attnscope.numerics.integrals.mellin import TokenLaw
from attnscope.tasks.planted.definition_checks import LARGEST_LOG_RATIO
from attnscope.tasks.planted.subset_draws import SubsetTask, sampled_risk
from attnscope.tasks.planted.subset_tokens import SubsetTokens

__all__ = ["MultiLocation"]

POSTERIOR_VARIANCE_METHOD = "importance-sampled posterior variance"
MOMENT_ROUNDING = 2e-15  # relative, of a sum of products of a handful of factors
# (draw, token, size) triples of one sampled risk, about 3 s: fewer draws where they would need more
RISK_TRIPLES = 4e7
FEWEST_DRAWS = 200  # draws that an error can be taken from
MOST_TRIPLES = 1e8  # triples that these may take, about 7 s
EXTRA_SIZES_PER_TOKEN = 6  # sizes more that a token costs
LOG_T_DEPTH_NATS = 40.0  # nats below its peak to which the integrand is followed


class MultiLocation(SubsetTokens):
    """A random subset of `length` tokens in R^dim carries the label (module docstring).

    Args:
        dim, length, gamma, noise, signal, key, value, seed: as in SingleLocation; key and value
            perpendicular.
        relevant: m, a whole number; or a probability in (0, 1): each token independently; or
            probabilities (length+1,) of m = 0..length.
        weights: "equal", "sum" or "dirichlet".
        concentration: a > 0 of the Dirichlet weights; large is equal, small is one token.

    >>> task = MultiLocation(dim=20, length=6, relevant=2, gamma=1.0, signal=3.0)
    >>> batch = task.sample(4, seed=1)
    >>> batch.relevant.sum(axis=1), task.posterior(batch.tokens).sum(axis=1).round(12)
    (array([2, 2, 2, 2]), array([2., 2., 2., 2.]))
    """

    # -- risks -------------------------------------------------------------------------------------

    def null_risk(self) -> Estimate:
        """Risk of predicting 0, the mean of Y: gam^2 E[m E[D^2 | m]] (+ noise^2)."""
        m = np.arange(self.length + 1)
        excess = self.gamma**2 * float(self.count_probs @ (m * self.weight_moments()[1]))
        return estimate(excess, self._moment_error() * excess, "closed form", self.noise)

    def _moment_error(self) -> float:
        """Relative error of a mean over m: sums of L positive terms, and binomial probabilities,
        which are powers of q and 1 - q.
        """
        powers = (
            0.0
            if self.inclusion is None
            else self.length * abs(math.log1p(-self.inclusion)) + 10
        )
        return MOMENT_ROUNDING * (1 + powers)

    def linear_risk(self) -> Estimate:
        """Risk of the best affine predictor, proportional to sum_l w_l: null - gam^4 (E[m h])^2/(L
        (1 - q + q gam^2)), q = E[m]/L.
        """
        m = np.arange(self.length + 1)
        g2 = self.gamma**2
        L = self.length
        pull = float(self.count_probs @ (m * self.weight_moments()[0]))
        if self.inclusion is None:
            # not 1 - inside, of which little is left where almost all tokens are informative
            inside = float(self.count_probs @ m) / L
            outside = float(self.count_probs @ (L - m)) / L
        else:
            inside = self.inclusion
            outside = 1 - self.inclusion
        variance = outside + inside * g2
        null = self.null_risk().excess
        seen = (g2 * pull) ** 2 / (L * variance)
        return estimate(
            null - seen, self._moment_error() * (null + 3 * seen), "closed form", self.noise
        )

    def bayes_risk(self, samples: int = 100_000, seed: int = 0) -> Estimate:
        """Risk of E[Y | X]: exact in one dimension where that exists, else importance-sampled with
        its standard error (module docstring).
        """
        of = "MultiLocation.bayes_risk"
        samples = check.integer(samples, "samples", of, 2)
        seed = check.seed_value(seed, of)
        sizes = np.flatnonzero(self.count_probs)
        spread = self._weight_spread()
        self._within_reach()
        if sizes.tolist() == [0]:
            return estimate(0.0, 0.0, "closed form", self.noise)
        if sizes.tolist() == [1]:
            out = bayes_excess(
                self.dim,
                self.gamma,
                self.signal,
                np.array([1.0 / self.length]),
                np.array([self.length]),
            )
            excess = math.exp(out.log_value)
            return estimate(
                excess,
                out.relative_error * excess,
                "log-space quadrature",
                self.noise,
                out.log_value,
            )
        if sizes.tolist() == [self.length]:
            return estimate(spread, 1e-14 * spread, "closed form", self.noise)
        if self.inclusion is not None and self.weights == "sum":
            log_value, error = self._log_risk_independent()
            return estimate(
                math.exp(log_value),
                error * math.exp(log_value),
                "log-space quadrature",
                self.noise,
                log_value,
            )
        return self._sampled_bayes_risk(samples, seed, spread)

    def _sampled_bayes_risk(self, samples: int, seed: int, spread: float) -> Estimate:
        """The Bayes risk by draws (subset_draws), `spread` added to what they find."""
        task = self._subset_task()
        found = sampled_risk(task, self._affordable_draws(samples), seed)
        log_excess = (
            float(np.logaddexp(found.log_value, math.log(spread)))
            if spread
            else found.log_value
        )
        relative = (
            found.relative_error * math.exp(found.log_value - log_excess)
            if found.relative_error
            else 0.0
        )
        linear = self.linear_risk()
        ceiling = min(
            float(self.null_risk().excess),
            max(float(linear.excess), 0.0) + float(linear.error),
        )
        out = sampled_estimate(
            SampledLog(log_excess, relative), ceiling, self.noise, POSTERIOR_VARIANCE_METHOD
        )
        if not task.varying:
            return out
        # the variance of h given X is a difference of squares, rounded at the size of the null risk
        error = math.hypot(out.error, MOMENT_ROUNDING * float(self.null_risk().excess))
        return replace(out, error=error)

    def _subset_task(self) -> SubsetTask:
        numbers = (self.dim, self.length, self.gamma, self.signal)
        return SubsetTask(*numbers, self.count_probs, self.weight_moments()[0])

    def _within_reach(self) -> None:
        """Refuse settings whose log-likelihood ratios are so large that their rounding errors
        are.
        """
        g2 = self.gamma**2
        s2 = self.signal**2
        d = self.dim
        size = (
            d * abs(math.log(self.gamma))
            + s2 / g2
            + abs(1 / g2 - 1) * max(1.0, g2) * (d + s2)
        )
        if not size <= LARGEST_LOG_RATIO:
            got = f"dim={d}, gamma={self.gamma:g}, signal={self.signal:g}"
            must = f"one with log-likelihood ratios of size <= {LARGEST_LOG_RATIO:g}"
            raise bad(
                "the setting",
                "MultiLocation.bayes_risk",
                must,
                got,
                "gamma and signal closer to 1",
            )

    def _weight_spread(self) -> float:
        """gam^2 E[m Var(D | m)]: what hidden weights add to the risk whatever is known of S."""
        m, (mean, square) = np.arange(self.length + 1), self.weight_moments()
        return self.gamma**2 * float(
            self.count_probs @ (m * np.maximum(square - mean**2, 0.0))
        )

    def _log_risk_independent(self) -> tuple[float, float]:
        """(log R_B, relative error) for independent inclusion: a trapezoid sum over tau = log t."""
        q = self.inclusion or 0.0
        law, shift = (
            TokenLaw(self.dim, self.gamma, self.signal, relevant=True),
            self.dim * math.log(self.gamma),
        )
        to_y = math.log(q / (1 - q)) - shift

        def rough(tau: np.ndarray) -> np.ndarray:
            return tau - np.exp(tau) - np.logaddexp(0, law.saddlepoint_logit(tau + to_y))

        tau = np.sort(np.concatenate([law.places - to_y, np.linspace(-60, 5, 200)]))
        tau = tau[tau < 5]
        values = rough(tau)
        near = np.flatnonzero(values > values.max() - LOG_T_DEPTH_NATS)
        low = tau[max(near[0] - 1, 0)]
        high = tau[min(near[-1] + 1, tau.size - 1)]
        nodes = OUTER_STEP * np.arange(
            math.floor(low / OUTER_STEP), math.ceil(high / OUTER_STEP) + 1
        )
        at = law.transform(nodes + to_y)
        logs = nodes - np.exp(nodes) - np.logaddexp(0, at.logit) + np.log(at.ratio)
        total = float(logsumexp(logs)) + math.log(OUTER_STEP)
        share = np.exp(logs + math.log(OUTER_STEP) - total)
        # beyond, the integrand falls at least like e^{tau/4}
        ends = float(share[[0, -1]].sum()) * 4 / OUTER_STEP
        error = (
            4e-11
            + ends
            + float(share @ (at.error + at.moment_error))
            + 1e-15 * (10 + abs(shift) + abs(total))
        )
        return total + math.log(self.length * q * self.gamma**2), error

    def _affordable_draws(self, samples: int) -> int:
        """How many draws RISK_TRIPLES lets in, at most `samples`."""
        sizes = self._log_prior().size
        one = float(self.length) * (sizes + EXTRA_SIZES_PER_TOKEN)
        # moments of the weight beside the inclusion take a second pass
        passes = 1 if self._constant_weight() is not None else 2
        draws = affordable(samples, one, MOST_TRIPLES, FEWEST_DRAWS, passes)
        if not draws:
            most = f"at most {MOST_TRIPLES / FEWEST_DRAWS:.3g} where the risk is sampled"
            got = f"{self.length} x ({sizes} + {EXTRA_SIZES_PER_TOKEN})"
            what = f"length x (sizes + {EXTRA_SIZES_PER_TOKEN})"
            raise bad(
                what,
                "MultiLocation.bayes_risk",
                most,
                got,
                "a smaller length, or fewer tokens",
            )
        return min(draws, max(FEWEST_DRAWS // passes, int(RISK_TRIPLES / (passes * one))))
