"""Sampling for every task of fixed dim and length: all at once, or streamed in batches.

A batch does not depend on how many batches are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import numpy as np

from attnscope.numerics.border import validation as check

__all__ = ["Drawn", "Sampled"]

Drawn = TypeVar("Drawn")  # the task's batch


class Sampled(Generic[Drawn]):
    """Base class: a task defines dim, length and `_draw`."""

    dim: int
    length: int

    def sample(self, n: int, seed: int = 0, dtype: str = "float64") -> Drawn:
        """Draw n sequences. The same (n, seed, dtype) gives the same bits on one platform;
        peak memory is that of the result.
        """
        of = f"{type(self).__name__}.sample"
        n = check.integer(n, "n", of, 1)
        seed = check.seed_value(seed, of)
        kind = check.float_dtype(dtype, of)
        size = n * self.length * self.dim
        check.fits_in_memory(
            size, kind.itemsize, "tokens", of, "task.batches(n, batch_size, seed)"
        )
        return self._draw(n, np.random.default_rng(seed), kind)

    def batches(
        self, n: int, batch_size: int, seed: int = 0, dtype: str = "float64"
    ) -> Iterator[Drawn]:
        """Stream n sequences as batches (the last may be smaller).
        Batch i is a function of (seed, i, batch_size) only.
        """
        of = f"{type(self).__name__}.batches"
        n = check.integer(n, "n", of, 1)
        batch_size = check.integer(batch_size, "batch_size", of, 1)
        seed = check.seed_value(seed, of)
        kind = check.float_dtype(dtype, of)
        size = min(n, batch_size) * self.length * self.dim
        check.fits_in_memory(size, kind.itemsize, "one batch", of, "a smaller batch_size")
        starts = range(0, n, batch_size)
        return (
            self._draw(min(batch_size, n - at), np.random.default_rng([seed, i]), kind)
            for i, at in enumerate(starts)
        )

    def _draw(self, n: int, rng: np.random.Generator, dtype: np.dtype) -> Drawn:
        raise NotImplementedError
