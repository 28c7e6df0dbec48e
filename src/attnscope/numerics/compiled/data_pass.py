"""One read of a ragged set of tokens: scores, values, bag weights, loss and gradient.

notation: bag i holds the tokens x_l in R^d, l = offsets[i] .. offsets[i+1]-1; h_l = extra gate
features; o_l = a given score.

    u_l = o_l + a.(x_l, h_l),   w_l = V^T x_l + b in R^m,   p = softmax of u over the bag

"mixture":  loss_i = -log sum_l p_l f(y_i | w_l).   With r_l ~ p_l f(y_i | w_l):
    d/du_l = p_l - r_l,   d/dw_l = r_l D(w_l)
"softmax":  loss_i = -log f(y_i | sum_l p_l w_l).   With z = sum p_l w_l:
    d/du_l = p_l D(z).(w_l - z),   d/dw_l = p_l D(z)
"sigmoid":  loss_i = -log f(y_i | z), z = b + sum_l s_l V^T x_l, s = logistic(u):  d/du_l = s_l
    (1-s_l) D(z).(V^T x_l),   d/dw_l = s_l D(z)

where D(w) = -d log f(y | w)/dw and f is Gaussian of variance sigma^2 (constants dropped), Bernoulli
with logit w, or categorical with logits w. Bags are taken in blocks that fit in the cache, so that
tokens are read from memory once: the matrix-vector products which accumulate sum_l (d/du_l)(x_l,
h_l) and sum_l x_l (d/dw_l)^T find them there. Exact up to rounding; tests compare with a plain
NumPy version and differences.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from attnscope.numerics.compiled.bag_losses import (
    BERNOULLI,
    CATEGORICAL,
    GAUSSIAN,
    mixture_loss,
    normalise,
    sigmoid_loss,
    softmax_loss,
)
from attnscope.numerics.compiled.numba_flags import REASSOCIATING_FLAGS

__all__ = [
    "BERNOULLI",
    "CATEGORICAL",
    "GAUSSIAN",
    "MIXTURE",
    "SIGMOID",
    "SOFTMAX",
    "bag_max",
    "bag_softmax",
    "bag_sum",
    "data_pass",
]

Array = np.ndarray

# how a bag's tokens are combined
MIXTURE = 0
SOFTMAX = 1
SIGMOID = 2
BLOCK_BYTES = 2**18  # bytes of tokens in a block: half of a usual second-level cache


def data_pass(
    tokens: np.ndarray,
    extra: np.ndarray,
    given: np.ndarray,
    offsets: np.ndarray,
    labels: np.ndarray,
    weight: np.ndarray,
    gate: np.ndarray,
    values: np.ndarray,
    bias: np.ndarray,
    family: int,
    combine: int,
    variance: float,
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Weighted loss and its gradients in gate (d+e,), values (d, m) and bias (m,).

    tokens (N, d), extra (N, e) gate features, given (N,) scores, offsets (n+1,), labels (n,)
    numbers or class indices.
    """
    d = tokens.shape[1]
    tokens, extra = (
        np.ascontiguousarray(x, dtype=np.float64) for x in (tokens, extra)
    )  # no copy where they are already
    # (m, d): each output's weights contiguous, like a token
    rows = np.ascontiguousarray(values.T)
    grad_gate = np.zeros_like(gate)
    grad_rows = np.zeros_like(rows)
    grad_bias = np.zeros_like(bias)
    block = max(1, BLOCK_BYTES // (8 * len(gate)))
    loss = _blockwise_pass(
        tokens,
        extra,
        given,
        offsets,
        labels,
        weight,
        gate[:d],
        gate[d:],
        rows,
        bias,
        family,
        combine,
        variance,
        grad_gate[:d],
        grad_gate[d:],
        grad_rows,
        grad_bias,
        block,
    )
    return loss, grad_gate, grad_rows.T, grad_bias


@njit(**REASSOCIATING_FLAGS)
def _blockwise_pass(
    tokens: Array,
    extra: Array,
    given: Array,
    offsets: Array,
    labels: Array,
    weight: Array,
    gate: Array,
    hidden: Array,
    rows: Array,
    bias: Array,
    family: int,
    combine: int,
    variance: float,
    grad_gate: Array,
    grad_hidden: Array,
    grad_rows: Array,
    grad_bias: Array,
    block: int,
) -> float:
    m = rows.shape[0]
    bags = offsets.shape[0] - 1
    longest = 0
    for i in range(bags):
        longest = max(longest, offsets[i + 1] - offsets[i])
    u = np.empty(block + longest)
    c = np.empty(block + longest)
    w = np.empty((block + longest, m))
    e = np.empty((block + longest, m))
    z = np.empty(m)
    slope = np.empty(m)
    read = (u, w, bias)
    slopes = (c, e, z, slope)
    total, first = 0.0, 0
    while first < bags:
        last = first + 1  # the block is bags first .. last-1
        while last < bags and offsets[last + 1] - offsets[first] <= block:
            last += 1
        a = offsets[first]
        b = offsets[last]
        size = b - a
        _score_and_value_products(tokens[a:b], gate, rows[0], given[a:b], u, w)
        if hidden.shape[0] > 0:
            u[:size] += np.dot(extra[a:b], hidden)
        for k in range(1, m):
            w[:size, k] = np.dot(tokens[a:b], rows[k])
        for i in range(first, last):
            p = offsets[i] - a
            q = offsets[i + 1] - a
            label_model = (labels[i], family, variance)
            if combine == MIXTURE:
                loss = mixture_loss(read, p, q, label_model, slopes)
            elif combine == SOFTMAX:
                loss = softmax_loss(read, p, q, label_model, slopes)
            else:
                loss = sigmoid_loss(read, p, q, label_model, slopes)
            total += weight[i] * loss
            for k in range(m):
                grad_bias[k] += weight[i] * z[k]
            for l in range(p, q):
                c[l] *= weight[i]
                for k in range(m):
                    e[l, k] *= weight[i]
        if hidden.shape[0] > 0:
            grad_hidden += np.dot(c[:size], extra[a:b])
        _add_weighted_tokens(tokens[a:b], c, e[:, 0], grad_gate, grad_rows[0])
        for k in range(1, m):
            grad_rows[k] += np.dot(np.ascontiguousarray(e[:size, k]), tokens[a:b])
        first = last
    return total


@njit(**REASSOCIATING_FLAGS)
def _score_and_value_products(
    x: Array, gate: Array, row: Array, given: Array, u: Array, w: Array
) -> None:
    """u_l = given_l + x_l.gate and w_l = x_l.row in one read, four tokens at a time:
    sums that do not wait for each other.
    """
    size, d = x.shape
    whole = size - size % 4
    for l in range(0, whole, 4):
        a0 = 0.0
        a1 = 0.0
        a2 = 0.0
        a3 = 0.0
        b0 = 0.0
        b1 = 0.0
        b2 = 0.0
        b3 = 0.0
        for j in range(d):
            x0 = x[l, j]
            x1 = x[l + 1, j]
            x2 = x[l + 2, j]
            x3 = x[l + 3, j]
            a0 = a0 + x0 * gate[j]
            a1 = a1 + x1 * gate[j]
            a2 = a2 + x2 * gate[j]
            a3 = a3 + x3 * gate[j]
            b0 = b0 + x0 * row[j]
            b1 = b1 + x1 * row[j]
            b2 = b2 + x2 * row[j]
            b3 = b3 + x3 * row[j]
        u[l], u[l + 1], u[l + 2], u[l + 3] = (
            a0 + given[l],
            a1 + given[l + 1],
            a2 + given[l + 2],
            a3 + given[l + 3],
        )
        w[l, 0], w[l + 1, 0], w[l + 2, 0], w[l + 3, 0] = b0, b1, b2, b3
    for l in range(whole, size):
        u[l], w[l, 0] = given[l], 0.0
        for j in range(d):
            u[l] += x[l, j] * gate[j]
            w[l, 0] += x[l, j] * row[j]


@njit(**REASSOCIATING_FLAGS)
def _add_weighted_tokens(x: Array, c: Array, e: Array, sum_c: Array, sum_e: Array) -> None:
    """sum_c += sum_l c_l x_l and sum_e += sum_l e_l x_l in one read, four tokens at a time: fewer
    stores than a token at a time.
    """
    size, d = x.shape
    whole = size - size % 4
    for l in range(0, whole, 4):
        c0 = c[l]
        c1 = c[l + 1]
        c2 = c[l + 2]
        c3 = c[l + 3]
        e0 = e[l]
        e1 = e[l + 1]
        e2 = e[l + 2]
        e3 = e[l + 3]
        for j in range(d):
            x0 = x[l, j]
            x1 = x[l + 1, j]
            x2 = x[l + 2, j]
            x3 = x[l + 3, j]
            sum_c[j] += c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
            sum_e[j] += e0 * x0 + e1 * x1 + e2 * x2 + e3 * x3
    for l in range(whole, size):
        for j in range(d):
            sum_c[j] += c[l] * x[l, j]
            sum_e[j] += e[l] * x[l, j]


@njit(**REASSOCIATING_FLAGS)
def _bag_softmax(u: Array, offsets: Array) -> None:
    for i in range(offsets.shape[0] - 1):
        normalise(u, offsets[i], offsets[i + 1])


def bag_softmax(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """softmax of scores (N,) within each bag."""
    out = np.array(scores, dtype=np.float64)
    _bag_softmax(out, offsets)
    return out


def bag_sum(x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sum over each bag's rows: (N, ...) -> (n, ...). No bag is empty."""
    return np.add.reduceat(x, offsets[:-1], axis=0)


def bag_max(x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Largest of each bag's numbers: (N,) -> (n,)."""
    return np.maximum.reduceat(x, offsets[:-1])
