"""Settings: log-uniform over the documented ranges, with their corners mixed in.

A corner (L = 1, noise 0, an overlap of 1, a probability of 0, ...) is drawn with probability CORNER
per argument, so that corners also meet corners.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["choice", "gram_of_unit_vectors", "log_integer", "log_uniform", "overlaps", "pmf"]

CORNER = 0.25  # two arguments in a corner at once every 16 settings, three every 64
DECADE = np.log(10.0)


def log_uniform(
    rng: np.random.Generator, low: float, high: float, corners: Sequence[float] = ()
) -> float:
    """A number between low and high with a uniform logarithm, or one of the corners."""
    if corners and rng.random() < CORNER:
        return float(corners[int(rng.integers(len(corners)))])
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def log_integer(
    rng: np.random.Generator, low: int, high: int, corners: Sequence[int] = ()
) -> int:
    """A whole number from low to high with a nearly uniform logarithm, or one of the corners."""
    if corners and rng.random() < CORNER:
        return int(corners[int(rng.integers(len(corners)))])
    return int(np.clip(np.exp(rng.uniform(np.log(low), np.log(high + 1))), low, high))


def choice(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    """One of the options, each equally likely."""
    return options[int(rng.integers(len(options)))]


def gram_of_unit_vectors(rng: np.random.Generator, count: int) -> np.ndarray:
    """Gram matrix (count, count) of unit vectors in general position, sometimes equal, opposite,
    orthogonal or nearly so.
    """
    vectors = rng.standard_normal((count, count + 1))
    for i in range(1, count):
        if rng.random() < CORNER:
            near = 10.0 ** rng.uniform(-9, -1) if rng.random() < 0.5 else 0.0
            vectors[i] = rng.choice([-1, 1]) * vectors[rng.integers(i)] + near * vectors[i]
        elif rng.random() < CORNER:
            earlier = np.linalg.qr(vectors[:i].T)[0]
            vectors[i] -= earlier @ (earlier.T @ vectors[i])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    gram = np.clip(unit @ unit.T, -1.0, 1.0)
    np.fill_diagonal(gram, 1.0)
    return gram


def overlaps(rng: np.random.Generator) -> tuple[float, float, float, float, float]:
    """(kappa, eta, theta, nu, rho) of unit vectors k, v with orthonormal k*, v*: oracle, swapped,
    signed, null or in general position.
    """
    if rng.random() < CORNER:
        special = [
            (1.0, 0.0, 0.0, 1.0, 0.0),
            (0.0, 1.0, 1.0, 0.0, 0.0),
            (-1.0, 0.0, 0.0, 1.0, 0.0),
            (0.0,) * 5,
            (1.0, 0.0, 1.0, 0.0, 1.0),
        ]
        return choice(rng, special)
    k, v = rng.standard_normal((2, 4))
    if rng.random() < CORNER:
        v = rng.choice([-1, 1]) * k + (10.0 ** rng.uniform(-9, -1)) * v
    k = k / np.linalg.norm(k)
    v = v / np.linalg.norm(v)
    return (
        float(k[0]),
        float(k[1]),
        float(v[0]),
        float(v[1]),
        float(np.clip(k @ v, -1.0, 1.0)),
    )


def pmf(rng: np.random.Generator, size: int) -> np.ndarray:
    """A probability vector: Dirichlet, sometimes with entries of 0 or 1e-20."""
    p = rng.dirichlet(np.full(size, 10.0 ** rng.uniform(-1, 1)))
    p = np.maximum(p, 1e-300)
    if size > 1 and rng.random() < CORNER:
        p[rng.integers(size)] = choice(rng, [0.0, 1e-20, 1e-12, 1e-6])
    return p / p.sum()
