"""Several informative tokens with a direction pair each: Y is the sum of their outputs.

notation: d = dim, L = length, F = directions, s = signal, gam = gamma, eps = noise, k_f = k_f*, v_f
= v_f*, mu_T = s sum_{f in T} k_f.

Position J_f carries direction f. Positions are a uniform ordered choice of F "distinct" ones, or
"independent" and uniform, and then may coincide. Given them the tokens are independent; with T_l =
{f: J_f = l} the directions that meet at l,

    X_l ~ N(mu_{T_l}, gam^2 I_d) where T_l is not empty, else N(0, I_d),
        Y = sum_f X_{J_f}.v_f + eps N(0, 1).

A token that carries T has the likelihood ratio against the background

    log r_T(x) = -d log gam - |mu_T|^2/(2 gam^2) + mu_T.x/gam^2 - (1/gam^2 - 1)|x|^2/2,
        r_empty = 1,

and P(J | X) ~ prod_l r_{T_l}(x_l). Sums over all positions go token by token over the set S of
directions already placed,
    Z_l(S) = sum_{T in S} r_T(x_l) Z_{l-1}(S - T)        (|T| <= 1 where positions are distinct),
in logarithms and without a subtraction; marginals P(J_f = l | X) from this and the same sum from
the right (for F = 2, distinct: p_1l ~ r_1l times the sum of r_2 over the other tokens). Carrying
the mean and variance of sum_f x_{J_f}.v_f along (mixtures of Gaussian-free moments, all terms
positive) gives E[Y | X] and Var(Y | X).

The Bayes risk is E Var(Y | X): the weighted mean of the exact posterior variance over sequences
that are drawn where mistakes happen (direction_moves; the position is averaged out exactly; the
outputs x.v_f too where gam = 1 and all vectors are orthonormal, R = E sum_f (1 - sum_l p_fl^2)),
with its standard error. Where moreover positions are independent, mu_T.x - |mu_T|^2/2 is a sum over
f, the posterior factorises and the risk is exactly F times that of single-location regression.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.sampled_estimate import (
    grouped_log_mean,
    groups_of,
    sampled_estimate,
)
from attnscope.numerics.semidefinite import frame_of
from attnscope.tasks.planted.direction_moves import Laws, log_density, moved
from attnscope.tasks.planted.direction_tokens import BLOCK_NUMBERS, DirectionTokens, Seen
from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["MultiDirection"]


class MultiDirection(DirectionTokens):
    """`directions` tokens of a sequence each carry a part of the label (module docstring).

    Args:
        dim: d; at least 2 `directions` where vectors are drawn.
        length: L, at least `directions` where positions are distinct.
        directions: F, from 1 to 6.
        positions: "distinct" or "independent".
        gamma, noise, signal: as in SingleLocation; signal None is sqrt(dim/2).
        keys, values: (F, dim) unit rows k_f*, v_f*; where None, drawn from `seed` on first access,
            orthonormal among all.

    >>> task = MultiDirection(dim=80, length=10, directions=2)
    >>> batch = task.sample(3, seed=1)
    >>> batch.tokens.shape, batch.target.shape, batch.location.shape, task.posterior(batch.tokens).shape
    ((3, 10, 80), (3,), (3, 2), (3, 2, 10))
    """

    # -- risks -------------------------------------------------------------------------------------

    def null_risk(self) -> Estimate:
        """Risk of predicting E Y without looking at the tokens: F gam^2 (+ noise^2) for orthonormal
        vectors.

        Where two positions can coincide, which two of F do with probability 1/L, independently for
        any two pairs, vectors that are not orthogonal add gam^2 v_f.v_g and (1/L)(1 - 1/L) s^2
        (k_g.v_f + k_f.v_g)^2/2 for every ordered pair.
        """
        G = self.teacher_gram
        L = self.length
        excess = self.directions * self.gamma**2
        if self.positions == "independent":
            for f, g in combinations(range(self.directions), 2):
                cross = self.signal * (G[2 * g, 2 * f + 1] + G[2 * f, 2 * g + 1])
                excess += 2 * self.gamma**2 * G[2 * f + 1, 2 * g + 1] / L + cross**2 / L * (
                    1 - 1 / L
                )
        return estimate(excess, 1e-14 * excess, "closed form", self.noise)

    @property
    def factorises(self) -> bool:
        """Whether the posterior is a product over directions,
        and the Bayes risk a sum (module docstring).
        """
        if self.directions == 1:
            return self.dim > 1  # a SingleLocation, which has two directions
        return self._has_plain_outputs and self.positions == "independent"

    @property
    def _has_plain_outputs(self) -> bool:
        """Whether outputs x_l.v_f are standard normal and independent of the posterior:
        gam = 1 and orthonormal vectors.
        """
        return self.gamma == 1 and np.array_equal(
            self.teacher_gram, np.eye(2 * self.directions)
        )

    def _scored_variance(self, seen: Seen) -> np.ndarray:
        """E[Var(Y | X) | scores] = sum_f (1 - sum_l p_fl^2): the outputs averaged out as well."""
        p = self._location_marginals(seen)
        np.put_along_axis(p, p.argmax(2)[..., None], 0.0, axis=2)
        missed = p.sum(2)  # 1 - p_top: 1 - p_top^2 keeps its digits as 2 missed - missed^2
        return (2 * missed - missed**2 - (p**2).sum(2)).sum(1)

    def bayes_risk(self, samples: int = 45_000, seed: int = 0) -> Estimate:
        """Risk of E[Y | X]: exact where `factorises`, else the mean exact posterior variance of
        `samples` sequences.

        Sequences are drawn halfway between two placements of the directions (direction_moves), so
        that rare mistakes are seen.
        """
        of = "MultiDirection.bayes_risk"
        n = check.integer(samples, "samples", of, 2)
        seed = check.seed_value(seed, of)
        if self.factorises:
            return self._exact_bayes_risk()
        self._move_laws().within_reach(self.length, of)
        parts = self._move_laws().parts(self.length)
        groups, each = groups_of(n, len(parts))
        rng = np.random.default_rng([seed, 5])
        logs = []
        rows = max(1, BLOCK_NUMBERS // (16 * self.length * self.directions * groups))
        for kind in parts:
            for i in range(0, each, rows):
                logs.append(self._log_terms(kind, min(rows, each - i), groups, rng))
        out = grouped_log_mean(np.concatenate(logs), groups)
        return sampled_estimate(
            out,
            float(self.null_risk().excess),
            self.noise,
            "importance-sampled posterior variances",
        )

    def _log_terms(
        self, kind: int, each: int, groups: int, rng: np.random.Generator
    ) -> np.ndarray:
        """log of (posterior variance times true over sampling density)
        of each * groups sequences after such a move.
        """
        seen, location = self._draw_projections(each * groups, rng, kind, groups)
        spread = (
            self._scored_variance(seen) if self._has_plain_outputs else self._moments(seen)[1]
        )
        with np.errstate(divide="ignore"):
            return np.log(spread) - log_density(
                self._move_laws(), location, self._ratio_table(seen)
            )

    def _move_laws(self) -> Laws:
        gram = self.teacher_gram[0::2, 0::2]
        return Laws(self.dim, self.gamma, self.signal, gram, self.positions == "distinct")

    def _ratio_table(self, seen: Seen) -> np.ndarray:
        """log r_T by bit mask of T, (2^F, n, L);
        0 for no direction, -inf where one token cannot carry T.
        """
        table = np.full((1 << self.directions, *seen.squares.shape), -np.inf)
        table[0] = 0.0
        for T, logs in self._log_ratios(seen).items():
            table[sum(1 << f for f in T)] = logs
        return table

    def _exact_bayes_risk(self) -> Estimate:
        c = float(self.teacher_gram[0, 1])
        F = self.directions
        vectors = {} if c == 0 else {"key": self.keys[0], "value": self.values[0]}
        single = SingleLocation(
            self.dim, self.length, self.gamma, 0.0, self.signal, **vectors
        ).bayes_risk()
        logs = single.log_excess + math.log(F)
        return estimate(F * single.excess, F * single.error, single.method, self.noise, logs)

    def _draw_projections(
        self, n: int, rng: np.random.Generator, kind: int = 0, groups: int = 1
    ) -> tuple[Seen, np.ndarray]:
        """The projections that inference needs of n sequences after a move of this kind (0: none), and
        the true positions. Their law is exact, and the cost does not depend on the dimension.
        """
        # (2F, q): the teachers; a dependent one adds no axis
        frame = frame_of(self.teacher_gram)
        location = self._draw_locations(n, rng)
        noise = rng.standard_normal((n, self.length, frame.shape[1]))
        drawn = moved(kind, self._move_laws(), location, noise, frame[0::2], groups, rng)
        x = drawn.scale[:, :, None] * drawn.noise + self.signal * (drawn.share @ frame[0::2])
        rest = self.dim - frame.shape[1]
        outside = drawn.scale**2 * rng.chisquare(rest, drawn.scale.shape) if rest else 0.0
        seen = x @ frame.T
        return Seen(seen[:, :, 0::2], seen[:, :, 1::2], (x * x).sum(2) + outside), location
