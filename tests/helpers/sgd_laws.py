"""Laws of SGD: settings, SGD on vectors in plain NumPy as the reference, and the comparison.

The reference has its gradients by hand: no JAX, no projections, no shared code. Compared are all
inner products of the trained vectors among themselves and with the teachers, and all products of
two of these, by two-sample Kolmogorov-Smirnov tests.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import erf, expit, kolmogorov, softmax

from attnscope.predictors.attention import Erf, Softmax, SoftmaxOne
from attnscope.tasks.planted.single_location import SingleLocation


@dataclass(frozen=True)
class Case:
    """One law: the setting, the start (an index into random Gram matrices),
    and after which steps it is compared.
    """

    name: str
    kind: str  # of the predictor
    dim: int
    loss: str = "squared"
    heads: int = 1
    informative: int = 1
    length: int = 4
    batch: int = 2
    gamma: float = 0.5
    signal: float = 1.5
    noise: float = 0.3
    lam: float = 0.8
    # steps of order one: the out-of-span part then matters as much as the rest
    alpha: float = 0.5
    constraint: str = "sphere"
    start: str = "generic"

    @property
    def trained(self):
        return 2 * self.heads

    @property
    def comparisons(self):
        count = len(self.pairs())
        return count + count * (count + 1) // 2

    def pairs(self):
        """Index pairs of the Gram matrix that move."""
        n = self.trained + 2 * self.informative
        m = self.trained
        return [
            (i, j)
            for i in range(m)
            for j in range(i if self.constraint == "free" else i + 1, n)
        ]

    def vectors(self):
        """Start vectors (n, d): unit, not orthogonal among the trained ones;
        teachers (k_i*, v_i*) with a common angle.
        """
        rng = np.random.default_rng(5)
        x = rng.standard_normal((self.trained + 2 * self.informative, self.dim))
        x[: self.trained] += (
            1.5 * x[self.trained : 2 * self.trained] if self.heads == self.informative else 0
        )
        if self.start == "k = v*":
            x[0] = x[self.trained + 1]
        return x / np.linalg.norm(x, axis=1, keepdims=True)


# -- the reference: SGD on vectors, in NumPy -------------------------------------------------------


def numpy_sgd(case, runs, steps, seed):
    """Gram matrices (runs, n, n) after `steps` steps of full-dimensional SGD."""
    rng = np.random.default_rng(seed)
    block = max(1, 2_000_000 // (case.batch * case.length * case.dim))
    parts = []
    for first in range(0, runs, block):
        x = np.repeat(case.vectors()[None], min(block, runs - first), axis=0)
        for _ in range(steps):
            x = numpy_step(case, x, rng)
        parts.append(x @ x.transpose(0, 2, 1))
    return np.concatenate(parts)


def softmax_weights(scores, sink):
    """softmax over the tokens (runs, B, L, heads), beside one more score of 0 if there is a sink."""
    if sink:
        scores = np.concatenate([scores, np.zeros_like(scores[:, :, :1])], axis=2)
        return softmax(scores, axis=2)[:, :, :-1]
    return softmax(scores, axis=2)


def numpy_step(case, x, rng):
    trained = x[:, : case.trained]
    teachers = x[:, case.trained :]
    X = rng.standard_normal((len(x), case.batch, case.length, case.dim))
    label = case.noise * rng.standard_normal((len(x), case.batch))
    for i in range(case.informative):
        X[:, :, i] = case.signal * teachers[:, None, 2 * i] + case.gamma * X[:, :, i]
        label += np.einsum("rbd,rd->rb", X[:, :, i], teachers[:, 2 * i + 1])
    seen = np.einsum("rbld,rad->rbla", X, trained, optimize=True)
    # (runs, B, L, heads)
    u = seen[..., 0::2]
    w = seen[..., 1::2]
    if case.kind in ("softmax", "softmax-one"):
        weight = softmax_weights(case.lam * u, case.kind == "softmax-one")
        slope = case.lam * weight * (w - (weight * w).sum(2, keepdims=True))
    else:
        weight = erf(case.lam * u)
        slope = case.lam * 2 / np.sqrt(np.pi) * np.exp(-((case.lam * u) ** 2)) * w
    T = (weight * w).sum((2, 3))
    if case.loss == "squared":
        pull = 2 * (T - label)
    else:
        pull = -np.sign(label) * expit(-np.sign(label) * T)
    c = np.empty_like(seen)
    c[..., 0::2], c[..., 1::2] = slope, weight
    c *= pull[:, :, None, None] / case.batch
    g = np.einsum("rbla,rbld->rad", c, X, optimize=True)
    if case.constraint == "free":
        moved = trained - case.alpha * g
    else:
        moved = trained - case.alpha * (g - (g * trained).sum(2, keepdims=True) * trained)
        moved /= np.linalg.norm(moved, axis=2, keepdims=True)
    return np.concatenate([moved, teachers], axis=1)


reference = cache(numpy_sgd)


def setting(case):
    task = SingleLocation(
        case.dim, case.length, gamma=case.gamma, noise=case.noise, signal=case.signal
    )
    kinds = {"softmax": Softmax, "softmax-one": SoftmaxOne, "erf": Erf}
    return task, kinds[case.kind](case.lam)


# -- the comparison --------------------------------------------------------------------------------


def smallest_p(case, G, H):
    """Smallest p-value over all inner products that move and all products of two of them."""
    pairs = case.pairs()
    assert np.isfinite(G).all() and np.isfinite(H).all()
    a, b = (np.stack([M[:, i, j] for i, j in pairs]) for M in (G, H))
    left, right = np.triu_indices(len(pairs))
    tests = [(a[i], b[i]) for i in range(len(pairs))] + [
        (a[i] * a[j], b[i] * b[j]) for i, j in zip(left, right)
    ]
    assert len(tests) == case.comparisons
    return min(ks_p(x, y) for x, y in tests)


def moved(sgd, case, runs, steps, seed):
    """Gram matrices after `steps` of an engine, every run from the case's vectors."""
    x = case.vectors()
    state = sgd.start(np.repeat((x @ x.T)[None], runs, axis=0), seed)
    return sgd.advance(state, np.full(steps, case.lam))["gram"]


def ks_p(x, y):
    """p-value of the two-sample statistic by its limit law,
    which errs on the safe side for finite samples.
    """
    x, y = np.sort(x), np.sort(y)
    both = np.concatenate([x, y])
    gap = np.abs(
        np.searchsorted(x, both, "right") / len(x)
        - np.searchsorted(y, both, "right") / len(y)
    ).max()
    return kolmogorov(gap * np.sqrt(len(x) * len(y) / (len(x) + len(y))))


def as_gram(case, overlaps):
    """(runs, 4, 4) with the entries that `pairs` reads."""
    G = np.ones((overlaps.shape[1], 4, 4))
    for (i, j), x in zip([(0, 2), (0, 3), (1, 2), (1, 3), (0, 1)], overlaps):
        G[:, i, j] = x
    return G


def orthogonal_start(runs):
    return np.repeat(np.array([[0.3, -0.4, 0.2, 0.5, 0.1]]).T, runs, axis=1)
