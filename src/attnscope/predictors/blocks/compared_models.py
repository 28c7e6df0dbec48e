"""What Transformer blocks are compared with: the papers' predictor, a dense net and a recurrent
unit on the same tokens.

    SimplifiedAttention   T(X) = sum_l sigma(lam X.k)_l X_l.v
    DenseNet              T(X) = a.gelu(W x + b) + a_0, x the L d numbers laid end to end
    GatedRecurrent       h <- u h + (1 - u) tanh(W x + R (f h) + b) token by token, T(X) = a.h + a_0

notation: as in `blocks`; sizes are matched by the number of parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeGuard

import numpy as np

from attnscope.deprecated import old_names
from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.blocks.sequence_model import (
    Entry,
    Parameters,
    SequenceModel,
    is_sequence_model,
)
from attnscope.predictors.blocks.transformer import Directions

__all__ = ["DenseNet", "GatedRecurrent", "SimplifiedAttention", "has_two_vectors"]


@old_names
@dataclass(frozen=True)
class SimplifiedAttention(SequenceModel):
    """The papers' predictor with free vectors: T(X) = sum_l sigma(lam X.k)_l X_l.v, sigma the
    softmax over tokens or erf; 2 d parameters.

    Args:
        dim: d >= 2 of the tokens.
        kind: sigma: "softmax" or "erf".
        inverse_temperature: lam > 0.

    >>> SimplifiedAttention(dim=16).size
    32
    """

    two_vectors: ClassVar[bool] = True

    dim: int
    kind: str = "softmax"
    inverse_temperature: float = 1.0

    def __post_init__(self) -> None:
        of = "SimplifiedAttention"
        check.integer(self.dim, "dim", of, 2)
        if self.kind not in ("softmax", "erf"):
            raise bad("kind", of, "'softmax' or 'erf'", self.kind)
        object.__setattr__(
            self,
            "inverse_temperature",
            check.real(self.inverse_temperature, "inverse_temperature", of, 0, strict=True),
        )

    def entries(self) -> dict[str, Entry]:
        return {
            "k": Entry((self.dim,), self.dim**-0.5),
            "v": Entry((self.dim,), self.dim**-0.5),
        }

    def one(self, p: Any, x: Any, real: Any) -> Any:
        import jax
        import jax.numpy as jnp

        scores = p.get("inverse_temperature", self.inverse_temperature) * (x @ p["k"])
        if self.kind == "softmax":
            weights = jax.nn.softmax(jnp.where(real, scores, -jnp.inf))
        else:
            weights = jnp.where(real, jax.lax.erf(scores), 0.0)
        return weights @ (x @ p["v"])

    def _without_inverse_temperature(self) -> SequenceModel:
        return replace(self, inverse_temperature=1.0)

    def directions(self, parameters: Parameters, tokens: np.ndarray) -> Directions:
        """lam k and v as one head's directions; the tokens do not matter."""
        of = "SimplifiedAttention.directions"
        self._checked_tokens(tokens, None, of)
        p = self._checked_parameters(parameters, of)
        return Directions(self.inverse_temperature * p["k"][None], p["v"][None])


def _checked_model(model: object, of: str) -> None:
    if not is_sequence_model(model):
        raise bad("model", of, "a sequence model", model, "TransformerBlock(dim=16)")


def has_two_vectors(model: object) -> TypeGuard[SimplifiedAttention]:
    """Whether its parameters are k and v alone, by its own word."""
    return getattr(type(model), "two_vectors", None) is True


@dataclass(frozen=True)
class DenseNet(SequenceModel):
    """One hidden layer on the L d numbers laid end to end: T(X) = a.gelu(W x + b) + a_0. Sequences
    of another length are refused.

    Args:
        dim, length: d and L of its sequences.
        hidden: width of the layer.

    >>> from attnscope.predictors.blocks.transformer import TransformerBlock
    >>> DenseNet.matching(TransformerBlock(dim=16), length=10).size, TransformerBlock(dim=16).size
    (2269, 2193)
    """

    dim: int
    length: int
    hidden: int

    def __post_init__(self) -> None:
        for name, low in (("dim", 1), ("length", 1), ("hidden", 1)):
            check.integer(getattr(self, name), name, "DenseNet", low)

    @classmethod
    def matching(cls, model: SequenceModel, length: int) -> DenseNet:
        """The net whose number of parameters is nearest to the model's."""
        _checked_model(model, "DenseNet.matching")
        length = check.integer(length, "length", "DenseNet.matching", 1)
        return cls(
            model.dim,
            length,
            _nearest_width(lambda h: cls(model.dim, length, h).size, model.size),
        )

    def entries(self) -> dict[str, Entry]:
        inputs = self.length * self.dim
        h = self.hidden
        first = {"first": Entry((h, inputs), inputs**-0.5), "first_bias": Entry((h,), 0.0)}
        return first | {"readout": Entry((h,), h**-0.5), "readout_bias": Entry((), 0.0)}

    def one(self, p: Any, x: Any, real: Any) -> Any:
        import jax
        import jax.numpy as jnp

        flat = jnp.where(real[:, None], x, 0.0).reshape(-1)
        return (
            p["readout"] @ jax.nn.gelu(p["first"] @ flat + p["first_bias"])
            + p["readout_bias"]
        )

    def _checked_tokens(
        self, tokens: object, mask: object, of: str
    ) -> tuple[np.ndarray, np.ndarray]:
        x, real = super()._checked_tokens(tokens, mask, of)
        if x.shape[1] != self.length:
            raise bad(
                "tokens",
                of,
                f"sequences of {self.length} tokens",
                f"{x.shape[1]} tokens",
                "a mask for shorter ones",
            )
        return x, real


@dataclass(frozen=True)
class GatedRecurrent(SequenceModel):
    """A gated recurrent unit read after the last token: u, f gates, h <- u h + (1 - u) tanh(W x + R
    (f h) + b), T(X) = a.h + a_0.

    The update gate starts half a unit towards keeping (bias 1), the usual start for long sequences.
    Masked tokens do not change h.

    Args:
        dim: d of the tokens.
        hidden: width of h.

    >>> from attnscope.predictors.blocks.transformer import TransformerBlock
    >>> GatedRecurrent.matching(TransformerBlock(dim=16)).size, TransformerBlock(dim=16).size
    (2241, 2193)
    """

    dim: int
    hidden: int

    def __post_init__(self) -> None:
        check.integer(self.dim, "dim", "GatedRecurrent", 1)
        check.integer(self.hidden, "hidden", "GatedRecurrent", 1)

    @classmethod
    def matching(cls, model: SequenceModel) -> GatedRecurrent:
        """The unit whose number of parameters is nearest to the model's."""
        _checked_model(model, "GatedRecurrent.matching")
        return cls(model.dim, _nearest_width(lambda h: cls(model.dim, h).size, model.size))

    def entries(self) -> dict[str, Entry]:
        d = self.dim
        h = self.hidden
        found = {
            "input": Entry((3, h, d), d**-0.5),
            "recurrent": Entry((3, h, h), h**-0.5),
            "keep_bias": Entry((h,), 0.0, 1.0),
        }
        found |= {"forget_bias": Entry((h,), 0.0), "state_bias": Entry((h,), 0.0)}
        return found | {"readout": Entry((h,), h**-0.5), "readout_bias": Entry((), 0.0)}

    def one(self, p: Any, x: Any, real: Any) -> Any:
        import jax
        import jax.numpy as jnp

        bias = jnp.stack([p["keep_bias"], p["forget_bias"], p["state_bias"]])
        # (L, 3, h): what does not depend on the state
        inputs = jnp.einsum("ahd,ld->lah", p["input"], x) + bias

        def step(h: Any, token: Any) -> tuple[Any, None]:
            (u, f, n), there = token
            u, f = (
                jax.nn.sigmoid(u + p["recurrent"][0] @ h),
                jax.nn.sigmoid(f + p["recurrent"][1] @ h),
            )
            new = u * h + (1 - u) * jnp.tanh(n + p["recurrent"][2] @ (f * h))
            return jnp.where(there, new, h), None

        last, _ = jax.lax.scan(step, jnp.zeros(self.hidden, x.dtype), (inputs, real))
        return p["readout"] @ last + p["readout_bias"]


def _nearest_width(size: Callable[[int], int], wanted: int) -> int:
    """The width >= 1 whose size, which grows with it, is nearest to `wanted`."""
    width = 1
    while size(width + 1) <= wanted:
        width += 1
    return min((width, width + 1), key=lambda h: abs(size(h) - wanted))
