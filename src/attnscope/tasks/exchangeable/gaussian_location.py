"""Gaussian location: tokens are noisy copies of one latent vector, the simplest exchangeable
sequence.

notation: d = dim, L = length, t2 = prior_variance, s2 = noise_variance, a = readout.

    z ~ N(0, t2 I_d),   x_1, x_2, ... | z independent N(z, s2 I_d),
        target y = z, or a.z + noise N(0, 1)

    z | x_1 .. x_L ~ N(m_L, v_L I),   m_L = L t2/(s2 + L t2) mean(x),   v_L = t2 s2/(s2 + L t2)
    log p(x) = -1/2 sum over coordinates of [(L-1) log s2 + log(s2 + L t2) + L log 2 pi
        + sum_l (x_l - mean)^2/s2 + L mean^2/(s2 + L t2)]

Everything is exact, for every L including 0 (the prior), at one parameter value. The statistic (L,
mean) is sufficient. m_L is softmax attention with equal scores and one sink of logit log(s2/t2) and
value 0, at every L: claim exch-05.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array
from attnscope.numerics.border.estimate import Estimate, estimate

__all__ = ["GaussianBatch", "GaussianLocation", "GaussianPosterior"]

VALUE_ROUNDING = 8 * float(
    np.finfo(np.float64).eps
)  # seven operations, each rounded to eps/2


class GaussianBatch(NamedTuple):
    """tokens (n, L, d), target (n, d) or, with a readout, (n,), latent z (n, d)."""

    tokens: np.ndarray
    target: np.ndarray
    latent: np.ndarray


class GaussianPosterior(NamedTuple):
    """mean m_L (..., d) and the variance v_L of each coordinate."""

    mean: np.ndarray
    variance: float


class GaussianLocation:
    """Tokens x_l = z + noise around a latent z; the target is z or a linear label of it.

    Args:
        dim: d >= 1.
        prior_variance: t2 > 0, of each coordinate of z.
        noise_variance: s2 > 0, of each coordinate of a token around z.
        readout: a (d,): the target is the number a.z (+ noise); None: the target is z itself.
        noise: standard deviation of the target's noise, per coordinate.

    >>> task = GaussianLocation(dim=2, prior_variance=1.0, noise_variance=0.25)
    >>> task.posterior(np.ones((4, 2)))
    GaussianPosterior(mean=array([0.94117647, 0.94117647]), variance=0.058823529411764705)
    >>> [round(task.bayes_risk(length).value, 4) for length in (0, 1, 100)]
    [2.0, 0.4, 0.005]
    """

    def __init__(
        self,
        dim: int = 3,
        prior_variance: float = 1.0,
        noise_variance: float = 0.25,
        readout: np.ndarray | None = None,
        noise: float = 0.0,
    ) -> None:
        self.dim = check.integer(dim, "dim", "GaussianLocation", 1)
        self.prior_variance = check.real(
            prior_variance, "prior_variance", "GaussianLocation", 0, strict=True
        )
        self.noise_variance = check.real(
            noise_variance, "noise_variance", "GaussianLocation", 0, strict=True
        )
        self.readout = (
            None
            if readout is None
            else check.float_array(readout, "readout", "GaussianLocation", (self.dim,))
        )
        self.noise = check.real(noise, "noise", "GaussianLocation", 0)

    def __repr__(self) -> str:
        numbers = (
            f"dim={self.dim}, prior_variance={self.prior_variance:g}, "
            f"noise_variance={self.noise_variance:g}"
        )
        return f"GaussianLocation({numbers}, noise={self.noise:g})"

    def sample(self, n: int, length: int, seed: int = 0) -> GaussianBatch:
        """Draw n sequences of `length` >= 0 tokens."""
        of = "GaussianLocation.sample"
        n = check.integer(n, "n", of, 1)
        length = check.integer(length, "length", of, 0)
        check.fits_in_memory(
            n * length * self.dim, 8, "tokens", of, "fewer sequences at a time"
        )
        rng = np.random.default_rng(check.seed_value(seed, of))
        z = self.prior_variance**0.5 * rng.standard_normal((n, self.dim))
        target = self._noiseless_label(z)
        target = target + self.noise * rng.standard_normal(target.shape)
        tokens = z[:, None] + self.noise_variance**0.5 * rng.standard_normal(
            (n, length, self.dim)
        )
        return GaussianBatch(tokens, target, z)

    def posterior(self, tokens: np.ndarray) -> GaussianPosterior:
        """Law of z given tokens (..., L, d)."""
        x = context_array(tokens, "tokens", "GaussianLocation.posterior", (None, self.dim))
        t2 = self.prior_variance
        s2 = self.noise_variance
        L = x.shape[-2]
        return GaussianPosterior(
            t2 / (s2 + L * t2) * x.sum(axis=-2), self.posterior_variance(L)
        )

    def posterior_variance(self, length: int) -> float:
        """v_L, the same for every context of that length."""
        L = check.integer(length, "length", "GaussianLocation.posterior_variance", 0)
        return self.prior_variance * (
            self.noise_variance / (self.noise_variance + L * self.prior_variance)
        )

    def bayes_predict(self, tokens: np.ndarray) -> np.ndarray:
        """E[y | x] of tokens (..., L, d): (..., d), or (...) with a readout."""
        return self._noiseless_label(self.posterior(tokens).mean)

    def bayes_risk(self, length: int) -> Estimate:
        """E|y - E[y | x_1 .. x_L]|^2: |a|^2 v_L, or d v_L for the target z, plus the noise."""
        if self.readout is None:
            weight = float(self.dim)
            size = self.dim
        else:
            # rounded once, whatever d is
            weight = math.fsum(self.readout**2)
            size = 1
        excess = weight * self.posterior_variance(length)
        return estimate(
            excess, VALUE_ROUNDING * excess, "closed form", self.noise * size**0.5
        )

    def log_probability(self, tokens: np.ndarray) -> np.ndarray:
        """log p(x_1 .. x_L), (...), of tokens (..., L, d), z integrated out."""
        x = context_array(
            tokens, "tokens", "GaussianLocation.log_probability", (None, self.dim)
        )
        L = x.shape[-2]
        s2 = self.noise_variance
        if L == 0:
            return np.zeros(x.shape[:-2])
        first = x[..., :1, :]
        # exact for tokens within a factor 2: no mean is subtracted from large tokens
        apart = x - first
        shift = apart.mean(axis=-2, keepdims=True)
        mean = (first + shift)[..., 0, :]
        total = s2 + L * self.prior_variance
        squares = np.sum((apart - shift) ** 2, axis=-2) / s2 + L * mean**2 / total
        constant = (L - 1) * np.log(s2) + np.log(total) + L * np.log(2 * np.pi)
        return -np.sum(squares + constant, axis=-1) / 2

    def _noiseless_label(self, z: np.ndarray) -> np.ndarray:
        return z if self.readout is None else z @ self.readout
