"""Sums of positive terms in logarithms that the Bayes integral needs: over pairs, around a mean,
and with merged probabilities.

Pairs j != m go by running sums from both ends, without a subtraction; a spread is taken about the
heaviest group.
"""

from __future__ import annotations

import numpy as np

__all__ = ["coarsen", "interleaved", "log_pairs", "log_spread", "quiet_log"]

Array = np.ndarray

PMF_BINS = 48  # a pmf with more distinct probabilities is coarsened while the range is sought


def interleaved(a: Array, b: Array) -> Array:
    """a0 b0 a1 b1 ... a_last."""
    out = np.empty(a.size + b.size)
    out[::2], out[1::2] = a, b
    return out


def quiet_log(x: Array) -> Array:
    """log x, -inf at 0 without a warning."""
    with np.errstate(divide="ignore"):
        return np.log(x)


def log_pairs(a: Array, b: Array, n: Array) -> Array:
    """log sum_{j != m} e^{a_j + b_m} over positions, n_g of them in group g; a, b:
    (nodes, groups). No subtraction.
    """
    same = np.logaddexp.reduce(a + b + np.log(n * (n - 1)), axis=1)
    if n.size == 1:
        return same
    a = a + np.log(n)
    b = b + np.log(n)
    none = np.full((len(b), 1), -np.inf)
    before = np.hstack([none, np.logaddexp.accumulate(b, axis=1)[:, :-1]])
    after = np.hstack([np.logaddexp.accumulate(b[:, ::-1], axis=1)[:, -2::-1], none])
    return np.logaddexp(same, np.logaddexp.reduce(a + np.logaddexp(before, after), axis=1))


def log_spread(b: Array, mean: Array, n: Array) -> Array:
    """log sum_{j<m} e^{b_j + b_m} (mean_j - mean_m)^2 over positions: about the heaviest group, so
    that light ones keep their digits.

    With x = mean - mean_heaviest it is S sum' B x^2 - (sum' B x)^2, ' without the heaviest; at
    least B_heaviest sum' B x^2 >= S/groups sum' B x^2.
    """
    b = b + np.log(n)
    rows = np.arange(len(b))
    top = b.argmax(1)
    high = b[rows, top]
    x = mean - mean[rows, top][:, None]
    b[rows, top] = -np.inf
    rest = b.max(1)
    light = np.exp(b - rest[:, None])
    scale = np.exp(rest - high)
    total = 1 + scale * light.sum(1)
    return (
        high
        + rest
        + np.log(
            np.maximum(total * (light * x * x).sum(1) - scale * (light * x).sum(1) ** 2, 0.0)
        )
    )


def coarsen(lam: Array, n: Array) -> tuple[Array, Array]:
    """Merge probabilities within half a nat (PMF_BINS cells at least), keeping number and total
    probability: for finding the range only.
    """
    if lam.size <= PMF_BINS:
        return lam, n
    cells = max(PMF_BINS, int(2 * (lam[0] - lam[-1])))
    cell = ((lam[0] - lam) * (cells / (lam[0] - lam[-1]) * (1 - 1e-12))).astype(int)
    count = np.bincount(cell, weights=n)
    mass = np.bincount(cell, weights=n * np.exp(lam))
    return np.log(mass[count > 0] / count[count > 0]), count[count > 0]
