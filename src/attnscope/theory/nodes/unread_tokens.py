"""Moments of the tokens that no label reads, for weights that act on each score alone.

notation: t_l = sum_h a_h(u_hl) w_hl what token l adds to the output; R the tokens a label reads.

Given the latent, tokens are independent. Where weights are componentwise, a token outside R adds a
t_l that is independent of the label and of the other tokens, and a squared loss needs two of its
moments, no nodes:

    E (y - sum_l t_l)^2 = E (y - sum_R t_l - M)^2 + V,    M = sum E t_l,   V = sum Var t_l   outside R.

The moments are integrals over the H scores of one token (student_gram.py), by midpoint rules with
normal weights of MIDPOINT_RULE_SIZES sizes: exponentially exact for smooth activations, of error
h^2 at a kink. Where two sizes differ by more than LARGEST_RULE_DIFFERENCE (a jump, a very high
inverse temperature), every token has nodes of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnscope.theory.nodes.midpoint import midpoint_grid
from attnscope.theory.nodes.student_gram import Seen

__all__ = [
    "MIDPOINT_RULE_SIZES",
    "Apart",
    "Moments",
    "apart_of",
    "moments_of",
    "taken",
    "token_moments",
]

# points per axis of two midpoint rules, neither a multiple of the other, by the number of heads; on
# one axis a kink is resolved to 1e-7
MIDPOINT_RULE_SIZES = {1: (6007, 8009), 2: (127, 160)}
LARGEST_RULE_DIFFERENCE = 1e-7  # relative; if two rules differ by more, nodes replace them
NO_TOKEN = -1  # fills up a list of tokens


class Apart(NamedTuple):
    """kept (m, K): the tokens that have nodes, NO_TOKEN beyond. means (A, r), scales (A,): kinds of
    the other tokens; numbers (m, A): how many of each kind a block has.
    """

    kept: np.ndarray
    means: np.ndarray
    scales: np.ndarray
    numbers: np.ndarray


class Moments(NamedTuple):
    """mean, variance (m,) of what the tokens apart add; how far two rules differ in both."""

    mean: np.ndarray
    variance: np.ndarray
    mean_error: np.ndarray
    variance_error: np.ndarray

    def error(self, square: np.ndarray) -> np.ndarray:
        """(m,) what this may move a risk by; `square` (m,): the mean square of the label."""
        root = np.sqrt(square) + np.abs(self.mean)
        return 2 * root * self.mean_error + self.variance_error

    def settled(self, square: np.ndarray) -> bool:
        """Whether the rules agree."""
        return bool(
            (
                self.error(square)
                <= LARGEST_RULE_DIFFERENCE * (square + self.mean**2 + self.variance)
            ).all()
        )


def apart_of(means: np.ndarray, scales: np.ndarray, reads: np.ndarray) -> Apart | None:
    """The unread tokens of blocks with means (m, L, r), scales (m, L), reads (m, L, r); None where
    all tokens are read.
    """
    m, L, r = means.shape
    read: np.ndarray = np.asarray(reads.any(axis=2))
    if read.all():
        return None
    width = max(1, int(read.sum(1).max()))
    kept = np.full((m, width), NO_TOKEN)
    for i in range(m):
        own = np.flatnonzero(read[i])
        kept[i, : len(own)] = own
    rows = np.concatenate([means, scales[:, :, None]], axis=2).reshape(-1, r + 1)
    kinds, place = np.unique(rows, axis=0, return_inverse=True)
    numbers = np.zeros((m, len(kinds)))
    blocks = np.repeat(np.arange(m), L)
    np.add.at(numbers, (blocks, place.ravel()), np.where(read.ravel(), 0.0, 1.0))
    used = numbers.sum(axis=0) > 0
    return Apart(kept, kinds[used, :r], kinds[used, r], numbers[:, used])


def taken(rows: np.ndarray, kept: np.ndarray, axis: int) -> np.ndarray:
    """The tokens `kept` (K,) along an axis; zeros for NO_TOKEN."""
    out = np.take(rows, np.maximum(kept, 0), axis=axis)
    shape = [1] * out.ndim
    shape[axis] = len(kept)
    return out * (kept != NO_TOKEN).reshape(shape)


def moments_of(apart: Apart, head: Any, heads: int, law: Seen, lam: float) -> Moments:
    """The moments, with NumPy; `law` is what is seen of tokens of which nothing is read."""
    weigh = lambda scores: head.weights(scores.reshape(-1, 1)).reshape(scores.shape)
    found = [
        token_moments(apart, weigh, heads, law, lam, *midpoint_grid(heads, count))
        for count in MIDPOINT_RULE_SIZES[heads]
    ]
    mean, variance = found[-1]
    return Moments(
        apart.numbers @ mean,
        apart.numbers @ variance,
        apart.numbers @ np.abs(mean - found[0][0]),
        apart.numbers @ np.abs(variance - found[0][1]),
    )


def token_moments(
    apart: Apart, weigh: Any, heads: int, law: Seen, lam: Any, points: Any, heft: Any,
    xp: Any = np,
) -> tuple[Any, Any]:  # fmt: skip
    """(A,) means and variances of t, one token of each kind, with NumPy or jax.numpy."""
    offset = apart.means @ law.on_means[0].T  # (A, a)
    noise = points @ law.on_normals[0].T  # (N, a)
    fields = offset[:, :, None] + apart.scales[:, None, None] * noise.T[None]
    weights = weigh(lam * fields[:, :heads])
    t = (weights * fields[:, heads:]).sum(1)
    mean = t @ heft
    left = xp.einsum("agn,ahn,gh->an", weights, weights, law.left[0])
    spread = (t - mean[:, None]) ** 2 + apart.scales[:, None] ** 2 * left
    return mean, spread @ heft
