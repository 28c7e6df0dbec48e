"""Vectors k, v in R^d and their overlaps: from one to the other and back.

notation: G the Gram matrix of (k, v, k*, v*). Five overlaps leave the rest of G open only where k
and v have parts outside the span of the teachers; those are drawn. Exact to rounding.
"""

from __future__ import annotations

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import GRAM_TOLERANCE, Overlaps, checked_overlaps, gram

__all__ = ["lengths", "pair_overlaps", "vectors_with"]

# squared distance from the span of the others below which a vector counts as inside it
INSIDE_SPAN_DISTANCE = 1e-15


def pair_overlaps(task: SingleLocation, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(5, runs) inner products of k, v (runs, d),
    without a warning where a run has left the finite numbers.
    """
    dot = lambda x, y: np.einsum("rd,d->r" if y.ndim == 1 else "rd,rd->r", x, y)
    with np.errstate(all="ignore"):
        return np.stack(
            [
                dot(k, task.key),
                dot(k, task.value),
                dot(v, task.key),
                dot(v, task.value),
                dot(k, v),
            ]
        )


def lengths(k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(2, runs): |k| and |v|."""
    with np.errstate(all="ignore"):
        return np.stack([np.linalg.norm(k, axis=1), np.linalg.norm(v, axis=1)])


def vectors_with(
    overlaps: np.ndarray, task: SingleLocation, seed: int, of: str
) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors k, v (runs, d) with exactly these overlaps (5, runs);
    the rest of each pair is uniform, from (seed, run).
    """
    seed = check.seed_value(seed, of)
    o = checked_overlaps(
        Overlaps(*check.array(overlaps, "overlaps", of, (5, None))), task, of
    )
    check.fits_in_memory(2 * o.kappa.size * task.dim, 8, "k and v", of, "the reduced engine")
    # teachers first: their frame is given
    matrices = gram(o, task.alignment)[:, [2, 3, 0, 1]][:, :, [2, 3, 0, 1]]
    pairs = [
        _vector_pair(G, task, np.random.default_rng([seed, run, 3]), of)
        for run, G in enumerate(matrices)
    ]
    return np.stack([k for k, _ in pairs]), np.stack([v for _, v in pairs])


def _vector_pair(
    G: np.ndarray, task: SingleLocation, rng: np.random.Generator, of: str
) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors k, v whose Gram matrix with (k*, v*), listed first, is G."""
    # in d < 4 roundoff of the overlaps must not ask for one more dimension
    coordinates, kept = _cholesky_factor(
        G, INSIDE_SPAN_DISTANCE if task.dim >= 4 else GRAM_TOLERANCE
    )
    if len(kept) > task.dim:
        got = f"{len(kept)} independent vectors"
        raise bad(
            "overlaps", of, f"those of vectors in dimension {task.dim}", got, "a larger dim"
        )
    known = [x for x, axis in ((task.key, 0), (task.value, 1)) if axis in kept]
    frame = _gram_schmidt([*known, *rng.standard_normal((len(kept) - len(known), task.dim))])
    k, v = coordinates[2:] @ frame
    return k / np.linalg.norm(k), v / np.linalg.norm(v)


def _cholesky_factor(G: np.ndarray, smallest: float) -> tuple[np.ndarray, list[int]]:
    """Cholesky factor of a positive semidefinite matrix without its empty columns,
    and which rows brought a new axis.
    """
    columns = []
    kept = []
    rest = G.copy()
    for j in range(len(G)):
        if rest[j, j] > smallest:
            columns.append(rest[:, j] / np.sqrt(rest[j, j]))
            kept.append(j)
            rest = rest - np.outer(columns[-1], columns[-1])
    return np.stack(columns, axis=1), kept


def _gram_schmidt(vectors: list[np.ndarray]) -> np.ndarray:
    """Gram-Schmidt, each vector twice: the second pass removes the roundoff of the first."""
    frame: list[np.ndarray] = []
    for x in vectors:
        for _ in range(2):
            x = x - sum(((e @ x) * e for e in frame), np.zeros_like(x))
            x = x / np.linalg.norm(x)
        frame.append(x)
    return np.stack(frame)
