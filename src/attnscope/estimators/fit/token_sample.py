"""A weighted sample of each bag's tokens, and starts from single tokens.

A sample has at most SAMPLE_TOKENS_PER_BAG tokens; shorter bags keep all. Half of it are the leading
tokens by the score z.key of each start and by |z|^2. The rest is drawn uniformly from the other
tokens, and each drawn token represents several of them:

    r_l ~ w_l exp(l(x_l)) f(y | V^T x_l + b),   w_l = 1 for leading tokens, (L - I)/U for drawn ones

(L tokens, I leading, U drawn). So sums over the sample are unbiased estimates of sums over the bag,
in the numerator and the denominator of r.

The moments of thousands of tokens do not show a single one that stands out. Hence three more
starts: "far", the mean over bags of the token with the largest |z|^2, and "far+", "far-", the same
mean weighted by the centred label and by minus the centred label.

notation: t = a token in the working coordinates (long_bags.py), z = W^T (t - m) as in em.py, w_l =
the number of tokens that token l represents.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.data import Data, one_hot
from attnscope.estimators.fit.em import Em, distances
from attnscope.estimators.fit.starts import START_KEY_LENGTH

__all__ = [
    "SAMPLE_TOKENS_PER_BAG",
    "Block",
    "FarthestTokens",
    "Work",
    "sample_block",
    "sample_tokens",
]

SAMPLE_TOKENS_PER_BAG = 1000  # to compare starts: a fifth of a slide's tokens or less


class Block(NamedTuple):
    """Bags of a batch in the working coordinates: tokens (N, k) float32; labels standardised;
    log w (N,), or (1,) zeros if every token represents itself only.
    """

    tokens: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray
    weight: np.ndarray
    log_share: np.ndarray


class Work(NamedTuple):
    """The common data of all passes: family and outputs of the labels, the caller's zero, sums of all
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


def sample_block(
    block: Block, starts: dict[str, Em], seed: int, first: int, stride: int
) -> Block:
    """Every stride-th bag, with at most SAMPLE_TOKENS_PER_BAG tokens each; `first` is the number of
    the block's first bag among all bags.
    """
    model = next(iter(starts.values())).tokens
    keys = np.column_stack([em.tokens.key for em in starts.values()])
    bags = [i for i in range(len(block.labels)) if (first + i) % stride == 0]
    tokens, shares, lengths = [], [], [0]
    for i in bags:
        t = block.tokens[block.offsets[i] : block.offsets[i + 1]]
        share = np.zeros(len(t))
        if len(t) > SAMPLE_TOKENS_PER_BAG:
            z = (t - model.mean) @ model.whiten
            standing = np.column_stack([z @ keys, np.einsum("ij,ij->i", z, z)])
            rows, share = sample_tokens(standing, np.random.default_rng([seed, 4, first + i]))
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


def sample_tokens(
    standing: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The sampled tokens of a bag, and the log of how many tokens each represents; standing (L, q):
    the q orders by which the leading tokens are chosen.
    """
    length, orders = standing.shape
    each = max(SAMPLE_TOKENS_PER_BAG // 2 // orders, 1)
    first = np.unique(np.argpartition(-standing, each, axis=0)[:each])
    others = np.setdiff1d(np.arange(length), first, assume_unique=True)
    drawn = rng.choice(others, SAMPLE_TOKENS_PER_BAG - len(first), replace=False)
    rows = np.concatenate([first, drawn])
    share = np.zeros(len(rows))
    share[len(first) :] = np.log(len(others) / len(drawn))
    order = np.argsort(rows)
    return rows[order], share[order]


class FarthestTokens:
    """Additive sums for the starts "far": over bags, of weight times (1, y) times the token farthest
    from the centre.
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
                    key=START_KEY_LENGTH * key / max(float(np.linalg.norm(key)), 1e-12)
                )
            )
            for name, key in keys.items()
        }
