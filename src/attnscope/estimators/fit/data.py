"""Standardised bags with labels: what every fitting function works on.

Tokens are centred and scaled feature by feature; a feature whose spread is below 1e-9 of its size
(or of the widest feature) carries rounding noise only and is divided by that size, so that the
caller's zero is as far from it whatever the unit. Numbers y are centred and scaled too, so that
every default holds for any unit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.numerics.compiled.data_pass import CATEGORICAL, GAUSSIAN

__all__ = ["Data", "Scaling", "label_log_density", "one_hot", "scaling_of"]

# standard deviations: farther tokens count as that far, so that sums of squares stay finite
FARTHEST = 1e50
CONSTANT = 1e-9  # relative spread below which a feature counts as constant


class Scaling(NamedTuple):
    """x -> (x - mean)/scale for tokens (d,); y -> (y - label_mean)/label_scale."""

    mean: np.ndarray
    scale: np.ndarray
    label_mean: float
    label_scale: float

    @property
    def origin(self) -> np.ndarray:
        """The caller's zero."""
        return -self.mean / self.scale

    def tokens(self, x: np.ndarray) -> np.ndarray:
        z = x - self.mean
        z /= self.scale
        return np.clip(z, -FARTHEST, FARTHEST, out=z)


class Data(NamedTuple):
    """tokens (N, d), offsets (n+1,), labels (n,) numbers or class indices as floats, weight (n,),
    label family, outputs m; origin (d,): the caller's zero in these coordinates, where the
    background may be centred (None: nowhere in particular); groups (n,): bags of one number belong
    together (None: every bag is for itself); known (n,): the deciding token's position in its bag,
    -1 where unknown (None: nowhere known).
    """

    tokens: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray
    weight: np.ndarray
    family: int
    outputs: int
    origin: np.ndarray | None = None
    groups: np.ndarray | None = None
    known: np.ndarray | None = None

    @property
    def size(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def per_token(self, per_bag: np.ndarray) -> np.ndarray:
        return np.repeat(per_bag, self.lengths, axis=0)

    def take(self, bags: np.ndarray) -> Data:
        """The bags of these numbers."""
        starts = self.offsets[bags]
        lengths = self.lengths[bags]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return self._replace(
            tokens=self.tokens[rows],
            offsets=offsets,
            labels=self.labels[bags],
            weight=self.weight[bags],
            groups=None if self.groups is None else self.groups[bags],
            known=None if self.known is None else self.known[bags],
        )

    def seen(self, log_odds: np.ndarray) -> np.ndarray:
        """Of log odds (N,) of which token decides, those that what is known leaves: -inf at tokens
        of a bag whose deciding token is another.
        """
        if self.known is None:
            return log_odds
        place = np.arange(len(log_odds)) - self.per_token(self.offsets[:-1])
        known = self.per_token(self.known)
        return np.where((known < 0) | (known == place), log_odds, -np.inf)


def scaling_of(
    count: float,
    total: np.ndarray,
    square: np.ndarray,
    y: np.ndarray | None,
    weight: np.ndarray,
) -> Scaling:
    """From additive sums: count of tokens, their sum (d,) and sum of squares (d,);
    y=None leaves labels as they are.
    """
    mean = total / count
    spread = np.sqrt(np.maximum(square / count - mean**2, 0))
    size = np.maximum(np.abs(mean), spread.max())
    scale = np.where(spread > CONSTANT * size, spread, np.where(size > 0, size, 1.0))
    if y is None:
        return Scaling(mean, scale, 0.0, 1.0)
    label_mean = float(np.average(y, weights=weight))
    label_scale = float(np.sqrt(np.average((y - label_mean) ** 2, weights=weight)))
    return Scaling(
        mean,
        scale,
        label_mean,
        label_scale if label_scale > CONSTANT * abs(label_mean) else 1.0,
    )


def one_hot(data: Data) -> np.ndarray:
    """Labels as columns (n, m): numbers as they are, binary as -1/+1, classes as indicators."""
    if data.family == CATEGORICAL:
        return np.eye(data.outputs)[data.labels.astype(int)]
    y = data.labels if data.family == GAUSSIAN else 2 * data.labels - 1
    return y[:, None]


def label_log_density(
    labels: np.ndarray, w: np.ndarray, family: int, variance: float
) -> np.ndarray:
    """log f(label | w), constants dropped; labels (N,), w (N, m)."""
    if family == GAUSSIAN:
        return -0.5 * (labels - w[:, 0]) ** 2 / variance
    if family == CATEGORICAL:
        return w[np.arange(len(w)), labels.astype(int)] - np.logaddexp.reduce(w, axis=1)
    return -np.logaddexp(0, -(2 * labels - 1) * w[:, 0])
