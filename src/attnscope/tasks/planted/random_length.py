"""Sequences of random length: L is drawn first, then a single-location sequence of that length.

notation: q_L = probability of length L, l(x) the log-likelihood ratio of single_location.py.

The length is seen (tokens come padded, with a mask), so given L everything is that of
SingleLocation(length=L): the posterior is the softmax of l over the real tokens, the Bayes
predictor sum_l p_l x_l.v*, and every risk is the average over L of the fixed-length risks,

    R = sum_L q_L R(L),

for the Bayes predictor and for any one predictor used at all lengths. Softmax adapts by itself: at
gamma = 1 the same inverse temperature s is Bayes at every length. An unnormalised predictor sum_l
sigma(u_l) w_l at (k*, v*) has R(L) = gam^2 E_1(1 - sigma)^2 + (L-1) E_0 sigma^2, linear in L, so
over random lengths it is as good as at the mean length E L and no better (docs/several_tokens.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.tasks.base import Projections, checked_law, gaussian_fields, one_hot_means
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.tasks.sampling import Sampled

__all__ = ["MaskedBatch", "RandomLength"]


class MaskedBatch(NamedTuple):
    """Sequences of several lengths.

    Attributes:
        tokens: (n, L_max, d), padded with zeros.
        target: (n,).
        location: (n,), 0-based.
        mask: (n, L_max) bool: True = real token.

    >>> import attnscope as at
    >>> task = at.RandomLength(at.SingleLocation(dim=4, length=3), {1: 0.5, 3: 0.5})
    >>> batch = task.sample(4, seed=0)
    >>> batch.tokens.shape, batch.mask.sum(axis=1)
    ((4, 3, 4), array([3, 1, 1, 1]))
    """

    tokens: np.ndarray
    target: np.ndarray
    location: np.ndarray
    mask: np.ndarray


class RandomLength(Sampled[MaskedBatch]):
    """A SingleLocation task with random length.

    Args:
        task: gives all but the length (its own is not used); uniform location.
        lengths: {length: probability}, or a sequence of lengths with equal probabilities.

    >>> task = RandomLength(SingleLocation.spiked(dim=20, length=10, strength=5.0), {2: 0.5, 18: 0.5})
    >>> batch = task.sample(3, seed=0)
    >>> batch.tokens.shape, batch.mask.sum(axis=1)
    ((3, 18, 20), array([18,  2,  2]))
    >>> round(task.bayes_risk().value, 4)
    0.2774
    """

    def __init__(
        self, task: SingleLocation, lengths: Mapping[int, float] | Sequence[int]
    ) -> None:
        checked_law(
            task, SingleLocation, "RandomLength", "SingleLocation(dim=400, length=10)"
        )
        if task.location_probs is not None:
            raise bad(
                "task",
                "RandomLength",
                "one with uniform location",
                "location_probs for one length",
                "location_probs=None",
            )
        self.task = task
        self.lengths, self.probs = _checked_lengths(lengths)
        self._lengths = dict(zip(self.lengths, self.probs))
        # sequences are padded to the largest length
        self.dim, self.length = task.dim, max(self.lengths)

    def __repr__(self) -> str:
        law = ", ".join(f"{L}: {q:g}" for L, q in zip(self.lengths, self.probs))
        return f"RandomLength({self.task!r}, {{{law}}})"

    @property
    def mean_length(self) -> float:
        return float(np.dot(self.lengths, self.probs))

    @property
    def noise(self) -> float:
        return self.task.noise

    @property
    def alignment(self) -> float:
        return self.task.alignment

    @property
    def teachers(self) -> np.ndarray:
        """(2, dim): k*, v*."""
        return self.task.teachers

    @property
    def teacher_gram(self) -> np.ndarray:
        """(2, 2) inner products of (k*, v*)."""
        return self.task.teacher_gram

    @property
    def key(self) -> np.ndarray:
        return self.task.key

    @property
    def value(self) -> np.ndarray:
        return self.task.value

    @cached_property
    def fixed(self) -> tuple[SingleLocation, ...]:
        """The task at each of the lengths; all with the same key and value."""
        t = self.task
        vectors: dict[str, Any] = {
            "key": t.given["key"],
            "value": t.given["value"],
            "seed": t.seed,
        }
        return tuple(
            SingleLocation(t.dim, L, t.gamma, t.noise, t.signal, **vectors)
            for L in self.lengths
        )

    # -- data --------------------------------------------------------------------------------------

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> MaskedBatch:
        which = rng.choice(len(self.lengths), size=n, p=self.probs)
        tokens = np.zeros((n, self.length, self.dim), dtype)
        target = np.empty(n)
        location = np.empty(n, dtype=np.int64)
        mask = np.arange(self.length) < np.asarray(self.lengths)[which][:, None]
        for i, task in enumerate(self.fixed):
            rows = np.flatnonzero(which == i)
            if rows.size:
                part = task._draw(rows.size, rng, dtype)
                tokens[rows, : task.length], target[rows], location[rows] = part
        return MaskedBatch(tokens, target, location, mask)

    def projections(self, n: int, gram: np.ndarray, rng: np.random.Generator) -> Projections:
        """n padded sequences as far as the vectors of `gram` see them (tasks/base.py)."""
        lengths = np.asarray(self.lengths)[
            rng.choice(len(self.lengths), size=n, p=self.probs)
        ]
        mask = np.arange(self.length) < lengths[:, None]
        location = rng.integers(lengths)
        rows = np.arange(n)
        means = one_hot_means(location, self.length, 2, 0, self.task.signal)
        scales = mask.astype(float)
        scales[rows, location] = self.task.gamma
        fields = gaussian_fields(means, scales, gram, rng)
        return Projections(fields, fields[rows, location, -1], location, scales, mask)

    # -- inference ---------------------------------------------------------------------------------

    def location_posterior(self, tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """P(J = l | X), (n, L_max), 0 on padding; exact."""
        return self._infer(tokens, mask, "location_posterior")[0]

    posterior = location_posterior  # the name that every task has

    def bayes_predict(self, tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """E[Y | X], (n,), exact."""
        return self._infer(tokens, mask, "bayes_predict")[1]

    def _infer(
        self, tokens: np.ndarray, mask: np.ndarray, method: str
    ) -> tuple[np.ndarray, np.ndarray]:
        of = f"RandomLength.{method}"
        if mask is None:
            raise bad("mask", of, "a bool array (n, L)", mask, "batch.mask")
        x, real_token = check.tokens_array(tokens, of, None, self.dim, mask)
        known = cast(np.ndarray, real_token)
        return self.task._posterior_and_mean(
            x, True, lambda rows, scores: np.where(known[rows], scores, -np.inf)
        )

    # -- exact risks -------------------------------------------------------------------------------

    def average(self, risk: Callable[[SingleLocation], Estimate]) -> Estimate:
        """sum_L q_L risk(task of length L), with the errors added up and the logarithm kept where
        the excess underflows.
        """
        parts = [risk(task) for task in self.fixed]
        q = np.array(self.probs).reshape(-1, *(1,) * np.ndim(parts[0].excess))
        excess = np.sum([w * p.excess for w, p in zip(q, parts)], axis=0)
        error = np.sum([w * np.asarray(p.error) for w, p in zip(q, parts)], axis=0)
        logs = np.logaddexp.reduce(
            [np.log(w) + p.log_excess for w, p in zip(q, parts)], axis=0
        )
        return estimate(
            np.reshape(excess, np.shape(parts[0].excess)),
            np.reshape(error, np.shape(parts[0].excess)),
            parts[0].method,
            self.noise,
            np.reshape(logs, np.shape(parts[0].excess)),
        )

    def null_risk(self) -> Estimate:
        """gam^2 (+ noise^2), whatever the length."""
        return self.task.null_risk()

    def linear_risk(self) -> Estimate:
        """Risk of the predictor that is affine given the length."""
        return self.average(lambda task: task.linear_risk())

    def bayes_risk(self) -> Estimate:
        """Risk of E[Y | X]: the average of the fixed-length Bayes risks."""
        return self.average(lambda task: task.bayes_risk())

    def location_error(self) -> Estimate:
        """1 - E[P(J | X)]."""
        parts = [t.location_error() for t in self.fixed]
        return estimate(
            float(np.dot(self.probs, [p.excess for p in parts])),
            float(np.dot(self.probs, [p.error for p in parts])),
            parts[0].method,
        )


def _checked_lengths(lengths: object) -> tuple[tuple[int, ...], np.ndarray]:
    """Distinct lengths with positive probabilities, ascending."""
    must = "a mapping {length: probability} or a sequence of lengths"
    hint = "{5: 0.5, 20: 0.5}"
    if isinstance(lengths, Mapping):
        keys = list(lengths.keys())
        probs = list(lengths.values())
    elif isinstance(lengths, (list, tuple, range)) or (
        isinstance(lengths, np.ndarray) and lengths.ndim == 1
    ):
        keys = list(lengths)
        probs = [1 / max(len(lengths), 1)] * len(lengths)
    else:
        raise bad("lengths", "RandomLength", must, lengths, hint)
    if not keys:
        raise bad("lengths", "RandomLength", f"{must} with at least one entry", "none", hint)
    whole = [check.integer(L, "lengths", "RandomLength", 1, hint=hint) for L in keys]
    q = check.probabilities(probs, "lengths", "RandomLength", len(whole))
    order = sorted({L for L, p in zip(whole, q) if p > 0})
    total = np.array([q[np.array(whole) == L].sum() for L in order])
    return tuple(order), total / total.sum()
