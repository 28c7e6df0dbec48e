"""Single-location regression: one token at a latent position carries the label.

notation: d = dim, L = length, gam = gamma, s = signal, eps = noise, pi = location_probs, k* = key,
v* = value, c = k*.v*.

    J ~ pi on {0..L-1},   X_J ~ N(s k*, gam^2 I_d),   X_l ~ N(0, I_d) for l != J,
        Y = X_J.v* + eps N(0, 1)

(Marion, Berthier, Biau, Boyer, ICLR 2025; there s = sqrt(d/2), gam^2 = 1/2, pi uniform and c = 0.)
A token's log-likelihood ratio and the posterior of the location are

    l(x) = -d log gam - s^2/(2 gam^2) + s x.k*/gam^2 - (1/gam^2 - 1)|x|^2/2,
        P(J = l | X) ~ pi_l exp(l(x_l)),

and the Bayes predictor is E[Y | X] = sum_l P(J = l | X) x_l.v*. With a_l = 1 - pi_l + pi_l gam^2
the covariances are Cov(Y, X_l) = pi_l gam^2 v* and Cov(X) = diag(a) (x) I + s^2 (diag pi - pi pi^T)
(x) k* k*^T, so the best affine predictor has

    R_lin = gam^2 - gam^4 [(1 - c^2) sum_l pi_l^2/a_l
        + c^2 pi^T (diag a + s^2 (diag pi - pi pi^T))^-1 pi]
          = gam^2 [(1 - c^2) sum_l pi_l (1-pi_l)/a_l + c^2 (sum_l pi_l (1-pi_l)/D_l) / (sum_l pi_l
              a_l/D_l)],   D = a + s^2 pi,

the second line by the Sherman-Morrison identity and sum_l pi_l = 1: a sum of positive terms, so
nothing cancels. Everything here is exact: R_lin in closed form, the Bayes risk by the
one-dimensional integrals of numerics.integrals.bayes_integral.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.integrals.bayes_integral import (
    LogIntegral,
    bayes_excess,
    location_error,
)
from attnscope.tasks.base import one_hot_means
from attnscope.tasks.planted.pair import Located

__all__ = ["Batch", "LinearPredictor", "SingleLocation"]


class Batch(NamedTuple):
    """Sequences with their labels.

    Attributes:
        tokens: (n, L, d).
        target: (n,).
        location: (n,), of the token that carries the label, 0-based.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> batch = task.sample(2, seed=1)
    >>> tokens, target, location = batch
    >>> tokens.shape, target.shape, location
    ((2, 10, 400), (2,), array([4, 5]))
    """

    tokens: np.ndarray
    target: np.ndarray
    location: np.ndarray


class LinearPredictor(NamedTuple):
    """The best affine predictor: intercept + sum_l (along_value_l v* + along_key_l k*).x_l.

    Attributes:
        intercept: a number.
        along_value, along_key: (length,) each.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> best = task.linear_predictor()
    >>> best.intercept, best.along_value.round(4)[:2]
    (0.0, array([0.0526, 0.0526]))
    """

    intercept: float
    along_value: np.ndarray
    along_key: np.ndarray


class SingleLocation(Located[Batch]):
    """One of `length` tokens in R^dim, at a random position, carries the label.

    Args:
        dim: d >= 2. No array of this length is made before `key`, `value` or `sample` is used.
        length: L >= 1.
        gamma: standard deviation of the informative token around its mean, > 0.
        noise: standard deviation of the label noise, >= 0.
        signal: s >= 0, the length of the informative token's mean; sqrt(dim/2) if None.
        location_probs: pi, (length,) probabilities of the positions; uniform if None.
        key, value: unit vectors k*, v* (dim,); where None, drawn from `seed` on first access,
            orthogonal to the other.

    >>> task = SingleLocation(dim=400, length=10)
    >>> batch = task.sample(3, seed=1)
    >>> batch.tokens.shape, batch.target.shape, batch.location.shape
    ((3, 10, 400), (3,), (3,))
    >>> round(task.linear_risk().value, 5), round(task.bayes_risk().log_excess, 6)
    (0.47368, -91.452905)
    """

    def __init__(
        self,
        dim: int,
        length: int,
        gamma: float = 0.5**0.5,
        noise: float = 0.0,
        signal: float | None = None,
        location_probs: np.ndarray | None = None,
        key: np.ndarray | None = None,
        value: np.ndarray | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(dim, length, gamma, noise, signal, key, value, seed)
        self.location_probs = None
        if location_probs is not None:
            self.location_probs = check.probabilities(
                location_probs, "location_probs", "SingleLocation", self.length
            )

    @classmethod
    def spiked(
        cls, dim: int, length: int, strength: float, noise: float = 0.0, seed: int = 0
    ) -> SingleLocation:
        """The O(1) spike of Duranthon et al. (ICLR 2026): gamma = 1 and |mean|^2 = strength (their
        nu), so that dim enters no risk.

        >>> round(SingleLocation.spiked(dim=50, length=10, strength=5.0).bayes_risk().value, 6)
        0.359808
        """
        nu = check.real(strength, "strength", "SingleLocation.spiked", 0, hint="strength=5.0")
        return cls(dim, length, gamma=1.0, noise=noise, signal=math.sqrt(nu), seed=seed)

    def __repr__(self) -> str:
        numbers = (
            f"dim={self.dim}, length={self.length}, gamma={self.gamma:g}, "
            f"noise={self.noise:g}, signal={self.signal:g}"
        )
        return f"SingleLocation({numbers}, alignment={self.alignment:g}, seed={self.seed})"

    @property
    def given(self) -> dict[str, np.ndarray | None]:
        """The arrays this task was given (None where it draws or defaults):
        with its numbers, all that is needed to rebuild it.
        """
        return {"location_probs": self.location_probs, "key": self._key, "value": self._value}

    # -- data --------------------------------------------------------------------------------------

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> Batch:
        location = self._draw_locations(n, rng)
        target = self.noise * rng.standard_normal(n)
        tokens = np.empty((n, self.length, self.dim), dtype)
        # in place: no second array of this size
        rng.standard_normal(out=tokens, dtype=dtype.type)
        # rows gathered at a time: a few MB of working set, whatever n
        block = max(1, (1 << 18) // self.dim)
        for i in range(0, n, block):
            rows = np.arange(i, min(n, i + block))
            where = rows, location[rows]
            tokens[where] = self.signal * self.key + self.gamma * tokens[where].astype(
                np.float64
            )
            # the label of the token as stored
            target[rows] += tokens[where].astype(np.float64) @ self.value
        return Batch(tokens, target, location)

    def latents(self) -> tuple[np.ndarray, np.ndarray]:
        """The positions, and how likely they are."""
        pi = self.location_probs
        uniform = np.full(self.length, 1 / self.length) if pi is None else pi
        return np.arange(self.length), uniform

    def latent(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """(n,): the position J."""
        return self._draw_locations(n, rng)

    def means(self, latent: np.ndarray) -> np.ndarray:
        """(n, L, 2): s on the key at J."""
        return one_hot_means(latent, self.length, 2, 0, self.signal)

    def scales(self, latent: np.ndarray) -> np.ndarray:
        """(n, L): gam at J, else 1."""
        out = np.ones((len(latent), self.length))
        out[np.arange(len(latent)), latent] = self.gamma
        return out

    def label(
        self, fields: np.ndarray, latent: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """(n,): X_J.v*."""
        return fields[np.arange(len(fields)), latent, 1]

    def _draw_locations(self, n: int, rng: np.random.Generator) -> np.ndarray:
        if self.location_probs is None:
            return rng.integers(self.length, size=n)
        # roundoff of the sum must not select a position beyond it
        last = int(np.flatnonzero(self.location_probs)[-1])
        return np.minimum(
            np.searchsorted(np.cumsum(self.location_probs), rng.random(n), side="right"), last
        )

    # -- inference ---------------------------------------------------------------------------------

    def _infer(self, tokens: np.ndarray, method: str) -> tuple[np.ndarray, np.ndarray]:
        x, _ = check.tokens_array(tokens, f"SingleLocation.{method}", self.length, self.dim)
        # log 0 = -inf is the right logit of an impossible position
        with np.errstate(divide="ignore"):
            log_prior = 0.0 if self.location_probs is None else np.log(self.location_probs)
        return self._posterior_and_mean(x, True, lambda _, scores: log_prior + scores)

    # -- exact risks -------------------------------------------------------------------------------

    def null_risk(self) -> Estimate:
        """Risk of predicting the mean of Y without looking at the tokens: gam^2 (+ noise^2)."""
        return estimate(self.gamma**2, 0.0, "closed form", self.noise)

    def linear_risk(self) -> Estimate:
        """Risk of the best affine predictor of Y from all tokens (module docstring)."""
        c = self.alignment
        g2 = self.gamma**2
        pi, counts = self._distinct_probs()
        others = _other_positions(pi, counts)
        a = others + pi * g2
        D = a + self.signal**2 * pi
        across = np.sum(counts * pi * others / a)
        along = np.sum(counts * pi * others / D) / np.sum(counts * pi * a / D)
        excess = g2 * ((1 - c * c) * across + c * c * along)
        return estimate(
            excess, 1e-14 * excess, "closed form", self.noise
        )  # sums of positive terms: a few dozen roundings

    def linear_predictor(self) -> LinearPredictor:
        """The best affine predictor; k* and v* stay implicit in it, so dim may be huge."""
        check.fits_in_memory(
            2 * self.length,
            8,
            "the coefficients",
            "SingleLocation.linear_predictor",
            "linear_risk(), which groups equal positions",
        )
        c = self.alignment
        g2 = self.gamma**2
        s = self.signal
        pi = (
            np.full(self.length, 1 / self.length)
            if self.location_probs is None
            else self.location_probs
        )
        a = 1 - pi + pi * g2
        D = a + s * s * pi
        along_value = g2 * pi / a
        along_key = c * g2 * (pi / D / np.sum(pi * a / D) - pi / a)
        intercept = s * c - s * float(np.sum(pi * (c * along_value + along_key)))
        return LinearPredictor(intercept, along_value, along_key)

    def bayes_risk(self) -> Estimate:
        """Risk of E[Y | X], the least any predictor can reach;
        relative accuracy holds to 1e-300 and in log_excess beyond.
        """
        out = bayes_excess(
            self.dim, self.gamma, self.signal, *self._distinct_probs(), self.alignment
        )
        return _estimate_from_log(out, self.noise)

    def location_error(self) -> Estimate:
        """1 - E[P(J | X)]: the expected posterior mass on wrong positions."""
        return _estimate_from_log(
            location_error(self.dim, self.gamma, self.signal, *self._distinct_probs()), 0.0
        )

    def _distinct_probs(self) -> tuple[np.ndarray, np.ndarray]:
        if self.location_probs is None:
            return np.array([1.0 / self.length]), np.array([self.length])
        return np.unique(self.location_probs[self.location_probs > 0], return_counts=True)


def _other_positions(pi: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """1 - pi as the sum over the other positions, which stays accurate where pi rounds to 1."""
    mass = counts * pi
    before = np.concatenate([[0.0], np.cumsum(mass)[:-1]])
    after = np.concatenate([np.cumsum(mass[::-1])[:-1][::-1], [0.0]])
    return before + after + (counts - 1) * pi


def _estimate_from_log(out: LogIntegral, noise: float) -> Estimate:
    excess = math.exp(out.log_value)
    return estimate(
        excess, out.relative_error * excess, "log-space quadrature", noise, out.log_value
    )
