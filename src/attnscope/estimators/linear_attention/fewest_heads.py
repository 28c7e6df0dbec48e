"""How many heads a layer of linear attention takes.

notation: M (o D, D p) = sum_h vec(V_h) vec(Q_h)^T, M_(ai),(jk) = sum_h V_h,ai Q_h,jk, of rank <= k
for k heads; T_aijk = (M_aijk + M_ajik)/2 the part of it that a symmetric C sees.

The antisymmetric part of M in (i, j) is free: the fewest heads are the lowest rank of all M with
the symmetric part T. Plain singular values of T give up to min(o D, D p) heads, also for a layer
that has one.

Counting. Matrices of rank k form a manifold of dimension k (o D + D p - k); T has o p D(D+1)/2
coordinates. With one output more is free: Q_h,.k -> Q_h,.k + sum_g a_hgk V_g with a antisymmetric
in (h, g) changes the antisymmetric part of M alone, p k(k-1)/2 parameters; with one query
coordinate V_h,a. -> V_h,a. + sum_g a_hga Q_g leaves T unchanged too, o k(k-1)/2 parameters. Where

    k (o D + D p - k) - [o = 1] p k(k-1)/2 - [p = 1] o k(k-1)/2  <  o p D(D+1)/2

the tensors of k heads have measure zero: almost every layer needs at least the smallest k for which
this fails (`generic_heads`). For o = p = D it is about (1 - 1/sqrt 2) D^2 = .293 D^2 of
D^2; for one output and p = D it is D. That as many suffice is found, not proved: the derivative of
(V, Q) -> T has that rank at drawn heads (tests), so that they suffice for an open set of layers;
over the reals another open set needs more (11 % of drawn layers with D = 2 need 3), which the next
bound can see.

A bound from below, for one layer: S = sum_ak u_a T_a..k z_k is the symmetric part of a sum of k
dyads, each with at most one positive and one negative eigenvalue, so k is at least the number of
positive, and of negative, eigenvalues of S, for any u and z (`signature_bound`).

Completion: min |N (coefficients of V, Q) - N W| by Levenberg's method from several starts; N
measures differences as the training contexts do, so that k below the fewest gives the k heads that
predict best there. It finds local minima, so the number of heads found is an upper bound; it is
proved to be the smallest only if the lower bound equals it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from attnscope.estimators.linear_attention.cubic_features import coefficients_of, tensor_of

__all__ = ["HeadsFound", "completed", "fewest_heads", "generic_heads", "signature_bound"]

START_COUNT = 6  # with one output up to half of them end at a local minimum
MAX_START_STEPS = 200  # convergence is quadratic near a solution; 20 to 60 steps are usual
STOP_RESIDUAL = 1e-13  # at this residual nothing is left to gain
STALL_DECREASE = 1e-4  # a smaller relative decrease over PATIENCE_STEPS steps ends a start
PATIENCE_STEPS = 12
GRAM_ROUNDING_SHARE = 1e-14  # of the trace of a Gram matrix
# random (u, z) of the signature bound, besides the coordinates
SIGNATURE_DIRECTION_COUNT = 64
NONZERO_SHARE = 1e-7  # of the size of T: larger numbers are not rounding errors


class HeadsFound(NamedTuple):
    """value (k, o, D) and score (k, D, p): y = sum_h value_h C score_h z.

    residual: root mean square of (heads - fit) over that of the fit, on the training contexts, each
    output in its own unit. at_least: no fewer heads compute the fit exactly (0: nothing known).
    """

    value: np.ndarray
    score: np.ndarray
    residual: float
    at_least: int


def generic_heads(dim: int, outputs: int | None = None, queries: int | None = None) -> int:
    """The smallest k whose layers are not a set of measure zero; o and p are D where left out.

    >>> [generic_heads(D) for D in (1, 2, 3, 4, 8)]
    [1, 2, 4, 7, 22]
    >>> generic_heads(4, outputs=1, queries=3), generic_heads(8, outputs=1)
    (3, 8)
    """
    o = dim if outputs is None else outputs
    p = dim if queries is None else queries
    wanted = o * p * dim * (dim + 1) // 2
    low = 1
    # the dimension grows up to its vertex, and is enough there
    high = min(
        min(o, p) * dim,
        -(-(2 * dim * (o + p) + _free_mixings(o, p)) // (4 + 2 * _free_mixings(o, p))),
    )
    while low < high:
        k = (low + high) // 2
        if _layer_dimension(k, dim, o, p) >= wanted:
            high = k
        else:
            low = k + 1
    return low


def _layer_dimension(k: int, D: int, o: int, p: int) -> int:
    """Of the layers of k heads: parameters that T sees."""
    return k * (o * D + D * p - k) - _free_mixings(o, p) * (k * (k - 1) // 2)


def _free_mixings(o: int, p: int) -> int:
    """Antisymmetric mixings of heads that T does not see, each with k(k-1)/2 parameters."""
    return (p if o == 1 else 0) + (o if p == 1 else 0)


def signature_bound(T: np.ndarray, error: float = 0.0, seed: int = 0) -> int:
    """The most eigenvalues of one sign that sum_ak u_a T_a..k z_k has, over drawn u and z, whatever
    a change of T of length `error` does to them.
    """
    o, _, _, p = T.shape
    rng = np.random.default_rng(seed)
    u = np.concatenate(
        [np.repeat(np.eye(o), p, axis=0), rng.standard_normal((SIGNATURE_DIRECTION_COUNT, o))]
    )
    z = np.concatenate(
        [np.tile(np.eye(p), (o, 1)), rng.standard_normal((SIGNATURE_DIRECTION_COUNT, p))]
    )
    S = np.einsum("ma,aijk,mk->mij", u, T, z, optimize=True)
    eigenvalues = np.linalg.eigvalsh(S)
    unsure = error + NONZERO_SHARE * float(np.linalg.norm(T))
    size = unsure * np.linalg.norm(u, axis=1) * np.linalg.norm(z, axis=1)
    above = eigenvalues > size[:, None]
    below = eigenvalues < -size[:, None]
    return int(max(above.sum(axis=1).max(), below.sum(axis=1).max()))


def fewest_heads(
    W: np.ndarray,
    N: np.ndarray,
    sizes: tuple[int, int, int],
    k: int | None,
    tolerance: float,
    seed: int,
    error: float = 0.0,
) -> HeadsFound:
    """The best k heads for coefficients W (F, o), known to `error`, differences measured by N
    (rank, F); k None: the fewest found with a residual of at most `tolerance`.
    """
    o, D, p = sizes
    T = tensor_of(W, D)
    if not np.any(W):
        none = 0 if k is None else k
        return HeadsFound(np.zeros((none, o, D)), np.zeros((none, D, p)), 0.0, 0)
    least = signature_bound(T, error, seed) if len(N) == len(W) else 1
    most = min(o * D, D * p)
    if k is not None:
        return completed(T, N, k, seed, tolerance)._replace(at_least=least)
    found = {most: completed(T, N, most, seed, tolerance)}
    low = max(least, 1)
    high = most
    first = [low, min(most, generic_heads(D, o, p))]  # what most layers need
    while low < high:
        middle = max(min(first.pop(0) if first else (low + high) // 2, high - 1), low)
        found[middle] = completed(T, N, middle, seed, tolerance)
        if found[middle].residual <= tolerance:
            high = middle
        else:
            low = middle + 1
    return found[high]._replace(at_least=least)


def completed(
    T: np.ndarray, N: np.ndarray, k: int, seed: int = 0, tolerance: float = STOP_RESIDUAL
) -> HeadsFound:
    """The best k heads found for a symmetric tensor T (o, D, D, p); N (rank, F) measures."""
    o, D, _, p = T.shape
    if k >= min(o * D, D * p):
        A, B = _rank_k_factors(T, k)
        return HeadsFound(A.transpose(2, 0, 1), B, 0.0, 0)
    W = coefficients_of(T)
    wanted = N @ W
    size = float(np.linalg.norm(wanted))
    rng = np.random.default_rng([seed, k])
    best: tuple[float, np.ndarray, np.ndarray] | None = None
    for start in range(START_COUNT):
        free = rng.standard_normal(T.shape) * np.linalg.norm(T) / T.size**0.5
        free = (free - free.swapaxes(1, 2)) / 2
        A, B = _rank_k_factors(T + free if start else T, k)
        found = _levenberg_marquardt(A, B, N / size, wanted / size)
        if best is None or found[0] < best[0]:
            best = found
        if best[0] <= min(tolerance, 1e3 * STOP_RESIDUAL):
            break
    assert best is not None
    residual, A, B = best
    return HeadsFound(A.transpose(2, 0, 1), B, residual, 0)


def _rank_k_factors(M: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A (o, D, k) and B (k, D, p), the nearest of rank k to M as a matrix (o D, D p)."""
    o, D, _, p = M.shape
    U, S, Vt = np.linalg.svd(M.reshape(o * D, D * p), full_matrices=False)
    kept = min(k, len(S))
    root = np.sqrt(S[:kept])
    A = np.zeros((o * D, k))
    B = np.zeros((k, D * p))
    A[:, :kept] = U[:, :kept] * root
    B[:kept] = root[:, None] * Vt[:kept]
    return A.reshape(o, D, k), B.reshape(k, D, p)


def _levenberg_marquardt(
    A: np.ndarray, B: np.ndarray, N: np.ndarray, wanted: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """(residual, A, B) at the end of damped Gauss-Newton steps."""
    symmetric = _pair_symmetriser(A.shape[1])
    rest = _residual_matrix(A, B, N, wanted)
    residual = float(np.linalg.norm(rest))
    damping = 1e-2 * float(np.sum(A**2) / A.size + np.sum(B**2) / B.size)
    history = [residual]
    for _ in range(MAX_START_STEPS):
        J = _head_jacobian(A, B, N, symmetric)
        step = _damped_step(J, rest.T.ravel(), damping)
        a = A + step[: A.size].reshape(A.shape)
        b = B + step[A.size :].reshape(B.shape)
        new = _residual_matrix(a, b, N, wanted)
        size = float(np.linalg.norm(new))
        if size < residual:
            A = a
            B = b
            rest = new
            residual = size
            damping /= 5
        else:
            damping *= 4
        history.append(residual)
        stalled = (
            len(history) > PATIENCE_STEPS
            and residual > (1 - STALL_DECREASE) * history[-PATIENCE_STEPS]
        )
        if residual < STOP_RESIDUAL or stalled:
            break
    return residual, A, B


def _residual_matrix(
    A: np.ndarray, B: np.ndarray, N: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """(rank, o): N (coefficients of the heads) - wanted."""
    M = np.einsum("aih,hjk->aijk", A, B)
    return N @ coefficients_of(M) - wanted


def _pair_symmetriser(D: int) -> np.ndarray:
    """(pairs, D, D): coefficient of the pair (i, j) in a matrix."""
    eye = np.eye(D * D).reshape(D * D, D, D, 1)
    return coefficients_of(eye).reshape(-1, D, D)


def _head_jacobian(
    A: np.ndarray, B: np.ndarray, N: np.ndarray, symmetric: np.ndarray
) -> np.ndarray:
    """(o rank, A.size + B.size), outputs first."""
    o, D, k = A.shape
    p = B.shape[2]
    rank = len(N)
    measured = N.reshape(rank, len(symmetric), p)
    J = np.zeros((o, rank, A.size + B.size))
    seen = np.einsum("rqk,qij->rijk", measured, symmetric, optimize=True)  # (rank, D, D, p)
    by_value = np.einsum("rijk,hjk->rih", seen, B, optimize=True).reshape(rank, D * k)
    for a in range(o):
        J[a, :, a * D * k : (a + 1) * D * k] = by_value
        by_score = np.einsum("rijk,ih->rhjk", seen, A[a], optimize=True)
        J[a, :, A.size :] = by_score.reshape(rank, B.size)
    return J.reshape(o * rank, -1)


def _damped_step(J: np.ndarray, rest: np.ndarray, damping: float) -> np.ndarray:
    """-(J^T J + damping)^-1 J^T rest, by the smaller of its two forms."""
    wide = J.shape[0] <= J.shape[1]
    G = J @ J.T if wide else J.T @ J
    # heads can be scaled against each other: J^T J is singular, and damping above its rounding
    G[np.diag_indices(len(G))] += max(damping, GRAM_ROUNDING_SHARE * float(np.trace(G)))
    factor = cho_factor(G, check_finite=False)
    return -J.T @ cho_solve(factor, rest) if wide else -cho_solve(factor, J.T @ rest)
