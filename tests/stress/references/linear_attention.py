"""Least squares over cubic features, by definition, in DIGITS digits.

notation: contexts Z (L, D), query z (p,), features sum_l z_li z_lj z_k for i <= j, times sqrt 2 for
i < j; X (n, F), Y (n, o).

The columns of X are made orthogonal one after the other; one whose rest is below 10^-40 of its size
depends on the earlier ones exactly. The optimum is what is left of Y. Coefficients come from the
normal equations of the independent columns: a prediction at a new context that obeys the same
dependences does not depend on which of them are kept. No floating-point number is rounded before.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np

__all__ = ["DIGITS", "features", "least_squares"]

DIGITS = (
    80  # condition numbers to 1e15, squared by the normal equations, and dependences to 1e-40
)
DEPENDENT = 40  # digits


def features(tokens: np.ndarray, query: np.ndarray) -> list[list[Any]]:
    """(n, F), pairs (i, j) first, then the query's coordinate."""
    dim = tokens.shape[2]
    root = mp.sqrt(2)
    rows = []
    for Z, z in zip(tokens, query):
        exact = [[mp.mpf(float(x)) for x in token] for token in Z]
        row = []
        for i in range(dim):
            for j in range(i, dim):
                moment = mp.fsum(token[i] * token[j] for token in exact)
                weight = 1 if i == j else root
                row += [weight * moment * mp.mpf(float(x)) for x in z]
        rows.append(row)
    return rows


def least_squares(
    tokens: np.ndarray,
    query: np.ndarray,
    target: np.ndarray,
    new: tuple[np.ndarray, np.ndarray],
    ridge: float,
) -> dict[str, Any]:
    """optimum, nullity, loss (with the ridge), predictions (n_new, o) and the certificate's
    eigenvalues.
    """
    with mp.workdps(DIGITS):
        X = features(tokens, query)
        Y = [[mp.mpf(float(x)) for x in row] for row in target]
        n = len(X)
        columns = [list(column) for column in zip(*X)]
        outputs = [list(column) for column in zip(*Y)]
        kept, basis = _independent(columns)
        rest = [_without(y, basis) for y in outputs]
        optimum = mp.fsum(_dot(r, r) for r in rest) / n
        used = list(range(len(columns))) if ridge else kept
        G = mp.matrix(len(used), len(used))
        for a, i in enumerate(used):
            for b, j in enumerate(used):
                G[a, b] = _dot(columns[i], columns[j]) / n + (ridge if a == b else 0)
        fresh = features(*new)
        loss = mp.mpf(0)
        predicted = []
        for y in outputs:
            right = mp.matrix([_dot(columns[i], y) / n for i in used])
            w = mp.lu_solve(G, right) if used else mp.matrix(0, 1)
            fitted = [mp.fsum(row[i] * w[a] for a, i in enumerate(used)) for row in X]
            loss += mp.fsum((u - v) ** 2 for u, v in zip(y, fitted)) / n
            predicted.append(
                [mp.fsum(row[i] * w[a] for a, i in enumerate(used)) for row in fresh]
            )
        second = mp.matrix(len(columns), len(columns))
        for i, u in enumerate(columns):
            for j, v in enumerate(columns):
                second[i, j] = _dot(u, v) / n
        spectrum = mp.eigsy(second, eigvals_only=True)
        return {
            "optimum": float(optimum),
            "nullity": len(columns) - len(kept),
            "loss": float(loss),
            "predictions": np.array(predicted, dtype=float).T,
            "spectrum": np.sort(np.array([float(x) for x in spectrum]))[::-1],
        }


def _dot(u: list[Any], v: list[Any]) -> Any:
    return mp.fdot(u, v)


def _without(y: list[Any], basis: list[list[Any]]) -> list[Any]:
    """y minus its projections on orthonormal vectors."""
    rest = list(y)
    for q in basis:
        c = _dot(q, rest)
        rest = [a - c * b for a, b in zip(rest, q)]
    return rest


def _independent(columns: list[list[Any]]) -> tuple[list[int], list[list[Any]]]:
    kept = []
    basis: list[list[Any]] = []
    for i, column in enumerate(columns):
        size = mp.sqrt(_dot(column, column))
        rest = _without(column, basis)
        left = mp.sqrt(_dot(rest, rest))
        if size > 0 and left > size * mp.mpf(10) ** -DEPENDENT:
            kept.append(i)
            basis.append([x / left for x in rest])
    return kept, basis
