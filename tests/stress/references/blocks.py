"""Sequence models written out in NumPy, one sequence at a time, from their formulas.

notation: x (L, d) tokens, p = parameters by name, r = the register, N = layer norm, gelu(x) = x/2
(1 + tanh(sqrt(2/pi)(x + .044715 x^3))).

    block   a = N1(r, x_1, ..), w = softmax(lam (W_K^h' W_Q^h a_0/sqrt(d/H)).a_l), r' = r + sum_h
        W_O^h W_V^h sum_l w_l a_l,
                r'' = r' + W_2 gelu(W_1 N2(r') + b_1) + b_2, T = c.r'' + c_0
    simplified  T = sum_l softmax(lam x.k)_l x_l.v, or erf in place of the softmax
    dense       T = c.gelu(W x + b) + c_0 on the L d numbers
    recurrent   u, f = sigmoids, h <- u h + (1 - u) tanh(W x + R (f h) + b), T = c.h + c_0 after the
        last token

All matrices are multiplied out in the order in which a layer is usually drawn; plain float64.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erf

__all__ = ["block", "dense", "recurrent", "simplified"]

EPS = 1e-6  # the layer norm's, part of the models' definition
Parameters = dict[str, np.ndarray]


def block(
    p: Parameters, x: np.ndarray, real: np.ndarray, lam: float
) -> tuple[float, np.ndarray]:
    """(T, weights (H, L)) of a pre-norm Transformer block;
    norms and the feed-forward layer where p has their arrays.
    """
    a = _norm(p, "1", np.vstack([p["register"], x]))
    there = np.append(True, real)
    heads, inner, _ = p["query"].shape
    row = p["register"].copy()
    weights = []
    for h in range(heads):
        query = p["query"][h] @ a[0]
        keys = a @ p["key"][h].T
        scores = np.where(there, lam * (keys @ query) / math.sqrt(inner), -np.inf)
        w = _softmax(scores)
        row = row + p["output"][h] @ ((a @ p["value"][h].T).T @ w)
        weights.append(w[1:])
    if "first" in p:
        row = (
            row
            + p["second"] @ _gelu(p["first"] @ _norm(p, "2", row) + p["first_bias"])
            + p["second_bias"]
        )
    return float(p["readout"] @ row + p["readout_bias"]), np.array(weights)


def simplified(
    p: Parameters, x: np.ndarray, real: np.ndarray, lam: float, kind: str
) -> float:
    """T of one softmax or erf head with free vectors."""
    scores = lam * (x @ p["k"])
    weights = (
        _softmax(np.where(real, scores, -np.inf))
        if kind == "softmax"
        else np.where(real, erf(scores), 0.0)
    )
    return float(weights @ (x @ p["v"]))


def dense(p: Parameters, x: np.ndarray, real: np.ndarray) -> float:
    """T of one hidden layer on all numbers of a sequence, masked tokens 0."""
    flat = np.where(real[:, None], x, 0.0).ravel()
    return float(
        p["readout"] @ _gelu(p["first"] @ flat + p["first_bias"]) + p["readout_bias"]
    )


def recurrent(p: Parameters, x: np.ndarray, real: np.ndarray) -> float:
    """T of a gated recurrent unit read at the end; masked tokens are skipped."""
    h = np.zeros(len(p["readout"]))
    for token in x[real]:
        u = _sigmoid(p["input"][0] @ token + p["keep_bias"] + p["recurrent"][0] @ h)
        f = _sigmoid(p["input"][1] @ token + p["forget_bias"] + p["recurrent"][1] @ h)
        new = np.tanh(p["input"][2] @ token + p["state_bias"] + p["recurrent"][2] @ (f * h))
        h = u * h + (1 - u) * new
    return float(p["readout"] @ h + p["readout_bias"])


def _norm(p: Parameters, which: str, x: np.ndarray) -> np.ndarray:
    if f"gain{which}" not in p:
        return x
    centred = x - x.mean(-1, keepdims=True)
    return (
        p[f"gain{which}"] * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPS)
        + p[f"bias{which}"]
    )


def _softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max())
    return e / e.sum()


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -x))


def _gelu(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
