"""Shared by the tests: random settings (tasks, inverse temperatures, overlaps that unit vectors
really have) and what a refusal looks like.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from attnscope.errors import AttnscopeError
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps


class Setting(NamedTuple):
    task: SingleLocation
    inverse_temperature: float
    overlaps: Overlaps


def unit(rng: np.random.Generator, dim: int) -> np.ndarray:
    x = rng.standard_normal(dim)
    return x / np.linalg.norm(x)


def random_settings(
    count: int,
    seed: int,
    aligned: bool = True,
    inverse_temperatures: tuple[float, float] = (0.02, 3.0),
) -> list[Setting]:
    """Off-manifold settings of moderate size; a third of them with key.value != 0 if `aligned`."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(count):
        dim = int(rng.integers(4, 40))
        length = int(rng.integers(1, 16))
        key = unit(rng, dim)
        value = unit(rng, dim)
        if not (aligned and i % 3 == 0):
            value -= (value @ key) * key
            value /= np.linalg.norm(value)
        k = unit(rng, dim) + rng.uniform(0, 2) * key
        v = unit(rng, dim) + rng.uniform(0, 2) * value
        k = k / np.linalg.norm(k)
        v = v / np.linalg.norm(v)
        gamma = rng.uniform(0.3, 1.5)
        signal = rng.uniform(0, 4)
        task = SingleLocation(dim, length, gamma=gamma, signal=signal, key=key, value=value)
        lam = float(np.exp(rng.uniform(*np.log(inverse_temperatures))))
        out.append(Setting(task, lam, Overlaps.of(task, k, v)))
    return out


def one_sentence(call, words):
    """`call` refuses, in one sentence that matches `words`."""
    with pytest.raises(AttnscopeError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
