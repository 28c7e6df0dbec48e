"""The averages of the Bayes-optimal equations on drawn bags: a second route to their solutions.

notation: nu = strength, D = noise^2, q_k and q_v the overlaps of key and value, V = D + 1 - q_v.

A bag of L tokens, the first of which is informative, with a_l, b_l and eps standard normal:

    o_l = sqrt(nu q_k) a_l + nu q_k 1[l = 1],  w_l = sqrt(q_v) b_l,  y = w_1 + sqrt(V) eps,
    e_l = (y - w_l)/sqrt(V),    r_l proportional to exp(o_l - e_l^2/2)
    A = E sum r_l^2,   B = E sum r_l^2 e_l^2,
    Psi = E log sum exp(o_l - e_l^2/2) - log L - nu q_k/2 - log(2 pi V)/2.

The solutions are those of q_k/(1 - q_k) = alpha nu A and q_v/(1 - q_v) = alpha B/V, reached by
iterating both; Phi = alpha Psi + (1/2) sum of q + log(1 - q) is their log evidence per dimension.

The means run over one set of scrambled Sobol points, the same for all overlaps, so alpha is a smooth
function of them. Nothing is shared with theory.samples or its quadrature (which averages r_1 and
r_1 eps^2, and turns 1/sum into an integral); the error is that of the points.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri, softmax
from scipy.stats import qmc

__all__ = ["DrawnChannel", "Overlap"]

LOG2_POINTS = 15  # 32768 bags: alpha at the threshold of samples-03 then errs by 0.2 %
CONVERGED = 1e-6  # change of the overlaps in one iteration, far below the error of the points
ITERATIONS = 500  # 20 to 40 are usual away from a threshold


class Overlap(NamedTuple):
    """A pair of overlaps, of the key and of the value."""

    key: float
    value: float


class DrawnChannel:
    """The equations of bags of one strength, length and noise^2."""

    def __init__(self, strength: float, length: int, noise_variance: float, seed: int):
        self.strength = strength
        self.length = length
        self.noise_variance = noise_variance
        points = qmc.Sobol(2 * length + 1, seed=seed).random_base2(LOG2_POINTS)
        normal = ndtri(points)
        normal = (normal - normal.mean(axis=0)) / normal.std(axis=0)
        self.a, self.b, self.eps = np.split(normal, [length, 2 * length], axis=1)

    def _exponents(self, at: Overlap) -> tuple[np.ndarray, np.ndarray, float]:
        """(o_l - e_l^2/2, e_l, V), the arrays of shape (bags, L)."""
        V = self.noise_variance + 1 - at.value
        scores = math.sqrt(self.strength * at.key) * self.a
        scores[:, 0] += self.strength * at.key
        w = math.sqrt(at.value) * self.b
        e = (w[:, :1] - w) / math.sqrt(V) + self.eps
        return scores - e * e / 2, e, V

    def precisions(self, at: Overlap) -> tuple[float, float]:
        """(nu A, B/V): q/(1 - q) per bag and dimension, of key and value."""
        exponents, e, V = self._exponents(at)
        squares = softmax(exponents, axis=1) ** 2
        bags = len(e)
        return self.strength * float(squares.sum()) / bags, float(
            np.vdot(squares, e * e)
        ) / bags / V

    def solution(self, alpha: float, start: Overlap) -> Overlap:
        """Where iterating the equations from `start` comes to rest."""
        at = start
        for _ in range(ITERATIONS):
            new = Overlap(*(alpha * p / (1 + alpha * p) for p in self.precisions(at)))
            moved = max(abs(x - y) for x, y in zip(at, new))
            at = new
            if moved < CONVERGED:
                break
        return at

    def alpha(self, value: float, guess: float) -> tuple[float, float]:
        """(alpha, q_k) of the solution with this q_v, by iterating q_k from `guess`."""
        key = guess
        alpha = math.nan
        for _ in range(ITERATIONS):
            for_key, for_value = self.precisions(Overlap(key, value))
            alpha = value / (1 - value) / for_value
            new = alpha * for_key / (1 + alpha * for_key)
            if abs(new - key) < CONVERGED:
                break
            key = new
        return alpha, key

    def log_evidence(self, alpha: float, at: Overlap) -> float:
        """Phi."""
        exponents, _, V = self._exponents(at)
        psi = float(logsumexp(exponents, axis=1).mean()) - math.log(self.length)
        psi -= (self.strength * at.key + math.log(2 * math.pi * V)) / 2
        return alpha * psi + sum(q + math.log1p(-q) for q in at) / 2
