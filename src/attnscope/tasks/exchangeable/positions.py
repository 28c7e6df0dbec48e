"""Positions: tokens as (content, position) pairs, and a label that only the order decides.

Attention sums over tokens, so it cannot see their order: any permutation of (key, value) pairs
gives the same output. If each token carries its position, the sequence becomes a set of pairs.
Nothing about order is lost, and a permutation invariant map of the pairs can use it: that is how
positional encodings make token sequences exchangeable in BERT and ViT.

The order task. y = +1 or -1 with equal probability; of L tokens two at random places are the
symbols A and B, A first if y = +1, B first otherwise; the others are fillers. The multiset of
contents has the same law for both labels, so without positions the Bayes predictor is 0 (risk 1);
with them it is sign(position of B - position of A) (risk 0). Both exact. Fewer than two tokens hold
no pair: the prior.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.whole_values import array_of

__all__ = ["OrderBatch", "OrderTask", "attach_positions", "encode_positions"]

ENCODINGS = ("one-hot", "sinusoidal")
LONGEST_WAVE = 10_000.0  # base of the sinusoidal frequencies, as in Vaswani et al. 2017


def encode_positions(
    positions: np.ndarray, width: int, encoding: str = "one-hot"
) -> np.ndarray:
    """Vectors (..., L, width) for integer positions (..., L).

    "one-hot": the unit vector of the position (width > largest position). "sinusoidal": cosines and
    sines of position/10000^{2i/width}.

    >>> encode_positions(np.array([1, 0]), 3)
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """
    of = "encode_positions"
    width = check.integer(width, "width", of, 1)
    if encoding not in ENCODINGS:
        raise bad("encoding", of, f"one of {ENCODINGS}", encoding)
    p = array_of(positions, "positions", of, "integers >= 0, (..., L)")
    if p.ndim < 1 or (p.size and (p.dtype.kind not in "iu" or p.min() < 0)):
        raise bad(
            "positions",
            of,
            "integers >= 0, (..., L)",
            f"dtype {p.dtype}, shape {p.shape}",
            "numpy.arange(L)",
        )
    if encoding == "one-hot":
        if p.size and p.max() >= width:
            raise bad(
                "width",
                of,
                f"greater than the largest position {p.max()}",
                width,
                f"width={p.max() + 1}",
            )
        return (p[..., None] == np.arange(width)).astype(np.float64)
    angles = p[..., None] / LONGEST_WAVE ** (2 * np.arange((width + 1) // 2) / width)
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(*p.shape, -1)[
        ..., :width
    ]


def attach_positions(
    content: np.ndarray,
    positions: np.ndarray | None = None,
    width: int | None = None,
    encoding: str = "one-hot",
) -> np.ndarray:
    """The pairs (content, position) as vectors (..., L, d + width).

    Args:
        content: (..., L, d).
        positions: (..., L), integers >= 0; 0 .. L-1 if None.
        width: numbers a position takes; L if None.
        encoding: "one-hot" or "sinusoidal".

    >>> import attnscope as at
    >>> import numpy as np
    >>> at.attach_positions(np.array([[1.0], [2.0]]))
    array([[1., 1., 0.],
           [2., 0., 1.]])
    """
    of = "attach_positions"
    x = context_array(content, "content", of, (None, None))
    given = np.arange(x.shape[-2]) if positions is None else positions
    p = array_of(given, "positions", of, "integers >= 0, (..., L)")
    if p.shape[-1:] != x.shape[-2:-1]:
        raise bad(
            "positions", of, f"one for each of the {x.shape[-2]} tokens", f"shape {p.shape}"
        )
    code = encode_positions(p, max(1, x.shape[-2]) if width is None else width, encoding)
    return np.concatenate(
        [x, np.broadcast_to(code, (*x.shape[:-1], code.shape[-1]))], axis=-1
    )


class OrderBatch(NamedTuple):
    """content (n, L, symbols) one-hot, positions (n, L), target (n,), latent order (n,)
    in {-1, 1}.
    """

    content: np.ndarray
    positions: np.ndarray
    target: np.ndarray
    latent: np.ndarray


class OrderTask:
    """Does symbol 0 (A) come before symbol 1 (B)?

    Args:
        symbols: size of the alphabet, >= 3; symbols 2, 3, ... are fillers.
        noise: standard deviation of the target around the order, +1 or -1.

    >>> task = OrderTask()
    >>> batch = task.sample(5, length=6, seed=0)
    >>> bool((task.bayes_predict(batch.content, batch.positions) == batch.latent).all())
    True
    >>> task.bayes_predict(batch.content)
    array([0., 0., 0., 0., 0.])
    """

    def __init__(self, symbols: int = 4, noise: float = 0.0) -> None:
        self.symbols = check.integer(symbols, "symbols", "OrderTask", 3)
        self.noise = check.real(noise, "noise", "OrderTask", 0)

    def __repr__(self) -> str:
        return f"OrderTask(symbols={self.symbols}, noise={self.noise:g})"

    def sample(self, n: int, length: int, seed: int = 0) -> OrderBatch:
        """Draw n sequences of `length` >= 0 tokens."""
        of = "OrderTask.sample"
        n = check.integer(n, "n", of, 1)
        length = check.integer(length, "length", of, 0)
        check.fits_in_memory(
            n * length * (self.symbols + 2), 8, "content", of, "fewer sequences at a time"
        )
        rng = np.random.default_rng(check.seed_value(seed, of))
        order = rng.choice([-1.0, 1.0], size=n)
        symbol = rng.integers(2, self.symbols, size=(n, length))
        if length >= 2:
            first = rng.integers(length, size=n)
            second = rng.integers(length - 1, size=n)
            second += second >= first  # uniform over ordered pairs of places
            early = np.minimum(first, second)
            late = np.maximum(first, second)
            rows = np.arange(n)
            symbol[rows, np.where(order > 0, early, late)] = 0
            symbol[rows, np.where(order > 0, late, early)] = 1
        positions = np.broadcast_to(np.arange(length), (n, length)).copy()
        return OrderBatch(
            np.eye(self.symbols)[symbol],
            positions,
            order + self.noise * rng.standard_normal(n),
            order,
        )

    def posterior(
        self, content: np.ndarray, positions: np.ndarray | None = None
    ) -> np.ndarray:
        """P(A before B | content, positions), (...);
        1/2 without positions, or without both symbols.
        """
        return (1 + self.bayes_predict(content, positions)) / 2

    def bayes_predict(
        self, content: np.ndarray, positions: np.ndarray | None = None
    ) -> np.ndarray:
        """E[y | content, positions], (...), of content (..., L, symbols) and positions (..., L);
        0 without positions.
        """
        x = context_array(content, "content", "OrderTask.bayes_predict", (None, self.symbols))
        if positions is None or x.shape[-2] < 2:
            return np.zeros(x.shape[:-2])
        p = context_array(positions, "positions", "OrderTask.bayes_predict", (x.shape[-2],))
        both = (x[..., 0].sum(axis=-1) == 1) & (x[..., 1].sum(axis=-1) == 1)
        return np.where(both, np.sign(np.sum(p * (x[..., 1] - x[..., 0]), axis=-1)), 0.0)

    def bayes_risk(self, length: int, positions: bool = True) -> Estimate:
        """E(y - E[y | ...])^2: noise^2 with positions (from two tokens on), 1 + noise^2 without."""
        length = check.integer(length, "length", "OrderTask.bayes_risk", 0)
        return estimate(
            0.0 if positions and length >= 2 else 1.0, 0.0, "closed form", self.noise
        )
