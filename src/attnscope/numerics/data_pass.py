"""One read of a ragged set of tokens: scores, values, bag weights, loss and gradient.

notation: bag i holds the tokens x_l in R^d, l = offsets[i] .. offsets[i+1]-1; h_l = extra gate features; o_l = a given score.

    u_l = o_l + a.(x_l, h_l),   w_l = V^T x_l + b in R^m,   p = softmax of u over the bag

"mixture":  loss_i = -log sum_l p_l f(y_i | w_l).   With r_l ~ p_l f(y_i | w_l):   d/du_l = p_l - r_l,   d/dw_l = r_l D(w_l)
"softmax":  loss_i = -log f(y_i | sum_l p_l w_l).   With z = sum p_l w_l:          d/du_l = p_l D(z).(w_l - z),   d/dw_l = p_l D(z)
"sigmoid":  loss_i = -log f(y_i | z), z = b + sum_l s_l V^T x_l, s = logistic(u):  d/du_l = s_l (1-s_l) D(z).(V^T x_l),   d/dw_l = s_l D(z)

where D(w) = -d log f(y | w)/dw and f is Gaussian of variance sigma^2 (constants dropped), Bernoulli with logit w, or categorical
with logits w. A bag's tokens are read from memory once: the second loop, which accumulates sum_l (d/du_l)(x_l, h_l) and
sum_l x_l (d/dw_l)^T, finds them in the cache. Exact up to rounding; tests compare with a plain NumPy version and differences.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

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

GAUSSIAN, BERNOULLI, CATEGORICAL = 0, 1, 2  # label models
MIXTURE, SOFTMAX, SIGMOID = 0, 1, 2  # how a bag's tokens are combined
# reassociation lets the dot products use vector registers; infinities and NaN keep their meaning
FLAGS = {"cache": True, "error_model": "numpy", "nogil": True, "fastmath": {"reassoc", "contract", "nsz", "arcp"}}


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

    tokens (N, d), extra (N, e) gate features, given (N,) scores, offsets (n+1,), labels (n,) numbers or class indices.
    """
    rows = np.ascontiguousarray(values.T)  # (m, d): each output's weights contiguous, like a token
    grad_gate, grad_rows, grad_bias = np.zeros_like(gate), np.zeros_like(rows), np.zeros_like(bias)
    longest = int(np.diff(offsets).max())
    loss = _pass(
        tokens, extra, given, offsets, labels, weight, gate, rows, bias, family, combine, variance,
        grad_gate, grad_rows, grad_bias, longest,
    )  # fmt: skip
    return loss, grad_gate, grad_rows.T, grad_bias


@njit(**FLAGS)
def _pass(
    tokens, extra, given, offsets, labels, weight, gate, rows, bias, family, combine, variance,
    grad_gate, grad_rows, grad_bias, longest,
):  # fmt: skip
    m = rows.shape[0]
    u, c = np.empty(longest), np.empty(longest)
    w, e, z = np.empty((longest, m)), np.empty((longest, m)), np.empty(m)
    total = 0.0
    for i in range(offsets.shape[0] - 1):
        start, size = offsets[i], offsets[i + 1] - offsets[i]
        if weight[i] == 0.0:
            continue
        for l in range(size):
            _read_token(tokens[start + l], extra[start + l], gate, rows, u, w, l)
            u[l] += given[start + l]
        if combine == MIXTURE:
            loss = _mixture(u, w, bias, size, labels[i], family, variance, c, e, z)
        elif combine == SOFTMAX:
            loss = _softmax_pool(u, w, bias, size, labels[i], family, variance, c, e, z)
        else:
            loss = _sigmoid_pool(u, w, bias, size, labels[i], family, variance, c, e, z)
        total += weight[i] * loss
        for j in range(m):
            grad_bias[j] += weight[i] * z[j]
        for l in range(size):
            _add_token(tokens[start + l], extra[start + l], weight[i] * c[l], weight[i], e[l], grad_gate, grad_rows)
    return total


@njit(**FLAGS)
def _read_token(x, h, gate, rows, u, w, l):
    """u[l] = gate.(x, h), w[l] = rows x."""
    d = x.shape[0]
    score = 0.0
    for j in range(d):
        score += x[j] * gate[j]
    for j in range(h.shape[0]):
        score += h[j] * gate[d + j]
    u[l] = score
    for k in range(rows.shape[0]):
        value = 0.0
        for j in range(d):
            value += x[j] * rows[k, j]
        w[l, k] = value


@njit(**FLAGS)
def _add_token(x, h, c, scale, e, grad_gate, grad_rows):
    """grad_gate += c (x, h), grad_rows += scale e x^T."""
    d = x.shape[0]
    for j in range(d):
        grad_gate[j] += c * x[j]
    for j in range(h.shape[0]):
        grad_gate[d + j] += c * h[j]
    for k in range(e.shape[0]):
        g = scale * e[k]
        if g != 0.0:
            for j in range(d):
                grad_rows[k, j] += g * x[j]


@njit(**FLAGS)
def _label_loss(label, w, family, variance, slope):
    """-log f(label | w) (constants dropped); its derivative in w goes to slope."""
    if family == GAUSSIAN:
        slope[0] = (w[0] - label) / variance
        return 0.5 * (w[0] - label) ** 2 / variance
    if family == BERNOULLI:
        sign = 2.0 * label - 1.0
        t = sign * w[0]
        s = 1.0 / (1.0 + math.exp(-abs(t)))  # the larger of the two probabilities
        slope[0] = -sign * ((1.0 - s) if t > 0 else s)
        return max(-t, 0.0) - math.log(s)
    top = w[0]
    for k in range(w.shape[0]):
        top = max(top, w[k])
    total = 0.0
    for k in range(w.shape[0]):
        slope[k] = math.exp(w[k] - top)
        total += slope[k]
    for k in range(w.shape[0]):
        slope[k] /= total
    slope[int(label)] -= 1.0
    return top + math.log(total) - w[int(label)]


@njit(**FLAGS)
def _log_normaliser(u, size):
    """log sum_l exp u_l."""
    top = u[0]
    for l in range(size):
        top = max(top, u[l])
    total = 0.0
    for l in range(size):
        total += math.exp(u[l] - top)
    return top + math.log(total)


@njit(**FLAGS)
def _mixture(u, w, bias, size, label, family, variance, c, e, z):
    """Fills c = p - r, e = r D(w_l); z = sum of e, the slope in the bias."""
    m = bias.shape[0]
    log_p = _log_normaliser(u, size)
    z[:] = 0.0
    for l in range(size):
        for k in range(m):
            w[l, k] += bias[k]
        c[l] = u[l] - _label_loss(label, w[l], family, variance, e[l])
    log_r = _log_normaliser(c, size)
    for l in range(size):
        r = math.exp(c[l] - log_r)
        c[l] = math.exp(u[l] - log_p) - r
        for k in range(m):
            e[l, k] *= r
            z[k] += e[l, k]
    return log_p - log_r


@njit(**FLAGS)
def _softmax_pool(u, w, bias, size, label, family, variance, c, e, z):
    m = bias.shape[0]
    log_p = _log_normaliser(u, size)
    mean, slope = bias.copy(), np.empty(m)
    for l in range(size):
        u[l] = math.exp(u[l] - log_p)  # p_l
        for k in range(m):
            mean[k] += u[l] * w[l, k]
    loss = _label_loss(label, mean, family, variance, slope)
    for l in range(size):
        c[l] = 0.0
        for k in range(m):
            c[l] += u[l] * slope[k] * (w[l, k] + bias[k] - mean[k])
            e[l, k] = u[l] * slope[k]
    z[:] = slope
    return loss


@njit(**FLAGS)
def _sigmoid_pool(u, w, bias, size, label, family, variance, c, e, z):
    m = bias.shape[0]
    mean, slope = bias.copy(), np.empty(m)
    for l in range(size):
        u[l] = 1.0 / (1.0 + math.exp(-u[l])) if u[l] > -700.0 else 0.0  # s_l; exp(700) is the largest that fits
        for k in range(m):
            mean[k] += u[l] * w[l, k]
    loss = _label_loss(label, mean, family, variance, slope)
    for l in range(size):
        c[l] = 0.0
        for k in range(m):
            c[l] += u[l] * (1.0 - u[l]) * slope[k] * w[l, k]
            e[l, k] = u[l] * slope[k]
    z[:] = slope
    return loss


@njit(**FLAGS)
def _bag_softmax(u, offsets, out):
    for i in range(offsets.shape[0] - 1):
        a, b = offsets[i], offsets[i + 1]
        log_p = _log_normaliser(u[a:b], b - a)
        for l in range(a, b):
            out[l] = math.exp(u[l] - log_p)


def bag_softmax(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """softmax of scores (N,) within each bag."""
    out = np.empty_like(scores)
    _bag_softmax(scores, offsets, out)
    return out


def bag_sum(x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sum over each bag's rows: (N, ...) -> (n, ...). No bag is empty."""
    return np.add.reduceat(x, offsets[:-1], axis=0)


def bag_max(x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Largest of each bag's numbers: (N,) -> (n,)."""
    return np.maximum.reduceat(x, offsets[:-1])
