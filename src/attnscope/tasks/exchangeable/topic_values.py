"""What the values of uniform attention learn from masked words of a topic mixture, in closed form
(new here).

notation: T topics of v words, V = T v, u = 1/V, alpha, A = T alpha as in topic_mixture; N = length;
p_m = mask, p_c = keep, p_r = random; k = 1 - p_m + p_m p_c, q = p_m p_r: another position shows its
own word, or a random one; S = sum of the shown words (one-hot) of a document whose first position
is masked, y = its true word; r = ridge; I, B, J the unit, block and all-ones matrix.

The layer predicts W S/N and minimises E|y - W S/N|^2 + r|W|^2, so W = E[yS'/N] (E[SS']/N^2 + r)^-1.
Two words of one document have the law K = [(alpha+1) alpha B + alpha^2 (J - B)]/(A(A+1)v^2), and

    E yS' = p_c uI + p_r u^2 J + (N-1)(kK + q u^2 J)
    E SS' = (p_c + p_r + (N-1)(k+q)) uI + (N-1)(N-2)(k^2 K + (2kq + q^2) u^2 J)
            + 2(N-1)(p_c k K + (p_c q + p_r k + p_r q) u^2 J).

All lie in the span of I, B, J, which has three eigenspaces: within topics (dimension T(v-1), where
K and J are 0), between topics (T-1; K has kap = alpha/(A(A+1)v)) and the constant (1; K and u^2 J
have u). On each W is a number y_i/(s_i + r), a sum of positive terms over another, so

    W = aI + bB + cJ,   a = w_within,  b = (w_between - w_within)/v,  c = (w_constant - w_between)/V.

a = p_c/(k + q + (p_c + p_r - k - q)/N + r N V) is the leak of kept words: it dies like 1/N with any
ridge, and tends to p_c/(k + q) without; b stays. Where nothing is ever shown, W = 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.numerics.border.estimate import Estimate, estimate

__all__ = ["MaskedOptimum", "Masking", "masked_optimum"]

# of the squared error: its three parts are differences of numbers below their share of 1
SQUARED_ERROR_ROUNDING = 64 * float(np.finfo(np.float64).eps)


class Masking(NamedTuple):
    """Shares: of masked positions, and of these with their own word and with a random one."""

    mask: float
    keep: float
    random: float


class MaskedOptimum(NamedTuple):
    """W = same_word I + same_topic B + constant J, and its squared error on masked words
    (without the ridge's penalty).
    """

    same_word: float
    same_topic: float
    constant: float
    risk: Estimate


def masked_optimum(
    law: tuple[int, int, float], length: int, masking: Masking, ridge: float
) -> MaskedOptimum:
    """The minimiser; `law` is (topics, words, concentration)."""
    T, v, _ = law
    V = T * v
    y, s = _moment_eigenvalues(law, length, masking)
    w = np.divide(y, s + ridge, out=np.zeros(3), where=s + ridge > 0)
    dimensions = np.array([T * (v - 1.0), T - 1.0, 1.0])
    # y has second moment u on every direction: each part is what is left of it there
    left = dimensions * (1 / V - 2 * w * y + w * w * s)
    # a ridge so small that w rounds is still its own minimiser: each part is of size u
    error = SQUARED_ERROR_ROUNDING * float(
        np.sum(dimensions * (1 / V + 2 * w * y + w * w * s))
    )
    risk = estimate(float(left.sum()), error, "closed form")
    a, between, constant = map(float, w)
    return MaskedOptimum(a, (between - a) / v, (constant - between) / V, risk)


def _moment_eigenvalues(
    law: tuple[int, int, float], N: int, masking: Masking
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of E[yS'/N] and E[SS']/N^2 within topics, between topics, on the constant."""
    T, v, alpha = law
    p_m, p_c, p_r = masking
    u = 1 / (T * v)
    A = T * alpha
    k = 1 - p_m + p_m * p_c
    q = p_m * p_r
    others = N - 1.0
    pairs = others * max(N - 2.0, 0.0)
    pair_law = np.array([0.0, 1 / (T * v * (A + 1)), u])  # K; alpha/A = 1/T
    # of u^2 J
    constant = np.array([0.0, 0.0, u])
    y = p_c * u + p_r * constant + others * (k * pair_law + q * constant)
    own = (p_c + p_r + others * (k + q)) * u
    two_others = pairs * (k * k * pair_law + (2 * k + q) * q * constant)
    one_other = 2 * others * (p_c * k * pair_law + (p_c * q + p_r * (k + q)) * constant)
    return y / N, (own + two_others + one_other) / float(N) ** 2
