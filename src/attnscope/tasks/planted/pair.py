"""What tasks with a planted pair of directions share: the numbers, the vectors key and value, and
sampling.

notation: k* = key, v* = value, unit vectors; a task adds the law of its tokens (`_draw`) and its
inference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from scipy.special import softmax

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.tasks.planted.planted import Planted
from attnscope.tasks.sampling import Drawn

__all__ = ["ORTHOGONAL_COSINE", "Located", "Pair", "curvature"]

# |k*.v*| below this is roundoff of a projection and counts as 0
ORTHOGONAL_COSINE = 1e-12


def curvature(gamma: float) -> float:
    """1/gamma^2 - 1, what |x|^2/2 counts in a log-likelihood ratio;
    as a product, which keeps its digits near gamma = 1.
    """
    return (1 - gamma) * (1 + gamma) / gamma**2


class Pair(Planted[Drawn]):
    """dim, length, gamma, noise, signal (sqrt(dim/2) if None), seed, and the vectors key and value,
    drawn on first access where None.
    """

    def __init__(
        self,
        dim: int,
        length: int,
        gamma: float,
        noise: float,
        signal: float | None,
        key: np.ndarray | None,
        value: np.ndarray | None,
        seed: int,
    ) -> None:
        of = type(self).__name__
        self.dim = check.integer(dim, "dim", of, 2)
        self.length = check.integer(length, "length", of, 1)
        self.gamma = check.real(gamma, "gamma", of, 0, strict=True, hint="gamma=0.5**0.5")
        self.noise = check.real(noise, "noise", of, 0)
        self.signal = check.real(
            math.sqrt(self.dim / 2) if signal is None else signal, "signal", of, 0
        )
        self.seed = check.seed_value(seed, of)
        self._key = None if key is None else check.unit_vector(key, "key", of, self.dim)
        self._value = (
            None if value is None else check.unit_vector(value, "value", of, self.dim)
        )

    @cached_property
    def key(self) -> np.ndarray:
        """k*, a unit vector (dim,)."""
        return self._random_direction(0, self._value) if self._key is None else self._key

    @cached_property
    def value(self) -> np.ndarray:
        """v*, a unit vector (dim,)."""
        return self._random_direction(1, self.key) if self._value is None else self._value

    @cached_property
    def alignment(self) -> float:
        """c = k*.v*; exactly 0 unless both vectors were given and are not orthogonal."""
        if self._key is None or self._value is None:
            return 0.0
        c = float(np.clip(self._key @ self._value, -1, 1))
        return c if abs(c) > ORTHOGONAL_COSINE else 0.0

    @property
    def teachers(self) -> np.ndarray:
        """(2, dim): k*, v*."""
        return np.stack([self.key, self.value])

    @cached_property
    def teacher_gram(self) -> np.ndarray:
        """(2, 2) inner products of (k*, v*), read-only."""
        c = self.alignment
        gram = np.array([[1.0, c], [c, 1.0]])
        gram.setflags(write=False)
        return gram

    def _refuse_oblique(self) -> None:
        """For tasks whose theory rests on the symmetry v* -> -v*."""
        if self.alignment != 0:
            got = f"key.value = {self.alignment:.6g}"
            raise bad(
                "value",
                type(self).__name__,
                "perpendicular to key",
                got,
                "value=None, which is drawn so",
            )

    def _random_direction(self, stream: int, other: np.ndarray | None) -> np.ndarray:
        """A uniform unit vector, orthogonal to `other` if there is one."""
        check.fits_in_memory(
            2 * self.dim,
            8,
            "key and value",
            type(self).__name__,
            "the risks, which need no vectors",
        )
        x = np.random.default_rng([self.seed, stream]).standard_normal(self.dim)
        if other is not None:
            # the second pass removes the roundoff that normalising a short remainder magnifies
            for _ in range(2):
                x -= (x @ other) * other
                x /= np.linalg.norm(x)
        return x / np.linalg.norm(x)

    def _score_blocks(
        self, x: np.ndarray, quadratic: bool
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """(rows, scores, values) of tokens (n, L, d) in float64, a few MB at a time.

        values = x.v*; scores = s x.k*/gam^2 - (1/gam^2 - 1)|x|^2/2, a token's log-likelihood ratio
        up to a constant, or x.k* if not quadratic.
        """
        block = max(1, (1 << 20) // (x.shape[1] * self.dim))
        g2 = self.gamma**2
        for i in range(0, len(x), block):
            part = x[i : i + block].astype(np.float64)  # (block, L, d)
            scores = part @ self.key
            if quadratic:
                squares = np.einsum("nld,nld->nl", part, part)
                scores = self.signal / g2 * scores - curvature(self.gamma) / 2 * squares
            yield slice(i, i + len(part)), scores, part @ self.value

    def _posterior_and_mean(
        self,
        x: np.ndarray,
        quadratic: bool,
        logits: Callable[[slice, np.ndarray], np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Softmax over the tokens of logits(rows, scores), (n, L), and the mean it gives to the
        values, (n,).
        """
        posterior = np.empty(x.shape[:2])
        mean = np.empty(len(x))
        for rows, scores, values in self._score_blocks(x, quadratic):
            posterior[rows] = softmax(logits(rows, scores), axis=1)
            mean[rows] = np.sum(posterior[rows] * values, axis=1)
        return posterior, mean


class Located(Pair[Drawn]):
    """A planted task with one informative token, at a location J: what follows from the posterior
    P(J = l | X).
    """

    def location_posterior(self, tokens: np.ndarray) -> np.ndarray:
        """P(J = l | X), (n, L), exact."""
        return self._infer(tokens, "location_posterior")[0]

    posterior = location_posterior  # the name that every task has

    def bayes_predict(self, tokens: np.ndarray) -> np.ndarray:
        """E[Y | X], (n,), exact."""
        return self._infer(tokens, "bayes_predict")[1]

    def _infer(self, tokens: np.ndarray, method: str) -> tuple[np.ndarray, ...]:
        """P(J = l | X) (n, L), E[Y | X] (n,), and what else comes with them; `method` is the
        caller's name, for refusals.
        """
        raise NotImplementedError
