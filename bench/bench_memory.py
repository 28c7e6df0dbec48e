"""The delta rule against what its arithmetic and its memory traffic cost at least.

    python bench/bench_memory.py

L = 10,000 tokens, d = 64, 64 sequences, values of one column and of 64. Two bounds, measured in the
same run on the same thread: a plain loop of as many fused multiply-adds as the rule needs on arrays
that stay in the first cache, and a plain sum over the inputs, each read once. The bar is twice the
larger of them. The answer of a sequence is first compared with the recursion in NumPy.

Multiply-adds a token: 2 d for one column, 2 d + d_v for one query of d_v columns (backwards in
time), 3 d d_v where every token has a query.
"""

from __future__ import annotations

import time

import numpy as np
from numba import njit
from table import shown

from attnscope.predictors.operators.memory_attention import delta_attention

L = 10_000
D = 64
SEQUENCES = 64
STEP = 0.5
DECAY = 0.99
BAR = 2.0
CACHED = 512  # numbers of the multiply loop: 4 KB
REPEATS = 100_000


@njit(fastmath={"reassoc", "contract", "nsz"})
def fused(x: np.ndarray, y: np.ndarray, repeats: int) -> float:
    for _ in range(repeats):
        for i in range(x.shape[0]):
            y[i] = 0.999 * y[i] + x[i]
    return y[0]


@njit(fastmath={"reassoc", "contract", "nsz"})
def total(x: np.ndarray) -> float:
    out = 0.0
    for i in range(x.shape[0]):
        out += x[i]
    return out


def recursion(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    S = np.zeros((values.shape[1], D))
    for k, v in zip(keys, values):
        S = DECAY * S + STEP * np.outer(v - DECAY * S @ k, k)
    return S @ query


def in_turns(*calls, repeats: int = 9) -> list[float]:
    """Least seconds of each, measured in turns so that other load falls on all."""
    times: list[list[float]] = [[] for _ in calls]
    for number in range(repeats + 1):
        for call, seen in zip(calls, times):
            start = time.perf_counter()
            call()
            if number:  # the first, warming call is not counted
                seen.append(time.perf_counter() - start)
    return [min(seen) for seen in times]


def row(
    what: str, call, multiplications: float, inputs: list[np.ndarray], repeats: int
) -> None:
    x, y = np.ones(CACHED), np.zeros(CACHED)
    ours, loop, *read = in_turns(
        call,
        lambda: fused(x, y, REPEATS),
        *(lambda a=a: total(a.reshape(-1)) for a in inputs),
        repeats=repeats,
    )
    arithmetic = loop / (CACHED * REPEATS) * multiplications * L * SEQUENCES
    memory = sum(read)
    ratio = ours / max(arithmetic, memory)
    print(
        f"{what:<40}{shown(ours):>10}{shown(arithmetic):>12}{shown(memory):>10}{ratio:>8.2f}x"
        f"{BAR:>6.1f}x  {'yes' if ratio <= BAR else 'NO'}"
    )


def main() -> None:
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((SEQUENCES, L, D))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    many = rng.standard_normal((SEQUENCES, L, D))
    one = np.ascontiguousarray(many[..., :1])
    query = rng.standard_normal((SEQUENCES, D))
    for values in (one, many):
        found = delta_attention(query[0], keys[0], values[0], STEP, DECAY)
        assert np.allclose(found, recursion(query[0], keys[0], values[0]), rtol=0, atol=1e-12)
        each = delta_attention(keys[0], keys[0], values[0], STEP, DECAY, causal=True)
        last = recursion(keys[0, -1], keys[0], values[0])
        assert np.allclose(each[-1], last, rtol=0, atol=1e-12)
    print(
        f"\ndelta_attention, L = {L}, d = {D}, {SEQUENCES} sequences\n"
        f"{'what':<40}{'ours':>10}{'arithmetic':>12}{'memory':>10}{'ratio':>9}{'bar':>7}  ok"
    )
    last = lambda values: delta_attention(query, keys, values, STEP, DECAY)
    row("one value column", lambda: last(one), 2 * D, [keys, one], 9)
    row("64 value columns", lambda: last(many), 3 * D, [keys, many], 9)
    each = lambda values: delta_attention(keys, keys, values, STEP, DECAY, causal=True)
    # keys are the queries too: read twice by the rule, from memory once
    row("one column, a query after each token", lambda: each(one), 3 * D, [keys, one], 5)
    row(
        "64 columns, a query after each token", lambda: each(many), 3 * D * D, [keys, many], 2
    )


if __name__ == "__main__":
    main()
