"""Sampled Bayes risks against plain sampling of the same number of sequences in the same run.

    python bench/bench_bayes.py

Ours sees rare events, the baseline does not: it draws `samples` sequences and averages the exact
posterior variance (or min(p, 1 - p)), as 0.1.0 did. Ours may take at most three times as long. The
last column is the relative standard error of ours, which must be at most 2 %.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from table import shown

import attnscope as at

BAR = 3.0  # times the seconds of plain sampling
RELATIVE = 0.02  # standard error over value
SAMPLES = 20_000
REPEATS = 3


def student() -> Any:
    inner = at.SingleLocation(20, 10, gamma=0.8, signal=4.0)
    return at.CorrelatedBackground(inner, degrees_of_freedom=8.0)


def isotropic() -> Any:
    inner = at.SingleLocation(20, 10, gamma=0.8, signal=4.0)
    return at.CorrelatedBackground(
        inner, covariance=np.diag(np.linspace(0.5, 2, 20)), informative="isotropic"
    )


def spikes() -> Any:
    return at.SpikeMixture(20, 10, strengths=(5.0, 6.0), gamma=0.9)


def directions() -> Any:
    return at.MultiDirection(20, 10, gamma=0.9, signal=5.0)


def locations() -> Any:
    return at.MultiLocation(20, 10, 2, gamma=0.9, signal=5.0)


def plain(
    task: Any, samples: int, variance: Callable[[Any, np.ndarray], np.ndarray]
) -> float:
    """The mean over sequences that are drawn whole, a block at a time."""
    size = max(1, (1 << 19) // (task.length * task.dim))
    return float(
        np.mean(
            np.concatenate([variance(task, b.tokens) for b in task.batches(samples, size)])
        )
    )


def spread(task: Any, tokens: np.ndarray) -> np.ndarray:
    """Var(Y | X) of a task with one informative token."""
    p = task.posterior(tokens)
    values = tokens @ task.value
    mean = np.sum(p * values, axis=1, keepdims=True)
    return np.sum(p * (values - mean) ** 2, axis=1)


def known(task: Any, tokens: np.ndarray) -> np.ndarray:
    return task.posterior_variance(tokens)


def several(task: Any, tokens: np.ndarray) -> np.ndarray:
    """E[Var(Y | X) | what the posterior sees], for equal weights."""
    p = task.posterior(tokens)
    values = tokens @ task.value
    return np.sum(values**2 * p * (1 - p), axis=1) / 4


def either(task: Any, tokens: np.ndarray) -> np.ndarray:
    p = task.posterior(tokens)
    return np.minimum(p, 1 - p)


def row(what: str, ours: Callable[[], Any], baseline: Callable[[], float]) -> None:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS):
        for call, seen in zip((ours, baseline), times):
            start = time.perf_counter()
            call()
            seen.append(time.perf_counter() - start)
    first = min(times[0])
    second = min(times[1])
    out = ours()
    ratio = first / second
    relative = out.error / out.excess
    good = "yes" if ratio <= BAR and relative <= RELATIVE else "NO"
    print(
        f"{what:<44}{shown(first):>11}{shown(second):>11}{ratio:>8.2f}x{BAR:>6.0f}x  "
        f"{good:<4}{relative:.4f}"
    )


def main() -> None:
    print(
        f"\nsampled Bayes risks\n{'what':<44}{'ours':>11}{'plain':>11}{'ratio':>9}{'bar':>7}  ok  "
        "relative error"
    )
    for task, variance in (
        (student(), spread),
        (isotropic(), spread),
        (spikes(), known),
        (directions(), known),
    ):
        name = f"{type(task).__name__}, {SAMPLES} sequences"
        row(name, task.bayes_risk, lambda t=task, v=variance: plain(t, SAMPLES, v))
    task = locations()
    row(
        "MultiLocation, 100000 sequences",
        task.bayes_risk,
        lambda: plain(task, 100_000, several),
    )
    marked = at.SparseTokenClassification(2, 20, 5.0, marked=5)
    row(
        "SparseTokenClassification, 200000 sequences",
        marked.bayes_error,
        lambda: plain(marked, 200_000, either),
    )


if __name__ == "__main__":
    main()
