"""Attention as an operator on (query, keys, values): softmax, conditional mean embedding (CME),
linear.

notation: q (d_k), k_l and v_l the L keys and values, h = bandwidth, b = sink, lam = ridge, K =
(k(k_i, k_j)), k_q = (k(q, k_l))_l.

    softmax_attention   sum_l e^{q.k_l/h} v_l / (sum_l e^{q.k_l/h} + e^b)          [no sink: no e^b]
    cme_attention     V^T (K + lam I)^-1 k_q     cme_variance     k(q, q) - k_q^T (K + lam I)^-1 k_q
    linear_attention    scale * sum_l (q.k_l) v_l

Test-time regression: each is a regression of values on keys fitted to the context and read off at
the query. CME is kernel ridge regression, min_f sum_l |v_l - f(k_l)|^2 + lam |f|^2; with k =
phi.phi and lam = noise^2/prior variance it is the posterior mean of a Bayesian linear map and
cme_variance times the prior variance its posterior variance (claim exch-06). Softmax is local
constant regression, min_c sum_l e^{q.k_l/h} |v_l - c|^2 (+ e^b |c|^2 with a sink: a pull to 0, the
prior); it is CME with its Gram matrix forgotten: lam * cme_attention / sum_l k(q, k_l) ->
softmax_attention as lam -> inf with the exponential kernel. Linear attention is least squares with
K^T K replaced by a multiple of I: one gradient step from 0. Where keys differ in length, e^{q.k/h}
is not a function of distance and long keys count more; divide keys by their norm if that is not
meant.

An empty context gives 0, the prior mean, and cme_variance k(q, q). Leading axes broadcast; a
context shared by many queries is worked on once. Softmax streams over the context with a running
maximum: 10^5 tokens need no (queries, L) array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.operators.kernel_systems import DENSE_POINTS, EPS, Dense, Iterative
from attnscope.predictors.operators.kernels import Kernel, KernelFunction, kernel_of
from attnscope.predictors.operators.query_groups import (
    GroupedQueries,
    grouped_queries,
    score_blocks,
    score_rows,
)

__all__ = [
    "CMESolution",
    "cme_attention",
    "cme_solve",
    "cme_variance",
    "linear_attention",
    "softmax_attention",
]

# a number, or its value as a function of the context length
Rule = float | Callable[[int], float]
CHUNK_TOKENS = 4096  # tokens scored at a time
ILL_CONDITION = (
    1e-9  # reciprocal condition from which on what rounding does to an answer is measured
)
# error, relative to the largest value, up to which an iterative answer is returned without its
# error
ACCEPTED_ERROR = 1e-6


class CMESolution(NamedTuple):
    """value (..., d_v) of CME attention and a bound on its error, of the same shape."""

    value: np.ndarray
    error: np.ndarray


def softmax_attention(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    bandwidth: float = 0.2,
    sink: float | None = None,
) -> np.ndarray:
    """Average of values with weights softmax(q.k/bandwidth): (..., d_v).

    Args:
        query: (..., d_k).
        keys, values: (..., L, d_k) and (..., L, d_v).
        bandwidth: h > 0, divides the scores.
        sink: logit b (not divided) of one more token of value 0; None is without.

    >>> softmax_attention(np.zeros(2), np.ones((3, 2)), np.array([[1.0], [2.0], [6.0]]))
    array([3.])
    >>> softmax_attention(np.zeros(2), np.ones((3, 2)), np.array([[1.0], [2.0], [6.0]]), sink=0.0)
    array([2.25])
    """
    of = "softmax_attention"
    h = check.real(bandwidth, "bandwidth", of, 0, strict=True)
    b = None if sink is None else check.real(sink, "sink", of)
    c = grouped_queries(query, keys, values, of)
    out = np.empty((*c.query.shape[:2], c.values.shape[2]))
    for i, j in score_blocks(
        c.query.shape[0], c.query.shape[1], min(CHUNK_TOKENS, c.keys.shape[1])
    ):
        out[i, j] = _streamed_softmax(c.query[i, j] / h, c.keys[i], c.values[i], b)
    return c.restore(out)


def _streamed_softmax(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, sink: float | None
) -> np.ndarray:
    """Softmax averages (c, m, d_v), the context taken in chunks:
    sums are rescaled whenever the maximum grows.
    """
    shape = (*q.shape[:2], 1)
    top = np.full(shape, -np.inf if sink is None else sink)
    mass = np.full(shape, 0.0 if sink is None else 1.0)
    total = np.zeros((*q.shape[:2], v.shape[2]))
    for l in range(0, k.shape[1], CHUNK_TOKENS):
        scores = q @ k[:, l : l + CHUNK_TOKENS].swapaxes(1, 2)  # (c, m, chunk)
        new = np.maximum(top, scores.max(axis=-1, keepdims=True))
        scores -= new
        weights = np.exp(scores, out=scores)
        kept = np.exp(top - new)
        total = kept * total + weights @ v[:, l : l + CHUNK_TOKENS]
        mass = kept * mass + weights.sum(axis=-1, keepdims=True)
        top = new
    return total / np.where(mass > 0, mass, 1.0)  # no token and no sink: 0


def linear_attention(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray, scale: Rule = 1.0
) -> np.ndarray:
    """scale * sum_l (q.k_l) v_l, through the state sum_l v_l k_l^T: one pass, no scores.

    Args:
        query: (..., d_k).
        keys, values: (..., L, d_k) and (..., L, d_v).
        scale: a number, or a rule as lambda L: 1/L.

    >>> linear_attention(np.array([1.0, 2.0]), np.eye(2), np.array([[3.0], [5.0]]))
    array([13.])
    """
    of = "linear_attention"
    c = grouped_queries(query, keys, values, of)
    factor = _rule_value(scale, "scale", of, c.keys.shape[1], -check.LARGEST)
    return c.restore(factor * (c.query @ (c.keys.swapaxes(1, 2) @ c.values)))


def cme_attention(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray,
    kernel: str | KernelFunction = "rbf", bandwidth: float = 1.0, ridge: Rule = 0.25,
) -> np.ndarray:  # fmt: skip
    """V^T (K + ridge I)^-1 k_q: (..., d_v) from (..., d_k), (..., L, d_k), (..., L, d_v).

    Args:
        query: (..., d_k).
        keys, values: (..., L, d_k) and (..., L, d_v).
        kernel: "linear" q.k, "rbf" exp(-|q-k|^2/(2 bandwidth)), "exponential" exp(q.k/bandwidth),
            or a function of (m, d_k) and (L, d_k) arrays with values (m, L), symmetric and positive
            semidefinite.
        bandwidth: h > 0; of no account to the linear kernel.
        ridge: lam >= 0, or a rule as lambda L: L**0.75.

    Beyond 4000 tokens the system is solved iteratively; an answer that is not known to 1e-6 of the
    largest value is refused (cme_solve returns it with its error).

    >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> cme_attention(np.array([1.0, 1.0]), x, np.array([[1.0], [2.0], [2.2]]), kernel="linear", ridge=1e-9).round(6)
    array([3.])
    """
    of = "cme_attention"
    c, k, lam = _checked_system(query, keys, values, kernel, bandwidth, ridge, of)
    out = np.zeros((*c.query.shape[:2], c.values.shape[2]))
    for i, (q, x, V) in enumerate(zip(c.query, c.keys, c.values)):
        if not len(x) or not len(q) or not V.shape[1]:
            continue
        if len(x) > DENSE_POINTS:
            out[i], error = _mean_with_error(k, q, x, V, lam)
            _check_accuracy(
                error,
                float(np.abs(V).max()),
                "the error of " + of,
                "cme_solve, which returns the error, or a larger ridge",
            )
        else:
            system = Dense(k, x, lam)
            out[i] = _dense_mean(system, q, V)
            if system.rcond < ILL_CONDITION:
                error = _rounding_error(system, q, V)
                scale = max(float(np.abs(V).max()), float(np.abs(out[i]).max()))
                _check_accuracy(error, scale, "the error of " + of, "a larger ridge")
    return c.restore(out)


def cme_solve(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray,
    kernel: str | KernelFunction = "rbf", bandwidth: float = 1.0, ridge: Rule = 0.25,
) -> CMESolution:  # fmt: skip
    """cme_attention with a bound on its error, from the residual of the system (kernel_systems).

    Args:
        query: (..., d_k).
        keys, values: (..., L, d_k) and (..., L, d_v).
        kernel: "linear" q.k, "rbf" exp(-|q-k|^2/(2 bandwidth)), "exponential" exp(q.k/bandwidth),
            or a function of (m, d_k) and (L, d_k) arrays with values (m, L), symmetric and positive
            semidefinite.
        bandwidth: h > 0; of no account to the linear kernel.
        ridge: lam > 0, or a rule as lambda L: L**0.75.

    >>> value, error = cme_solve(np.ones(2), np.eye(2), np.ones((2, 1)))
    >>> bool(abs(error[0]) < 1e-14)
    True
    """
    of = "cme_solve"
    c, k, lam = _checked_system(query, keys, values, kernel, bandwidth, ridge, of)
    if lam <= 0:
        raise bad(
            "ridge",
            of,
            "> 0: the bound on the error divides by it",
            ridge,
            "cme_attention, which takes ridge=0",
        )
    value, error = np.zeros((2, *c.query.shape[:2], c.values.shape[2]))
    for i, (q, x, V) in enumerate(zip(c.query, c.keys, c.values)):
        if len(x) and len(q) and V.shape[1]:
            value[i], error[i] = _mean_with_error(k, q, x, V, lam)
    return CMESolution(c.restore(value), c.restore(error))


def cme_variance(
    query: np.ndarray,
    keys: np.ndarray,
    kernel: str | KernelFunction = "rbf",
    bandwidth: float = 1.0,
    ridge: Rule = 0.25,
) -> np.ndarray:
    """k(q, q) - k_q^T (K + ridge I)^-1 k_q: (...), a Gaussian process's variance at the query.

    Args:
        query: (..., d_k).
        keys: (..., L, d_k).
        kernel: "linear" q.k, "rbf" exp(-|q-k|^2/(2 bandwidth)), "exponential" exp(q.k/bandwidth),
            or a function of (m, d_k) and (L, d_k) arrays with values (m, L), symmetric and positive
            semidefinite.
        bandwidth: h > 0; of no account to the linear kernel.
        ridge: lam >= 0, or a rule as lambda L: L**0.75.

    >>> import attnscope as at
    >>> import numpy as np
    >>> keys = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> at.cme_variance(np.eye(2), keys[None]).round(4)
    array([0.1953, 0.1953])
    """
    of = "cme_variance"
    empty = np.zeros((np.shape(keys)[-2] if np.ndim(keys) > 1 else 0, 1))
    c, k, lam = _checked_system(query, keys, empty, kernel, bandwidth, ridge, of)
    out = np.empty(c.query.shape[:2])
    for i, (q, x) in enumerate(zip(c.query, c.keys)):
        prior = k.diagonal(q)
        if not len(x) or not len(q):
            out[i] = prior
            continue
        left = prior - _explained_variance(k, q, x, lam)
        if k.function is not None and left.min() < -ACCEPTED_ERROR * prior.max():
            raise k.indefinite(f"a variance of {left.min():.3g}")
        out[i] = np.maximum(left, 0.0)
    return c.restore(out[..., None])[..., 0]


def _dense_mean(system: Dense, q: np.ndarray, V: np.ndarray) -> np.ndarray:
    """k_q^T (K + lam I)^-1 V, (m, d_v): solve for the values or for the queries,
    whichever are fewer.
    """
    if V.shape[1] > len(q):
        return system.solve(system.kernel.matrix(q, system.x).T).T @ V
    A = system.solve(V)
    return np.concatenate(
        [system.kernel.matrix(q[j], system.x) @ A for j in score_rows(len(q), len(A))]
    )


def _rounding_error(system: Dense, q: np.ndarray, V: np.ndarray) -> np.ndarray:
    """The error of _dense_mean from rounding of the kernel matrix, (m, d_v)."""
    A = system.solve(V)
    parts = [
        system.sensitivity(system.kernel.matrix(q[j], system.x), A)
        for j in score_rows(len(q), len(A))
    ]
    return np.concatenate(parts)


def _mean_with_error(
    kernel: Kernel, q: np.ndarray, x: np.ndarray, V: np.ndarray, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """(value, error), each (m, d_v), of one context."""
    system = (Dense if len(x) <= DENSE_POINTS else Iterative)(kernel, x, ridge)
    A, residual = system.checked_solve(V)
    value, error = np.zeros((2, len(q), V.shape[1]))
    for j in score_rows(len(q), len(x)):
        cross = kernel.matrix(q[j], x)
        value[j] = cross @ A
        rounding = 8 * EPS * (np.abs(cross) @ np.abs(A))  # of this product, summed in blocks
        reach = (kernel.diagonal(q[j]) / ridge) ** 0.5
        # known to be semidefinite at the keys, not at the queries too
        if kernel.function is not None:
            reach = np.maximum(reach, np.linalg.norm(cross, axis=1) / ridge)
        error[j] = reach[:, None] * residual + rounding
    return value, error


def _explained_variance(
    kernel: Kernel, q: np.ndarray, x: np.ndarray, ridge: float
) -> np.ndarray:
    """k_q^T (K + lam I)^-1 k_q, (m,), of one context."""
    out = np.empty(len(q))
    system = (Dense if len(x) <= DENSE_POINTS else Iterative)(kernel, x, ridge)
    for j in score_rows(len(q), len(x)):
        cross = kernel.matrix(q[j], x)
        if isinstance(system, Dense):
            out[j] = system.explained(cross)
        else:
            prior = kernel.diagonal(q[j])
            out[j], error = system.explained(cross)
            _check_accuracy(
                prior**0.5 * error,
                float(prior.max()),
                "the error of cme_variance",
                "a larger ridge",
            )
    return out


def _check_accuracy(error: np.ndarray, scale: float, what: str, hint: str) -> None:
    if not error.max() <= ACCEPTED_ERROR * scale:
        raise AttnscopeError(
            f"{what} must be at most {ACCEPTED_ERROR:g} of its scale, got {error.max() / scale:.2g}; try "
            f"{hint}."
        )


def _checked_system(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    kernel: object,
    bandwidth: object,
    ridge: Rule,
    of: str,
) -> tuple[GroupedQueries, Kernel, float]:
    c = grouped_queries(query, keys, values, of)
    return (
        c,
        kernel_of(kernel, bandwidth, of),
        _rule_value(ridge, "ridge", of, c.keys.shape[1], 0.0),
    )


def _rule_value(rule: Rule, what: str, of: str, length: int, low: float) -> float:
    if not callable(rule):
        return check.real(rule, what, of, low)
    if length == 0:
        # unused: an empty context gives the prior whatever the rule says of length 0
        return 1.0
    return check.real(rule(length), f"{what} (the rule at L = {length})", of, low)
