"""Population risk of heads that add up where each teacher has a token of its own.

notation: trained vectors p = (k_1, v_1, ..., k_H, v_H), teachers (k_1*, v_1*, ..., k_F*, v_F*), G
the Gram matrix of all in this order; u_h = x.k_h, w_h = x.v_h, y_f = x.v_f*, s = signal, gam =
gamma, a_h = weight of head h.

Tokens at distinct positions: informative token f is N(s k_f*, gam^2 I), the L - F others N(0, I),
all independent. So (u, w, y) of a token are Gaussian with covariance G (times gam^2) and mean 0 (or
s times the row of k_f*), and T - Y = sum over tokens of sum_h a_h w_h - y.

Componentwise heads (Erf, LinearAttention, any smooth sigma). a_h depends on u_h of the same token,
so the tokens' contributions e are independent and R = sum_l Var e_l + (sum_l E e_l)^2. Each E e and
E e^2 is a sum over pairs of heads of at most two-dimensional Gaussian integrals: given (u_h, u_g)
the products of w_h, w_g, y have known means. Trapezoidal sums with spacing .77/sqrt(1 + 4 lam^2)
err by e^-33 for erf (exp(-2 pi^2/(h^2 (1 + 4 lam^2))), from the growth of erf off the real axis);
the error reported is the change when the spacing grows by 1.5, and rounding: inner products are
known to some eps |p||q|, R moves with them by (1 + lam^2 |k|^2) times its terms, and these are at
most S + (sum_l sqrt(S_l))^2, S_l = (H + 1) (sum_h E a_h^2 w_h^2 + E y^2) of token l and S their
sum, by Cauchy and Schwarz.

Other heads (Softmax, ...) couple the tokens: Monte Carlo over the scores u alone, with everything
else averaged exactly given them,

    E[(T-Y)^2 | u] = (sum_l a_l.E[w_l|u_l] - sum_f E[y_f|u_f])^2
        + sum_l (a_l, -1_f)^T Cov(w_l, y | u_l) (a_l, -1_f),

with the same random numbers for every Gram matrix, and its standard error.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError
from attnscope.numerics.integrals.interpolation import first_two
from attnscope.numerics.integrals.refined_panels import ScoreLaw, resolve
from attnscope.numerics.semidefinite import lower_factor
from attnscope.predictors.attention import Erf, LinearAttention, Predictor, is_componentwise
from attnscope.predictors.heads import MultiHead
from attnscope.tasks.planted.multi_direction import MultiDirection
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.risks.heads_quadrature import (
    GRID_REACH_SIGMAS,
    HEAD_NUMBERS_PER_BLOCK,
    componentwise_heads,
    gaussian_grid,
)

__all__ = ["Task", "distinct_excess"]

LARGEST_GRID_POINTS = 600  # per axis; a lambda that needs more is sampled
# activations for whose width the grid's spacing is derived
KNOWN_ACTIVATIONS = (Erf, LinearAttention)
# relative difference of moments below which the grid resolves a user's sigma; the grid's own error
# is 1e-12
MOMENT_AGREEMENT = 1e-9
# relative: roundings of inner products and their factor (4 per dimension of at most 4), and of sums
INNER_PRODUCT_ROUNDING = 16 * float(np.finfo(np.float64).eps)


Task = SingleLocation | MultiDirection


def distinct_excess(
    task: Task, predictor: MultiHead, G: np.ndarray,
    lam: float, samples: int, seed: int, sampled: bool = False,
) -> tuple[np.ndarray, np.ndarray, str]:  # fmt: skip
    """(excess, error, method) for Gram matrices (R, n, n), unchecked, at inverse temperature lam."""
    head = predictor.head
    H = predictor.heads
    sizes = np.diagonal(G, axis1=1, axis2=2)[:, 0 : 2 * H : 2].max()  # |k|^2
    slope = lam * math.sqrt(sizes) * max(1.0, task.gamma)
    spacing = min(0.6, 0.77 / math.sqrt(1 + 4 * slope**2))
    smooth = (
        is_componentwise(head)
        and not head.kinks
        and 2 * GRID_REACH_SIGMAS / spacing <= LARGEST_GRID_POINTS
    )
    furthest = task.signal * math.sqrt(sizes)  # of a score's mean
    if (
        smooth
        and not sampled
        and _is_resolved(head, lam, math.sqrt(sizes), task.gamma, furthest, spacing)
    ):
        fine, size = componentwise_heads(task, head, H, G, lam, spacing)
        coarse, _ = componentwise_heads(task, head, H, G, lam, 1.5 * spacing)
        rounding = INNER_PRODUCT_ROUNDING * (1 + slope**2) * size
        return fine, np.abs(fine - coarse) + rounding, "2-D quadrature"
    return *_sampled_excess(task, head, H, G, lam, samples, seed), "Monte Carlo over scores"


@lru_cache(maxsize=256)  # training calls it with the same arguments at every log point
def _is_resolved(
    head: Any, lam: float, size: float, gamma: float, furthest: float, spacing: float
) -> bool:
    """Whether the grid resolves this sigma: its first two moments are compared with those of an
    adaptive rule.

    Known activations turn on the scale 1 for which the spacing is chosen; a user's function may
    not.
    """
    if type(head) in KNOWN_ACTIVATIONS or lam * size == 0:
        return True
    axis, mass = gaussian_grid(spacing)
    for mean, sd in ((0.0, size), (furthest, gamma * size), (-furthest, gamma * size)):
        try:
            truth = resolve(head, ScoreLaw(lam, mean, sd), first_two)
        except AttnscopeError:
            return False
        s = head.activation(lam * (mean + sd * axis))
        away = np.abs(np.array([mass @ s, mass @ (s * s)]) - truth.value)
        if (away > truth.error + MOMENT_AGREEMENT * max(1.0, float(truth.value[1]))).any():
            return False
    return True


# -- any heads: Monte Carlo over the scores --------------------------------------------------------


def _sampled_excess(
    task: Task, head: Predictor, H: int, G: np.ndarray, lam: float, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """(mean, standard error), (R,) each."""
    block = max(1, HEAD_NUMBERS_PER_BLOCK // (4 * task.length * H))
    total = np.zeros(len(G))
    squares = np.zeros(len(G))
    count = 0
    rng = np.random.default_rng([seed, 0x4EAD])
    while count < samples:
        n = min(block, samples - count)
        z = rng.standard_normal((n, task.length, H))
        values = np.stack([_loss_given_scores(task, head, H, g, lam, z) for g in G])  # (R, n)
        delta = values.mean(1) - total  # merged without cancellation (Chan et al.)
        squares += ((values - values.mean(1, keepdims=True)) ** 2).sum(
            1
        ) + delta**2 * count * n / (count + n)
        total += delta * n / (count + n)
        count += n
    return total, np.sqrt(squares / (count - 1) / count)


def _loss_given_scores(
    task: Task, head: Predictor, H: int, G: np.ndarray, lam: float, z: np.ndarray
) -> np.ndarray:
    """E[(T - Y)^2 | scores], (n,); z (n, L, H) are the scores' coordinates,
    informative tokens first.
    """
    F = (len(G) - 2 * H) // 2
    # u, w, y
    order = [*range(0, 2 * H, 2), *range(1, 2 * H, 2), *range(2 * H + 1, len(G), 2)]
    A = lower_factor(G[None][:, order][:, :, order])[0]
    scale = np.where(np.arange(task.length) < F, task.gamma, 1.0)[:, None]
    shift = np.zeros((task.length, len(order)))
    shift[:F] = task.signal * G[2 * H :: 2][:, order]  # row f: the mean of token f
    # (n, L, 2H + F): u, and the means of w and y given u
    seen = shift + scale * (z @ A[:, :H].T)
    # (n, L, H)
    weights = np.stack([head.weights(lam * seen[:, :, h]) for h in range(H)], axis=2)
    label = sum(seen[:, f, 2 * H + f] for f in range(F))
    bias = (weights * seen[:, :, H : 2 * H]).sum((1, 2)) - label
    C = A[H:, H:] @ A[H:, H:].T  # covariance of (w, y) given u
    spread = scale[:, 0] ** 2 * np.einsum(
        "nlh,hg,nlg->nl", weights, C[:H, :H], weights, optimize=True
    )
    for f in range(F):
        spread[:, f] += task.gamma**2 * (C[H + f, H + f] - 2 * weights[:, f] @ C[:H, H + f])
    return bias**2 + spread.sum(1)
