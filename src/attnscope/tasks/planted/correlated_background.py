"""Single-location regression before a background that is neither centred nor white.

notation: as in single_location, and mu0 = mean, S0 = covariance = C C^T, n = degrees_of_freedom, x'
= C^{-1}(x - mu0).

    X_l ~ N(mu0, S0) for l != J (or Student t with n degrees of freedom and this covariance),
        X_J ~ N(mu0 + s k*, S1),   Y = X_J.v* + noise
    S1 = gam^2 S0 ("scaled") or gam^2 I ("isotropic")

A token's log-likelihood ratio is quadratic in x; with q0 = |x'|^2 and q1 the squared distance of x
to its mean in units of S1,

    l(x) = (q0 - q1)/2 + (log det S0 - log det S1)/2                           (Gaussian background)
    l(x) = ((n + d)/2) log(1 + q0/(n - 2)) - q1/2 + constants                            (Student t)

and P(J = l | X) ~ pi_l e^{l(x_l)}, E[Y | X] = sum_l P(J = l | X) x_l.v*, E[(Y - E[Y|X])^2] = E
Var(Y | X). Where S1 = gam^2 S0 and the background is Gaussian, x -> x' is a bijection onto the
isotropic task with k' = C^{-1}k*, v' = C^T v*, s' = s|k'| and Y = mu0.v* + |v'| Y': every exact
result carries over, the Bayes risk as |v'|^2 times the isotropic one. The best affine predictor
sees only covariances: for uniform positions, with A = (1 - 1/L) S0 + S1/L,

    R_lin = v*.S1 v* - (S1 v*).A^{-1}(S1 v*)/L.

Exact: posterior, Bayes predictor, these risks. In all other cases the Bayes risk is an integral
over means of single tokens, which are sampled from laws between informative and background
(numerics.integrals.one_token, numerics.integrals.tilted): it sees rare events, and has a standard
error.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import cho_solve

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.sampled_estimate import sampled_estimate
from attnscope.numerics.integrals.one_token import SINGLE_TOKEN_METHOD, Draws, pair_risk
from attnscope.numerics.integrals.tilted import (
    Background,
    Normal,
    bridge,
    log_normal,
    mixed_draws,
)
from attnscope.tasks.planted.correlated_tokens import CorrelatedTokens
from attnscope.tasks.planted.definition_checks import LARGEST_LOG_RATIO

__all__ = ["CorrelatedBackground"]


class CorrelatedBackground(CorrelatedTokens):
    """A SingleLocation task whose background has a mean and a covariance.

    Args:
        task: gives dim, length, gamma, noise, signal, location_probs, key and value.
        mean: mu0, (dim,); 0 if None.
        covariance: S0, (dim, dim), symmetric positive definite; the identity if None.
        degrees_of_freedom: n > 2 makes the background a multivariate Student t with this mean and
            covariance; None is Gaussian.
        informative: covariance of the informative token, "scaled" (gamma^2 S0) or "isotropic"
            (gamma^2 I).

    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> task = SingleLocation(dim=6, length=4, signal=2.0, seed=1)
    >>> correlated = CorrelatedBackground(task, covariance=np.diag([4.0, 1, 1, 1, 1, 0.25]))
    >>> batch = correlated.sample(3, seed=0)
    >>> white = correlated.whiten()
    >>> bool(np.allclose(correlated.bayes_predict(batch.tokens), white.unwhiten(white.task.bayes_predict(white.tokens(batch.tokens)))))
    True
    """

    # -- risks -------------------------------------------------------------------------------------

    def null_risk(self) -> Estimate:
        """Risk of predicting the mean of Y: v*.S1 v* (+ noise^2)."""
        v = self.value
        excess = float(v @ self.informative_covariance @ v)
        return estimate(excess, self._null_rounding(), "closed form", self.noise)

    def _null_rounding(self) -> float:
        """Bound on the rounding of v*.S1 v*: of its terms before they cancel."""
        v = np.abs(self.value)
        return 1e-15 * (2 * self.dim + 4) * float(v @ np.abs(self.informative_covariance) @ v)

    def linear_risk(self) -> Estimate:
        """Risk of the best affine predictor of Y from all tokens (module docstring)."""
        if self.task.location_probs is None:
            s1v = self.informative_covariance @ self.value
            L = self.length
            A = (1 - 1 / L) * self.covariance + self.informative_covariance / L
            sizes = np.linalg.eigvalsh(A)
            null = float(self.value @ s1v)
            seen = float(s1v @ cho_solve((np.linalg.cholesky(A), True), s1v)) / L
            # what solving multiplies rounding errors by
            condition = float(sizes[-1] / sizes[0])
            error = self._null_rounding() + 1e-14 * self.dim * (
                null + min(condition * seen, 1e14 * null)
            )
            return estimate(max(null - seen, 0.0), error, "closed form", self.noise)
        if self.informative != "scaled":
            must = "uniform where informative='isotropic'"
            raise bad(
                "location_probs",
                "CorrelatedBackground.linear_risk",
                must,
                "other probabilities",
                "location_probs=None",
            )
        white = self._whitened_task
        inner = white.task.linear_risk()
        excess = white.scale**2 * inner.excess
        nothing = self.null_risk()
        rounding = nothing.error / nothing.excess  # relative, of scale^2 = v*.S0 v*
        error = white.scale**2 * inner.error + rounding * excess
        if self.alignment != 0:  # else the whitened key has no effect
            sizes = np.linalg.eigvalsh(self.covariance)
            error += (
                rounding + 1e-15 * self.dim * float(sizes[-1] / sizes[0])
            ) * nothing.excess
        return estimate(excess, error, inner.method, self.noise)

    def _risk_ceiling(self) -> float:
        """An upper bound on the Bayes risk:
        the null risk, or the best affine risk where that is known.
        """
        known = [self.null_risk().excess]
        if self.task.location_probs is None:
            known.append(self.linear_risk().excess + self.linear_risk().error)
        return float(min(known))

    def _draw_single_tokens(self, samples: int, seed: int) -> Draws:
        """Single tokens around mu0, in coordinates of diagonal covariances.

        "scaled": x' = C^{-1}(x - mu0) along k', and the squared length of the d - 1 other
        coordinates, which are alike: given it the part of v' across k' has mean 0 and variance that
        square over d - 1. "isotropic": the eigenvectors of S0.
        """
        n = self.degrees_of_freedom
        pi = self.task._distinct_probs()[0]
        reach = (-math.log(pi.max()), -math.log(pi.min()))
        if self.informative == "scaled":
            white = self._whitened_task
            axes = self.dim - 1
            inverse = self.gamma**-2
            one = Normal(np.array([white.task.signal]), np.array([inverse]), inverse)
            back = Background(np.ones(1), 1.0, n)
        else:
            variances, vectors = np.linalg.eigh(self.covariance)
            one = Normal(
                self.signal * (vectors.T @ self.key), np.full(self.dim, self.gamma**-2), 1.0
            )
            axes = 0
            back = Background(1 / variances, 1.0, n)
        drawn = mixed_draws(bridge(one, back, axes, reach), back, axes, samples, [seed, 5])
        log_ratio = log_normal(one, axes, drawn.x, drawn.rest) - drawn.log_back
        if self.informative == "isotropic":
            return Draws(
                log_ratio,
                drawn.log_weight,
                drawn.x @ (vectors.T @ self.value),
                None,
                None,
                drawn.groups,
            )
        c = float(np.clip(white.task.key @ white.task.value, -1.0, 1.0))
        across = white.scale**2 * (1 - c) * (1 + c) / axes * drawn.rest
        return Draws(
            log_ratio,
            drawn.log_weight,
            white.scale * c * drawn.x[:, 0],
            across,
            None,
            drawn.groups,
        )

    def _within_reach(self, of: str) -> None:
        """Refuse a signal whose log-likelihood ratios are so large that their rounding errors
        are.
        """
        smallest = float(np.linalg.eigvalsh(self.covariance)[0])
        own = smallest if self.informative == "scaled" else 1.0
        size = self.signal**2 * (1 / smallest + 1 / (own * self.gamma**2))
        if not size <= LARGEST_LOG_RATIO:
            must = f"one with log-likelihood ratios of size <= {LARGEST_LOG_RATIO:g}"
            raise bad(
                "signal",
                of,
                must,
                f"{self.signal:g}, which gives {size:.3g}",
                "a smaller signal",
            )

    def bayes_risk(self, samples: int = 40_000, seed: int = 0) -> Estimate:
        """Risk of E[Y | X]: exact where `whiten` applies, else from `samples` draws of single
        tokens, with a standard error.
        """
        of = "CorrelatedBackground.bayes_risk"
        samples = check.integer(samples, "samples", of, 2)
        seed = check.seed_value(seed, of)
        if self.informative == "scaled" and self.degrees_of_freedom is None:
            white = self._whitened_task
            inner = white.task.bayes_risk()
            gain = white.scale**2
            log_excess = inner.log_excess + math.log(gain)
            return estimate(
                gain * inner.excess,
                gain * inner.error,
                "whitening, " + inner.method,
                self.noise,
                log_excess,
            )
        self._within_reach(of)
        out = pair_risk(self._draw_single_tokens(samples, seed), *self.task._distinct_probs())
        return sampled_estimate(out, self._risk_ceiling(), self.noise, SINGLE_TOKEN_METHOD)
