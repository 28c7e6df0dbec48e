"""Several informative tokens: a random subset S of the positions carries the label.

notation: d = dim, L = length, m = |S|, gam = gamma, s = signal, k* = key, v* = value (perpendicular), w_l = X_l.v*, h = E[D | m].

    S uniform among the subsets of its size m,   X_l ~ N(s k*, gam^2 I) for l in S, N(0, I) else,   Y = sum_{l in S} D_l w_l + noise N(0, 1)

m is fixed, or binomial (every token informative with probability q, independently), or has given probabilities. Weights D_l:

    "equal"      1/m (0 if S is empty)        "sum"   1        "dirichlet"   (D_l)_{l in S} ~ Dirichlet(a, ..., a), hidden, a = concentration

The posterior of S has the weights prod_{l in S} r_l, r = e^{l(x)} the likelihood ratio of single_location.py; numerics.subsets sums them
exactly. With p_l = P(l in S | X) and constant h = E[D_l | l in S] the Bayes predictor is sum_l h p_l w_l; with a random number and weights
1/m it is sum_l E[1/m 1{l in S} | X] w_l. For independent inclusion p_l = sigmoid(l(x_l) + logit q): sigmoid attention is then Bayes.

Bayes risk. r does not change when w_l changes sign, so the cross terms of the posterior variance average to 0:

    R_B = E sum_l w_l^2 Var(D_l 1{l in S} | X) = E sum_l w_l^2 [h^2 p_l (1 - p_l) + p_l Var(D_l)].

Exact where it reduces to one dimension: m = 1 (single_location), m = L, and independent inclusion with "sum", where tokens decouple:
R_B = L q gam^2 int dt e^{-t} phi_1(t q/(1-q)) ratio (Transform of numerics.mellin). Otherwise 1/e_m(r) does not factorise over tokens, and
the risk is sampled, size by size and where mistakes happen (subset_draws); the error is then one standard error.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, logsumexp
from scipy.stats import binom

from attnscope.errors import bad
from attnscope.numerics import validation as check
from attnscope.numerics.bayes_integral import bayes_excess
from attnscope.numerics.estimate import Estimate, estimate
from attnscope.numerics.mellin import TokenLaw
from attnscope.numerics.sampled_estimate import SampledLog, sampled_estimate
from attnscope.numerics.subsets import log_inclusion, log_subset_prior, log_weighted_inclusion
from attnscope.tasks.base import Projections, gaussian_fields
from attnscope.tasks.planted import Planted
from attnscope.tasks.subset_draws import SubsetTask, sampled_risk

__all__ = ["MultiBatch", "MultiLocation"]

NAME = "MultiLocation"
METHOD = "importance-sampled posterior variance"
WEIGHTS = ("equal", "sum", "dirichlet")
ROUNDOFF = 2e-15  # relative, of a sum of products of a handful of factors
BLOCK = 1 << 19  # log-probabilities of one forward table held at a time
WORK = 1e8  # (draw, token, size) triples of one sampled risk, about 7 s: fewer draws where they would need more
FEWEST = 200  # draws that an error can be taken from
OVERHEAD = 6  # sizes more that a token costs
LARGEST_RATIO = 1e9  # log-likelihood ratios beyond this are known to 1e-7 at best
STEP, DEPTH = (
    11 / 32,
    40.0,
)  # trapezoid step in log t (error 4e-11, see bayes_integral) and nats followed below the peak


class MultiBatch(NamedTuple):
    """tokens (n, L, d), target (n,), relevant (n, L) bool: the informative tokens, weights (n, L): D, 0 elsewhere."""

    tokens: np.ndarray
    target: np.ndarray
    relevant: np.ndarray
    weights: np.ndarray


class MultiLocation(Planted[MultiBatch]):
    """A random subset of `length` tokens in R^dim carries the label (module docstring).

    Args:
        dim, length, gamma, noise, signal, key, value, seed: as in SingleLocation; key and value perpendicular.
        relevant: m, a whole number; or a probability in (0, 1): each token independently; or probabilities (length+1,) of m = 0..length.
        weights: "equal", "sum" or "dirichlet".
        concentration: a > 0 of the Dirichlet weights; large is equal, small is one token.

    >>> task = MultiLocation(dim=20, length=6, relevant=2, gamma=1.0, signal=3.0)
    >>> batch = task.sample(4, seed=1)
    >>> batch.relevant.sum(axis=1), task.posterior(batch.tokens).sum(axis=1).round(12)
    (array([2, 2, 2, 2]), array([2., 2., 2., 2.]))
    """

    def __init__(
        self,
        dim: int,
        length: int,
        relevant: int | float | np.ndarray = 2,
        weights: str = "equal",
        concentration: float = 1.0,
        gamma: float = 0.5**0.5,
        noise: float = 0.0,
        signal: float | None = None,
        key: np.ndarray | None = None,
        value: np.ndarray | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(dim, length, gamma, noise, signal, key, value, seed)
        self._refuse_oblique()
        if not isinstance(weights, str) or weights not in WEIGHTS:
            raise bad("weights", NAME, f"one of {WEIGHTS}", weights)
        self.weights = str(weights)
        self.concentration = check.real(concentration, "concentration", NAME, 1e-6, 1e6)
        self.relevant = relevant
        self.inclusion: float | None = None  # q, where tokens are informative independently
        self.count_probs = self._counts(relevant)  # (L+1,)

    def _counts(self, relevant: object) -> np.ndarray:
        if isinstance(relevant, (float, np.floating)):
            must = "a whole number, a probability in (0, 1) or count probabilities"
            if not 0 < relevant < 1:
                raise bad("relevant", NAME, must, relevant, "relevant=2 or relevant=0.2")
            self.inclusion = float(relevant)
            return binom.pmf(np.arange(self.length + 1), self.length, self.inclusion)
        if isinstance(relevant, (list, tuple, np.ndarray)):
            return check.probabilities(relevant, "relevant", NAME, self.length + 1)
        m = check.integer(relevant, "relevant", NAME, 1, self.length, hint="relevant=2 or relevant=0.2")
        return (np.arange(self.length + 1) == m).astype(float)

    def __repr__(self) -> str:
        numbers = f"dim={self.dim}, length={self.length}, relevant={self.relevant!r}, weights={self.weights!r}"
        return (
            f"{NAME}({numbers}, gamma={self.gamma:g}, noise={self.noise:g}, signal={self.signal:g}, seed={self.seed})"
        )

    # -- the weights D ----------------------------------------------------------------------------------------------

    def weight_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """(E[D_l | m], E[D_l^2 | m]) of an informative token, for m = 0 .. L (0 at m = 0)."""
        m = np.arange(self.length + 1.0)
        ones = (m > 0).astype(float)
        if self.weights == "sum":
            return ones, ones
        mean = ones / np.maximum(m, 1)
        spread = mean * (1 - mean) / (m * self.concentration + 1) if self.weights == "dirichlet" else 0.0
        return mean, mean**2 + spread

    def _constant_weight(self) -> float | None:
        """h where E[D | m] is the same for all possible m >= 1, else None."""
        mean = self.weight_moments()[0][np.flatnonzero(self.count_probs)]
        mean = mean[mean > 0]
        return float(mean[0]) if mean.size and np.ptp(mean) == 0 else None

    # -- data -------------------------------------------------------------------------------------------------------

    def projections(self, n: int, gram: np.ndarray, rng: np.random.Generator) -> Projections:
        """n sequences as far as the vectors of `gram` see them (tasks/base.py)."""
        relevant = self._subsets(n, rng)
        weights = self.draw_weights(relevant, rng)
        means = np.zeros((n, self.length, 2))
        means[relevant, 0] = self.signal
        scales = np.where(relevant, self.gamma, 1.0)
        fields = gaussian_fields(means, scales, gram, rng)
        return Projections(fields, np.sum(weights * fields[:, :, -1], axis=1), relevant, scales)

    def _subsets(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """(n, L) bool: which tokens are informative."""
        return rng.random((n, self.length)).argsort(axis=1).argsort(axis=1) < self.draw_sizes(n, rng)[:, None]

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> MultiBatch:
        relevant = self._subsets(n, rng)
        weights = self.draw_weights(relevant, rng)
        target = self.noise * rng.standard_normal(n)
        tokens = np.empty((n, self.length, self.dim), dtype)
        rng.standard_normal(out=tokens, dtype=dtype.type)
        block = max(1, (1 << 18) // (self.dim * self.length))
        for i in range(0, n, block):
            part, chosen = tokens[i : i + block], relevant[i : i + block]
            part[chosen] = self.signal * self.key + self.gamma * part[chosen].astype(np.float64)
            values = part.astype(np.float64) @ self.value  # of the tokens as stored
            target[i : i + block] += np.sum(weights[i : i + block] * values, axis=1)
        return MultiBatch(tokens, target, relevant, weights)

    def draw_sizes(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n draws of m, (n,)."""
        return rng.choice(self.length + 1, size=n, p=self.count_probs / self.count_probs.sum())

    def draw_weights(self, relevant: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """D (n, L) for given informative tokens (n, L)."""
        if self.weights == "sum":
            return relevant.astype(float)
        if self.weights == "equal":
            return relevant / np.maximum(relevant.sum(axis=1, keepdims=True), 1)
        # log of a Gamma(a) variable as log Gamma(a+1) + log(U)/a: no underflow at small a
        a, shape = self.concentration, relevant.shape
        logs = np.log(rng.standard_gamma(a + 1, shape)) + np.log1p(-rng.random(shape)) / a
        logs = np.where(relevant, logs, -np.inf)
        top = logs.max(axis=1, keepdims=True)
        scaled = np.where(relevant, np.exp(logs - np.where(np.isfinite(top), top, 0.0)), 0.0)
        return scaled / np.maximum(scaled.sum(axis=1, keepdims=True), np.finfo(float).tiny)

    # -- inference --------------------------------------------------------------------------------------------------

    def posterior(self, tokens: np.ndarray) -> np.ndarray:
        """P(token l is informative | X), (n, L), exact."""
        return self._infer(tokens, "posterior")[0]

    def bayes_predict(self, tokens: np.ndarray) -> np.ndarray:
        """E[Y | X], (n,), exact."""
        return self._infer(tokens, "bayes_predict")[1]

    def _infer(self, tokens: np.ndarray, method: str) -> tuple[np.ndarray, np.ndarray]:
        x, _ = check.tokens_array(tokens, f"{NAME}.{method}", self.length, self.dim)
        inside, mean = np.empty(x.shape[:2]), np.empty(len(x))
        for rows, scores, values in self._score_blocks(x, quadratic=True):
            for i in range(0, len(scores), self._rows()):
                log_ratios = self._log_constant() + scores[i : i + self._rows()]
                at = slice(rows.start + i, rows.start + i + len(log_ratios))
                inside[at] = self._inside(log_ratios)
                mean[at] = np.sum(self._attention(log_ratios, inside[at]) * values[i : i + self._rows()], axis=1)
        return inside, mean

    def _inside(self, log_ratios: np.ndarray) -> np.ndarray:
        """P(l in S | X), (n, L); a sigmoid of the token alone where tokens are independent, else by the subset recursion."""
        if self.inclusion is not None:
            return expit(log_ratios + logit(self.inclusion))
        return np.exp(log_inclusion(log_ratios, self._log_prior())[0])

    def _attention(self, log_ratios: np.ndarray, inside: np.ndarray) -> np.ndarray:
        """E[D_l 1{l in S} | X], (n, L)."""
        h = self._constant_weight()
        if h is not None:
            return h * inside
        log_prior = self._log_prior()
        return np.exp(log_weighted_inclusion(log_ratios, log_prior, self.weight_moments()[0][: log_prior.size]))

    def _log_constant(self) -> float:
        """The part of log r that no token changes."""
        return -self.dim * math.log(self.gamma) - self.signal**2 / (2 * self.gamma**2)

    def _log_prior(self) -> np.ndarray:
        return log_subset_prior(self.count_probs, self.length)

    def _rows(self) -> int:
        """Sequences per block of the subset recursion."""
        return max(1, BLOCK // (self.length * (int(np.flatnonzero(self.count_probs)[-1]) + 1)))

    # -- risks ------------------------------------------------------------------------------------------------------

    def null_risk(self) -> Estimate:
        """Risk of predicting 0, the mean of Y: gam^2 E[m E[D^2 | m]] (+ noise^2)."""
        m = np.arange(self.length + 1)
        excess = self.gamma**2 * float(self.count_probs @ (m * self.weight_moments()[1]))
        return estimate(excess, self._moment_error() * excess, "closed form", self.noise)

    def _moment_error(self) -> float:
        """Relative error of a mean over m: sums of L positive terms, and binomial probabilities, which are powers of q and 1 - q."""
        powers = 0.0 if self.inclusion is None else self.length * abs(math.log1p(-self.inclusion)) + 10
        return ROUNDOFF * (1 + powers)

    def linear_risk(self) -> Estimate:
        """Risk of the best affine predictor, proportional to sum_l w_l: null - gam^4 (E[m h])^2/(L (1 - q + q gam^2)), q = E[m]/L."""
        m, g2, L = np.arange(self.length + 1), self.gamma**2, self.length
        pull = float(self.count_probs @ (m * self.weight_moments()[0]))
        if self.inclusion is None:
            # not 1 - inside, of which little is left where almost all tokens are informative
            inside = float(self.count_probs @ m) / L
            outside = float(self.count_probs @ (L - m)) / L
        else:
            inside = self.inclusion
            outside = 1 - self.inclusion
        variance = outside + inside * g2
        null, seen = self.null_risk().excess, (g2 * pull) ** 2 / (L * variance)
        return estimate(null - seen, self._moment_error() * (null + 3 * seen), "closed form", self.noise)

    def bayes_risk(self, samples: int = 100_000, seed: int = 0) -> Estimate:
        """Risk of E[Y | X]: exact in one dimension where that exists, else importance-sampled with its standard error (module docstring)."""
        of = f"{NAME}.bayes_risk"
        samples, seed = check.integer(samples, "samples", of, 2), check.seed_value(seed, of)
        sizes = np.flatnonzero(self.count_probs)
        spread = self._weight_spread()
        self._within_reach()
        if sizes.tolist() == [0]:
            return estimate(0.0, 0.0, "closed form", self.noise)
        if sizes.tolist() == [1]:
            out = bayes_excess(
                self.dim, self.gamma, self.signal, np.array([1.0 / self.length]), np.array([self.length])
            )
            excess = math.exp(out.log_value)
            return estimate(excess, out.relative_error * excess, "log-space quadrature", self.noise, out.log_value)
        if sizes.tolist() == [self.length]:
            return estimate(spread, 1e-14 * spread, "closed form", self.noise)
        if self.inclusion is not None and self.weights == "sum":
            log_value, error = self._independent()
            return estimate(
                math.exp(log_value), error * math.exp(log_value), "log-space quadrature", self.noise, log_value
            )
        return self._sampled(samples, seed, spread)

    def _sampled(self, samples: int, seed: int, spread: float) -> Estimate:
        """The Bayes risk by draws (subset_draws), `spread` added to what they find."""
        task = self._subset_task()
        found = sampled_risk(task, self._affordable(samples), seed)
        log_excess = float(np.logaddexp(found.log_value, math.log(spread))) if spread else found.log_value
        relative = found.relative_error * math.exp(found.log_value - log_excess) if found.relative_error else 0.0
        linear = self.linear_risk()
        ceiling = min(float(self.null_risk().excess), max(float(linear.excess), 0.0) + float(linear.error))
        out = sampled_estimate(SampledLog(log_excess, relative), ceiling, self.noise, METHOD)
        if not task.varying:
            return out
        # the variance of h given X is a difference of squares, rounded at the size of the null risk
        error = math.hypot(out.error, ROUNDOFF * float(self.null_risk().excess))
        return replace(out, error=error)

    def _subset_task(self) -> SubsetTask:
        numbers = (self.dim, self.length, self.gamma, self.signal)
        return SubsetTask(*numbers, self.count_probs, self.weight_moments()[0])

    def _within_reach(self) -> None:
        """Refuse settings whose log-likelihood ratios are so large that their rounding errors are."""
        g2, s2, d = self.gamma**2, self.signal**2, self.dim
        size = d * abs(math.log(self.gamma)) + s2 / g2 + abs(1 / g2 - 1) * max(1.0, g2) * (d + s2)
        if not size <= LARGEST_RATIO:
            got = f"dim={d}, gamma={self.gamma:g}, signal={self.signal:g}"
            must = f"one with log-likelihood ratios of size <= {LARGEST_RATIO:g}"
            raise bad("the setting", f"{NAME}.bayes_risk", must, got, "gamma and signal closer to 1")

    def _weight_spread(self) -> float:
        """gam^2 E[m Var(D | m)]: what hidden weights add to the risk whatever is known of S."""
        m, (mean, square) = np.arange(self.length + 1), self.weight_moments()
        return self.gamma**2 * float(self.count_probs @ (m * np.maximum(square - mean**2, 0.0)))

    def _independent(self) -> tuple[float, float]:
        """(log R_B, relative error) for independent inclusion: a trapezoid sum over tau = log t."""
        q = self.inclusion or 0.0
        law, shift = TokenLaw(self.dim, self.gamma, self.signal, relevant=True), self.dim * math.log(self.gamma)
        to_y = math.log(q / (1 - q)) - shift
        rough = lambda tau: tau - np.exp(tau) - np.logaddexp(0, law.saddlepoint_logit(tau + to_y))
        tau = np.sort(np.concatenate([law.places - to_y, np.linspace(-60, 5, 200)]))
        tau = tau[tau < 5]
        values = rough(tau)
        near = np.flatnonzero(values > values.max() - DEPTH)
        low, high = tau[max(near[0] - 1, 0)], tau[min(near[-1] + 1, tau.size - 1)]
        nodes = STEP * np.arange(math.floor(low / STEP), math.ceil(high / STEP) + 1)
        at = law.transform(nodes + to_y)
        logs = nodes - np.exp(nodes) - np.logaddexp(0, at.logit) + np.log(at.ratio)
        total = float(logsumexp(logs)) + math.log(STEP)
        share = np.exp(logs + math.log(STEP) - total)
        ends = float(share[[0, -1]].sum()) * 4 / STEP  # beyond, the integrand falls at least like e^{tau/4}
        error = 4e-11 + ends + float(share @ (at.error + at.moment_error)) + 1e-15 * (10 + abs(shift) + abs(total))
        return total + math.log(self.length * q * self.gamma**2), error

    def _affordable(self, samples: int) -> int:
        """How many draws WORK lets in, at most `samples`."""
        sizes = self._log_prior().size
        one = float(self.length) * (sizes + OVERHEAD)
        if min(FEWEST, samples) * one > WORK:
            most = f"at most {WORK / FEWEST:.3g} where the risk is sampled"
            got = f"{self.length} x ({sizes} + {OVERHEAD})"
            raise bad(
                f"length x (sizes + {OVERHEAD})", f"{NAME}.bayes_risk", most, got, "a smaller length, or fewer tokens"
            )
        passes = 1 if self._constant_weight() is not None else 2  # moments of the weight beside the inclusion
        return min(samples, int(WORK / (passes * one)))
