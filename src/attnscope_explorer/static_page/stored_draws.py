"""The library's own random draws, for the states that tours and first looks show: starts of training
and sequences. With them the page's runs and tokens are those that `attnscope explore` shows.

    starts      (start, dim, seed), and for moments the rest of the task, -> (runs, 5) overlaps; a run depends on (seed, its number) alone,
                so the first of them are those of fewer runs
    sequences   (dim, length, gamma2, noise, seed) -> tokens along k* and v*, the squared length of
                the rest of each, location and label (attnscope_explorer/stage_data.py)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from attnscope.dynamics.starts import starting_overlaps
from attnscope_explorer.stage_data import sequence
from attnscope_explorer.state import State

__all__ = ["stored_draws"]

MOST_RUNS = 50  # the most that the page's knob asks for


def stored_draws(states: Iterable[State]) -> dict[str, dict[str, Any]]:
    """Starts and sequences of these states, by the keys that the page asks with."""
    out: dict[str, dict[str, Any]] = {"starts": {}, "sequences": {}}
    for state in states:
        if state.view in ("landscape", "training"):
            key = f"{state.start} {state.dim} {state.seed}"
            if state.start == "moments":  # estimated from drawn sequences, the others are not
                key += f" {state.length} {state.gamma2:g} {state.noise:g}"
            if key not in out["starts"]:
                out["starts"][key] = _run_starts(state)
        if state.view == "posterior":
            key = f"{state.dim} {state.length} {state.gamma2:g} {state.noise:g} {state.seed}"
            out["sequences"][key] = _sequence(state)
    return out


def _task(state: State) -> at.SingleLocation:
    """As the lines under the views: the seed is that of what is drawn, not of k* and v*."""
    return at.SingleLocation(
        dim=state.dim, length=state.length, gamma=state.gamma2**0.5, noise=state.noise
    )


def _run_starts(state: State) -> list[list[float]]:
    found = starting_overlaps(_task(state), state.start, MOST_RUNS, state.seed)
    return np.asarray(found).T.tolist()


def _sequence(state: State) -> dict[str, Any]:
    task = _task(state)
    batch = task.sample(1, seed=state.seed)
    return sequence(batch.tokens[0], task, batch.location[0], batch.target[0])
