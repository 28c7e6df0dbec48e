"""Bags of five tokens in which one says the label, and the variant that is quick on them."""

import attnscope as at

__all__ = ["QUICK", "TASK", "TEST", "TRAIN", "X", "Y"]

TASK = at.SingleLocation(dim=6, length=5, signal=5.0, noise=0.1, seed=3)
TRAIN = TASK.sample(150, seed=1)
TEST = TASK.sample(300, seed=2)
X = TRAIN.tokens
Y = TRAIN.target
QUICK = {"gate": "quadratic", "pooling": "softmax", "loss": "mixture", "n_starts": 4}
