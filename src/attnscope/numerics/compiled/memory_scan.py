"""Linear memories that are written token by token, and the Kalman filter: loops over time.

notation: S (d_v, d) the memory, k_t key, v_t value, g = decay, e = step, b = 1 (delta rule) or 0
(linear attention).

    S_t = g_t S_{t-1} + e_t (v_t - b g_t S_{t-1} k_t) k_t^T

Read at one query q the memory is attention with weights that run backwards in time,

    S_L q = sum_t w_t v_t,   w_t = e_t k_t.z_t,   z_L = q,   z_{t-1} = g_t (z_t - b e_t (k_t.z_t) k_t),

d multiplications a token twice over however many columns the values have. `read_back` does
that, `written` carries S along and reads it after every token.

A rounding error of step t reaches the answer through the same maps. `growth` is how much they
stretch at most: of z itself backwards, forwards a bound, or of a probe that nothing is written to.

Kalman filter of w_t = a w_{t-1} + sqrt(lam (1 - a^2)) N(0, I), v_t = w_t.k_t + s N(0, 1), in
covariance form: P' = a^2 P + (1 - a^2) lam I, u = P' k, P = P' - u u^T/(k.u + s^2).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.numerics.compiled.numba_flags import REASSOCIATING_FLAGS

__all__ = ["filtered", "filtered_traces", "growth_of", "read_back", "written"]

Array = np.ndarray
KEY_BLOCK_ENTRIES = (
    1 << 16
)  # numbers in a block of keys: 512 KB, which fit in the second-level cache


@njit(**REASSOCIATING_FLAGS)
def read_back(
    queries: Array,
    keys: Array,
    values: Array,
    step: Array,
    decay: Array,
    erase: float,
    out: Array,
) -> float:
    """out (c, m, d_v), given as zeros, of queries (c, m, d), keys (c, L, d), values (c, L, d_v),
    step and decay (c, L) or (1, L); the largest |z_t|/|q|.
    """
    contexts, many, d = queries.shape
    length = keys.shape[1]
    block = min(max(KEY_BLOCK_ENTRIES // d, 1), length)
    squares = np.empty(block)
    weights = np.empty((many, length))
    kept = np.empty((many, d))
    sizes = np.empty((3, many))  # |z|^2 now, at the start, at most
    z = np.empty(d)
    growth = 1.0
    for c in range(contexts):
        steps = step[c % step.shape[0]]
        decays = decay[c % decay.shape[0]]
        for m in range(many):
            sizes[:, m] = 0.0
            for i in range(d):
                kept[m, i] = queries[c, m, i]
                sizes[:, m] += kept[m, i] * kept[m, i]
        end = length
        while end > 0:
            start = max(end - block, 0)
            # time runs downwards, memory is fast upwards: this pass brings the block to the cache
            for t in range(end - start):
                key = keys[c, start + t]
                square = 0.0
                for i in range(d):
                    square += key[i] * key[i]
                squares[t] = square
            for m in range(many):
                for i in range(d):
                    z[i] = kept[m, i]
                size = sizes[0, m]
                most = sizes[2, m]
                for n in range(end - start):
                    t = end - start - 1 - n
                    key = keys[c, start + t]
                    along = 0.0
                    for i in range(d):
                        along += z[i] * key[i]
                    g = decays[start + t]
                    weight = steps[start + t] * along
                    weights[m, start + t] = weight
                    back = erase * weight
                    for i in range(d):
                        z[i] = g * (z[i] - back * key[i])
                    # |z|^2 after the update, from what is known already
                    size = g * g * max(size + back * (back * squares[t] - 2.0 * along), 0.0)
                    most = max(most, size)
                for i in range(d):
                    kept[m, i] = z[i]
                sizes[0, m] = size
                sizes[2, m] = most
            end = start
        for m in range(many):
            _add_weighted_values(weights[m], values[c], out[c, m])
            if sizes[1, m] > 0.0 and not sizes[2, m] <= growth * growth * sizes[1, m]:
                growth = math.sqrt(sizes[2, m] / sizes[1, m])  # NaN too
    return growth


@njit(**REASSOCIATING_FLAGS)
def _add_weighted_values(weights: Array, values: Array, out: Array) -> None:
    """out (d_v) + weights (at least n) @ values (n, d_v)."""
    n, columns = values.shape
    if columns == 1:
        alone = 0.0
        for t in range(n):
            alone += weights[t] * values[t, 0]
        out[0] += alone
        return
    total = np.zeros(columns)
    for t in range(n):  # plain: several tokens at a time break up the stream from memory
        row = values[t]
        w = weights[t]
        for j in range(columns):
            total[j] += w * row[j]
    for j in range(columns):
        out[j] += total[j]


@njit(**REASSOCIATING_FLAGS)
def written(
    queries: Array,
    keys: Array,
    values: Array,
    step: Array,
    decay: Array,
    erase: float,
    state: Array,
    out: Array,
) -> float:
    """Write the tokens of one context into state (d_v, d), given as zeros; out (L, d_v) is the
    memory read at queries (L, d) after each token, if there are queries.

    Returns a bound on the growth: the largest product of max(1, |1 - e |k|^2|) g over tokens in
    a row.
    """
    length, d = keys.shape
    columns = state.shape[0]
    reading = queries.shape[0] > 0
    S = np.zeros((columns, d))  # its own array: nothing else can overlap it
    stretch = 1.0
    growth = 1.0
    for t in range(length):
        g = decay[t]
        e = step[t]
        key = keys[t]
        square = 0.0
        for j in range(columns):
            inner = 0.0
            if j == 0:  # the first pass over the key measures it too
                for i in range(d):
                    inner += S[j, i] * key[i]
                    square += key[i] * key[i]
            else:
                for i in range(d):
                    inner += S[j, i] * key[i]
            r = e * (values[t, j] - erase * g * inner)
            if reading:
                asked = queries[t]
                read = 0.0
                for i in range(d):
                    x = g * S[j, i] + r * key[i]
                    S[j, i] = x
                    read += x * asked[i]
                out[t, j] = read
            else:
                for i in range(d):
                    S[j, i] = g * S[j, i] + r * key[i]
        stretch = max(stretch, 1.0) * g * max(1.0, abs(1.0 - erase * e * square))
        growth = max(growth, stretch)
    for j in range(columns):
        for i in range(d):
            state[j, i] = S[j, i]
    return growth


@njit(**REASSOCIATING_FLAGS)
def growth_of(keys: Array, step: Array, decay: Array, probe: Array) -> float:
    """How much the tokens of one context stretch a vector that nothing is written to; one that
    shrank starts anew at length 1, in its own direction.
    """
    length, d = keys.shape
    u = probe.copy()
    growth = 1.0
    for t in range(length):
        key = keys[t]
        inner = 0.0
        for i in range(d):
            inner += u[i] * key[i]
        square = 0.0
        for i in range(d):
            u[i] = decay[t] * (u[i] - step[t] * inner * key[i])
            square += u[i] * u[i]
        size = math.sqrt(square)
        growth = max(growth, size)
        if size == 0.0:  # forgotten: any direction will do
            u[:] = probe
        elif size < 1.0:
            for i in range(d):
                u[i] /= size
    return growth


@njit(**REASSOCIATING_FLAGS)
def _update_covariance(
    P: Array, key: Array, u: Array, a: float, drift: float, s2: float
) -> float:
    """P -> P' -> P of one token; u = P' k, and the variance k.u + s^2 of its value."""
    d = key.shape[0]
    for i in range(d):
        for j in range(d):
            P[i, j] *= a * a
        P[i, i] += drift
    total = s2
    for i in range(d):
        u[i] = 0.0
        for j in range(d):
            u[i] += P[i, j] * key[j]
        total += u[i] * key[i]
    for i in range(d):
        r = u[i] / total
        for j in range(d):
            P[i, j] -= r * u[j]
    return total


@njit(**REASSOCIATING_FLAGS)
def filtered(
    keys: Array, values: Array, a: float, prior: float, s2: float, mean: Array, P: Array
) -> float:
    """Filter one context: mean (d_v, d) and P (d, d) begin as the prior's and end as the
    posterior's; log p(values | keys).
    """
    length, d = keys.shape
    columns = values.shape[1]
    u = np.empty(d)
    drift = (1.0 - a) * (1.0 + a) * prior
    logs = 0.0
    for t in range(length):
        total = _update_covariance(P, keys[t], u, a, drift, s2)
        logs -= 0.5 * columns * math.log(2.0 * math.pi * total)
        for j in range(columns):
            rest = values[t, j]
            for i in range(d):
                mean[j, i] *= a
                rest -= mean[j, i] * keys[t, i]
            logs -= 0.5 * rest * rest / total
            for i in range(d):
                mean[j, i] += rest / total * u[i]
    return logs


@njit(**REASSOCIATING_FLAGS)
def filtered_traces(keys: Array, a: float, prior: float, s2: float, traces: Array) -> None:
    """traces (n, L) of P after each token of keys (n, L, d), which is all that they decide."""
    n, length, d = keys.shape
    u = np.empty(d)
    P = np.empty((d, d))
    drift = (1.0 - a) * (1.0 + a) * prior
    for c in range(n):
        for i in range(d):
            for j in range(d):
                P[i, j] = prior if i == j else 0.0
        for t in range(length):
            _update_covariance(P, keys[c, t], u, a, drift, s2)
            traces[c, t] = 0.0
            for i in range(d):
                traces[c, t] += P[i, i]
