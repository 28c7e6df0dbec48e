"""Attention operators: CME against a plain SciPy Cholesky solve of the same system, softmax over
long contexts.

    python bench/bench_operators.py

Targets: CME at L = 2,000, d = 64, 100 queries within 1.5 times a plain SciPy solve in the same run,
kernel matrix included in ours and, for the stricter of the two rows, not in SciPy's.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from table import limit, shown

from attnscope.predictors.operators.context_attention import (
    cme_attention,
    cme_solve,
    softmax_attention,
)

L = 2000
D = 64
QUERIES = 100
RIDGE = 0.25
BAR = 1.5


def plain(kernel: np.ndarray, cross: np.ndarray, values: np.ndarray) -> np.ndarray:
    return cross @ cho_solve(cho_factor(kernel + RIDGE * np.eye(L), lower=True), values)


def gram(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.exp(-cdist(x, y, "sqeuclidean") / 2)


def interleaved(first, second, repeats: int = 9) -> tuple[float, float]:
    """Least seconds of each, measured in turns so that other load falls on both."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for call, seen in zip((first, second), times):
            start = time.perf_counter()
            call()
            seen.append(time.perf_counter() - start)
    return min(times[0]), min(times[1])


def main() -> None:
    rng = np.random.default_rng(0)
    keys, queries, values = (
        rng.standard_normal(shape) / 8 for shape in ((L, D), (QUERIES, D), (L, 1))
    )
    K, cross = gram(keys, keys), gram(queries, keys)
    assert np.allclose(
        cme_attention(queries, keys, values), plain(K, cross, values), rtol=1e-9, atol=1e-12
    )
    print(
        f"\nCME attention, L = {L}, d = {D}, {QUERIES} "
        f"queries\n{'what':<52}{'ours':>12}{'scipy':>12}{'ratio':>9}{'bar':>8}  ok"
    )
    for name, baseline in (
        ("SciPy with the kernel matrix already built", lambda: plain(K, cross, values)),
        (
            "SciPy with cdist for the kernel matrix",
            lambda: plain(gram(keys, keys), gram(queries, keys), values),
        ),
    ):
        ours, theirs = interleaved(lambda: cme_attention(queries, keys, values), baseline)
        ratio = ours / theirs
        print(
            f"{name:<52}{shown(ours):>12}{shown(theirs):>12}{ratio:>8.2f}x{BAR:>7.1f}x  "
            f"{'yes' if ratio <= BAR else 'NO'}"
        )
    print("\nlong contexts")
    long_keys = rng.standard_normal((100_000, D)) / 8
    long_values = rng.standard_normal((100_000, 1))
    start = time.perf_counter()
    softmax_attention(queries, long_keys, long_values, 0.2)
    limit("softmax, L = 100,000, d = 64, 100 queries", time.perf_counter() - start, 5.0)
    ball = rng.standard_normal((20_000, 3))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    start = time.perf_counter()
    error = cme_solve(ball[:5], ball, long_values[:20_000]).error.max()
    limit(
        f"CME, L = 20,000, d = 3, iterative (error <= {error:.0e})",
        time.perf_counter() - start,
        60.0,
    )


if __name__ == "__main__":
    main()
