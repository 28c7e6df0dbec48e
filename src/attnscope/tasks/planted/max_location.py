"""Max-type location: all tokens look alike, and the one with the largest score along k* tends to be
the informative one.

notation: d = dim, L = length, nu = strength, chi_l = X_l.k*, w_l = X_l.v*, k* perpendicular to v*.

    X_l ~ N(0, I_d) independent,   P(J = l | X) = softmax(nu chi)_l =: p_l,
        Y = X_J.v* + noise N(0, 1)

(Duranthon et al., ICLR 2026: max-SLR.) The posterior is the location law itself, so softmax
attention with inverse temperature nu at (k*, v*) is the Bayes predictor E[Y | X] = sum_l p_l w_l,
identically. The values w are independent of the scores, hence

    R_B = 1 - E sum_l p_l^2 = E sum_{j != m} p_j p_m
        (numerics.integrals.max_integral; nu R_B -> L (L-1) int phi^2 Phi^{L-2} = E[spacing] ...)
    best linear attention sum_l (c + a chi_l) w_l:   1 - (1 + (nu R_B)^2)/L,
        because E chi_J = E sum_l p_l chi_l = nu R_B (Stein);

its limit nu -> inf, 1 - (1 + (E max chi)^2)/L, does not vanish. The best affine predictor is the
mean of the w_l, with risk 1 - 1/L. All of it exact; the Bayes risk falls like 1/nu only, because
the two largest of L normals are close with polynomial probability.
"""

from __future__ import annotations

import numpy as np

from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.integrals.max_integral import disagreement
from attnscope.tasks.base import Projections, gaussian_fields
from attnscope.tasks.planted.pair import Located
from attnscope.tasks.planted.single_location import Batch

__all__ = ["MaxLocation"]


class MaxLocation(Located[Batch]):
    """The label comes from a token chosen by softmax(strength X.key) (module docstring).

    Args:
        dim, length, noise, key, value, seed: as in SingleLocation; key and value perpendicular.
        strength: nu >= 0; 0 is a uniform choice, infinity the largest score.

    >>> task = MaxLocation(dim=20, length=10, strength=5.0)
    >>> round(task.bayes_risk().value, 6), round(task.linear_attention_risk().value, 4)
    (0.296135, 0.6808)
    """

    def __init__(
        self,
        dim: int,
        length: int,
        strength: float = 5.0,
        noise: float = 0.0,
        key: np.ndarray | None = None,
        value: np.ndarray | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(dim, length, 1.0, noise, 0.0, key, value, seed)
        self.strength = check.real(
            strength, "strength", "MaxLocation", 0, hint="strength=5.0"
        )
        self._refuse_oblique()

    def __repr__(self) -> str:
        return (
            f"MaxLocation(dim={self.dim}, length={self.length}, strength={self.strength:g}, "
            f"noise={self.noise:g}, seed={self.seed})"
        )

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> Batch:
        tokens = np.empty((n, self.length, self.dim), dtype)
        rng.standard_normal(out=tokens, dtype=dtype.type)
        target = self.noise * rng.standard_normal(n)
        location = np.empty(n, dtype=np.int64)
        for rows, scores, values in self._score_blocks(tokens, quadratic=False):
            # the largest of score + Gumbel noise is a draw from the softmax
            location[rows] = np.argmax(
                self.strength * scores + rng.gumbel(size=scores.shape), axis=1
            )
            target[rows] += values[np.arange(len(values)), location[rows]]
        return Batch(tokens, target, location)

    def projections(self, n: int, gram: np.ndarray, rng: np.random.Generator) -> Projections:
        """n sequences as far as the vectors of `gram` see them (tasks/base.py);
        the location follows from the scores.
        """
        scales = np.ones((n, self.length))
        fields = gaussian_fields(np.zeros((n, self.length, 2)), scales, gram, rng)
        location = np.argmax(
            self.strength * fields[:, :, -2] + rng.gumbel(size=scales.shape), axis=1
        )
        return Projections(fields, fields[np.arange(n), location, -1], location, scales)

    def _infer(self, tokens: np.ndarray, method: str) -> tuple[np.ndarray, np.ndarray]:
        x, _ = check.tokens_array(tokens, f"MaxLocation.{method}", self.length, self.dim)
        return self._posterior_and_mean(x, False, lambda _, scores: self.strength * scores)

    def null_risk(self) -> Estimate:
        """Risk of predicting 0, the mean of Y: 1 (+ noise^2)."""
        return estimate(1.0, 0.0, "closed form", self.noise)

    def linear_risk(self) -> Estimate:
        """Risk of the best affine predictor, the mean of the w_l: 1 - 1/L."""
        return estimate(1 - 1 / self.length, 0.0, "closed form", self.noise)

    def bayes_risk(self) -> Estimate:
        """Risk of E[Y | X] = softmax attention at inverse temperature `strength`."""
        return estimate(
            *disagreement(self.strength, self.length), "2-D quadrature", self.noise
        )

    def location_error(self) -> Estimate:
        """1 - E[P(J | X)], equal to the Bayes risk without noise."""
        return estimate(*disagreement(self.strength, self.length), "2-D quadrature")

    def linear_attention_risk(self) -> Estimate:
        """Risk of the best linear attention sum_l (c + a X_l.k*) X_l.v* (module docstring)."""
        value, error = disagreement(self.strength, self.length)
        nu = self.strength
        L = self.length
        return estimate(
            1 - (1 + (nu * value) ** 2) / L,
            2 * nu**2 * value * error / L + 1e-15,
            "2-D quadrature",
            self.noise,
        )
