"""Basins: where the gradient flow on the sphere of k, and SGD with small steps, ends.

notation: of minima.py; y = e/P.

    k' = -(I - k k^T) grad L:    y' = -(P L_e - y r),   m' = -(L_m - m r),   r = e L_e + m L_m

closes in the two overlaps, and is the same for every dimension. It is integrated on the sphere of
(y, m, z), z the length of the rest of k, z' = z r: in the two overlaps alone an error beyond the
arc would grow. Starts on an axis or on the arc stay there, as L is even. A start belongs to the
minimum that the flow comes near to (MINIMUM_DISTANCE); one that reaches none, because it lies on an
axis or on the arc and that ends in a saddle, belongs to -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from attnscope.errors import AttnscopeError
from attnscope.tasks.planted.positional_semantic import PositionalSemantic
from attnscope.theory.positional_semantic.loss import (
    checked_place,
    checked_semantic,
    loss_parts,
)
from attnscope.theory.positional_semantic.minima import checked_mix, positional_minima
from attnscope.theory.positional_semantic.table import semantic_table, slopes

__all__ = ["positional_basins", "sphere_velocity"]

# minima are farther apart than this, and the flow does not pass any minimum at this distance
MINIMUM_DISTANCE = 1e-3
# units of time; rates are of order 1/10, and each next period is twice as long
FIRST_PERIOD = 20.0
PERIOD_COUNT = 9  # 10,000 units of time in all: a flow has then ended, or rests at a saddle
RESTING_SPEED = 1e-9  # below it the flow rests; after the last period, below 100 times that
# of the solver: starts this near to the border of two basins may be assigned to the wrong one
FLOW_TOLERANCE = 1e-6


def sphere_velocity(task: PositionalSemantic, y: np.ndarray, m: np.ndarray) -> np.ndarray:
    """(2, n): y' and m' of the flow on the sphere."""
    return _velocity(task, y, m)[0]


def _velocity(
    task: PositionalSemantic, y: np.ndarray, m: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(2, n) and r (n,)."""
    table = semantic_table(task.position)
    e = np.clip(task.position * y, -task.position, task.position)
    _, of_f, of_g = loss_parts(task, table)
    f_e, f_m, g_e, h_e = slopes(table, e, np.clip(m, -1, 1))
    by_y = task.position * (of_f * f_e + of_g * g_e + 2 * h_e)
    by_m = of_f * f_m
    radial = y * by_y + m * by_m
    return np.stack([-(by_y - y * radial), -(by_m - m * radial)]), radial


def positional_basins(task: PositionalSemantic, e: Any, m: Any) -> Any:
    """The place in `positional_minima(task)` of the minimum that the gradient flow reaches (up to
    signs), or -1 where it ends in a saddle.

    Args:
        task: a PositionalSemantic.
        e, m: of the starts, numbers or arrays that broadcast.

    >>> task = PositionalSemantic(dim=1000, mix=0.6, contrast=1.0)
    >>> [found.phase for found in positional_minima(task)]
    ['semantic', 'positional']
    >>> positional_basins(task, [0.1, 0.1], [0.1, 0.01]).tolist()
    [0, 1]
    """
    of = "positional_basins"
    checked_semantic(task, of)
    checked_mix(task.mix, of)
    e, m = np.broadcast_arrays(*checked_place(task, e, m, of))
    minima = positional_minima(task)
    ends = np.array([[found.e / task.position, found.m] for found in minima])
    state = np.abs(np.stack([e.ravel() / task.position, m.ravel()]))
    state /= np.maximum(np.sqrt((state**2).sum(0)), 1.0)
    label = np.full(state.shape[1], -1)
    on_the_way = np.arange(state.shape[1])
    for look in range(PERIOD_COUNT):
        here = state[:, on_the_way]
        away = np.abs(here[:, :, None] - ends.T[:, None, :]).max(0)
        label[on_the_way] = np.where(away.min(1) < MINIMUM_DISTANCE, away.argmin(1), -1)
        speed = np.abs(sphere_velocity(task, here[0], here[1])).max(0)
        on_the_way = on_the_way[(label[on_the_way] < 0) & (speed > RESTING_SPEED)]
        if not len(on_the_way):
            return int(label[0]) if e.ndim == 0 else label.reshape(e.shape)
        state[:, on_the_way] = _flow_end(task, state[:, on_the_way], FIRST_PERIOD * 2**look)
    here = state[:, on_the_way]
    fast = np.abs(sphere_velocity(task, here[0], here[1])).max(0) > 100 * RESTING_SPEED
    on_the_way = on_the_way[fast]
    if not len(on_the_way):
        return int(label[0]) if e.ndim == 0 else label.reshape(e.shape)
    raise AttnscopeError(
        f"starts of {of} must reach a minimum in {FIRST_PERIOD * 2**PERIOD_COUNT:g} units of time, got a start "
        f"that is still at e = {task.position * state[0, on_the_way[0]]:.4g}, "
        f"m = {state[1, on_the_way[0]]:.4g}; try mix farther from 1."
    )


def _flow_end(task: PositionalSemantic, state: np.ndarray, time: float) -> np.ndarray:
    """The flow of all starts (2, n)."""
    rest = np.sqrt(np.maximum(1 - (state**2).sum(0), 0.0))

    def velocity(_: float, flat: np.ndarray) -> np.ndarray:
        k = flat.reshape(3, -1)
        k = k / np.sqrt((k**2).sum(0))
        moved, radial = _velocity(task, k[0], k[1])
        return np.concatenate([moved.ravel(), k[2] * radial])

    found = solve_ivp(
        velocity,
        (0, time),
        np.append(state.ravel(), rest),
        "DOP853",
        rtol=FLOW_TOLERANCE,
        atol=1e-3 * FLOW_TOLERANCE,
    )
    k = np.abs(found.y[:, -1].reshape(3, -1))
    return k[:2] / np.sqrt((k**2).sum(0))
