"""A full single-head attention layer and the rungs from it down to the predictors of attention.py.

notation: X (L, d) tokens, Q, K (d, p), V (d, p), O (o, p), lam = inverse temperature, a (d,) the
[CLS] token.

    all rows      T(X) = softmax(lam X Q K^T X^T) X V O^T                   (L, o)
    [CLS] row     softmax(lam a^T Q K^T X^T) X V O^T                        (o,)
    p = o = 1   k = K Q^T a, v = V O^T:   softmax(lam k^T X^T) X v
        = predict(Softmax(lam), k, v, X)

The last line needs only o = 1: whatever p is, K Q^T a is one vector, so a [CLS] row with one output
is softmax attention with one query-key direction and one value direction (`reduced`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from attnscope.deprecated import old_names
from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.attention import Softmax
from attnscope.predictors.inverse_temperature import (
    checked_inverse_temperature,
    constant_inverse_temperature,
)

__all__ = ["FullAttention"]


@old_names
@dataclass(frozen=True, eq=False)
class FullAttention:
    """softmax(lam X Q K^T X^T) X V O^T: all L rows, or the [CLS] row alone.

    Args:
        Q, K: (d, p) each.
        V: (d, p').
        O: (o, p').
        inverse_temperature: lam, which multiplies the scores.

    >>> import attnscope as at
    >>> import numpy as np
    >>> layer = at.FullAttention(np.eye(2), np.eye(2), np.eye(2), np.eye(2), inverse_temperature=0.0)
    >>> layer.rows(np.array([[[1.0, 5.0], [-1.0, 3.0]]])).tolist()
    [[[0.0, 4.0], [0.0, 4.0]]]
    """

    Q: np.ndarray
    K: np.ndarray
    V: np.ndarray
    O: np.ndarray
    inverse_temperature: float

    def __post_init__(self) -> None:
        Q = check.float_array(self.Q, "Q", "FullAttention", (None, None))
        dim, inner = Q.shape
        matrices = {"Q": Q}
        matrices["K"] = check.float_array(self.K, "K", "FullAttention", (dim, inner))
        matrices["V"] = check.float_array(self.V, "V", "FullAttention", (dim, None))
        matrices["O"] = check.float_array(
            self.O, "O", "FullAttention", (None, matrices["V"].shape[1])
        )
        for name, matrix in matrices.items():
            object.__setattr__(self, name, matrix)
        object.__setattr__(
            self,
            "inverse_temperature",
            checked_inverse_temperature(self.inverse_temperature, "FullAttention"),
        )

    def rows(self, tokens: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """All L rows of the layer: (n, L, o) from tokens (n, L, d). Rows of masked tokens are 0."""
        lam = constant_inverse_temperature(self, "FullAttention.rows")
        x, real = check.tokens_array(tokens, "FullAttention.rows", dim=len(self.Q), mask=mask)
        x = x.astype(np.float64)
        scores = lam * np.einsum("nid,dp,ep,nje->nij", x, self.Q, self.K, x, optimize=True)
        out = self._attention_rows(scores, x, None if real is None else real[:, None, :])
        return out if real is None else np.where(real[:, :, None], out, 0.0)

    def cls_row(
        self, tokens: np.ndarray, cls: np.ndarray, mask: np.ndarray | None = None
    ) -> np.ndarray:
        """The row of a [CLS] token `cls` (d,) that attends to tokens (n, L, d): (n, o)."""
        lam = constant_inverse_temperature(self, "FullAttention.cls_row")
        x, real = check.tokens_array(
            tokens, "FullAttention.cls_row", dim=len(self.Q), mask=mask
        )
        a = check.float_array(cls, "cls", "FullAttention.cls_row", (len(self.Q),))
        x = x.astype(np.float64)
        scores = lam * (x @ (self.K @ (self.Q.T @ a)))[:, None, :]  # (n, 1, L)
        return self._attention_rows(scores, x, None if real is None else real[:, None, :])[
            :, 0
        ]

    def reduced(self, cls: np.ndarray) -> tuple[Softmax, np.ndarray, np.ndarray]:
        """(Softmax, k, v) with predict(Softmax, k, v, X) equal to the row of the [CLS] token `cls`
        (d,); needs one output, o = 1.
        """
        if len(self.O) != 1:
            raise bad(
                "O",
                "FullAttention.reduced",
                "a matrix with one row (one output)",
                f"{len(self.O)} rows",
                "O[:1]",
            )
        a = check.float_array(cls, "cls", "FullAttention.reduced", (len(self.Q),))
        return Softmax(self.inverse_temperature), self.K @ (self.Q.T @ a), self.V @ self.O[0]

    def _attention_rows(
        self, scores: np.ndarray, x: np.ndarray, real: np.ndarray | None
    ) -> np.ndarray:
        # (n, rows, L)
        weights = softmax(
            scores if real is None else np.where(real, scores, -np.inf), axis=-1
        )
        return weights @ (x @ self.V @ self.O.T)
