"""Standardised bags with labels: the input of every fitting function.

Tokens are centred and scaled feature by feature. A feature whose spread is below 1e-9 of its size
(or of the widest feature) holds rounding noise only. It is divided by that size, so that its
distance to the caller's zero does not depend on the unit. Numbers y are centred and scaled too, so
that every default holds in any unit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.numerics.compiled.data_pass import CATEGORICAL, GAUSSIAN

__all__ = ["Data", "Scaling", "label_log_density", "one_hot", "scaling_of"]

# standard deviations: tokens farther out are clipped, so that sums of squares stay finite
MAX_TOKEN_DEVIATIONS = 1e50
CONSTANT_RELATIVE_SPREAD = 1e-9  # relative spread below which a feature counts as constant


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
        return np.clip(z, -MAX_TOKEN_DEVIATIONS, MAX_TOKEN_DEVIATIONS, out=z)


class Data(NamedTuple):
    """tokens (N, d), offsets (n+1,), labels (n,) numbers or class indices as floats, weight (n,),
    label family, outputs m; origin (d,): the caller's zero in these coordinates, where the
    background may be centred (None: unknown); groups (n,): bags with the same number form one group
    (None: every bag is a group); known (n,): the deciding token's location in its bag, -1 where it
    is unknown (None: unknown in every bag).
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

    def average(self, per_bag: np.ndarray) -> float:
        """Mean over bags (n,), by their weights."""
        return float(np.average(per_bag, weights=self.weight))

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

    def apply_known_locations(self, log_odds: np.ndarray) -> np.ndarray:
        """Log odds (N,) that a token decides, set to -inf at the other tokens of a bag whose
        deciding token is known.
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
    """Scaling from additive sums: number of tokens, their sum (d,) and sum of squares (d,).
    y=None leaves labels unscaled.
    """
    mean = total / count
    spread = np.sqrt(np.maximum(square / count - mean**2, 0))
    size = np.maximum(np.abs(mean), spread.max())
    scale = np.where(
        spread > CONSTANT_RELATIVE_SPREAD * size, spread, np.where(size > 0, size, 1.0)
    )
    if y is None:
        return Scaling(mean, scale, 0.0, 1.0)
    label_mean = float(np.average(y, weights=weight))
    label_scale = float(np.sqrt(np.average((y - label_mean) ** 2, weights=weight)))
    return Scaling(
        mean,
        scale,
        label_mean,
        label_scale if label_scale > CONSTANT_RELATIVE_SPREAD * abs(label_mean) else 1.0,
    )


def one_hot(data: Data) -> np.ndarray:
    """Labels as columns (n, m): numbers unchanged, two classes as -1/+1, more classes as indicators."""
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
