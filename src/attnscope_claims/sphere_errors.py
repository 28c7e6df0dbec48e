"""What the claims on learning curves share: sampled errors of an attention operator on the sphere,
and log-log slopes with intervals.

The function is f(k) = W k with W ~ N(0, I). Values (k, noise) carry all its coordinates at once:
with attention weights w the error averaged over W is |sum_l w_l k_l - q|^2 + (sum_l w_l noise_l)^2,
so only keys, queries and noise are sampled and no W; several columns of noise share a context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from attnscope.claims.claim import Comparison
from attnscope.claims.compare import STANDARD_ERRORS, Z

# columns of noise: the attention operator works on all values at once, so they cost little
COPIES = 16
__all__ = ["Curve", "compare_slope", "sampled_curve", "sphere", "spread_slope"]

# query, keys, values, L -> output
Operator = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]
Curve = tuple[np.ndarray, np.ndarray]  # means and standard errors, one per length


def sphere(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform unit vectors; the last axis is the dimension."""
    x = rng.standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def sampled_curve(
    operator: Operator,
    dim: int,
    lengths: Sequence[int] | np.ndarray,
    contexts: Sequence[int],
    queries: int,
    noise: float,
    rng: np.random.Generator,
) -> Curve:
    """Error per coordinate of f at every length, with standard errors over independent contexts;
    queries of one context are averaged first.
    """
    means = []
    errors = []
    for L, n in zip(map(int, lengths), contexts):
        per_context = np.concatenate(
            [
                _errors(operator, dim, L, m, queries, noise, rng)
                for m in _blocks(n, L * queries)
            ]
        )
        means.append(per_context.mean())
        errors.append(per_context.std(ddof=1) / np.sqrt(n))
    return np.array(means), np.array(errors)


def _errors(
    operator: Operator,
    d: int,
    L: int,
    n: int,
    queries: int,
    noise: float,
    rng: np.random.Generator,
) -> np.ndarray:
    q = sphere(rng, (n, queries, d))
    k = sphere(rng, (n, 1, L, d))
    out = operator(
        q, k, np.concatenate([k, noise * rng.standard_normal((n, 1, L, COPIES))], axis=-1), L
    )
    return np.mean(
        np.sum((out[..., :d] - q) ** 2, axis=-1) + np.mean(out[..., d:] ** 2, axis=-1), axis=1
    )


def _blocks(n: int, cost: int, most: int = 1 << 20) -> list[int]:
    step = max(1, most // cost)
    return [min(step, n - i) for i in range(0, n, step)]


def spread_slope(
    x: np.ndarray, mean: np.ndarray, error: np.ndarray | float = 0.0
) -> tuple[float, float]:
    """Least-squares slope of log mean in log x and its standard error, from those of the means."""
    a = _regression(x)
    return float(a @ np.log(mean)), float(
        np.sqrt(np.sum((a * np.asarray(error) / mean) ** 2))
    )


def compare_slope(
    what: str,
    x: np.ndarray,
    predicted: np.ndarray,
    measured: Curve,
    relative: np.ndarray | float = 0.0,
    why: str = STANDARD_ERRORS,
) -> Comparison:
    """The slope of the predicted curve over the same points against the sampled one.

    Z standard errors are allowed, and what errors of the predicted curve of that relative size can
    do to its slope: `why` says where those come from.
    """
    slope, error = spread_slope(x, *measured)
    extra = float(np.sum(np.abs(_regression(x)) * relative))
    return Comparison(what, spread_slope(x, predicted)[0], slope, Z * error + extra, why=why)


def _regression(x: np.ndarray) -> np.ndarray:
    """Weights a with slope = sum a_i log y_i."""
    centred = np.log(x) - np.log(x).mean()
    return centred / np.sum(centred**2)
