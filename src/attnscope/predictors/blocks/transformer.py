"""Transformer blocks for single-location regression.

notation: x_l in R^d tokens, r in R^d the register (a learnt token from whose row the output is
read), H = heads, p = d/H, lam = inverse temperature.

Transformer block (pre-norm, one layer; only the register's row is needed, so only that row is
computed):

    a_l = N1(x_l), a_0 = N1(r),   N(x) = g (x - mean x)/sqrt(var x + NORM_VARIANCE_FLOOR) + b
        (layer norm over the d entries)
    k_h = W_K^h' W_Q^h a_0/sqrt(p),   w^h = softmax(lam k_h.a_l; l = 0..L),   z_h = sum_l w^h_l a_l
    r'  = r + sum_h W_O^h W_V^h z_h,   r'' = r' + W_2 gelu(W_1 N2(r') + b_1) + b_2,
        T(X) = c.r'' + c_0

k_h and z_h are formed before the other matrices act: associativity, so the same function at O(H d)
per token instead of O(d^2). norm=None replaces both norms by the identity, hidden=0 leaves the
feed-forward layer out; with both, T is affine softmax attention.

What the block attends to and reads is measured where it works, because a normalised map has no
weights that are directions in token space:

    key direction   of head h: the gradient of its logit, lam k_h.N1(x), averaged over tokens x
    value direction of head h: the gradient of T in the tokens through z_h alone (weights held
    fixed), summed over tokens, averaged over sequences

With norm=None the first is lam k_h whatever the tokens. Layer norm removes a token's mean, so no
key direction of a layer-normed block has a component along (1,..,1)/sqrt(d): its cosine with k* is
at most |k* - mean(k*)|.

Sizes, parameters and the float64 methods: `sequence_model`; the models that blocks are compared with:
`compared_models`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from attnscope.deprecated import old_names
from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.blocks.sequence_model import Entry, Parameters, SequenceModel

__all__ = ["Directions", "TransformerBlock", "has_query_key"]

# of the variance of a token's entries, which is near 1: keeps the norm of a masked (zero) token
# finite
NORM_VARIANCE_FLOOR = 1e-6


class Directions(NamedTuple):
    """key (heads, d) and value (heads, d): what each head looks for and reads,
    in token space (module docstring).
    """

    key: np.ndarray
    value: np.ndarray


@old_names
@dataclass(frozen=True)
class TransformerBlock(SequenceModel):
    """One pre-norm Transformer block with a register token (module docstring).

    Args:
        dim: d >= 2, a multiple of `heads`.
        heads: H.
        hidden: width of the feed-forward layer; 2 dim if None, no such layer if 0.
        norm: "layer" or None.
        inverse_temperature: lam > 0 multiplies all logits. Training does not change it;
            replace(model, inverse_temperature=...) changes it afterwards.

    >>> model = TransformerBlock(dim=16, heads=2, hidden=32)
    >>> model.size, model.predict(model.init(seed=0), np.zeros((3, 5, 16))).shape
    (2193, (3,))
    """

    dim: int
    heads: int = 1
    hidden: int | None = None
    norm: str | None = "layer"
    inverse_temperature: float = 1.0

    def __post_init__(self) -> None:
        of = "TransformerBlock"
        check.integer(self.dim, "dim", of, 2)
        check.integer(self.heads, "heads", of, 1)
        if self.dim % self.heads:
            raise bad("heads", of, f"a divisor of dim = {self.dim}", self.heads)
        width = 2 * self.dim if self.hidden is None else self.hidden
        object.__setattr__(self, "hidden", check.integer(width, "hidden", of, 0))
        if self.norm not in ("layer", None):
            raise bad("norm", of, "'layer' or None", self.norm)
        object.__setattr__(
            self,
            "inverse_temperature",
            check.real(self.inverse_temperature, "inverse_temperature", of, 0, strict=True),
        )

    def entries(self) -> dict[str, Entry]:
        d = self.dim
        p = self.dim // self.heads
        m = self.hidden or 0
        into = Entry((self.heads, p, d), d**-0.5)
        out = Entry((self.heads, d, p), d**-0.5)
        found = {
            "register": Entry((d,), 1.0),
            "query": into,
            "key": into,
            "value": into,
            "output": out,
        }
        norms = {"gain1": Entry((d,), 0.0, 1.0), "bias1": Entry((d,), 0.0)}
        if m:
            found |= {"first": Entry((m, d), d**-0.5), "first_bias": Entry((m,), 0.0)}
            found |= {"second": Entry((d, m), m**-0.5), "second_bias": Entry((d,), 0.0)}
            norms |= {"gain2": Entry((d,), 0.0, 1.0), "bias2": Entry((d,), 0.0)}
        found |= {"readout": Entry((d,), d**-0.5), "readout_bias": Entry((), 0.0)}
        return found | norms if self.norm else found

    def one(self, p: Any, x: Any, real: Any) -> Any:
        a = self._with_register(p, x)
        return self.read(p, self.weights(p, a, real) @ a)

    def _with_register(self, p: Any, x: Any) -> Any:
        """a (1 + L, d), the register first."""
        import jax.numpy as jnp

        return self._layer_norm(p, "1", jnp.concatenate([p["register"][None], x]))

    def logits(self, p: Any, a: Any) -> Any:
        """lam k_h.a_l (H, 1 + L), by the parameters p."""
        import jax.numpy as jnp

        query = jnp.einsum("hpd,d->hp", p["query"], a[0])
        keys = jnp.einsum("hpd,hp->hd", p["key"], query) / math.sqrt(self.dim // self.heads)
        return p.get("inverse_temperature", self.inverse_temperature) * (keys @ a.T)

    def weights(self, p: Any, a: Any, real: Any) -> Any:
        """w (H, 1 + L), by the parameters p, the register first; it is always real."""
        import jax
        import jax.numpy as jnp

        there = jnp.concatenate([jnp.ones(1, bool), real])
        return jax.nn.softmax(jnp.where(there, self.logits(p, a), -jnp.inf), axis=1)

    def read(self, p: Any, z: Any) -> Any:
        """T from the heads' averages z (H, d), by the parameters p."""
        import jax
        import jax.numpy as jnp

        r = p["register"] + jnp.einsum("hdp,hpe,he->d", p["output"], p["value"], z)
        if self.hidden:
            r = (
                r
                + p["second"]
                @ jax.nn.gelu(p["first"] @ self._layer_norm(p, "2", r) + p["first_bias"])
                + p["second_bias"]
            )
        return p["readout"] @ r + p["readout_bias"]

    def _layer_norm(self, p: Any, which: str, x: Any) -> Any:
        if self.norm is None:
            return x
        centred = x - x.mean(-1, keepdims=True)
        scale = ((centred * centred).mean(-1, keepdims=True) + NORM_VARIANCE_FLOOR) ** -0.5
        return p[f"gain{which}"] * centred * scale + p[f"bias{which}"]

    def attention(
        self, parameters: Parameters, tokens: np.ndarray, mask: np.ndarray | None = None
    ) -> np.ndarray:
        """Weights (n, heads, L) of the tokens; what is missing to 1 is the register's.
        Masked tokens have 0.
        """
        return self._evaluate_in_blocks(
            "_token_weights", parameters, tokens, mask, "attention"
        )

    def observe(
        self, parameters: Parameters, tokens: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(predict, attention) in one pass."""
        both = self._evaluate_in_blocks(
            "_outputs_and_weights", parameters, tokens, None, "observe"
        )
        return both[:, 0], both[:, 1:].reshape(len(both), self.heads, -1)

    def _outputs_and_weights(self, p: Any, tokens: Any, mask: Any) -> Any:
        import jax
        import jax.numpy as jnp

        def one(x: Any, real: Any) -> Any:
            a = self._with_register(p, x)
            w = self.weights(p, a, real)
            return jnp.concatenate([self.read(p, w @ a)[None], w[:, 1:].reshape(-1)])

        return jax.vmap(one)(tokens, mask)

    def _token_weights(self, p: Any, tokens: Any, mask: Any) -> Any:
        import jax

        return jax.vmap(
            lambda x, real: self.weights(p, self._with_register(p, x), real)[:, 1:]
        )(tokens, mask)

    def directions(self, parameters: Parameters, tokens: np.ndarray) -> Directions:
        """Key and value directions of every head, averaged over these tokens (n, L, d)
        (module docstring).
        """
        return Directions(
            *self._evaluate_in_blocks(
                "_batch_directions", parameters, tokens, None, "directions"
            ).mean(axis=0)
        )

    def _batch_directions(self, p: Any, tokens: Any, mask: Any) -> Any:
        import jax

        # (n, 2, H, d)
        return jax.vmap(lambda x: jax.numpy.stack(self._sequence_directions(p, x)))(tokens)

    def _sequence_directions(self, p: Any, x: Any) -> tuple[Any, Any]:
        """(H, d) each, of one sequence x (L, d)."""
        import jax
        import jax.numpy as jnp

        register = self._layer_norm(p, "1", p["register"])
        logits = lambda y: self.logits(p, jnp.stack([register, self._layer_norm(p, "1", y)]))[
            :, 1
        ]
        key = jax.vmap(jax.jacrev(logits))(x).mean(0)
        a = self._with_register(p, x)
        w = self.weights(p, a, jnp.ones(len(x), bool))
        outer = jax.grad(partial(self.read, p))(w @ a)  # (H, d) dT/dz

        def through(y: Any) -> Any:  # (H,) with w and dT/dz fixed
            return jnp.sum(outer * (w @ self._with_register(p, y)), axis=1)

        return key, jax.jacrev(through)(x).sum(1)

    def _without_inverse_temperature(self) -> SequenceModel:
        return replace(self, inverse_temperature=1.0)

    def query_key(self, parameters: Parameters) -> np.ndarray:
        """W_Q^h' W_K^h of every head, (heads, d, d): what singular values are taken of."""
        p = self._checked_parameters(parameters, "TransformerBlock.query_key")
        return np.einsum("hpd,hpe->hde", p["query"], p["key"])


def has_query_key(model: object) -> TypeGuard[TransformerBlock]:
    """Whether its heads have query-key matrices, as those of a block."""
    return callable(getattr(type(model), "query_key", None))
