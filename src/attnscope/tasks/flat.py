"""Tasks from flat arguments, as people type them: numbers, words and short lists (registry.py).

`gamma2` is gamma^2. Everything else goes to the class, which checks it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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


def _given_gamma2(kind: Callable[..., Any]) -> Callable[..., Any]:
    """The class as a function of gamma2 in place of gamma."""
    return lambda gamma2, **rest: kind(gamma=math.sqrt(gamma2), **rest)


single_location = _given_gamma2(SingleLocation)
grid_location = _given_gamma2(GridLocation)
multi_location = _given_gamma2(MultiLocation)
multi_direction = _given_gamma2(MultiDirection)
spike_mixture = _given_gamma2(SpikeMixture)


def random_length(lengths: Sequence[int], **rest: Any) -> RandomLength:
    return RandomLength(single_location(length=max(lengths), **rest), lengths)


def correlated_background(
    dim: int, decay: float, degrees_of_freedom: float | None = None, **rest: Any
) -> CorrelatedBackground:
    """Token variances i^-decay along the axes, i = 1 .. dim;
    the directions are drawn, so they lie across them.
    """
    inner = single_location(dim=dim, **rest)
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
