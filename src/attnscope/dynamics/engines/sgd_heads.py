"""Mini-batch SGD of heads of softmax or erf in their Gram matrix, compiled: exact in law, at the
same cost in any dimension.

The law is that of gram_sgd.py, here with the gradient by hand and 16 runs side by side. The task
has F informative tokens N(s k_i*, gam^2 I_d), the others N(0, I_d), Y = sum_i X_i.v_i* + eps xi;
H heads add up to T = sum_h T_h, and a step follows the mean of (T - Y)^2 over B fresh sequences.

notation: m = 2H trained vectors (k_1, v_1, ...), r = 2F teachers (k_1*, v_1*, ...), n = m + r;
A (n, n) lower triangular: row a has the coordinates of vector a in the frame of Cholesky, trained
vectors first; u = X_l.k_h, w = X_l.v_h, p = weight_l of head h.

With (T - Y)^2 the gradients are g_a = sum_l (2/B)(T - Y) c_la X_l over the batch,

    softmax   p = e^{lam u}/(sink + sum e^{lam u}):   c_k = lam p (w - T_h),       c_v = p
    erf       p = erf(lam u):                         c_k = lam erf'(lam u) w,     c_v = p

Every token is drawn along the first m axes, an informative one along all n. Along an axis beyond m
the background adds N(0, S_0), S_0 = sum of (factor c)(factor c)^T over background tokens, and what
lies outside the frame enters by its Gram matrix, Wishart_m(S_0 + gam^2 S_1, d - n), S_1 the same
sum over informative tokens, by Bartlett's decomposition.

Exact in law for d >= n up to rounding: softmax scores are shifted by their largest, a vanishing
pivot of Cholesky leaves its axis empty. A run that is not finite in one place is so everywhere.
Loops over lanes are innermost, so that they vectorise (head_sums.py).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.dynamics.engines.head_sums import add_sequence, from_blocks, to_blocks
from attnscope.numerics.compiled.fast_normal import normals
from attnscope.numerics.compiled.lane_algebra import add_dot, cholesky, wishart
from attnscope.numerics.compiled.numba_flags import FUSED_FLAGS
from attnscope.numerics.compiled.run_tiles import LANES
from attnscope.numerics.compiled.tile_loop import give_tile, take_tile, through_tiles

__all__ = ["heads_steps"]

Array = np.ndarray

# seconds per token, head and tile, roughly: decides only whether threads are worth starting
HEAD_TOKEN_SECONDS = 2e-7


def heads_steps(
    gram: Array,
    generators: Array,
    inverse_temperatures: Array,
    kind: int,
    heads: int,
    *,
    step_size: float,
    batch_size: int,
    length: int,
    gamma: float,
    signal: float,
    noise: float,
    sphere: bool,
    freedom: int,
    spread: float,
) -> tuple[Array, Array]:
    """Gram matrices (runs, n, n) and generator states (runs, 4) after len(inverse_temperatures)
    steps.

    freedom = d - n and spread = gam^2, in the Wishart law, are arguments: tests plant errors there.
    """
    runs = len(gram)
    n = gram.shape[1]
    if not runs or not len(inverse_temperatures):
        return gram.copy(), generators.copy()
    columns = gram.reshape(runs, n * n).T
    setting = (
        np.ascontiguousarray(inverse_temperatures, dtype=np.float64),
        int(kind),
        2 * int(heads),
        n,
        int(length),
        int(batch_size),
        float(step_size),
        float(gamma),
        float(signal),
        float(noise),
        bool(sphere),
        int(freedom),
        float(spread),
    )
    seconds = len(inverse_temperatures) * batch_size * length * heads * HEAD_TOKEN_SECONDS
    moved, generators = through_tiles(_advance_tiles, columns, generators, setting, seconds)
    return np.ascontiguousarray(moved.T).reshape(runs, n, n), generators


@njit(**FUSED_FLAGS)
def _advance_tiles(
    tiles: Array,
    seeds: Array,
    inverse_temperatures: Array,
    kind: int,
    m: int,
    n: int,
    length: int,
    batch: int,
    alpha: float,
    gam: float,
    s: float,
    eps: float,
    sphere: bool,
    freedom: int,
    spread: float,
    lanes: int,
) -> None:
    """Advance tiles (.., n n, LANES) and generators (.., 4, LANES) in place."""
    r = n - m
    G = np.empty(n * n * LANES)
    A = np.empty(n * n * LANES)
    X = np.empty(length * m * LANES)
    R = np.empty(r // 2 * r * LANES)
    C = np.empty(length * m * LANES)
    y = np.empty(LANES)
    sums = np.empty((m * n + 2 * m * m) * LANES)
    stats = np.empty(3 * m // 2 * LANES)
    frame = np.empty(m * m * LANES)
    inside = np.empty(m * n * LANES)
    S0 = np.empty(m * m * LANES)
    S1 = np.empty(m * m * LANES)
    L = np.empty(m * m * LANES)
    W = np.empty(m * m * LANES)
    g = np.empty(4 * LANES, np.uint64)
    z = np.empty(2 * LANES)
    chi2 = np.empty(2 * LANES)
    for tile in range(tiles.shape[0]):
        take_tile(G.reshape(n * n, LANES), g, tiles[tile], seeds[tile], lanes)
        for t in range(inverse_temperatures.size):
            lam = inverse_temperatures[t]
            _mark_not_finite(G, y, m, n, lanes)
            cholesky(A, G, n, lanes)
            to_blocks(frame, A, m, m, n, lanes)
            for j in range(sums.size):
                sums[j] = 0.0
            for _ in range(batch):
                _draw_sequence(X, R, y, A, z, g, m, n, length, gam, s, eps, lanes)
                add_sequence(
                    sums, X, R, y, frame, C, stats, kind, m, n, length, lam, batch, lanes
                )
            from_blocks(inside, sums, m, n, lanes)
            from_blocks(S0, sums[m * n * LANES :], m, m, lanes)
            from_blocks(S1, sums[m * (n + m) * LANES :], m, m, lanes)
            _background_beyond(inside, S0, L, z, g, m, n, lanes)
            for j in range(m * m * LANES):
                S1[j] = S0[j] + spread * S1[j]
            cholesky(L, S1, m, lanes)
            wishart(W, L, S1, z, chi2, g, m, freedom, lanes)
            _move_vectors(G, A, inside, W, S0, m, n, alpha, sphere, lanes)
        _mark_not_finite(G, y, m, n, lanes)
        _spread_nan(G, n, lanes)
        give_tile(G.reshape(n * n, LANES), g, tiles[tile], seeds[tile], lanes)


@njit(**FUSED_FLAGS)
def _spread_nan(G: Array, n: int, lanes: int) -> None:
    """A run whose first number is NaN gets NaN everywhere."""
    for j in range(LANES, n * n * LANES, LANES):
        for i in range(lanes):
            G[j + i] += G[i] - G[i]


@njit(forceinline=True, **FUSED_FLAGS)
def _mark_not_finite(G: Array, spoiled: Array, m: int, n: int, lanes: int) -> None:
    """A run with one number that is not finite gets NaN in its first column, which Cholesky takes
    everywhere.
    """
    for i in range(lanes):
        spoiled[i] = 0.0
    for j in range(0, m * n * LANES, 2 * LANES):
        row = G[j:]
        for i in range(lanes):
            spoiled[i] += (row[i] - row[i]) + (row[LANES + i] - row[LANES + i])
    for j in range(0, n * n * LANES, n * LANES):
        row = G[j:]
        for i in range(lanes):
            row[i] += spoiled[i]


@njit(**FUSED_FLAGS)
def _draw_sequence(
    X: Array,
    R: Array,
    y: Array,
    A: Array,
    z: Array,
    g: Array,
    m: int,
    n: int,
    length: int,
    gam: float,
    s: float,
    eps: float,
    lanes: int,
) -> None:
    """The coordinates of the tokens of one sequence, informative ones first, and its label."""
    r = n - m
    for j in range(0, length * m, 2):
        normals(X[j * LANES :], g, lanes)
    for j in range(0, r // 2 * r, 2):
        normals(R[j * LANES :], g, lanes)
    normals(z, g, lanes)
    for i in range(lanes):
        y[i] = eps * z[i]
    for f in range(r // 2):
        key = (m + 2 * f) * n
        for j in range(n):
            x = X[(f * m + j) * LANES :] if j < m else R[(f * r + j - m) * LANES :]
            mean = A[(key + j) * LANES :]
            value = A[(key + n + j) * LANES :]
            for i in range(lanes):
                x[i] = s * mean[i] + gam * x[i]
                y[i] += value[i] * x[i]


@njit(**FUSED_FLAGS)
def _background_beyond(
    inside: Array, S0: Array, L: Array, z: Array, g: Array, m: int, n: int, lanes: int
) -> None:
    """What the background adds along the axes beyond m."""
    cholesky(L, S0, m, lanes)
    for j in range(m, n):
        for b in range(0, m, 2):
            normals(z, g, lanes)
            for a in range(b, m):
                to = inside[(a * n + j) * LANES :]
                row = L[(a * m + b) * LANES :]
                for i in range(lanes):
                    to[i] += row[i] * z[i] + row[LANES + i] * z[LANES + i]


@njit(**FUSED_FLAGS)
def _move_vectors(
    G: Array,
    A: Array,
    inside: Array,
    W: Array,
    block: Array,
    m: int,
    n: int,
    alpha: float,
    sphere: bool,
    lanes: int,
) -> None:
    """Step along the gradients, renormalise on spheres, and write the new Gram matrix."""
    width = n * LANES
    for a in range(m):
        own = A[a * width :]
        moving = inside[a * width :]
        for i in range(lanes):
            block[i] = 0.0
        if sphere:
            add_dot(block, moving, own, n, 1.0, lanes)
        for j in range(0, width, LANES):
            to = moving[j:]
            at = own[j:]
            for i in range(lanes):
                to[i] = at[i] - alpha * (to[i] - block[i] * at[i])
    for a in range(m):
        for b in range(a + 1):
            to = block[(a * m + b) * LANES :]
            rest = W[(a * m + b) * LANES :]
            for i in range(lanes):
                to[i] = alpha * alpha * rest[i]
            add_dot(to, inside[a * width :], inside[b * width :], n, 1.0, lanes)
    for a in range(m):
        size = W[a * LANES :]
        square = block[(a * m + a) * LANES :]
        for i in range(lanes):
            size[i] = 1.0 / math.sqrt(square[i]) if sphere else 1.0
    for a in range(m):
        size = W[a * LANES :]
        for b in range(n):
            to = G[a * width + b * LANES :]
            twin = G[b * width + a * LANES :]
            if b >= m:
                for i in range(lanes):
                    to[i] = 0.0
                add_dot(to, inside[a * width :], A[b * width :], n, 1.0, lanes)
                for i in range(lanes):
                    to[i] *= size[i]
                    twin[i] = to[i]
            elif b <= a:
                other = W[b * LANES :]
                found = block[(a * m + b) * LANES :]
                for i in range(lanes):
                    to[i] = found[i] * (size[i] * other[i])
                    twin[i] = to[i]
