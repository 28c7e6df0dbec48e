"""A sample of each bag's tokens that stands for all of them, and the starts that single tokens give.

At most SAMPLE tokens a bag, all where it has no more. Half of it are the tokens that come first, by
the score z.key of each start and by |z|^2; the rest is drawn from the others alike, and each stands
for all of those that it was drawn from:

    r_l ~ w_l exp(l(x_l)) f(y | V^T x_l + b),   w_l = 1 for the first kind, (L - I)/U for the second

(L tokens, I first, U drawn), so that sums over the sample estimate those over the bag, without bias
in numerator and denominator of r.

A token that stands out of thousands is not seen in their moments, hence three more starts: "far",
the mean over bags of the token with the largest |z|^2, and "far+", "far-", the same weighted by the
centred label and by minus the centred label.

notation: t = a token in the working coordinates (long_bags.py), z = W^T (t - m) as in em.py, w_l =
how many tokens token l stands for.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.data import Data, one_hot
from attnscope.estimators.fit.em import Em, distances
from attnscope.estimators.fit.starts import SHIFT

__all__ = ["SAMPLE", "Block", "Far", "Work", "sampled", "sampled_block"]

SAMPLE = 1000  # tokens a bag that starts are compared on: a fifth of a slide's and less


class Block(NamedTuple):
    """Bags of a batch in the working coordinates: tokens (N, k) float32; labels standardised;
    log w (N,), or (1,) zeros where every token stands for itself.
    """

    tokens: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray
    weight: np.ndarray
    log_share: np.ndarray


class Work(NamedTuple):
    """What the passes share: family and outputs of the labels, the caller's zero, sums of all
    tokens of (1, t)(1, t)^T, quadratic gate, ridge of V.
    """

    family: int
    outputs: int
    origin: np.ndarray
    everything: np.ndarray
    quadratic: bool
    ridge: float | None

    def data(self, block: Block) -> Data:
        return Data(
            block.tokens.astype(np.float64),
            block.offsets,
            block.labels,
            block.weight,
            self.family,
            self.outputs,
            self.origin,
        )


def sampled_block(
    block: Block, starts: dict[str, Em], seed: int, first: int, stride: int
) -> Block:
    """Every stride-th bag of all, at most SAMPLE tokens of each; `first` is the number of the
    block's first bag among all.
    """
    model = next(iter(starts.values())).tokens
    keys = np.column_stack([em.tokens.key for em in starts.values()])
    bags = [i for i in range(len(block.labels)) if (first + i) % stride == 0]
    tokens, shares, lengths = [], [], [0]
    for i in bags:
        t = block.tokens[block.offsets[i] : block.offsets[i + 1]]
        share = np.zeros(len(t))
        if len(t) > SAMPLE:
            z = (t - model.mean) @ model.whiten
            standing = np.column_stack([z @ keys, np.einsum("ij,ij->i", z, z)])
            rows, share = sampled(standing, np.random.default_rng([seed, 4, first + i]))
            t = t[rows]
        tokens.append(t)
        shares.append(share)
        lengths.append(len(t))
    bag = np.array(bags, dtype=int)
    return Block(
        np.concatenate(tokens) if tokens else block.tokens[:0],
        np.cumsum(lengths),
        block.labels[bag],
        block.weight[bag],
        np.concatenate(shares) if shares else np.zeros(0),
    )


def sampled(standing: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Which SAMPLE of a bag's tokens, and the log of how many each stands for; standing (L, q):
    what the first are chosen by, q orders.
    """
    length, orders = standing.shape
    each = max(SAMPLE // 2 // orders, 1)
    first = np.unique(np.argpartition(-standing, each, axis=0)[:each])
    others = np.setdiff1d(np.arange(length), first, assume_unique=True)
    drawn = rng.choice(others, SAMPLE - len(first), replace=False)
    rows = np.concatenate([first, drawn])
    share = np.zeros(len(rows))
    share[len(first) :] = np.log(len(others) / len(drawn))
    order = np.argsort(rows)
    return rows[order], share[order]


class Far:
    """Additive sums behind the starts "far": over bags of weight times (1, y) times the token that
    is farthest out.
    """

    def __init__(self, outputs: int, width: int) -> None:
        self.sums = np.zeros((1 + outputs, width))
        self.weights = np.zeros(1 + outputs)

    def add(self, block: Block, starts: dict[str, Em], work: Work) -> None:
        model = next(iter(starts.values())).tokens
        data = work.data(block)
        far = distances(model, data.tokens)[1]
        rows = [
            start + int(np.argmax(far[start:stop])) for start, stop in pairwise(block.offsets)
        ]
        z = (data.tokens[rows] - model.mean) @ model.whiten
        y = np.column_stack([np.ones(data.size), one_hot(data)]) * block.weight[:, None]
        self.sums += y.T @ z
        self.weights += y.sum(axis=0)

    def starts(self, others: dict[str, Em]) -> dict[str, Em]:
        mean = self.sums[0] / self.weights[0]
        by_label = self.sums[1:] - self.weights[1:, None] * mean
        label = by_label[np.argmax(np.einsum("ij,ij->i", by_label, by_label))]
        em = next(iter(others.values()))
        keys = {"far": mean, "far+": label, "far-": -label}
        return {
            name: em._replace(
                tokens=em.tokens._replace(
                    key=SHIFT * key / max(float(np.linalg.norm(key)), 1e-12)
                )
            )
            for name, key in keys.items()
        }
