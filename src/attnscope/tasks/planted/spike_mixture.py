"""One informative token whose mean is one of several spikes, each with its own output direction.

notation: d = dim, L = length, H spikes mu_h with prior P_h and outputs v_h, gam = gamma, eps =
noise.

    J uniform, h ~ P,   X_J ~ N(mu_h, gam^2 I_d),   X_l ~ N(0, I_d) for l != J,
        Y = X_J.v_h + eps N(0, 1).

Bayes' rule over (h, l) jointly, the likelihood ratio of token l against the background under spike
h:

    P(h, J = l | X) = softmax over all pairs (h, l) of
        mu_h.x_l/gam^2 + b_h - (1/gam^2 - 1)|x_l|^2/2,   b_h = log P_h - |mu_h|^2/(2 gam^2),
    E[Y | X] = sum_{h,l} P(h, J = l | X) x_l.v_h                                 (the Bayes-softmax)

(-d log gam is common to all and drops). The bias b_h drops only if |mu_h| and P_h are the same for
all h; the term in |x|^2 only if gam = 1.

Bayes risk. One spike is single-location regression, exactly. Otherwise E Var(Y | X) is an integral
over means of single tokens, sampled from laws between the spikes, and between each and the
background (numerics.integrals.one_token, numerics.integrals.tilted), with a standard error; exactly
by quadrature where gam = 1, the output v is common and orthogonal to all spikes, and the spikes
span at most two dimensions. There x.v is independent of the posterior p_l of the position, so R = 1
- E p_J, and with r(x) = sum_h P_h exp(mu_h.x - |mu_h|^2/2) and 1/S = int_0^inf e^{-tS} dt

    R = E[sum_{l != J} r_l/sum r] = (L-1) int_0^inf phi_1(t)^2 phi_0(t)^(L-2) dt,
        phi_0 = E_0 e^{-t r}, phi_1 = E_1 e^{-t r} = E_0[r e^{-t r}],

because E_1 f = E_0[r f]. The Gaussian averages and the integral over log t are trapezoidal sums,
which converge exponentially.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from scipy.special import logsumexp

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.sampled_estimate import sampled_estimate
from attnscope.numerics.integrals.bayes_integral import LARGEST_SIGNAL
from attnscope.numerics.integrals.one_token import SINGLE_TOKEN_METHOD, Draws, pair_risk
from attnscope.numerics.integrals.tilted import (
    LAW_SPACING_SIGMAS,
    Background,
    Normal,
    bridge,
    log_normal,
    mixed_draws,
)
from attnscope.tasks.planted.definition_checks import LARGEST_LOG_RATIO
from attnscope.tasks.planted.direction_tokens import BLOCK_NUMBERS
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.tasks.planted.spike_tokens import SpikeTokens

__all__ = ["SpikeMixture"]

# the grid errs by e^-25: exp(-t e^{a u}) is analytic in |Im u| < pi/2a, so spacing h errs by
# e^{-pi^2/(a h)}; so it is in |Im tau| < pi/2, t = e^tau, and a spacing h of tau errs by
# e^{-pi^2/h}
GRID_NATS = 25.0
# what a grid leaves out turns with its place: moved by a quarter of the spacing, a part that
# vanished by luck is at its largest
GRID_SHIFT = 0.25
GRID_REACH_SIGMAS = 9.0  # standard deviations kept: 2e-19 outside
EPS = float(np.finfo(np.float64).eps)
LONGEST_SPIKE = (
    8.0  # largest |mu| served: the grid of 700 x 700 points then takes ten seconds
)


class SpikeMixture(SpikeTokens):
    """One of `length` tokens is shifted by one of H spikes and carries the label (module
    docstring).

    Args:
        dim: d >= 2.
        length: L >= 1.
        strengths: (H,) the lengths |mu_h|, of orthogonal directions drawn from `seed`; or give
            `means`.
        prior: (H,) probabilities P_h; uniform if None.
        gamma: standard deviation of the shifted token around its spike, > 0.
        noise: standard deviation of the label noise, >= 0.
        means: (H, dim) the spikes mu_h themselves.
        outputs: (H, dim) unit rows v_h, or one unit vector (dim,) for all; None draws one for all,
            orthogonal to the spikes.

    >>> task = SpikeMixture(dim=20, length=10, strengths=(4.0, 6**0.5), prior=(0.3, 0.7))
    >>> task.posterior(task.sample(5).tokens).shape, round(task.bayes_risk().value, 4)
    ((5, 2, 10), 0.2433)
    """

    # -- risks -------------------------------------------------------------------------------------

    def null_risk(self) -> Estimate:
        """Variance of Y: gam^2 + that of the mean mu_h.v_h over h (+ noise^2)."""
        output_means = np.einsum("hd,hd->h", self.means, self.outputs)
        apart = output_means - self.prior @ output_means
        excess = self.gamma**2 + self.prior @ apart**2
        # a spike nearly perpendicular to its output: their products cancel, their roundings do not
        size = np.einsum("hd,hd->h", np.abs(self.means), np.abs(self.outputs))
        lost = self.dim * np.finfo(np.float64).eps * (size + self.prior @ size)
        error = 1e-14 * excess + self.prior @ ((2 * np.abs(apart) + lost) * lost)
        return estimate(excess, error, "closed form", self.noise)

    @property
    def has_exact_risk(self) -> bool:
        """Whether the Bayes risk is a quadrature (module docstring)."""
        common = (
            np.ptp(self.outputs, axis=0).max() == 0
            and np.abs(self.means @ self.outputs[0]).max() <= 1e-12
        )
        longest = np.sqrt((self.means**2).sum(1).max())
        return bool(
            self.gamma == 1
            and common
            and 1 <= self.rank <= 2
            and self.length > 1
            and longest <= LONGEST_SPIKE
        )

    def bayes_risk(self, samples: int = 40_000, seed: int = 0) -> Estimate:
        """Risk of E[Y | X]: by quadrature where `has_exact_risk` or there is one spike (of length
        up to 1e5), else from draws.

        samples: draws of single tokens.
        """
        of = "SpikeMixture.bayes_risk"
        n = check.integer(samples, "samples", of, 2)
        seed = check.seed_value(seed, of)
        if self.has_exact_risk:
            fine = self._grid_sum(1.0)
            # the error falls like e^{-1/h}
            coarse = [self._grid_sum(1.5, place) for place in (0.0, GRID_SHIFT)]
            error = max(abs(fine - x) for x in coarse) + 1e-13
            return estimate(fine, error, "2-D quadrature", self.noise)
        longest = math.sqrt(float((self.means**2).sum(1).max()))
        if self.spikes == 1 and self.dim > 1 and longest <= LARGEST_SIGNAL:
            return self._single_spike_task().bayes_risk()
        self._within_reach(longest, of)
        out = pair_risk(
            self._draw_single_tokens(n, seed),
            np.array([1 / self.length]),
            np.array([self.length]),
        )
        return sampled_estimate(
            out, float(self.null_risk().excess), self.noise, SINGLE_TOKEN_METHOD
        )

    def _within_reach(self, longest: float, of: str) -> None:
        """Refuse where log-likelihood ratios are so large that their rounding errors are."""
        g2 = self.gamma**2
        d = self.dim
        size = (
            d * abs(math.log(self.gamma))
            + longest**2 / g2
            + abs(1 / g2 - 1) * (longest**2 + max(1.0, g2) * d)
        )
        if not size <= LARGEST_LOG_RATIO:
            must = f"ones with log-likelihood ratios of size <= {LARGEST_LOG_RATIO:g}"
            got = f"dim={d}, gamma={self.gamma:g}, a spike of length {longest:g}"
            raise bad("the spikes", of, must, got, "shorter spikes or gamma closer to 1")

    def _single_spike_task(self) -> SingleLocation:
        """The same task where there is one spike."""
        strength = float(np.linalg.norm(self.means[0]))
        key = self.means[0] / strength if strength > 0 else None
        return SingleLocation(
            self.dim,
            self.length,
            self.gamma,
            self.noise,
            strength,
            key=key,
            value=self.outputs[0],
            seed=self.seed,
        )

    def _draw_single_tokens(self, samples: int, seed: int) -> Draws:
        """Single tokens, seen along the spikes and by the squared length |x'|^2 of the rest x'.

        Outputs are v_h = in the span + b_h across; given |x'|^2, x'.b_h has mean 0 and covariance
        b_h.b_g |x'|^2/(d - rank), so that the part across enters through its mean square only.
        """
        axes = self.dim - self.rank
        precision = self.gamma**-2
        back = Background(np.ones(self.rank), 1.0, None)
        mu = self.means @ self._spike_axes.T
        along = self.outputs @ self._spike_axes.T
        across = self.outputs - along @ self._spike_axes
        ones = [Normal(row, np.full(self.rank, precision), precision) for row in mu]
        laws = self._laws_between_spikes(ones)
        for one, share in zip(ones, self.prior):
            reach = math.log(self.length / share)
            laws += bridge(one, back, axes, (reach, reach))
        drawn = mixed_draws(laws, back, axes, samples, [seed, 5])
        logs = np.stack(
            [log_normal(one, axes, drawn.x, drawn.rest) for one in ones], axis=1
        ) + np.log(self.prior)
        total = logsumexp(logs, axis=1, keepdims=True)
        p = np.exp(logs - total)
        output_means = drawn.x @ along.T
        mean = (p * output_means).sum(1)
        inside = (p * (output_means - mean[:, None]) ** 2).sum(1)
        square = drawn.rest / max(axes, 1)
        sizes = (across**2).sum(1)
        whole = inside + square * (p @ sizes)
        apart = [((across - across[h]) ** 2).sum(1) for h in range(self.spikes)]
        own = inside + square * np.einsum("nh,hg,ng->n", p, np.array(apart), p) / 2
        return Draws(
            total[:, 0] - drawn.log_back, drawn.log_weight, mean, whole, own, drawn.groups
        )

    def _laws_between_spikes(self, ones: list[Normal]) -> list[Normal]:
        """Laws around the point between two spikes where they are equally likely,
        one step apart.
        """
        laws = []
        for h, g in combinations(range(self.spikes), 2):
            gap = ones[g].mean - ones[h].mean
            width = math.sqrt(float(gap @ gap)) / self.gamma
            if width == 0:
                continue
            even = 0.5 + math.log(self.prior[h] / self.prior[g]) / width**2
            for step in (-LAW_SPACING_SIGMAS, 0.0, LAW_SPACING_SIGMAS):
                z = min(max(even + step / width, 0.0), 1.0)
                laws.append(Normal(ones[h].mean + z * gap, ones[h].precision, ones[h].rest))
        return laws

    @property
    def _grid_spacing(self) -> float:
        return math.pi**2 / (GRID_NATS * max(1.0, math.sqrt((self.means**2).sum(1).max())))

    def _grid_sum(self, coarseness: float, place: float = 0.0) -> float:
        """The sum on a grid of `coarseness` times the spacing, moved by `place` of it."""
        h = coarseness * self._grid_spacing
        step = min(2 * h, coarseness * math.pi**2 / GRID_NATS)
        mu = self.means @ self._spike_axes.T  # (H, rank)
        reach = np.abs(mu).max() + GRID_REACH_SIGMAS
        axis = h * (np.arange(-math.ceil(reach / h), math.ceil(reach / h) + 1) + place)
        u = np.stack(np.meshgrid(*[axis] * self.rank, indexing="ij"), -1).reshape(
            -1, self.rank
        )
        log_r = np.logaddexp.reduce(
            u @ mu.T - (mu**2).sum(1) / 2 + np.log(self.prior), axis=1
        )
        mass = np.exp(-(u**2).sum(1) / 2) * (h / math.sqrt(2 * math.pi)) ** self.rank
        kept = (mass > 1e-20) | (mass * np.exp(log_r) > 1e-20)  # of either law
        log_r = log_r[kept]
        mass = mass[kept]
        top = float(log_r.max())
        # beyond, t phi_1^2 or its bound is below e^-40
        tau = np.arange(-top - 40.0 + place * step, 40.0 - float(log_r.min()), step)
        total = 0.0
        for part in np.array_split(tau, max(1, len(tau) * len(log_r) // BLOCK_NUMBERS)):
            grown = np.exp(np.minimum(part[:, None] + log_r, 700.0))  # t r
            falls = mass * np.exp(log_r) * np.exp(-grown)
            q = -np.expm1(-grown) @ mass
            phi1 = falls.sum(1)
            # where phi_0 is below that, phi_1^2 has vanished too
            log_phi0 = np.log1p(-np.minimum(q, 1 - EPS))
            total += float(np.sum(np.exp(part + (self.length - 2) * log_phi0) * phi1**2))
        return (self.length - 1) * step * total
