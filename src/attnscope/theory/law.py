"""The law of single-location tokens, as far as a risk in the overlaps depends on it: four numbers.

One token of L is informative, at a location J that no predictor here uses; the rest are background:

    X_J ~ N(s k*, gam^2 I),    X_l ~ N(0, I) for l != J,    Y = X_J.v*,    c = k*.v*.

With (k, v) given through their overlaps, every exact risk of this package is a function of
(overlaps, inverse temperature, law) and of nothing else: not of the dimension, the seed or the
positions. The label noise is left out; it adds noise^2.
"""

from __future__ import annotations

from typing import NamedTuple

from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["Law"]


class Law(NamedTuple):
    """gamma = gam > 0, signal = s >= 0, length = L >= 1, alignment = c in [-1, 1]; not validated
    here.

    JAX functions close over it: the length must be a number when they are traced.

    >>> Law.of(SingleLocation(dim=8, length=10, gamma=1.0))
    Law(gamma=1.0, signal=2.0, length=10, alignment=0.0)
    """

    gamma: float
    signal: float
    length: int
    alignment: float = 0.0

    @classmethod
    def of(cls, task: SingleLocation) -> Law:
        """The law of a task's tokens."""
        return cls(task.gamma, task.signal, task.length, task.alignment)
