"""What trained vectors see of a token, given what the teachers see of it.

notation: G_ss, G_st, G_tt the blocks of the Gram matrix of (trained vectors, teachers); J the
teachers whose projections t_J are given; a token is N(sum_j means_j T_j, scale^2 I).

    A = G_sJ G_JJ^+ (0 outside J),        rest = G_ss - A G_tt A^T,
    x = (G_st - A G_tt) means + A t_J + scale N(0, rest).

The scores x_K come first: with rest_KK = C C^T, C lower triangular, and W = rest_VK C^-T,

    x_K = ... + scale C zeta,     x_V = ... + scale (W zeta + N(0, Q)),     Q = rest_VV - W W^T;

a squared loss is averaged over the last normal exactly. Exact; C is Cholesky's factor, or one
turned from the eigenvectors where the vectors are dependent (numerics/semidefinite.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnscope.numerics.semidefinite import lower_factor

__all__ = ["FACTOR_JITTER", "Seen", "embedded_inverses", "seen_by"]

# added to the diagonal of rest_KK where its factor is differentiated: the factor's derivative is
# then below 1e5, and what multiplies it vanishes with it (node_gradient.py)
FACTOR_JITTER = 1e-10
SMALLEST_SQUARED_LENGTH = 1e-300  # avoids division by zero for a vector of length 0


class Seen(NamedTuple):
    """Coefficients for each set of teachers that is read: (P, a, r) on means and on what is seen,
    (P, a, q) on the normals, a trained vectors with the scores first; Q (P, v, v). open (P,): the
    largest share of a score's variance that is not known from what is seen.
    """

    on_means: Any
    on_seen: Any
    on_normals: Any
    left: Any
    open: Any


def embedded_inverses(star: np.ndarray, reads: np.ndarray) -> np.ndarray:
    """(P, r, r): G_JJ^+ at the rows and columns of J, else 0."""
    out = np.zeros((len(reads), *star.shape))
    for p, read in enumerate(reads):
        if read.any():
            inner = star[np.ix_(read, read)]
            out[p][np.ix_(read, read)] = np.linalg.pinv(inner, hermitian=True)
    return out


def seen_by(
    G: Any,
    order: list[int],
    scores: int,
    star: np.ndarray,
    inverses: np.ndarray,
    xp: Any = np,
) -> Seen:
    """Of a Gram matrix (V, V) of (trained vectors, teachers), with NumPy or jax.numpy.

    Args:
        order: the trained vectors with the scores first, of which there are `scores`.
    """
    m = len(order)
    places = np.array(order)
    own = G[places][:, places]
    cross = G[places][:, m:]
    parts = []
    for inverse in inverses:
        on_seen = cross @ inverse
        rest = own - on_seen @ cross.T
        on_means = cross - on_seen @ star
        free = xp.diagonal(rest)[:scores] / xp.maximum(
            xp.diagonal(own)[:scores], SMALLEST_SQUARED_LENGTH
        )
        if scores == m:
            on_normals = _root_with_values_first(rest, xp)
            left = xp.zeros((0, 0))
        elif xp is np:
            factor = lower_factor(((rest + rest.T) / 2)[None])[0]
            on_normals = factor[:, :scores]
            last = factor[scores:, scores:]
            left = last @ last.T
        else:
            from jax.scipy.linalg import solve_triangular

            first = rest[:scores, :scores] + FACTOR_JITTER * xp.eye(scores)
            root = xp.linalg.cholesky(first)
            across = solve_triangular(root, rest[:scores, scores:], lower=True).T
            on_normals = xp.concatenate([root, across])
            left = rest[scores:, scores:] - across @ across.T
        parts.append((on_means, on_seen, on_normals, left, xp.max(free)))
    return Seen(*(xp.stack([part[k] for part in parts]) for k in range(5)))


def _root_with_values_first(rest: Any, xp: Any) -> Any:
    """A root of rest with the values' columns first: where a score is known (C = 0) and its value
    is not, the value's coefficients do not turn with the score's direction.
    """
    turned = ((rest + rest.T) / 2)[::-1, ::-1]
    if xp is np:
        return lower_factor(turned[None])[0][::-1]
    return xp.linalg.cholesky(turned + FACTOR_JITTER * xp.eye(len(turned)))[::-1]
