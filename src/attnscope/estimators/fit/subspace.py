"""The widest directions of the tokens, and models fitted in them as models of whole tokens.

notation: x = a standardised token (d,), C = E x x^T over tokens, e_j and s_j^2 = its eigenvectors
and eigenvalues, largest first; P = (e_1 .. e_k).

    t = B^T x (k,),  B = A = P, so that B^T A = I:  uncorrelated, of variances s_j^2.

Distances and slopes keep their size, so a ridge on a model of t equals the ridge on the same model
of x: a fit in k directions is the fit of whole tokens restricted to them. With directions of unit
variance the ridge would treat the last like the first, and the last ones would add noise (300
planted bags, values falling as 1/i: NMSE .038 in 64 directions and .042 to .046 in 128; with the
original variances .036 in both). For classes, where the first ridge is fixed in units of a standard
deviation, and in `long_bags`, directions are `scaled`: B = P S^-1, A = P S, S = diag(s_1 .. s_k).

A function of t is a function of x. `lift_model` writes a model of t as a model of x:

    token model         W^T (t - m) = (B W)^T (x - A m)
    gate and waves      g.t = (B g).x
    values              V^T t = (B V)^T x
    their uncertainty   R^T (t - c) = (B R)^T (x - A c)
    |t|^2               = |B^T x|^2: the feature map keeps B for it

This is exact up to rounding. The e_j come from the smaller of the two Gram matrices if it has at
most MAX_EXACT_ROWS rows, otherwise from randomised range finding (Halko, Martinsson, Tropp 2011)
with POWER_ITERATIONS power iterations on at most SUBSPACE_TOKEN_COUNT tokens. Then the span of the
leading directions is approximate, but B is exact: s_j is the spread measured along the e_j found.
Additive sums give the same (`subspace_from_moments`) if d is small enough for a d by d matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.mixture import Fitted

__all__ = [
    "Subspace",
    "lift_model",
    "nested_subspace",
    "project_data",
    "subspace_from_moments",
    "subspace_of",
]

# rows of the smaller Gram matrix up to which its eigenvectors are computed directly: half a second
MAX_EXACT_ROWS = 1000
# tokens from which directions are learnt: 60 per direction for 128 directions, whose errors (about
# sqrt(1/60) of a direction each) stay within the span of the leading ones
SUBSPACE_TOKEN_COUNT = 8000
EXTRA_SKETCH_COLUMNS = 16  # columns of the sketch beyond those asked for
# eigenvalues that fall as 1/i are separated from the tail to a per cent after three
POWER_ITERATIONS = 3
# s_j^2 over the largest below which a direction is a rounding error
ZERO_VARIANCE_SHARE = 1e-10


class Subspace(NamedTuple):
    """B (d, k), A (d, k) and s^2 (k,), of the module's docstring."""

    basis: np.ndarray
    back: np.ndarray
    variance: np.ndarray

    def first(self, k: int) -> Subspace:
        """The k widest of these directions."""
        return Subspace(
            np.ascontiguousarray(self.basis[:, :k]),
            np.ascontiguousarray(self.back[:, :k]),
            self.variance[:k],
        )

    def scaled(self) -> Subspace:
        """The same directions with coordinates of unit variance."""
        spread = np.sqrt(self.variance)
        return Subspace(self.basis / spread, self.back * spread, self.variance)


def subspace_of(
    tokens: np.ndarray, k: int, seed: int, weight: np.ndarray | None = None
) -> Subspace:
    """At most k widest directions of standardised tokens (N, d) with weights (N,); fewer where the
    tokens span fewer.
    """
    total = float(len(tokens) if weight is None else weight.sum())
    rows = tokens if weight is None else tokens * np.sqrt(weight)[:, None]
    n, d = rows.shape
    k = min(k, n, d)
    if min(n, d) <= MAX_EXACT_ROWS:
        small = rows.T @ rows if d <= n else rows @ rows.T
        size = len(small)
        square, vectors = eigh(small, subset_by_index=(size - k, size - 1))
        square = np.maximum(square, 0)
        if d > n:
            vectors = rows.T @ (vectors / np.sqrt(np.maximum(square, 1e-300)))
        return _nonzero_directions(vectors[:, ::-1], square[::-1] / total)
    sketch = np.random.default_rng([seed, 3]).standard_normal(
        (d, min(k + EXTRA_SKETCH_COLUMNS, n, d))
    )
    for _ in range(POWER_ITERATIONS):
        sketch = np.linalg.qr(rows.T @ (rows @ sketch))[0]
    inside = rows @ sketch
    square, turn = np.linalg.eigh(inside.T @ inside)
    vectors = sketch @ turn[:, ::-1][:, :k]
    return _nonzero_directions(vectors, square[::-1][:k] / total)


def nested_subspace(inner: Subspace, outer: Subspace) -> Subspace:
    """`inner` in the coordinates of `outer`, which spans it (nearly, where a sketch found either)."""
    return Subspace(outer.back.T @ inner.basis, outer.basis.T @ inner.back, inner.variance)


def subspace_from_moments(covariance: np.ndarray, k: int) -> Subspace:
    """The k widest directions from C (d, d), which is additive over batches."""
    d = len(covariance)
    square, vectors = eigh(covariance, subset_by_index=(max(d - k, 0), d - 1))
    return _nonzero_directions(vectors[:, ::-1], square[::-1])


def _nonzero_directions(vectors: np.ndarray, square: np.ndarray) -> Subspace:
    there = square > ZERO_VARIANCE_SHARE * max(float(square[0]), 0.0)
    there[0] = True  # tokens without any spread keep one direction
    basis = np.ascontiguousarray(vectors[:, there])
    return Subspace(basis, basis, np.where(square > 0, square, 1.0)[there])


def project_data(data: Data, space: Subspace) -> Data:
    """The same bags in the coordinates t."""
    origin = None if data.origin is None else data.origin @ space.basis
    return data._replace(tokens=data.tokens @ space.basis, origin=origin)


def lift_model(fitted: Fitted, space: Subspace) -> Fitted:
    """A model of t as a model of whole standardised tokens x, with the same answers."""
    k = space.basis.shape[1]
    tokens = fitted.tokens
    if tokens is not None:
        tokens = tokens._replace(
            mean=space.back @ tokens.mean, whiten=space.basis @ tokens.whiten
        )
    values = fitted.values
    root = space.basis @ values.root if values.root.size else np.zeros((len(space.basis), 0))
    return fitted._replace(
        tokens=tokens,
        gate=np.concatenate([space.basis @ fitted.gate[:k], fitted.gate[k:]]),
        features=fitted.features._replace(
            frequency=space.basis @ fitted.features.frequency, basis=space.basis
        ),
        values=values._replace(
            weights=space.basis @ values.weights, centre=space.back @ values.centre, root=root
        ),
    )
