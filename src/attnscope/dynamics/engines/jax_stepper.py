"""Many steps of many runs with one JAX executable of fixed shape.

A step is a pure function of one run: step(arrays, key, inverse_temperature) -> arrays. Here it is
vectorised over a tile of runs (the last tile is padded by copies of its last run) and looped over
with a step count that the executable takes as an argument. Nothing about its shape depends on the
number of runs or of steps, so by construction the same instructions produce
    - n steps and then m steps, or n + m at once: the same bits;
    - run i alone or among a thousand: the same bits.

Random numbers are counters, not a stream: step t of run i uses the key fold_in(fold_in(key(seed),
i), t).

The state is a dict of NumPy arrays: the step's own arrays with the run axis first, "keys" (runs, 2)
and the counter "step" ().
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnscope.dynamics.engines.engine import State, checked_steps
from attnscope.numerics.border.x64 import computed_x64

__all__ = ["Stepper", "fresh_state"]

BLOCK_INVERSE_TEMPERATURES = 1024  # handed over per call; fewer are padded
# measured: a third less compilation, the same speed
FAST_COMPILE = {"xla_backend_optimization_level": 1}
GENERATOR = "threefry2x32"  # named, so that the user's default does not change results
COMMON_KEYS = ("keys", "step")  # what every state has beside the arrays of its step


def fresh_state(arrays: State, seed: int) -> State:
    """A state at step 0 of the runs in `arrays` (run axis first),
    with the random streams of (seed, run).
    """
    import jax

    runs = len(next(iter(arrays.values())))
    with computed_x64():
        root = jax.random.key(seed, impl=GENERATOR)
        keys = jax.vmap(lambda i: jax.random.key_data(jax.random.fold_in(root, i)))(
            jax.numpy.arange(runs)
        )
        return {**arrays, "keys": np.asarray(keys), "step": np.array(0, dtype=np.int64)}


class Stepper:
    """Advances states by a step function, `tile` runs at a time; compiled at first use."""

    def __init__(
        self, step: Callable[[dict[str, Any], Any, Any], dict[str, Any]], tile: int
    ) -> None:
        self.step = step
        self.tile = tile
        self._compiled: Callable[..., Any] | None = None

    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        """The state after len(inverse_temperatures) more steps."""
        inverse_temperatures = checked_steps(state, inverse_temperatures, "advance")
        out = dict(state)
        for i in range(0, len(inverse_temperatures), BLOCK_INVERSE_TEMPERATURES):
            out = self._advance_block(
                out, inverse_temperatures[i : i + BLOCK_INVERSE_TEMPERATURES]
            )
        return out

    def _advance_block(self, state: State, inverse_temperatures: np.ndarray) -> State:
        import jax

        count = len(inverse_temperatures)
        start = state["step"]
        padded = np.pad(
            inverse_temperatures, (0, BLOCK_INVERSE_TEMPERATURES - count), mode="edge"
        )
        arrays = {name: a for name, a in state.items() if name not in COMMON_KEYS}
        runs = len(state["keys"])
        with computed_x64():
            if self._compiled is None:
                self._compiled = jax.jit(self._loop_tile, compiler_options=FAST_COMPILE)
            parts = []
            # all are dispatched before the first is awaited
            for i in range(0, runs, self.tile):
                tile = {name: _padded_tile(a, i, self.tile) for name, a in arrays.items()}
                parts.append(
                    self._compiled(
                        tile, _padded_tile(state["keys"], i, self.tile), start, count, padded
                    )
                )
            joined = {
                name: np.concatenate([np.asarray(p[name]) for p in parts])[:runs]
                for name in arrays
            }
        return {**joined, "keys": state["keys"], "step": start + count}

    def _loop_tile(
        self,
        tile: dict[str, Any],
        keys: Any,
        start: Any,
        count: Any,
        inverse_temperatures: Any,
    ) -> dict[str, Any]:
        import jax
        from jax import lax, random

        def one_run(arrays: dict[str, Any], key_data: Any) -> dict[str, Any]:
            key = random.wrap_key_data(key_data, impl=GENERATOR)
            body = lambda i, a: self.step(
                a, random.fold_in(key, start + i), inverse_temperatures[i]
            )
            return lax.fori_loop(0, count, body, arrays)

        return jax.vmap(one_run)(tile, keys)


def _padded_tile(array: np.ndarray, first: int, size: int) -> np.ndarray:
    part = array[first : first + size]
    missing = [(0, size - len(part))] + [(0, 0)] * (part.ndim - 1)
    return np.pad(part, missing, mode="edge") if len(part) < size else part
