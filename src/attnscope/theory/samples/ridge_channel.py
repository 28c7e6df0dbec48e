"""Averages over one bag of ridge ERM, from which ridge_solver.py finds the saddle point.

notation: m_k = k.k*, q_k = |k|^2, m_v = v.v*, q_v = |v|^2, V_k, V_v the variances of the fit, nu
the strength, D = noise^2, sig_l the weight of token l, token 1 the informative one. Inverse
temperature and offset are absorbed: sig = softmax(u) or sig = 1 + u.

A bag's fields, before it is fitted itself, and its label are

    o_l = sqrt(q_k) xi_l + sqrt(nu) m_k [l = 1],   z_l = sqrt(q_v) zeta_l,
    y = c_v zeta_1 + sy eta,    c_v = m_v/sqrt(q_v),   sy^2 = 1 - c_v^2 + D,

xi, zeta, eta standard normal. Fitted, they move to the minimum u, w of

    |u - o|^2/(2 V_k) + |w - z|^2/(2 V_v) + (y - sig(u).w)^2/2,

and g_u = (u - o)/V_k, g_w = (w - z)/V_v = rho sig with rho the residual of the fit. Needed are

    E|g_u|^2,  E g_u1,  E xi.g_u,  E|g_w|^2,  E dg_w1/dy = E eta g_w1/sy,  E zeta.g_w,  E rho^2

(Stein's identity instead of derivatives: it stays right where the minimum jumps). Exact reductions:

    softmax   does not see a shift of all o_l, and sees one of all z_l in y alone: with zeta' and
              zeta_0 the parts of zeta across and along the ones, y - z_0 = c_v zeta'_1 + st e,
              st^2 = sy^2 + (c_v - sqrt q_v)^2/L; 2L - 1 dimensions, 3 for two tokens
    linear    is invariant under rotations of (1 + o, z): 5 dimensions for two tokens, 7 for more

The risk of a fresh bag, label noise excluded, is 1 - 2 m_v E sig_1 + q_v E|sig|^2: for softmax by
`weight_moments`, for linear attention, a = 1 + sqrt(nu) m_k,

    1 - 2 m_v a + q_v (a^2 + q_k + (L-1)(1 + q_k)).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from attnscope.numerics.compiled.linear_prox import linear_averages, linear_response
from attnscope.numerics.compiled.softmax_prox import softmax_averages, softmax_response
from attnscope.predictors.attention import Softmax
from attnscope.theory.risks.normalised_risk import weight_moments
from attnscope.theory.samples.ridge_nodes import (
    NODE_SET_COUNT,
    grid_nodes,
    linear_nodes,
    sobol_nodes,
    token_basis,
)

__all__ = ["Channel", "LinearChannel", "Order", "SoftmaxChannel"]

CHANNEL_NODE_SEED = 16  # fixed, so that results are functions of the arguments alone
# tokens; the fields of longer bags have too many dimensions for grids
LARGEST_GRID_LENGTH = 2
# Nodes of each of the SETS sets, as a power of 2. The error of the risk, in standard errors of the
# simulations that check it (d = 600), is then at most a fifth.
SOFTMAX_BITS = 13
LINEAR_BITS = 13
COARSE_BITS = 11  # of the single set on which Newton's method runs first
# A bag next to a jump of its minimum responds without bound, and with two tokens linear attention
# has such bags where 1 + o and z cancel: the average diverges there, like a logarithm. None counts
# for more than a response of size 10, squared; cut at 30 the stability of the printed table moves
# by 3 % where it is below 0.9.
LARGEST_SQUARED_RESPONSE = 100.0
RESPONSE_SET_COUNT = 4  # sets used for the stability


class Order(NamedTuple):
    """The six numbers: cosine, |.|^2 and variance, of the key and of the value."""

    key_cosine: float
    key_square: float
    key_variance: float
    value_cosine: float
    value_square: float
    value_variance: float


class Channel(Protocol):
    """What a kind of attention does with one bag."""

    sets: int

    def averages(self, x: Order) -> np.ndarray:
        """(sets, 8): the seven averages of the module docstring, in its order, and the share of
        bags with two minima, by sets of nodes.
        """
        ...

    def response(self, x: Order) -> np.ndarray:
        """(2, 2): E |d(u, w)/d(o, z) - I|^2 by blocks."""
        ...

    def risk(self, x: Order) -> float:
        """Of a fresh bag, label noise excluded."""
        ...


class SoftmaxChannel:
    """Softmax attention on bags of `length` tokens; coarse: one small set of nodes."""

    def __init__(self, strength: float, variance: float, length: int, coarse: bool) -> None:
        self.root_strength = math.sqrt(strength)
        self.variance = variance
        self.length = length
        self.sets = 1 if coarse else NODE_SET_COUNT
        self.basis = token_basis(length)
        dimension = 2 * length - 1
        if length <= LARGEST_GRID_LENGTH:
            nodes = grid_nodes(dimension, self.sets, CHANNEL_NODE_SEED)
        else:
            bits = COARSE_BITS if coarse else SOFTMAX_BITS
            nodes = sobol_nodes(dimension, bits, self.sets, CHANNEL_NODE_SEED)
        self.weight = nodes.weight
        self.group = nodes.group
        across = np.ascontiguousarray(nodes.points[:, : length - 1])
        along = np.ascontiguousarray(nodes.points[:, length - 1 : -1])
        self.nodes = across, along, np.ascontiguousarray(nodes.points[:, -1])

    def _bag_law(self, x: Order) -> tuple[float, ...]:
        so = math.sqrt(x.key_square)
        sz = math.sqrt(x.value_square)
        own = 1 - x.value_cosine**2 + self.variance
        st = math.sqrt(own + (x.value_cosine - sz) ** 2 / self.length)
        lift = self.root_strength * x.key_cosine * so
        return lift, so, sz, x.value_cosine, st, x.key_variance, x.value_variance

    def averages(self, x: Order) -> np.ndarray:
        law = self._bag_law(x)
        raw = np.empty((self.sets, 9))
        softmax_averages(self.nodes, self.weight, self.group, self.basis, law, raw)
        _, _, sz, slope, st, _, _ = law
        # E[zeta_0 | e] for the part of zeta that all tokens share
        shared = (slope - sz) / (self.length * st)
        out = np.empty((self.sets, 8))
        out[:, :4] = raw[:, :4]
        out[:, 4] = raw[:, 4] / st
        out[:, 5] = raw[:, 6] + shared * raw[:, 5]
        out[:, 6:] = raw[:, 7:]
        return out

    def response(self, x: Order) -> np.ndarray:
        count = min(self.sets, RESPONSE_SET_COUNT)
        some = self.group < count
        nodes = tuple(part[some] for part in self.nodes)
        weight = self.weight[some] / count
        return softmax_response(
            nodes, weight, self.basis, self._bag_law(x), LARGEST_SQUARED_RESPONSE
        )

    def risk(self, x: Order) -> float:
        root = math.sqrt(x.key_square)
        lift = self.root_strength * x.key_cosine
        w = weight_moments(Softmax(1.0), root, 1.0, lift, 1, self.length)
        squares = w.informative_square + (self.length - 1) * w.background_square
        overlap = x.value_cosine * math.sqrt(x.value_square)
        return 1 - 2 * overlap * w.informative + x.value_square * squares


class LinearChannel:
    """Linear attention, weights 1 + u, on bags of `length` tokens."""

    def __init__(self, strength: float, variance: float, length: int, coarse: bool) -> None:
        self.root_strength = math.sqrt(strength)
        self.variance = variance
        self.length = length
        self.sets = 1 if coarse else NODE_SET_COUNT
        bits = COARSE_BITS + 1 if coarse else LINEAR_BITS
        self.points, self.squares = linear_nodes(length, bits, self.sets, CHANNEL_NODE_SEED)

    def _bag_law(self, x: Order) -> tuple[float, ...]:
        so = math.sqrt(x.key_square)
        sy = math.sqrt(1 - x.value_cosine**2 + self.variance)
        lift = self.root_strength * x.key_cosine * so
        sz = math.sqrt(x.value_square)
        variances = x.key_variance, x.value_variance
        return lift, so, sz, x.value_cosine, sy, *variances, self.length - 1.0

    def averages(self, x: Order) -> np.ndarray:
        law = self._bag_law(x)
        raw = np.empty((self.sets, 7))
        linear_averages(self.points, self.squares, self.sets, law, raw)
        raw[:, 4] /= law[4]
        return np.concatenate([raw, np.zeros((self.sets, 1))], axis=1)  # it never jumps

    def response(self, x: Order) -> np.ndarray:
        return linear_response(
            self.points, self.squares, self._bag_law(x), LARGEST_SQUARED_RESPONSE
        )

    def risk(self, x: Order) -> float:
        q = x.key_square
        a = 1 + self.root_strength * x.key_cosine * math.sqrt(q)
        overlap = x.value_cosine * math.sqrt(x.value_square)
        squares = a * a + q + (self.length - 1) * (1 + q)
        return 1 - 2 * overlap * a + x.value_square * squares
