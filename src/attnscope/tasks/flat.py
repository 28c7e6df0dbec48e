"""Tasks from flat arguments, as people type them: numbers, words and short lists (registry.py).

`gamma2` is gamma^2. Everything else goes to the class, which checks it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.tasks.exchangeable.topics import Topics
from attnscope.tasks.planted.correlated_background import CorrelatedBackground
from attnscope.tasks.planted.grid_location import GridLocation
from attnscope.tasks.planted.multi_direction import MultiDirection
from attnscope.tasks.planted.multi_location import MultiLocation
from attnscope.tasks.planted.random_length import RandomLength
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.tasks.planted.spike_mixture import SpikeMixture

__all__ = [
    "correlated_background",
    "grid_location",
    "multi_direction",
    "multi_location",
    "random_length",
    "single_location",
    "spike_mixture",
    "topics",
]


def single_location(dim: int, length: int, gamma2: float, **rest: Any) -> SingleLocation:
    return SingleLocation(dim, length, gamma=math.sqrt(gamma2), **rest)


def grid_location(
    rows: int, columns: int, dim: int, gamma2: float, **rest: Any
) -> GridLocation:
    return GridLocation(rows, columns, dim, gamma=math.sqrt(gamma2), **rest)


def multi_location(gamma2: float, **rest: Any) -> MultiLocation:
    return MultiLocation(gamma=math.sqrt(gamma2), **rest)


def multi_direction(gamma2: float, **rest: Any) -> MultiDirection:
    return MultiDirection(gamma=math.sqrt(gamma2), **rest)


def spike_mixture(gamma2: float, **rest: Any) -> SpikeMixture:
    return SpikeMixture(gamma=math.sqrt(gamma2), **rest)


def random_length(
    dim: int, lengths: Sequence[int], gamma2: float, **rest: Any
) -> RandomLength:
    return RandomLength(single_location(dim, max(lengths), gamma2, **rest), lengths)


def correlated_background(
    dim: int,
    length: int,
    gamma2: float,
    decay: float,
    degrees_of_freedom: float | None = None,
    **rest: Any,
) -> CorrelatedBackground:
    """Token variances i^-decay along the axes, i = 1 .. dim;
    the directions are drawn, so they lie across them.
    """
    inner = single_location(dim, length, gamma2, **rest)
    variances = np.arange(1.0, dim + 1) ** -decay
    return CorrelatedBackground(
        inner, covariance=np.diag(variances), degrees_of_freedom=degrees_of_freedom
    )


def topics(prior: Sequence[float], emissions: Sequence[float]) -> Topics:
    """Word probabilities topic by topic in one list."""
    if len(emissions) % len(prior):
        must = f"as many numbers for each of the {len(prior)} topics"
        raise bad(
            "emissions",
            "topics",
            must,
            f"{len(emissions)} numbers",
            "emissions=0.7,0.3,0.4,0.6 for two words",
        )
    return Topics(prior, np.reshape(emissions, (len(prior), -1)))
