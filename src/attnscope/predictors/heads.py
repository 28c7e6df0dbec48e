"""Several attention heads that add up, and the softmax over heads and tokens together.

notation: lam = inverse temperature, H heads with rows k_h of K and v_h of V, both (H, d).

    MultiHead(head, H)   T(X) = sum_h sum_l weight_l(lam X.k_h) X_l.v_h,
        weights of each head by themselves (head: Softmax, Erf, ...)
    BayesSoftmax(lam, bias, curvature)
                         T(X) = sum_{h,l} p_hl X_l.v_h,
                             p = softmax over ALL pairs (h, l) of lam X_l.k_h + bias_h - curvature
                             |X_l|^2/2

One sequence has one softmax in the second: a head whose direction is absent gets no weight, while a
plain head must spend its weight 1 somewhere. With K the means of SpikeMixture, lam = 1/gam^2, bias
= task.bias, curvature = task.curvature it is Bayes' rule, exactly.

Both are used through `predict(predictor, K, V, tokens, mask)` and
`attention_weights(predictor, K, tokens, mask)`, whose weights are (n, H, L) here. Masked tokens
have weight 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

import numpy as np
from scipy.special import softmax

from attnscope.deprecated import old_names
from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.attention import Heads, Predictor, has_one_head
from attnscope.predictors.inverse_temperature import (
    InverseTemperature,
    checked_inverse_temperature,
    constant_inverse_temperature,
)
from attnscope.predictors.predictions import finite_outputs, sequence_blocks

__all__ = ["BayesSoftmax", "MultiHead", "adds_heads"]


class JointHeads(Heads):
    """`head_weights` gives (n, H, L), the rest follows."""

    heads: int
    inverse_temperature: Any

    def head_weights(
        self, tokens: np.ndarray, keys: np.ndarray, mask: np.ndarray | None
    ) -> np.ndarray:
        """Weights (n, H, L) of float64 tokens (n, L, d)."""
        raise NotImplementedError

    def attention(
        self, K: np.ndarray, tokens: np.ndarray, mask: np.ndarray | None = None
    ) -> np.ndarray:
        """Weights (n, H, L) for keys K (H, d); what `attention_weights` calls."""
        of = "attention_weights"
        constant_inverse_temperature(self, of)
        x, real_token = check.tokens_array(tokens, of, mask=mask)
        keys = self._checked_rows(K, "K", of, x.shape[2])
        return np.concatenate(
            [
                self.head_weights(part, keys, real)
                for part, real in sequence_blocks(x, real_token)
            ]
        )

    def output(
        self, K: np.ndarray, V: np.ndarray, tokens: np.ndarray, mask: np.ndarray | None = None
    ) -> np.ndarray:
        """T(X), (n,); what `predict` calls."""
        of = "predict"
        constant_inverse_temperature(self, of)
        x, real_token = check.tokens_array(tokens, of, mask=mask)
        keys = self._checked_rows(K, "K", of, x.shape[2])
        values = self._checked_rows(V, "V", of, x.shape[2])
        said = lambda part: np.einsum("nld,hd->nhl", part, values)
        out = [
            (self.head_weights(part, keys, real) * said(part)).sum((1, 2))
            for part, real in sequence_blocks(x, real_token)
        ]
        return finite_outputs(out, "rescaled tokens")

    def _checked_rows(self, x: object, what: str, of: str, dim: int) -> np.ndarray:
        return check.float_array(x, what, of, (self.heads, dim), hint="one row per head")


@dataclass(frozen=True)
class MultiHead(JointHeads):
    """`heads` heads of one kind whose outputs are added.

    Args:
        head: one of them, as Softmax(0.5).
        heads: how many, >= 1.

    >>> from attnscope.predictors.attention import Softmax
    >>> from attnscope.predictors.predictions import predict
    >>> tokens = np.array([[[1.0, 5.0], [-1.0, 3.0]]])
    >>> predict(MultiHead(Softmax(0.0), heads=2), np.eye(2), np.eye(2), tokens)  # two means
    array([4.])
    """

    added: ClassVar[bool] = True

    head: Predictor
    heads: int = 2

    def __post_init__(self) -> None:
        if not has_one_head(self.head):
            raise bad(
                "head",
                "MultiHead",
                "a predictor with one head",
                self.head,
                "MultiHead(Softmax(1.0), heads=2)",
            )
        object.__setattr__(self, "heads", check.integer(self.heads, "heads", "MultiHead", 1))

    @property
    def inverse_temperature(self) -> InverseTemperature:
        """That of every head."""
        return self.head.inverse_temperature

    def head_weights(
        self, tokens: np.ndarray, keys: np.ndarray, mask: np.ndarray | None
    ) -> np.ndarray:
        lam = constant_inverse_temperature(self, "MultiHead")
        return np.stack(
            [self.head.weights(lam * (tokens @ key), mask) for key in keys], axis=1
        )


def adds_heads(predictor: object) -> TypeGuard[MultiHead]:
    """Whether this is a sum of heads of one kind, by its own word."""
    return getattr(type(predictor), "added", None) is True


@old_names
@dataclass(frozen=True, eq=False)
class BayesSoftmax(JointHeads):
    """One softmax over heads and tokens jointly, with a bias per head and a term in |x|^2 (module
    docstring).

    Args:
        inverse_temperature: lam.
        bias: (H,); its length is the number of heads.
        curvature: subtracts curvature |X_l|^2/2 from the scores of token l; 1/gam^2 - 1 for Bayes'
            rule, 0 without.

    >>> from attnscope.predictors.predictions import attention_weights
    >>> attention_weights(BayesSoftmax(1.0, bias=(0.0, np.log(3.0))), np.zeros((2, 2)), np.zeros((1, 2, 2)))
    array([[[0.125, 0.125],
            [0.375, 0.375]]])
    """

    inverse_temperature: InverseTemperature = 1.0
    bias: Any = (0.0, 0.0)
    curvature: float = 0.0

    def __post_init__(self) -> None:
        of = "BayesSoftmax"
        object.__setattr__(
            self,
            "inverse_temperature",
            checked_inverse_temperature(self.inverse_temperature, of),
        )
        object.__setattr__(self, "bias", check.float_array(self.bias, "bias", of, (None,)))
        object.__setattr__(self, "curvature", check.real(self.curvature, "curvature", of))

    @property
    def heads(self) -> int:  # type: ignore[override]
        return len(self.bias)

    def head_weights(
        self, tokens: np.ndarray, keys: np.ndarray, mask: np.ndarray | None
    ) -> np.ndarray:
        lam = constant_inverse_temperature(self, "BayesSoftmax")
        scores = lam * np.einsum("nld,hd->nhl", tokens, keys) + self.bias[:, None]
        if self.curvature:
            scores = (
                scores
                - self.curvature / 2 * np.einsum("nld,nld->nl", tokens, tokens)[:, None]
            )
        return softmax(
            scores if mask is None else np.where(mask[:, None], scores, -np.inf), axis=(1, 2)
        )
