"""What the claims on learning curves share: message passing on drawn bags, and how its risk is
measured.

A data set of dimension d scatters by O(1/sqrt d) around the limit and is off by O(1/d) on average.
The first is measured over data sets, the second allowed for: ALLOWANCE/d, stated in every claim
(means over 200 data sets at d = 100 and 100 at d = 200 were off by 1.7/d +- .5/d at most).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from attnscope.dynamics.message_passing import MessagePassing, message_passing
from attnscope.numerics.border.sampled_estimate import widened
from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["ALLOWANCE", "Fits", "Z", "fits"]

ALLOWANCE = 4.0  # over d: finite-size error of a mean, see above
Z = 5.0
STEPS = 200  # of message passing: what creeps on after these moves by less than it scatters
FRESH_BAGS = (
    20_000  # bags that a risk is measured on: to 0.01 a data set, less than it scatters
)


class Fits(NamedTuple):
    """Rows of (k.k*, v.v*, excess risk), one a data set."""

    rows: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return self.rows.mean(axis=0)

    @property
    def error(self) -> np.ndarray:
        """Standard errors, widened so that 5 of them hold as for a normal mean."""
        n = len(self.rows)
        plain = self.rows.std(axis=0, ddof=1) / np.sqrt(n)
        return plain * widened(1.0, n)

    def tolerance(self, dim: int) -> np.ndarray:
        """5 standard errors, and the allowance for d < inf."""
        return Z * self.error + ALLOWANCE / dim


def fits(
    setting: tuple[float, int, float],
    alpha: float,
    dim: int,
    count: int,
    seed: list[int],
    informed: bool = False,
) -> Fits:
    """Message passing on `count` data sets of alpha d bags; from zero, or from near the truth."""
    strength, length, noise = setting
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        which, drawn = (int(x) for x in rng.integers(2**31, size=2))
        task = SingleLocation.spiked(dim, length, strength, noise, seed=which)
        batch = task.sample(round(alpha * dim), seed=drawn)
        start = (0.9 * task.key, 0.99 * task.value) if informed else None
        found = message_passing(batch, strength, noise, steps=STEPS, start=start)
        rows.append([found.key @ task.key, found.value @ task.value, risk(task, found, rng)])
    return Fits(np.array(rows))


def risk(task: SingleLocation, found: MessagePassing, rng: np.random.Generator) -> float:
    """Excess risk of softmax attention with key sqrt(nu) k and value v on fresh bags."""
    vectors = np.stack([found.key, found.value, *task.teachers])
    seen = task.projections(FRESH_BAGS, vectors @ vectors.T, rng)
    weights = softmax(np.sqrt(found.strength) * seen.fields[:, :, 0], axis=1)
    answer = np.sum(weights * seen.fields[:, :, 1], axis=1)
    return float(np.mean((seen.label - answer) ** 2))
