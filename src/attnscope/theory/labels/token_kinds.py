"""Kinds of tokens of a block, and what one head sees of them.

notation: G the Gram matrix of (k, v, teachers), a token N(sum_j mu_j T_j, s^2 I); u = X.k, w = X.v.

    u = a + s |k| g,     E[w | g] = b + q g,     Var(w | g) = s^2 |v|^2 - q^2,     q = s k.v/|k|,

a = k.mean, b = v.mean. Of the token whose projection on teacher j is read, with x the standard
normal behind that projection,

    u | x ~ N(a + a_x x, a_z^2),     E[w | x, z] = b + b_x x + b_z z,     u = a + a_x x + a_z z,
    a_x = s k.T_j,   a_z^2 = s^2 (|k|^2 - (k.T_j)^2),   b_x = s v.T_j,
    cov = a_z b_z = s^2 (k.v - (k.T_j)(v.T_j)).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnscope.theory.labels.label_blocks import LabelBlock

__all__ = ["Kind", "Kinds", "ReadToken", "Terms", "kind", "kinds_of", "read_token"]


class Kind(NamedTuple):
    """a, b: means of score and value; sd of the score; q; rest = Var(w | g)."""

    a: float
    b: float
    sd: float
    q: float
    rest: float


class Kinds(NamedTuple):
    """Laws (A, r + 1) of means and scale, how many tokens of each, and which one is read."""

    laws: np.ndarray
    numbers: np.ndarray
    read: int


class ReadToken(NamedTuple):
    """What is seen of the token that is read (module docstring)."""

    a: float
    a_x: float
    a_z: float
    b: float
    b_x: float
    b_z: float


class Terms(NamedTuple):
    """E[y T] and E T^2 of a block, their errors, and the mean of |y g|."""

    cross: float
    cross_error: float
    output: float
    output_error: float
    size: float


def kinds_of(block: LabelBlock) -> Kinds:
    rows = np.concatenate([block.means, block.scales[:, None]], axis=1)
    laws, place, numbers = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    return Kinds(laws, numbers.astype(float), int(place.ravel()[block.token]))


def kind(G: np.ndarray, law: np.ndarray) -> Kind:
    """What the head of the Gram matrix G sees of a kind of token."""
    means, s = law[:-1], float(law[-1])
    long = math.sqrt(max(float(G[0, 0]), 0.0))
    q = s * float(G[0, 1]) / long if long > 0 else 0.0
    rest = max(s * s * float(G[1, 1]) - q * q, 0.0)
    return Kind(float(G[0, 2:] @ means), float(G[1, 2:] @ means), s * long, q, rest)


def read_token(G: np.ndarray, block: LabelBlock) -> ReadToken:
    means, s = block.means[block.token], float(block.scales[block.token])
    eta, nu = float(G[0, 2 + block.teacher]), float(G[1, 2 + block.teacher])
    open_ = max(float(G[0, 0]) - eta * eta, 0.0)
    a_z = s * math.sqrt(open_)
    cov = s * s * (float(G[0, 1]) - eta * nu)
    # |cov| <= a_z s |v|: where a_z is rounding, so is cov
    b_z = cov / a_z if open_ > 1e-14 * float(G[0, 0]) else 0.0
    a, b = float(G[0, 2:] @ means), float(G[1, 2:] @ means)
    return ReadToken(a, s * eta, a_z, b, s * nu, b_z)
