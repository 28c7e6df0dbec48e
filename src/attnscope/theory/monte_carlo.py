"""The slow second route to any population risk: sample the projections, never the vectors.

A predictor sees a token only through u = X.k and w = X.v, and the label through X_J.v*; all are
Gaussian with the covariance of the Gram matrix of (k, v, v*). So a sample costs 2 normals per
background token and 3 for the informative one, whatever the dimension. The label noise is left out:
its contribution to the risk, noise^2, is known. The error reported is one standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from attnscope.numerics.border.sampled_estimate import share_error
from attnscope.numerics.semidefinite import semidefinite_root
from attnscope.predictors.attention import Predictor
from attnscope.tasks.base import PlantedTask, Projections
from attnscope.theory.law import Law
from attnscope.theory.overlaps import Overlaps, head_gram

__all__ = [
    "heads_output",
    "monte_carlo_excess",
    "sampled_excess",
    "sampled_heads_excess",
    "sampled_mean",
    "sampled_wrong",
]

BLOCK = 1 << 19  # scores drawn at a time: a few 4 MB arrays, whatever the number of samples


def monte_carlo_excess(
    predictor: Predictor,
    overlaps: tuple[float, ...],
    lam: float,
    law: Law,
    *,
    samples: int,
    seed: object,
) -> tuple[float, float]:
    """(mean, standard error) of (Y - T(X))^2 without label noise at scalar overlaps."""
    rng = np.random.default_rng(seed)  # type: ignore[arg-type]
    kap, eta, the, nu, rho = overlaps
    length = law.length
    # of the covariance of (u, w, y)
    root = semidefinite_root(np.array([[1, rho, eta], [rho, 1, nu], [eta, nu, 1.0]]))
    mean = law.signal * np.array([kap, the, law.alignment])
    count = 0
    total = 0.0
    squares = 0.0
    while count < samples:
        n = min(samples - count, max(1, BLOCK // length))
        # (n, 3): u, w, y
        informative = mean + law.gamma * rng.standard_normal((n, 3)) @ root.T
        u = rng.standard_normal((n, length))
        w = rho * u + np.sqrt(max(0.0, 1 - rho**2)) * rng.standard_normal((n, length))
        u[:, 0], w[:, 0] = (
            informative[:, 0],
            informative[:, 1],
        )  # the predictor does not care about the position
        loss = (informative[:, 2] - np.sum(predictor.weights(lam * u) * w, axis=1)) ** 2
        # merge block means and sums of squares (Chan et al.): no cancellation
        delta = loss.mean() - total
        squares += np.sum((loss - loss.mean()) ** 2) + delta**2 * count * n / (count + n)
        total += delta * n / (count + n)
        count += n
    return float(total), float(np.sqrt(squares / (count - 1) / count))


def sampled_excess(
    task: PlantedTask,
    predictor: Predictor,
    o: Overlaps,
    lam: float,
    samples: int,
    seed: object,
) -> tuple[float, float]:
    """(mean, standard error) of (Y - T(X))^2 without label noise on any planted task, at scalar
    overlaps, from its projections.
    """
    return sampled_heads_excess(
        task, predictor, 1, head_gram(o, task.teacher_gram), lam, samples, seed
    )


def sampled_wrong(
    task: PlantedTask, predictor: Predictor, o: Overlaps,
    lam: float, samples: int, seed: object,
) -> tuple[float, float]:  # fmt: skip
    """(share, its error) of outputs whose sign is not the label, at scalar overlaps."""

    def wrong(seen: Projections) -> np.ndarray:
        output = heads_output(predictor, 1, seen, lam)
        return (np.sign(output) != seen.label).astype(float)

    gram = head_gram(o, task.teacher_gram)
    share = sampled_mean(task, gram, wrong, samples, seed)[0]
    return share, share_error(round(share * samples), samples)


def sampled_heads_excess(
    task: PlantedTask,
    head: Predictor,
    heads: int,
    gram: np.ndarray,
    lam: float,
    samples: int,
    seed: object,
) -> tuple[float, float]:
    """The same for several heads that add up, at the Gram matrix of (k_1, v_1, ..., teachers)."""

    def squares(seen: Projections) -> np.ndarray:
        return seen.unit**2 * (seen.label - heads_output(head, heads, seen, lam)) ** 2

    return sampled_mean(task, gram, squares, samples, seed)


def heads_output(head: Predictor, heads: int, seen: Projections, lam: float) -> np.ndarray:
    """T(X), (n,), of heads whose vectors k_1, v_1, ... come first among the fields."""
    parts = [
        np.sum(
            head.weights(lam * seen.fields[:, :, 2 * h], seen.mask)
            * seen.fields[:, :, 2 * h + 1],
            axis=1,
        )
        for h in range(heads)
    ]
    return np.sum(parts, axis=0)


def sampled_mean(
    task: PlantedTask,
    gram: np.ndarray,
    value: Callable[[Projections], np.ndarray],
    samples: int,
    seed: object,
) -> tuple[float, float]:
    """(mean, standard error) of a function of projections over `samples` sequences,
    a few MB at a time.
    """
    rng = np.random.default_rng(seed)  # type: ignore[arg-type]
    block = max(1, BLOCK // (task.length * len(gram)))
    sizes = [min(block, samples - done) for done in range(0, samples, block)]
    values = np.concatenate([value(task.projections(n, gram, rng)) for n in sizes])
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(samples))
