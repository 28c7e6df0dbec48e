"""Tokens before a background that is neither centred nor white: their law, the exact posterior, and
the isotropic task behind them.

notation and formulas: correlated_background. With x' = C^{-1}(x - mu0), S0 = C C^T, a token's
log-likelihood ratio is quadratic in x' (Gaussian background) or has a logarithm of |x'|^2 (Student
t).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import softmax

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array
from attnscope.numerics.integrals.tilted import student_constant
from attnscope.tasks.base import Projections, checked_law, gaussian_fields, one_hot_means
from attnscope.tasks.planted.pair import Located
from attnscope.tasks.planted.single_location import Batch, SingleLocation

__all__ = ["CorrelatedTokens", "Whitened"]

INFORMATIVE_COVARIANCES = ("scaled", "isotropic")
ASYMMETRY_LIMIT = 1e-9  # relative asymmetry of a covariance that counts as rounding
LARGEST_CONDITION = 1e12  # beyond, whitening keeps fewer than four digits
BLOCK_TOKEN_ENTRIES = 1 << 19  # token entries worked on at a time


class Whitened(NamedTuple):
    """The isotropic task behind a correlated one:
    x' = matrix (x - shift), Y = intercept + scale Y'.

    Attributes:
        task: isotropic.
        matrix, shift: of the tokens: (dim, dim) and (dim,).
        scale, intercept: of the label.

    >>> import attnscope as at
    >>> import numpy as np
    >>> task = at.SingleLocation(dim=6, length=4, signal=2.0, seed=1)
    >>> white = at.CorrelatedBackground(task, covariance=np.diag([4.0, 1, 1, 1, 1, 0.25])).whiten()
    >>> white.task.gamma == task.gamma, white.matrix.shape
    (True, (6, 6))
    """

    task: SingleLocation
    matrix: np.ndarray
    shift: np.ndarray
    scale: float
    intercept: float

    def tokens(self, x: np.ndarray) -> np.ndarray:
        """Whitened tokens, (n, L, d) from (n, L, d)."""
        return (
            check.tokens_array(x, "Whitened.tokens", dim=len(self.shift))[0] - self.shift
        ) @ self.matrix.T

    def unwhiten(self, prediction: np.ndarray) -> np.ndarray:
        """The label Y that a prediction of Y' means."""
        y = context_array(prediction, "prediction", "Whitened.unwhiten", ())
        return self.intercept + self.scale * y


class CorrelatedTokens(Located[Batch]):
    """Law of the tokens, posterior, Bayes prediction and whitening."""

    def __init__(
        self,
        task: SingleLocation,
        mean: np.ndarray | None = None,
        covariance: np.ndarray | None = None,
        degrees_of_freedom: float | None = None,
        informative: str = "scaled",
    ) -> None:
        checked_law(
            task, SingleLocation, "CorrelatedBackground", "SingleLocation(dim=60, length=10)"
        )
        d = task.dim
        check.fits_in_memory(
            4 * d * d, 8, "covariance", "CorrelatedBackground", "a smaller dim"
        )
        numbers = (task.length, task.gamma, task.noise, task.signal)
        super().__init__(d, *numbers, task.key, task.value, task.seed)
        self.task = task
        self.mean = (
            np.zeros(d)
            if mean is None
            else check.float_array(mean, "mean", "CorrelatedBackground", (d,))
        )
        self.covariance, self._root = _symmetric_covariance(
            np.eye(d) if covariance is None else covariance, d
        )
        self.degrees_of_freedom = degrees_of_freedom
        if degrees_of_freedom is not None:
            self.degrees_of_freedom = check.real(
                degrees_of_freedom,
                "degrees_of_freedom",
                "CorrelatedBackground",
                2,
                strict=True,
            )
        if informative not in INFORMATIVE_COVARIANCES:
            raise bad(
                "informative",
                "CorrelatedBackground",
                f"one of {INFORMATIVE_COVARIANCES}",
                informative,
            )
        self.informative = informative

    def __repr__(self) -> str:
        tail = (
            ""
            if self.degrees_of_freedom is None
            else f", degrees_of_freedom={self.degrees_of_freedom:g}"
        )
        return (
            f"CorrelatedBackground({self.task!r}, |mean|={np.linalg.norm(self.mean):.4g}{tail}, "
            f"informative={self.informative!r})"
        )

    @property
    def informative_mean(self) -> np.ndarray:
        """mu0 + s k*, (dim,)."""
        return self.mean + self.signal * self.key

    @cached_property
    def informative_covariance(self) -> np.ndarray:
        """S1, (dim, dim)."""
        return self.gamma**2 * (
            self.covariance if self.informative == "scaled" else np.eye(self.dim)
        )

    # -- data --------------------------------------------------------------------------------------

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> Batch:
        location = self.task._draw_locations(n, rng)
        target = self.noise * rng.standard_normal(n)
        tokens = np.empty((n, self.length, self.dim), dtype)
        block = max(1, BLOCK_TOKEN_ENTRIES // (self.length * self.dim))
        for i in range(0, n, block):
            rows = np.arange(i, min(n, i + block))
            z = rng.standard_normal((len(rows), self.length, self.dim))
            where = np.arange(len(rows)), location[rows]
            marked = z[where]
            x = self.mean + self._student_scales(z.shape[:2], rng)[..., None] * (
                z @ self._root.T
            )
            spread = marked @ self._root.T if self.informative == "scaled" else marked
            x[where] = self.informative_mean + self.gamma * spread
            tokens[rows] = x
            # of the token as stored
            target[rows] += tokens[rows, location[rows]].astype(np.float64) @ self.value
        return Batch(tokens, target, location)

    @property
    def teachers(self) -> np.ndarray:
        """(2, dim): the whitened key and value, unit vectors."""
        return self._whitened_task.task.teachers

    def standardised(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Whitened tokens (n, L, d) and labels (n,) of a batch: what heads are trained on."""
        of = "CorrelatedBackground.standardised"
        if not (hasattr(batch, "tokens") and hasattr(batch, "target")):
            raise bad("batch", of, "a Batch of tokens and target", batch, "task.sample(1000)")
        white = self._whitened_task
        target = context_array(batch.target, "target", of, (None,))
        return white.tokens(batch.tokens), (target - white.intercept) / white.scale

    @property
    def teacher_gram(self) -> np.ndarray:
        """(2, 2) inner products of the whitened key and value, which are unit vectors."""
        return self._whitened_task.task.teacher_gram

    def projections(self, n: int, gram: np.ndarray, rng: np.random.Generator) -> Projections:
        """n sequences of *whitened* tokens and labels,
        as far as the vectors of `gram` see them (tasks/base.py).
        """
        if self.informative != "scaled":
            must = (
                "informative='scaled': an isotropic informative token is not isotropic after "
                "whitening"
            )
            raise bad(
                "task",
                "CorrelatedBackground.projections",
                must,
                self,
                "task.sample, or train(engine='full')",
            )
        white = self._whitened_task
        location = self.task._draw_locations(n, rng)
        rows = np.arange(n)
        means = one_hot_means(location, self.length, 2, 0, white.task.signal)
        scales = self._student_scales((n, self.length), rng)
        scales[rows, location] = self.gamma
        fields = gaussian_fields(means, scales, gram, rng)
        return Projections(
            fields, fields[rows, location, -1], location, scales, unit=white.scale
        )

    def _student_scales(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """The random scale of a Student t token, of mean square 1; ones for a Gaussian."""
        n = self.degrees_of_freedom
        return np.ones(shape) if n is None else np.sqrt((n - 2) / rng.chisquare(n, shape))

    # -- inference ---------------------------------------------------------------------------------

    def log_likelihood_ratio(self, tokens: np.ndarray) -> np.ndarray:
        """l(x), (n, L): log density of a token as the informative one minus that as background,
        exact.
        """
        x = check.tokens_array(
            tokens, "CorrelatedBackground.log_likelihood_ratio", self.length, self.dim
        )[0]
        return np.concatenate([self._log_ratio(part) for part in self._token_blocks(x)])

    def _infer(
        self, tokens: np.ndarray, method: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Posterior of the location, mean and variance of X_J.v* given X."""
        x = check.tokens_array(
            tokens, f"CorrelatedBackground.{method}", self.length, self.dim
        )[0]
        probs = self.task.location_probs
        # log 0 = -inf is the right logit of an impossible position
        with np.errstate(divide="ignore"):
            log_prior = 0.0 if probs is None else np.log(probs)
        posterior = np.concatenate(
            [
                softmax(log_prior + self._log_ratio(part), axis=1)
                for part in self._token_blocks(x)
            ]
        )
        values = np.concatenate([part @ self.value for part in self._token_blocks(x)])
        mean = np.sum(posterior * values, axis=1)
        return posterior, mean, np.sum(posterior * (values - mean[:, None]) ** 2, axis=1)

    def _token_blocks(self, x: np.ndarray) -> Iterator[np.ndarray]:
        block = max(1, BLOCK_TOKEN_ENTRIES // (self.length * self.dim))
        return (x[i : i + block].astype(np.float64) for i in range(0, len(x), block))

    def _log_ratio(self, x: np.ndarray) -> np.ndarray:
        d = self.dim
        gam = self.gamma
        n = self.degrees_of_freedom
        log_det = float(np.sum(np.log(np.diag(self._root))))  # half of log det S0
        white = self._whiten_rows(x - self.mean)
        q0 = np.einsum("nld,nld->nl", white, white)
        scaled = self.informative == "scaled"
        centred = (
            self._whiten_rows(x - self.informative_mean)
            if scaled
            else x - self.informative_mean
        )
        q1 = np.einsum("nld,nld->nl", centred, centred) / gam**2
        log_one = -q1 / 2 - d * math.log(gam) - (log_det if scaled else 0.0)
        if n is None:
            return log_one + q0 / 2 + log_det
        return (
            log_one + log_det - student_constant(n, d) + (n + d) / 2 * np.log1p(q0 / (n - 2))
        )

    def _whiten_rows(self, x: np.ndarray) -> np.ndarray:
        """C^{-1} x for every row of x (..., d)."""
        flat = solve_triangular(self._root, x.reshape(-1, self.dim).T, lower=True)
        return flat.T.reshape(x.shape)

    # -- risks -------------------------------------------------------------------------------------

    def whiten(self) -> Whitened:
        """The isotropic task this one is an affine image of, and the map; needs a Gaussian
        background and S1 = gamma^2 S0.
        """
        if self.informative != "scaled" or self.degrees_of_freedom is not None:
            must = (
                "Gaussian with informative='scaled' (else the whitened tokens are not a "
                "SingleLocation)"
            )
            raise bad("the background", "CorrelatedBackground.whiten", must, self)
        return self._whitened_task

    @cached_property
    def _whitened_task(self) -> Whitened:
        """Cached, because every risk needs it;
        its matrix is read-only, because all callers share it.
        """
        t = self.task
        key = self._whiten_rows(self.key[None])[0]
        value = self._root.T @ self.value
        scale = float(np.linalg.norm(value))
        gain = float(np.linalg.norm(key))
        key = key / gain
        value = value / scale
        if self.alignment == 0:  # k'.v' = k*.v*: what is left is rounding
            value = value - (key @ value) * key
            value /= np.linalg.norm(value)
        white = SingleLocation(
            t.dim,
            t.length,
            t.gamma,
            t.noise / scale,
            t.signal * gain,
            t.location_probs,
            key,
            value,
            t.seed,
        )
        matrix = solve_triangular(self._root, np.eye(t.dim), lower=True)
        matrix.setflags(write=False)
        return Whitened(white, matrix, self.mean, scale, float(self.mean @ self.value))


def _symmetric_covariance(x: object, d: int) -> tuple[np.ndarray, np.ndarray]:
    """A covariance, made exactly symmetric, and its Cholesky factor."""
    S = check.float_array(x, "covariance", "CorrelatedBackground", (d, d))
    if np.abs(S - S.T).max() > ASYMMETRY_LIMIT * np.abs(S).max():
        raise bad(
            "covariance",
            "CorrelatedBackground",
            "symmetric",
            f"entries that differ by {np.abs(S - S.T).max():.3g}",
            "(S + S.T) / 2",
        )
    S = (S + S.T) / 2
    values = np.linalg.eigvalsh(S)
    if not values[0] > values[-1] / LARGEST_CONDITION:
        got = f"eigenvalues from {values[0]:.3g} to {values[-1]:.3g}"
        must = f"positive definite with a condition number below {LARGEST_CONDITION:g}"
        raise bad(
            "covariance", "CorrelatedBackground", must, got, "S + 1e-6 * numpy.eye(dim)"
        )
    return S, np.linalg.cholesky(S)
