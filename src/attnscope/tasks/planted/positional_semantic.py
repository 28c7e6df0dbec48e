"""Positional or semantic attention: a row chooses between two tokens by their content or by their
positions.

notation: d = dim, w = mix, c = contrast, p = place (a vector of length P = position), k* = key
(a unit vector), p perpendicular to k*; S the logistic function.

    x_1, x_2 ~ N(0, I_d) independent,   u = x_1.k*,  v = x_2.k*
    teacher   t_1 = S(u (u - v)),  t_2 = S(v (v - u)):   what row i gives to its own token,
    target    y_i = (1 - w) t_i + w A,  A = S(2 c^2):    a share w does not look at the tokens
    student   a unit vector k, which sees x_1 + p and x_2 - p: with e = p.k, a = x_1.k, b = x_2.k
              s_1 = S((e + a)(2 e + a - b)),  s_2 = S((b - e)(b - a - 2 e))

Row i is softmax attention over two tokens with tied query and key of rank one; two weights sum to
1, so the weight on the own token determines both. The target is the teacher's softmax on the bare tokens, mixed with the
softmax of a student that sees positions alone (rank one, e = c). Exchanging the tokens and turning
signs shows that both rows have one law: the loss is 2 E (y_1 - s_1)^2, a function of e and
m = k.k* alone (theory/positional_semantic), and e^2/P^2 + m^2 <= 1.

After Cui, Behrens, Krzakala and Zdeborova, and Arnaboldi et al., who ask when attention learns
positions and when meanings; the definition above with all of its constants is ours.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.tasks.planted.pair import ORTHOGONAL_COSINE
from attnscope.tasks.sampling import Sampled

__all__ = ["LARGEST_POSITION", "PositionalSemantic", "WeightsBatch"]

LARGEST_POSITION = (
    4.0  # length of a position vector: S(2 P^2) is 1 to 1e-14 there, and tables stay small
)


class WeightsBatch(NamedTuple):
    """tokens (n, 2, d) without positions; target (n, 2): the weight of row i on its own token."""

    tokens: np.ndarray
    target: np.ndarray


class PositionalSemantic(Sampled[WeightsBatch]):
    """Two tokens, a teacher of meanings and a share of positions (module docstring).

    Args:
        dim: d >= 2.
        mix: w, the share of the target that is positional, in [0, 1].
        contrast: c, a number: positions alone give the own token the weight S(2 c^2).
        position: P, the length of the student's position vector, in (0, 4].
        key, place: unit vectors k* and p/P, perpendicular; drawn where None.
        seed: of what is drawn.

    >>> task = PositionalSemantic(dim=100, mix=0.65, contrast=0.75)
    >>> batch = task.sample(3, seed=0)
    >>> batch.tokens.shape, batch.target.shape
    ((3, 2, 100), (3, 2))
    >>> e, m = task.overlaps(task.key)
    >>> abs(e) < 1e-15, round(m, 12)
    (True, 1.0)
    """

    length = 2
    noise = 0.0

    def __init__(
        self,
        dim: int,
        mix: float = 0.5,
        contrast: float = 1.0,
        position: float = 1.0,
        key: np.ndarray | None = None,
        place: np.ndarray | None = None,
        seed: int = 0,
    ) -> None:
        self.dim = check.integer(dim, "dim", "PositionalSemantic", 2)
        self.mix = check.real(mix, "mix", "PositionalSemantic", 0, 1, hint="mix=0.5")
        self.contrast = check.real(
            contrast, "contrast", "PositionalSemantic", hint="contrast=1.0"
        )
        self.position = check.real(
            position,
            "position",
            "PositionalSemantic",
            0,
            LARGEST_POSITION,
            strict=True,
            hint="position=1.0",
        )
        self.seed = check.seed_value(seed, "PositionalSemantic")
        self._key = (
            None
            if key is None
            else check.unit_vector(key, "key", "PositionalSemantic", self.dim)
        )
        self._place = (
            None
            if place is None
            else check.unit_vector(place, "place", "PositionalSemantic", self.dim)
        )
        if self._key is not None and self._place is not None:
            between = float(self._key @ self._place)
            if abs(between) > ORTHOGONAL_COSINE:
                got = f"key.place = {between:.6g}"
                raise bad(
                    "place", "PositionalSemantic", "perpendicular to key", got, "place=None"
                )

    def __repr__(self) -> str:
        return (
            f"PositionalSemantic(dim={self.dim}, mix={self.mix:g}, contrast={self.contrast:g}, "
            f"position={self.position:g}, seed={self.seed})"
        )

    @property
    def positional_weight(self) -> float:
        """A = S(2 c^2), in [1/2, 1]."""
        return float(expit(2 * min(self.contrast**2, 1e4)))  # 1 to the bit long before

    @cached_property
    def key(self) -> np.ndarray:
        """k*, a unit vector (dim,)."""
        return self._draw_unit_vector(0, self._place) if self._key is None else self._key

    @cached_property
    def place(self) -> np.ndarray:
        """p/P, a unit vector (dim,) perpendicular to k*."""
        return self._draw_unit_vector(1, self.key) if self._place is None else self._place

    def _draw_unit_vector(self, stream: int, other: np.ndarray | None) -> np.ndarray:
        x = np.random.default_rng([self.seed, stream]).standard_normal(self.dim)
        if other is not None:
            x -= (x @ other) * other
            x -= (x @ other) * other  # a second time: what rounding left
        return x / np.linalg.norm(x)

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> WeightsBatch:
        tokens = np.empty((n, 2, self.dim), dtype)
        rng.standard_normal(out=tokens, dtype=dtype.type)
        seen = tokens @ self.key.astype(dtype)
        teacher = own_weights(seen.astype(np.float64))
        return WeightsBatch(
            tokens, (1 - self.mix) * teacher + self.mix * self.positional_weight
        )

    def overlaps(self, k: np.ndarray) -> tuple[float, float]:
        """(e, m) = (p.k, k*.k) of a student."""
        unit = check.unit_vector(k, "k", "PositionalSemantic.overlaps", self.dim)
        return self.position * float(self.place @ unit), float(self.key @ unit)

    def student_weights(self, k: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """(n, 2): what row i of the student with key k gives to its own token."""
        of = "PositionalSemantic.student_weights"
        unit = check.unit_vector(k, "k", of, self.dim)
        x, _ = check.tokens_array(tokens, of, 2, self.dim)
        e = self.position * float(self.place @ unit)
        return own_weights((x @ unit).astype(np.float64) + np.array([e, -e]))


def own_weights(fields: np.ndarray) -> np.ndarray:
    """(n, 2): S(f_1 (f_1 - f_2)) and S(f_2 (f_2 - f_1)) of projections (n, 2)."""
    gap = fields[:, 0] - fields[:, 1]
    return expit(np.stack([fields[:, 0] * gap, -fields[:, 1] * gap], axis=1))
