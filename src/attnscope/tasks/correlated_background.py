"""Single-location regression before a background that is neither centred nor white.

notation: as in single_location, and mu0 = mean, S0 = covariance = C C^T, n = degrees_of_freedom, x' = C^{-1}(x - mu0).

    X_l ~ N(mu0, S0) for l != J (or Student t with n degrees of freedom and this covariance),   X_J ~ N(mu0 + s k*, S1),   Y = X_J.v* + noise
    S1 = gam^2 S0 ("scaled") or gam^2 I ("isotropic")

A token's log-likelihood ratio is quadratic in x; with q0 = |x'|^2 and q1 the squared distance of x to its mean in units of S1,

    l(x) = (q0 - q1)/2 + (log det S0 - log det S1)/2                                                                    (Gaussian background)
    l(x) = ((n + d)/2) log(1 + q0/(n - 2)) - q1/2 + constants                                                           (Student t)

and P(J = l | X) ~ pi_l e^{l(x_l)}, E[Y | X] = sum_l P(J = l | X) x_l.v*, E[(Y - E[Y|X])^2] = E Var(Y | X). Where S1 = gam^2 S0 and the
background is Gaussian, x -> x' is a bijection onto the isotropic task with k' = C^{-1}k*, v' = C^T v*, s' = s|k'| and Y = mu0.v* + |v'| Y':
every exact result carries over, the Bayes risk as |v'|^2 times the isotropic one. The best affine predictor sees only covariances: for
uniform positions, with A = (1 - 1/L) S0 + S1/L,

    R_lin = v*.S1 v* - (S1 v*).A^{-1}(S1 v*)/L.

Exact: posterior, Bayes predictor, these risks. In all other cases the Bayes risk is an integral over means of single tokens, which are sampled from
laws between informative and background (numerics.one_token, numerics.tilted): it sees rare events, and has a standard error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import softmax

from attnscope.errors import bad
from attnscope.numerics import validation as check
from attnscope.numerics.estimate import Estimate, estimate
from attnscope.numerics.one_token import Draws, pair_risk
from attnscope.numerics.sampled_estimate import sampled_estimate
from attnscope.numerics.tilted import Background, Normal, bridge, log_normal, mixed_draws, student_constant
from attnscope.tasks.base import Projections, gaussian_fields, one_hot_means
from attnscope.tasks.planted import Planted
from attnscope.tasks.single_location import Batch, SingleLocation

__all__ = ["CorrelatedBackground", "Whitened"]

NAME = "CorrelatedBackground"
INFORMATIVE = ("scaled", "isotropic")
SYMMETRIC = 1e-9  # relative asymmetry of a covariance that counts as rounding
LARGEST_RATIO = 1e9  # log-likelihood ratios beyond this are known to 1e-7 at best
LARGEST_CONDITION = 1e12  # beyond, whitening keeps fewer than four digits
METHOD = "Monte Carlo over single tokens"
BLOCK = 1 << 19  # token entries worked on at a time


class Whitened(NamedTuple):
    """The isotropic task behind a correlated one: x' = matrix (x - shift), Y = intercept + scale Y'."""

    task: SingleLocation
    matrix: np.ndarray
    shift: np.ndarray
    scale: float
    intercept: float

    def tokens(self, x: np.ndarray) -> np.ndarray:
        """Whitened tokens, (n, L, d) from (n, L, d)."""
        return (check.tokens_array(x, "Whitened.tokens", dim=len(self.shift))[0] - self.shift) @ self.matrix.T

    def unwhiten(self, prediction: np.ndarray) -> np.ndarray:
        """The label Y that a prediction of Y' means."""
        return self.intercept + self.scale * np.asarray(prediction, dtype=np.float64)


class CorrelatedBackground(Planted[Batch]):
    """A SingleLocation task whose background has a mean and a covariance.

    Args:
        task: gives dim, length, gamma, noise, signal, location_probs, key and value.
        mean: mu0, (dim,); 0 if None.
        covariance: S0, (dim, dim), symmetric positive definite; the identity if None.
        degrees_of_freedom: n > 2 makes the background a multivariate Student t with this mean and covariance; None is Gaussian.
        informative: covariance of the informative token, "scaled" (gamma^2 S0) or "isotropic" (gamma^2 I).

    >>> task = SingleLocation(dim=6, length=4, signal=2.0, seed=1)
    >>> correlated = CorrelatedBackground(task, covariance=np.diag([4.0, 1, 1, 1, 1, 0.25]))
    >>> batch = correlated.sample(3, seed=0)
    >>> white = correlated.whiten()
    >>> bool(np.allclose(correlated.bayes_predict(batch.tokens), white.unwhiten(white.task.bayes_predict(white.tokens(batch.tokens)))))
    True
    """

    def __init__(
        self,
        task: SingleLocation,
        mean: np.ndarray | None = None,
        covariance: np.ndarray | None = None,
        degrees_of_freedom: float | None = None,
        informative: str = "scaled",
    ) -> None:
        if not isinstance(task, SingleLocation):
            raise bad("task", NAME, "a SingleLocation", task, "SingleLocation(dim=60, length=10)")
        d = task.dim
        check.fits_in_memory(4 * d * d, 8, "covariance", NAME, "a smaller dim")
        numbers = (task.length, task.gamma, task.noise, task.signal)
        super().__init__(d, *numbers, task.key, task.value, task.seed)
        self.task = task
        self.mean = np.zeros(d) if mean is None else check.array(mean, "mean", NAME, (d,)).astype(np.float64)
        self.covariance, self._root = _covariance(np.eye(d) if covariance is None else covariance, d)
        self.degrees_of_freedom = degrees_of_freedom
        if degrees_of_freedom is not None:
            self.degrees_of_freedom = check.real(degrees_of_freedom, "degrees_of_freedom", NAME, 2, strict=True)
        if informative not in INFORMATIVE:
            raise bad("informative", NAME, f"one of {INFORMATIVE}", informative)
        self.informative = informative

    def __repr__(self) -> str:
        tail = "" if self.degrees_of_freedom is None else f", degrees_of_freedom={self.degrees_of_freedom:g}"
        return f"{NAME}({self.task!r}, |mean|={np.linalg.norm(self.mean):.4g}{tail}, informative={self.informative!r})"

    @property
    def informative_mean(self) -> np.ndarray:
        """mu0 + s k*, (dim,)."""
        return self.mean + self.signal * self.key

    @cached_property
    def informative_covariance(self) -> np.ndarray:
        """S1, (dim, dim)."""
        return self.gamma**2 * (self.covariance if self.informative == "scaled" else np.eye(self.dim))

    # -- data -------------------------------------------------------------------------------------------------------

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> Batch:
        location = self.task._locations(n, rng)
        target = self.noise * rng.standard_normal(n)
        tokens = np.empty((n, self.length, self.dim), dtype)
        block = max(1, BLOCK // (self.length * self.dim))
        for i in range(0, n, block):
            rows = np.arange(i, min(n, i + block))
            z = rng.standard_normal((len(rows), self.length, self.dim))
            where = np.arange(len(rows)), location[rows]
            marked = z[where]
            x = self.mean + self._heavy(z.shape[:2], rng)[..., None] * (z @ self._root.T)
            spread = marked @ self._root.T if self.informative == "scaled" else marked
            x[where] = self.informative_mean + self.gamma * spread
            tokens[rows] = x
            target[rows] += tokens[rows, location[rows]].astype(np.float64) @ self.value  # of the token as stored
        return Batch(tokens, target, location)

    @property
    def teachers(self) -> np.ndarray:
        """(2, dim): the whitened key and value, unit vectors."""
        return self._whitened().task.teachers

    def standardised(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Whitened tokens (n, L, d) and labels (n,): what heads are trained on."""
        white = self._whitened()
        return white.tokens(batch.tokens), (batch.target - white.intercept) / white.scale

    @property
    def teacher_gram(self) -> np.ndarray:
        """(2, 2) inner products of the whitened key and value, which are unit vectors."""
        return self._whitened().task.teacher_gram

    def projections(self, n: int, gram: np.ndarray, rng: np.random.Generator) -> Projections:
        """n sequences of *whitened* tokens and labels, as far as the vectors of `gram` see them (tasks/base.py)."""
        if self.informative != "scaled":
            must = "informative='scaled': an isotropic informative token is not isotropic after whitening"
            raise bad("task", f"{NAME}.projections", must, self, "task.sample, or train(engine='full')")
        white = self._whitened()
        location = self.task._locations(n, rng)
        rows = np.arange(n)
        means = one_hot_means(location, self.length, 2, 0, white.task.signal)
        scales = self._heavy((n, self.length), rng)
        scales[rows, location] = self.gamma
        fields = gaussian_fields(means, scales, gram, rng)
        return Projections(fields, fields[rows, location, -1], location, scales, unit=white.scale)

    def _heavy(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """The random scale of a Student t token, of mean square 1; ones for a Gaussian."""
        n = self.degrees_of_freedom
        return np.ones(shape) if n is None else np.sqrt((n - 2) / rng.chisquare(n, shape))

    # -- inference --------------------------------------------------------------------------------------------------

    def log_likelihood_ratio(self, tokens: np.ndarray) -> np.ndarray:
        """l(x), (n, L): log density of a token as the informative one minus that as background, exact."""
        x = check.tokens_array(tokens, f"{NAME}.log_likelihood_ratio", self.length, self.dim)[0]
        return np.concatenate([self._ratio(part) for part in self._parts(x)])

    def location_posterior(self, tokens: np.ndarray) -> np.ndarray:
        """P(J = l | X), (n, L), exact."""
        return self._infer(tokens, "location_posterior")[0]

    posterior = location_posterior  # the name that every task has

    def bayes_predict(self, tokens: np.ndarray) -> np.ndarray:
        """E[Y | X], (n,), exact."""
        return self._infer(tokens, "bayes_predict")[1]

    def _infer(self, tokens: np.ndarray, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Posterior of the location, mean and variance of X_J.v* given X."""
        x = check.tokens_array(tokens, f"{NAME}.{method}", self.length, self.dim)[0]
        probs = self.task.location_probs
        with np.errstate(divide="ignore"):  # log 0 = -inf is the right logit of an impossible position
            log_prior = 0.0 if probs is None else np.log(probs)
        posterior = np.concatenate([softmax(log_prior + self._ratio(part), axis=1) for part in self._parts(x)])
        values = np.concatenate([part @ self.value for part in self._parts(x)])
        mean = np.sum(posterior * values, axis=1)
        return posterior, mean, np.sum(posterior * (values - mean[:, None]) ** 2, axis=1)

    def _parts(self, x: np.ndarray) -> Iterator[np.ndarray]:
        block = max(1, BLOCK // (self.length * self.dim))
        return (x[i : i + block].astype(np.float64) for i in range(0, len(x), block))

    def _ratio(self, x: np.ndarray) -> np.ndarray:
        d, gam, n = self.dim, self.gamma, self.degrees_of_freedom
        log_det = float(np.sum(np.log(np.diag(self._root))))  # half of log det S0
        white = self._white(x - self.mean)
        q0 = np.einsum("nld,nld->nl", white, white)
        scaled = self.informative == "scaled"
        centred = self._white(x - self.informative_mean) if scaled else x - self.informative_mean
        q1 = np.einsum("nld,nld->nl", centred, centred) / gam**2
        log_one = -q1 / 2 - d * math.log(gam) - (log_det if scaled else 0.0)
        if n is None:
            return log_one + q0 / 2 + log_det
        return log_one + log_det - student_constant(n, d) + (n + d) / 2 * np.log1p(q0 / (n - 2))

    def _white(self, x: np.ndarray) -> np.ndarray:
        """C^{-1} x for every row of x (..., d)."""
        flat = solve_triangular(self._root, x.reshape(-1, self.dim).T, lower=True)
        return flat.T.reshape(x.shape)

    # -- risks ------------------------------------------------------------------------------------------------------

    def whiten(self) -> Whitened:
        """The isotropic task this one is an affine image of, and the map; needs a Gaussian background and S1 = gamma^2 S0."""
        if self.informative != "scaled" or self.degrees_of_freedom is not None:
            must = "Gaussian with informative='scaled' (else the whitened tokens are not a SingleLocation)"
            raise bad("the background", f"{NAME}.whiten", must, self)
        return self._whitened()

    def _whitened(self) -> Whitened:
        t = self.task
        key, value = self._white(self.key[None])[0], self._root.T @ self.value
        scale, gain = float(np.linalg.norm(value)), float(np.linalg.norm(key))
        key, value = key / gain, value / scale
        if self.alignment == 0:  # k'.v' = k*.v*: what is left is rounding
            value = value - (key @ value) * key
            value /= np.linalg.norm(value)
        white = SingleLocation(
            t.dim, t.length, t.gamma, t.noise / scale, t.signal * gain, t.location_probs, key, value, t.seed
        )
        matrix = solve_triangular(self._root, np.eye(t.dim), lower=True)
        return Whitened(white, matrix, self.mean, scale, float(self.mean @ self.value))

    def null_risk(self) -> Estimate:
        """Risk of predicting the mean of Y: v*.S1 v* (+ noise^2)."""
        v = self.value
        excess = float(v @ self.informative_covariance @ v)
        return estimate(excess, self._rounding(), "closed form", self.noise)

    def _rounding(self) -> float:
        """Bound on the rounding of v*.S1 v*: of its terms before they cancel."""
        v = np.abs(self.value)
        return 1e-15 * (2 * self.dim + 4) * float(v @ np.abs(self.informative_covariance) @ v)

    def linear_risk(self) -> Estimate:
        """Risk of the best affine predictor of Y from all tokens (module docstring)."""
        if self.task.location_probs is None:
            s1v, L = self.informative_covariance @ self.value, self.length
            A = (1 - 1 / L) * self.covariance + self.informative_covariance / L
            sizes = np.linalg.eigvalsh(A)
            null = float(self.value @ s1v)
            seen = float(s1v @ cho_solve((np.linalg.cholesky(A), True), s1v)) / L
            condition = float(sizes[-1] / sizes[0])  # what solving multiplies rounding errors by
            error = self._rounding() + 1e-14 * self.dim * (null + min(condition * seen, 1e14 * null))
            return estimate(max(null - seen, 0.0), error, "closed form", self.noise)
        if self.informative != "scaled":
            must = "uniform where informative='isotropic'"
            raise bad("location_probs", f"{NAME}.linear_risk", must, "other probabilities", "location_probs=None")
        white = self._whitened()
        inner = white.task.linear_risk()
        excess = white.scale**2 * inner.excess
        nothing = self.null_risk()
        rounding = nothing.error / nothing.excess  # relative, of scale^2 = v*.S0 v*
        error = white.scale**2 * inner.error + rounding * excess
        if self.alignment != 0:  # else the whitened key has no say
            sizes = np.linalg.eigvalsh(self.covariance)
            error += (rounding + 1e-15 * self.dim * float(sizes[-1] / sizes[0])) * nothing.excess
        return estimate(excess, error, inner.method, self.noise)

    def _ceiling(self) -> float:
        """What the Bayes risk cannot exceed: the null risk, and the best affine one where that is known."""
        known = [self.null_risk().excess]
        if self.task.location_probs is None:
            known.append(self.linear_risk().excess + self.linear_risk().error)
        return float(min(known))

    def _draws(self, samples: int, seed: int) -> Draws:
        """Single tokens around mu0, in coordinates of diagonal covariances.

        "scaled": x' = C^{-1}(x - mu0) along k', and the squared length of the d - 1 other coordinates, which
        are alike: given it the part of v' across k' has mean 0 and variance that square over d - 1.
        "isotropic": the eigenvectors of S0.
        """
        n, pi = self.degrees_of_freedom, self.task._distinct_probs()[0]
        reach = (-math.log(pi.max()), -math.log(pi.min()))
        if self.informative == "scaled":
            white, axes, inverse = self._whitened(), self.dim - 1, self.gamma**-2
            one = Normal(np.array([white.task.signal]), np.array([inverse]), inverse)
            back = Background(np.ones(1), 1.0, n)
        else:
            variances, vectors = np.linalg.eigh(self.covariance)
            one = Normal(self.signal * (vectors.T @ self.key), np.full(self.dim, self.gamma**-2), 1.0)
            axes, back = 0, Background(1 / variances, 1.0, n)
        drawn = mixed_draws(bridge(one, back, axes, reach), back, axes, samples, [seed, 5])
        log_ratio = log_normal(one, axes, drawn.x, drawn.rest) - drawn.log_back
        if self.informative == "isotropic":
            return Draws(log_ratio, drawn.log_weight, drawn.x @ (vectors.T @ self.value), None, None, drawn.groups)
        c = float(np.clip(white.task.key @ white.task.value, -1.0, 1.0))
        across = white.scale**2 * (1 - c) * (1 + c) / axes * drawn.rest
        return Draws(log_ratio, drawn.log_weight, white.scale * c * drawn.x[:, 0], across, None, drawn.groups)

    def _within_reach(self, of: str) -> None:
        """Refuse a signal whose log-likelihood ratios are so large that their rounding errors are."""
        smallest = float(np.linalg.eigvalsh(self.covariance)[0])
        own = smallest if self.informative == "scaled" else 1.0
        size = self.signal**2 * (1 / smallest + 1 / (own * self.gamma**2))
        if not size <= LARGEST_RATIO:
            must = f"one with log-likelihood ratios of size <= {LARGEST_RATIO:g}"
            raise bad("signal", of, must, f"{self.signal:g}, which gives {size:.3g}", "a smaller signal")

    def bayes_risk(self, samples: int = 40_000, seed: int = 0) -> Estimate:
        """Risk of E[Y | X]: exact where `whiten` applies, else from `samples` draws of single tokens, with a standard error."""
        of = f"{NAME}.bayes_risk"
        samples, seed = check.integer(samples, "samples", of, 2), check.seed_value(seed, of)
        if self.informative == "scaled" and self.degrees_of_freedom is None:
            white = self._whitened()
            inner, gain = white.task.bayes_risk(), white.scale**2
            log_excess = inner.log_excess + math.log(gain)
            return estimate(
                gain * inner.excess, gain * inner.error, "whitening, " + inner.method, self.noise, log_excess
            )
        self._within_reach(of)
        out = pair_risk(self._draws(samples, seed), *self.task._distinct_probs())
        return sampled_estimate(out, self._ceiling(), self.noise, METHOD)


def _covariance(x: object, d: int) -> tuple[np.ndarray, np.ndarray]:
    """A covariance, made exactly symmetric, and its Cholesky factor."""
    S = check.array(x, "covariance", NAME, (d, d)).astype(np.float64)
    if np.abs(S - S.T).max() > SYMMETRIC * np.abs(S).max():
        raise bad(
            "covariance", NAME, "symmetric", f"entries that differ by {np.abs(S - S.T).max():.3g}", "(S + S.T) / 2"
        )
    S = (S + S.T) / 2
    values = np.linalg.eigvalsh(S)
    if not values[0] > values[-1] / LARGEST_CONDITION:
        got = f"eigenvalues from {values[0]:.3g} to {values[-1]:.3g}"
        must = f"positive definite with a condition number below {LARGEST_CONDITION:g}"
        raise bad("covariance", NAME, must, got, "S + 1e-6 * numpy.eye(dim)")
    return S, np.linalg.cholesky(S)
