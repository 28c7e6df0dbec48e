"""Small blocks and their baselines, away from their start, and tokens for them."""

import numpy as np

from attnscope.predictors.blocks.transformer import NORM_VARIANCE_FLOOR, TransformerBlock

__all__ = ["BLOCKS", "D", "L", "name", "normed", "shaken", "tokens"]

D, L = 8, 5
BLOCKS = [
    TransformerBlock(D),
    TransformerBlock(D, heads=2, hidden=3),
    TransformerBlock(D, norm=None, hidden=0),
]
name = lambda model: repr(model)


def shaken(model, seed=0):
    """Parameters away from the start: no bias is 0 and no gain 1."""
    rng = np.random.default_rng(seed)
    return {
        key: x + 0.3 * rng.standard_normal(x.shape) for key, x in model.init(seed).items()
    }


def tokens(n=6, length=L, dim=D, seed=1):
    return np.random.default_rng(seed).standard_normal((n, length, dim))


def normed(x, gain, bias):
    return (
        gain
        * (x - x.mean(-1, keepdims=True))
        / np.sqrt(x.var(-1, keepdims=True) + NORM_VARIANCE_FLOOR)
        + bias
    )
