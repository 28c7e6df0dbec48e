"""What a predictor says of tokens, given its vectors: weights and predictions, T(X) = sum_l
weight_l X_l.v.

Tokens (n, L, d) are worked on in parts of a few megabytes; masked tokens have weight 0. notation:
k, v key and value, as in attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.attention import Heads, Predictor, has_one_head
from attnscope.predictors.inverse_temperature import constant_inverse_temperature

__all__ = ["attention_weights", "predict", "sequence_blocks"]

BLOCK_NUMBERS = 1 << 20  # numbers worked on at a time: 8 MB arrays


def _has_several_heads(predictor: object) -> TypeGuard[Heads]:
    return getattr(type(predictor), "one_head", None) is False


def attention_weights(
    predictor: Predictor | Heads,
    k: np.ndarray,
    tokens: np.ndarray,
    mask: np.ndarray | None = None,
) -> np.ndarray:
    """Weights (n, L) that the predictor gives to tokens; (n, H, L) for H heads.

    Args:
        predictor: one head, or heads.
        k: (d,), the query-key direction; (H, d) for heads.
        tokens: (n, L, d).
        mask: (n, L), True = real token; None: all are.

    >>> from attnscope.predictors.attention import Softmax
    >>> attention_weights(Softmax(1.0), np.array([1.0, 0.0]), np.array([[[0.0, 5.0], [0.0, -3.0]]]))
    array([[0.5, 0.5]])
    """
    of = "attention_weights"
    if _has_several_heads(predictor):
        return predictor.attention(k, tokens, mask)
    head = _checked_predictor(predictor, of)
    lam = constant_inverse_temperature(head, of)
    x, real_token = check.tokens_array(tokens, of, mask=mask)
    direction = check.float_array(k, "k", of, (x.shape[2],))
    parts = sequence_blocks(x, real_token)
    rows = [head.weights(lam * (part @ direction), real) for part, real in parts]
    return np.concatenate(rows)


def predict(
    predictor: Predictor | Heads,
    k: np.ndarray,
    v: np.ndarray,
    tokens: np.ndarray,
    mask: np.ndarray | None = None,
) -> np.ndarray:
    """T(X) = sum_l weight_l X_l.v, (n,).

    Args:
        predictor: one head, or heads.
        k, v: (d,), the directions; (H, d) for heads.
        tokens: (n, L, d).
        mask: (n, L), True = real token; None: all are.

    >>> import attnscope as at
    >>> import numpy as np
    >>> tokens = np.array([[[1.0, 5.0], [-1.0, 3.0]]])
    >>> key, value = np.eye(2)
    >>> at.predict(at.Softmax(0.0), key, value, tokens)
    array([4.])
    """
    of = "predict"
    if _has_several_heads(predictor):
        return predictor.output(k, v, tokens, mask)
    head = _checked_predictor(predictor, of)
    lam = constant_inverse_temperature(head, of)
    x, real_token = check.tokens_array(tokens, of, mask=mask)
    query = check.float_array(k, "k", of, (x.shape[2],))
    value = check.float_array(v, "v", of, (x.shape[2],))
    outputs = [
        np.sum(head.weights(lam * (part @ query), real) * (part @ value), axis=1)
        for part, real in sequence_blocks(x, real_token)
    ]
    return finite_outputs(outputs, "rescaled tokens, k or v")


def finite_outputs(parts: list[np.ndarray], hint: str) -> np.ndarray:
    """The predictions of all blocks, if none overflowed."""
    out = np.concatenate(parts)
    if not np.isfinite(out).all():
        must = "of a size that keeps the prediction finite"
        raise bad("tokens", "predict", must, "an overflow", hint)
    return out


def _checked_predictor(predictor: object, of: str) -> Predictor:
    if not has_one_head(predictor):
        raise bad(
            "predictor",
            of,
            "a predictor such as Erf(0.1) or Softmax(2.0)",
            predictor,
            "FullAttention's own methods for full layers",
        )
    return predictor


def sequence_blocks(
    x: np.ndarray, mask: np.ndarray | None
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Blocks of sequences in float64: float32 tokens are promoted a few MB at a time."""
    block = max(1, BLOCK_NUMBERS // (x.shape[1] * x.shape[2]))
    for i in range(0, len(x), block):
        yield (
            x[i : i + block].astype(np.float64),
            None if mask is None else mask[i : i + block],
        )
