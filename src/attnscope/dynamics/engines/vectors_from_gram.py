"""Vectors with given inner products.

notation: T (r, d) teachers, G (m + r, m + r) the Gram matrix of m students and the teachers.

A student is its part in the span of the teachers, G_st (T T^T)^+ T, plus a rest whose Gram matrix
is what is left of G; the rest is laid along orthonormal directions, drawn uniformly among those
orthogonal to the teachers. Exact up to rounding.
"""

from __future__ import annotations

import numpy as np

from attnscope.errors import bad
from attnscope.tasks.planted.direction_tokens import orthonormal_rows

__all__ = ["vectors_from_gram"]

# squared distance to the span of earlier vectors below which a vector lies inside it
INSIDE_SPAN_PIVOT = 1e-13
# an eigenvalue below this is not rounding: overlaps given as float32 scatter by 1e-7, their squares
# by less
NEGATIVE_EIGENVALUE = -1e-8


def starting_vectors(
    matrices: np.ndarray, teachers: np.ndarray, seed: int, of: str
) -> np.ndarray:
    """(runs, m, d) vectors with the Gram matrices (runs, m + r, m + r); what these leave open is
    drawn from (seed, run).
    """
    draws = (np.random.default_rng([seed, run, 5]) for run in range(len(matrices)))
    vectors = [vectors_from_gram(G, teachers, rng, of) for G, rng in zip(matrices, draws)]
    return np.stack(vectors)


def gram_of_vectors(vectors: np.ndarray, teachers: np.ndarray) -> np.ndarray:
    """Gram matrices (runs, m + r, m + r) of vectors (runs, m, d) and the teachers (r, d)."""
    with np.errstate(all="ignore"):
        rows = [np.concatenate([x, teachers]) for x in vectors]
        return np.stack([x @ x.T for x in rows])


def vectors_from_gram(
    G: np.ndarray, teachers: np.ndarray, rng: np.random.Generator, of: str
) -> np.ndarray:
    """(m, d) vectors whose inner products among themselves and with the teachers (r, d) are G's."""
    m = len(G) - len(teachers)
    dim = teachers.shape[1]
    along = np.linalg.lstsq(teachers @ teachers.T, G[m:, :m], rcond=1e-12)[0].T @ teachers
    values, vectors = np.linalg.eigh(G[:m, :m] - along @ along.T)
    if values[0] < NEGATIVE_EIGENVALUE:
        raise bad(
            "gram",
            of,
            "positive semidefinite",
            f"eigenvalue {values[0]:.3g}",
            "heads_gram(task, K, V)",
        )
    kept = values > INSIDE_SPAN_PIVOT
    count = int(kept.sum())
    if count + np.linalg.matrix_rank(teachers) > dim:
        raise bad(
            "gram", of, f"that of vectors in dimension {dim}", "a larger rank", "a larger dim"
        )
    axes = orthonormal_rows(rng.standard_normal((count, dim)), teachers)
    return along + (vectors[:, kept] * np.sqrt(values[kept])) @ axes
