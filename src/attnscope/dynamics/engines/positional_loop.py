"""SGD of positional or semantic attention in its two overlaps: exact in law, at the same cost in
any dimension.

notation: of tasks/planted/positional_semantic.py; y = e/P, z = (1 - y^2 - m^2)^(1/2): in the frame
p/P, k*, and the direction of what k has besides, k = (y, m, z). B = batch size, alpha = step size.

A sequence has the loss sum_i (y_i - s_i)^2, a function of f_1 = (x_1 + p).k and f_2 = (x_2 - p).k;
with g_i its derivatives in f_i the gradient is g_1 (x_1 + p) + g_2 (x_2 - p). Its three coordinates
in the frame need six normals. They fix g_1, g_2, and what lies outside the frame is
N(0, sum over the batch of (g_1^2 + g_2^2) I), of which only the squared length enters: a chi^2 of
d - 3 degrees of freedom. The step is k <- (k - alpha (I - k k^T) G)/|.|, G the mean over the batch.

Exact in law for d >= 3 up to rounding. Lanes, tiles and generators as in sgd_erf.py: run i is a
function of its own column and generator alone.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.numerics.compiled.fast_erf import exp_negative
from attnscope.numerics.compiled.fast_normal import chi_square_pair, normals
from attnscope.numerics.compiled.numba_flags import FUSED_FLAGS
from attnscope.numerics.compiled.run_tiles import LANES
from attnscope.numerics.compiled.tile_loop import give_tile, take_tile, through_tiles

__all__ = ["positional_steps"]

Array = np.ndarray

# rows of the work array: y, m, and what a run keeps: w, w A, P, ...
Y, M, W, WA, P = range(5)
# ... z, the coordinates of x_1 and x_2, and sums over the batch
Z, X11, X12, X13, X21, X22, X23, G1, G2, G3, OUT = range(5, 16)
POSITIONAL_ROWS = 16
SEQUENCE_SECONDS = (
    1.6e-6  # seconds a sequence and tile: decides only whether threads are worth starting
)


def positional_steps(
    state: Array,
    settings: Array,
    generators: Array,
    steps: int,
    step_size: float,
    batch_size: int,
    degrees: int,
) -> tuple[Array, Array]:
    """(y, m) (2, runs) and generator states (runs, 4) after `steps` steps.

    settings (3, runs): w, w A, P of each run; degrees = d - 3 (an argument: tests plant errors).
    """
    columns = np.concatenate([state, settings])
    setting = (steps, step_size, batch_size, degrees)
    seconds = steps * batch_size * SEQUENCE_SECONDS
    moved, generators = through_tiles(_advance_tiles, columns, generators, setting, seconds)
    return moved[:2], generators


@njit(**FUSED_FLAGS)
def _advance_tiles(
    tiles: Array,
    seeds: Array,
    steps: int,
    alpha: float,
    batch: int,
    degrees: int,
    lanes: int,
) -> None:
    """Advance tiles (n, 5, LANES) and generators (n, 4, LANES) in place."""
    x = np.empty((POSITIONAL_ROWS, LANES))
    g = np.empty(4 * LANES, np.uint64)
    z = np.empty(2 * LANES)
    chi2 = np.empty(2 * LANES)
    for tile in range(tiles.shape[0]):
        take_tile(x, g, tiles[tile], seeds[tile], lanes)
        for _ in range(steps):
            for i in range(lanes):
                rest = 1.0 - x[Y, i] * x[Y, i] - x[M, i] * x[M, i]
                x[Z, i] = math.sqrt(rest if rest > 0.0 else 0.0)
                x[G1, i] = 0.0
                x[G2, i] = 0.0
                x[G3, i] = 0.0
                x[OUT, i] = 0.0
            for _ in range(batch):
                for half in range(3):
                    normals(z, g, lanes)
                    for i in range(lanes):
                        x[X11 + half, i] = z[i]
                        x[X21 + half, i] = z[LANES + i]
                _add_sequence(x, lanes)
            chi_square_pair(chi2, z, g, degrees, lanes)
            _move_overlaps(x, chi2, alpha / batch, lanes)
        give_tile(x, g, tiles[tile], seeds[tile], lanes)


@njit(forceinline=True, **FUSED_FLAGS)
def _logistic(x: float) -> float:
    e = exp_negative(abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@njit(forceinline=True, **FUSED_FLAGS)
def _add_sequence(x: Array, lanes: int) -> None:
    """Add the gradient of one sequence to the sums."""
    for i in range(lanes):
        length = x[P, i]
        e = length * x[Y, i]
        u = x[X12, i]
        v = x[X22, i]
        f1 = e + x[Y, i] * x[X11, i] + x[M, i] * u + x[Z, i] * x[X13, i]
        f2 = x[Y, i] * x[X21, i] + x[M, i] * v + x[Z, i] * x[X23, i] - e
        gap = f1 - f2
        keep = 1.0 - x[W, i]
        s1 = _logistic(f1 * gap)
        s2 = _logistic(-f2 * gap)
        y1 = keep * _logistic(u * (u - v)) + x[WA, i]
        y2 = keep * _logistic(v * (v - u)) + x[WA, i]
        q1 = -2.0 * (y1 - s1) * s1 * (1.0 - s1)
        q2 = -2.0 * (y2 - s2) * s2 * (1.0 - s2)
        g1 = q1 * (gap + f1) - q2 * f2
        g2 = q2 * (f2 - gap) - q1 * f1
        x[G1, i] += g1 * (x[X11, i] + length) + g2 * (x[X21, i] - length)
        x[G2, i] += g1 * u + g2 * v
        x[G3, i] += g1 * x[X13, i] + g2 * x[X23, i]
        x[OUT, i] += g1 * g1 + g2 * g2


@njit(forceinline=True, **FUSED_FLAGS)
def _move_overlaps(x: Array, chi2: Array, alpha: float, lanes: int) -> None:
    """Step along the tangent and renormalise."""
    for i in range(lanes):
        y = x[Y, i]
        m = x[M, i]
        z = x[Z, i]
        radial = y * x[G1, i] + m * x[G2, i] + z * x[G3, i]
        t1 = x[G1, i] - radial * y
        t2 = x[G2, i] - radial * m
        t3 = x[G3, i] - radial * z
        outside = x[OUT, i] * chi2[i]
        scale = 1.0 / math.sqrt(1.0 + alpha * alpha * (t1 * t1 + t2 * t2 + t3 * t3 + outside))
        x[Y, i] = (y - alpha * t1) * scale
        x[M, i] = (m - alpha * t2) * scale
