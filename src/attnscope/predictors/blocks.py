"""Whole sequence models for single-location regression: Transformer blocks, and what they are compared with.

notation: x_l in R^d tokens, r in R^d the register (a learnt token from whose row the output is read), H = heads, p = d/H, lam = temperature.

Transformer block (pre-norm, one layer; only the register's row is needed, so only that row is computed):

    a_l = N1(x_l), a_0 = N1(r),     N(x) = g (x - mean x)/sqrt(var x + EPS) + b                         (layer norm over the d entries)
    k_h = W_K^h' W_Q^h a_0/sqrt(p),   w^h = softmax(lam k_h.a_l; l = 0..L),   z_h = sum_l w^h_l a_l
    r'  = r + sum_h W_O^h W_V^h z_h,   r'' = r' + W_2 gelu(W_1 N2(r') + b_1) + b_2,   T(X) = c.r'' + c_0

k_h and z_h are formed before the other matrices act: associativity, so the same function at O(H d) per token instead of O(d^2).
norm=None replaces both norms by the identity, hidden=0 leaves the feed-forward layer out; with both, T is affine softmax attention.

What the block attends to and reads is measured where it works, because a normalised map has no weights that are directions in token space:

    key direction   of head h: the gradient of its logit, lam k_h.N1(x), averaged over tokens x
    value direction of head h: the gradient of T in the tokens through z_h alone (weights held fixed), summed over tokens, averaged over sequences

With norm=None the first is lam k_h whatever the tokens. Layer norm removes a token's mean, so no key direction of a layer-normed block
has a component along (1,..,1)/sqrt(d): its cosine with k* is at most |k* - mean(k*)|.

All models are frozen sizes; their numbers are a dict of NumPy arrays from `init`. `output` is a pure JAX function of single sequences
batched by vmap, in the precision that is active; `predict`, `attention` and `directions` are its float64 faces, NumPy in and out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics import validation as check
from attnscope.numerics.x64 import x64

__all__ = ["DenseNet", "Directions", "GatedRecurrent", "SequenceModel", "SimplifiedAttention", "TransformerBlock"]

EPS = 1e-6  # of the variance of a token's entries, which is near 1: keeps the norm of a masked (zero) token finite
BLOCK = 1 << 21  # token entries per call of a compiled map: 16 MB
Parameters = dict[str, np.ndarray]


class Entry(NamedTuple):
    """Shape of a parameter array and its start: every entry `mean` + `deviation` N(0, 1)."""

    shape: tuple[int, ...]
    deviation: float
    mean: float = 0.0


class Directions(NamedTuple):
    """key (heads, d) and value (heads, d): what each head looks for and reads, in token space (module docstring)."""

    key: np.ndarray
    value: np.ndarray


class SequenceModel:
    """A map from a sequence of tokens (L, d) to a number, with parameters beside it. Subclasses give `entries` and `one`."""

    dim: int

    def entries(self) -> dict[str, Entry]:
        """Name, shape and start of every parameter array."""
        raise NotImplementedError

    def one(self, p: Any, x: Any, real: Any) -> Any:
        """T(X) of one sequence x (L, d); real (L,) bool. Pure JAX."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(math.prod(entry.shape) for entry in self.entries().values())

    def init(self, seed: int = 0) -> Parameters:
        """Parameters at the start of training, float64."""
        rng = np.random.default_rng([check.seed_value(seed, f"{type(self).__name__}.init"), 7])
        return {name: e.mean + e.deviation * rng.standard_normal(e.shape) for name, e in self.entries().items()}

    def output(self, p: Any, tokens: Any, mask: Any = None) -> Any:
        """T(X) (n,) of tokens (n, L, d), in JAX and in the active precision."""
        import jax

        real = jax.numpy.ones(tokens.shape[:2], bool) if mask is None else mask
        return jax.vmap(partial(self.one, p))(tokens, real)

    def predict(self, parameters: Parameters, tokens: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """T(X), (n,), in float64; mask (n, L), True = real token."""
        out = self._batched("output", parameters, tokens, mask, "predict")
        if not np.isfinite(out).all():
            raise bad(
                "tokens", f"{type(self).__name__}.predict", "of a size that keeps the prediction finite", "an overflow"
            )
        return out

    def sensitivity(self, parameters: Parameters, tokens: np.ndarray, location: np.ndarray) -> np.ndarray:
        """The gradient of T in the token at `location` (n,) of each sequence, averaged: an estimate of E[dT/dX_J], (d,)."""
        slopes = self._batched("_slopes", parameters, tokens, None, "sensitivity")  # (n, L, d)
        where = np.asarray(location)
        n, length = slopes.shape[:2]
        if where.shape != (n,) or where.dtype.kind not in "iu" or not ((where >= 0) & (where < length)).all():
            must = f"({n},) integers from 0 to {length - 1}"
            raise bad(
                "location", f"{type(self).__name__}.sensitivity", must, f"dtype {where.dtype}, shape {where.shape}"
            )
        return slopes[np.arange(n), where].mean(axis=0)

    def _slopes(self, p: Any, tokens: Any, mask: Any) -> Any:
        import jax

        return jax.vmap(jax.grad(partial(self.one, p)))(tokens, mask)

    def _batched(self, name: str, parameters: object, tokens: object, mask: object, method: str) -> np.ndarray:
        """The map self.name(p, tokens, mask) in float64, a few MB of tokens at a time."""
        of = f"{type(self).__name__}.{method}"
        x, real = self._tokens(tokens, mask, of)
        p, run = self._parameters(parameters, of), _compiled(self._shape(), name)
        if hasattr(self, "temperature"):  # an argument of the executable: another temperature compiles nothing
            p["temperature"] = np.asarray(self.temperature)
        block = max(1, BLOCK // (x.shape[1] * x.shape[2]))
        parts = []
        with x64():
            for i in range(0, len(x), block):
                part = slice(i, i + block)
                parts.append(np.asarray(run(p, x[part].astype(np.float64), real[part])))
        return np.concatenate(parts)

    def _shape(self) -> SequenceModel:
        """What an executable depends on."""
        return self

    def _tokens(self, tokens: object, mask: object, of: str) -> tuple[np.ndarray, np.ndarray]:
        x, real = check.tokens_array(tokens, of, dim=self.dim, mask=mask)
        return x, np.ones(x.shape[:2], bool) if real is None else real

    def _parameters(self, parameters: object, of: str) -> Parameters:
        wanted = self.entries()
        if not isinstance(parameters, dict) or set(parameters) != set(wanted):
            raise bad("parameters", of, f"a dict with the arrays {', '.join(wanted)}", parameters, "model.init(seed=0)")
        return {name: check.array(parameters[name], name, of, e.shape).astype(np.float64) for name, e in wanted.items()}


@dataclass(frozen=True)
class TransformerBlock(SequenceModel):
    """One pre-norm Transformer block with a register token (module docstring).

    Args:
        dim: d >= 2, a multiple of `heads`.
        heads: H.
        hidden: width of the feed-forward layer; 2 dim if None, no such layer if 0.
        norm: "layer" or None.
        temperature: lam > 0 multiplies all logits. Training uses it as it is; replace(model, temperature=...) changes it afterwards.

    >>> model = TransformerBlock(dim=16, heads=2, hidden=32)
    >>> model.size, model.predict(model.init(seed=0), np.zeros((3, 5, 16))).shape
    (2193, (3,))
    """

    dim: int
    heads: int = 1
    hidden: int | None = None
    norm: str | None = "layer"
    temperature: float = 1.0

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
        object.__setattr__(self, "temperature", check.real(self.temperature, "temperature", of, 0, strict=True))

    def entries(self) -> dict[str, Entry]:
        d, p, m = self.dim, self.dim // self.heads, self.hidden or 0
        into, out = Entry((self.heads, p, d), d**-0.5), Entry((self.heads, d, p), d**-0.5)
        found = {"register": Entry((d,), 1.0), "query": into, "key": into, "value": into, "output": out}
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

        return self._norm(p, "1", jnp.concatenate([p["register"][None], x]))

    def logits(self, p: Any, a: Any) -> Any:
        """lam k_h.a_l (H, 1 + L)."""
        import jax.numpy as jnp

        query = jnp.einsum("hpd,d->hp", p["query"], a[0])
        keys = jnp.einsum("hpd,hp->hd", p["key"], query) / math.sqrt(self.dim // self.heads)
        return p.get("temperature", self.temperature) * (keys @ a.T)

    def weights(self, p: Any, a: Any, real: Any) -> Any:
        """w (H, 1 + L), the register first; it is always real."""
        import jax
        import jax.numpy as jnp

        there = jnp.concatenate([jnp.ones(1, bool), real])
        return jax.nn.softmax(jnp.where(there, self.logits(p, a), -jnp.inf), axis=1)

    def read(self, p: Any, z: Any) -> Any:
        """T from the heads' averages z (H, d)."""
        import jax
        import jax.numpy as jnp

        r = p["register"] + jnp.einsum("hdp,hpe,he->d", p["output"], p["value"], z)
        if self.hidden:
            r = r + p["second"] @ jax.nn.gelu(p["first"] @ self._norm(p, "2", r) + p["first_bias"]) + p["second_bias"]
        return p["readout"] @ r + p["readout_bias"]

    def _norm(self, p: Any, which: str, x: Any) -> Any:
        if self.norm is None:
            return x
        centred = x - x.mean(-1, keepdims=True)
        scale = ((centred * centred).mean(-1, keepdims=True) + EPS) ** -0.5
        return p[f"gain{which}"] * centred * scale + p[f"bias{which}"]

    def attention(self, parameters: Parameters, tokens: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Weights (n, heads, L) of the tokens; what is missing to 1 is the register's. Masked tokens have 0."""
        return self._batched("_attention", parameters, tokens, mask, "attention")

    def observe(self, parameters: Parameters, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(predict, attention) in one pass."""
        both = self._batched("_both", parameters, tokens, None, "observe")
        return both[:, 0], both[:, 1:].reshape(len(both), self.heads, -1)

    def _both(self, p: Any, tokens: Any, mask: Any) -> Any:
        import jax
        import jax.numpy as jnp

        def one(x: Any, real: Any) -> Any:
            a = self._with_register(p, x)
            w = self.weights(p, a, real)
            return jnp.concatenate([self.read(p, w @ a)[None], w[:, 1:].reshape(-1)])

        return jax.vmap(one)(tokens, mask)

    def _attention(self, p: Any, tokens: Any, mask: Any) -> Any:
        import jax

        return jax.vmap(lambda x, real: self.weights(p, self._with_register(p, x), real)[:, 1:])(tokens, mask)

    def directions(self, parameters: Parameters, tokens: np.ndarray) -> Directions:
        """Key and value directions of every head, averaged over these tokens (n, L, d) (module docstring)."""
        return Directions(*self._batched("_both_directions", parameters, tokens, None, "directions").mean(axis=0))

    def _both_directions(self, p: Any, tokens: Any, mask: Any) -> Any:
        import jax

        return jax.vmap(lambda x: jax.numpy.stack(self._directions(p, x)))(tokens)  # (n, 2, H, d)

    def _directions(self, p: Any, x: Any) -> tuple[Any, Any]:
        """(H, d) each, of one sequence x (L, d)."""
        import jax
        import jax.numpy as jnp

        register = self._norm(p, "1", p["register"])
        logits = lambda y: self.logits(p, jnp.stack([register, self._norm(p, "1", y)]))[:, 1]
        key = jax.vmap(jax.jacrev(logits))(x).mean(0)
        a = self._with_register(p, x)
        w = self.weights(p, a, jnp.ones(len(x), bool))
        outer = jax.grad(partial(self.read, p))(w @ a)  # (H, d) dT/dz
        through = lambda y: jnp.sum(outer * (w @ self._with_register(p, y)), axis=1)  # (H,) with w and dT/dz fixed
        return key, jax.jacrev(through)(x).sum(1)

    def _shape(self) -> SequenceModel:
        return replace(self, temperature=1.0)

    def query_key(self, parameters: Parameters) -> np.ndarray:
        """W_Q^h' W_K^h of every head, (heads, d, d): what singular values are taken of."""
        p = self._parameters(parameters, "TransformerBlock.query_key")
        return np.einsum("hpd,hpe->hde", p["query"], p["key"])


@dataclass(frozen=True)
class SimplifiedAttention(SequenceModel):
    """The papers' predictor with free vectors: T(X) = sum_l sigma(lam X.k)_l X_l.v, sigma the softmax over tokens or erf; 2 d parameters.

    >>> SimplifiedAttention(dim=16).size
    32
    """

    dim: int
    kind: str = "softmax"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        of = "SimplifiedAttention"
        check.integer(self.dim, "dim", of, 2)
        if self.kind not in ("softmax", "erf"):
            raise bad("kind", of, "'softmax' or 'erf'", self.kind)
        object.__setattr__(self, "temperature", check.real(self.temperature, "temperature", of, 0, strict=True))

    def entries(self) -> dict[str, Entry]:
        return {"k": Entry((self.dim,), self.dim**-0.5), "v": Entry((self.dim,), self.dim**-0.5)}

    def one(self, p: Any, x: Any, real: Any) -> Any:
        import jax
        import jax.numpy as jnp

        scores = p.get("temperature", self.temperature) * (x @ p["k"])
        if self.kind == "softmax":
            weights = jax.nn.softmax(jnp.where(real, scores, -jnp.inf))
        else:
            weights = jnp.where(real, jax.lax.erf(scores), 0.0)
        return weights @ (x @ p["v"])

    def _shape(self) -> SequenceModel:
        return replace(self, temperature=1.0)

    def directions(self, parameters: Parameters, tokens: np.ndarray) -> Directions:
        """lam k and v as one head's directions; the tokens do not matter."""
        p = self._parameters(parameters, "SimplifiedAttention.directions")
        return Directions(self.temperature * p["k"][None], p["v"][None])


@dataclass(frozen=True)
class DenseNet(SequenceModel):
    """One hidden layer on the L d numbers laid end to end: T(X) = a.gelu(W x + b) + a_0. Sequences of another length are refused.

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
        return cls(model.dim, length, _width(lambda h: cls(model.dim, length, h).size, model.size))

    def entries(self) -> dict[str, Entry]:
        inputs, h = self.length * self.dim, self.hidden
        first = {"first": Entry((h, inputs), inputs**-0.5), "first_bias": Entry((h,), 0.0)}
        return first | {"readout": Entry((h,), h**-0.5), "readout_bias": Entry((), 0.0)}

    def one(self, p: Any, x: Any, real: Any) -> Any:
        import jax
        import jax.numpy as jnp

        flat = jnp.where(real[:, None], x, 0.0).reshape(-1)
        return p["readout"] @ jax.nn.gelu(p["first"] @ flat + p["first_bias"]) + p["readout_bias"]

    def _tokens(self, tokens: object, mask: object, of: str) -> tuple[np.ndarray, np.ndarray]:
        x, real = super()._tokens(tokens, mask, of)
        if x.shape[1] != self.length:
            raise bad(
                "tokens", of, f"sequences of {self.length} tokens", f"{x.shape[1]} tokens", "a mask for shorter ones"
            )
        return x, real


@dataclass(frozen=True)
class GatedRecurrent(SequenceModel):
    """A gated recurrent unit read after the last token: u, f gates, h <- u h + (1 - u) tanh(W x + R (f h) + b), T(X) = a.h + a_0.

    The update gate starts half a unit towards keeping (bias 1), the usual start for long sequences. Masked tokens leave h as it is.

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
        return cls(model.dim, _width(lambda h: cls(model.dim, h).size, model.size))

    def entries(self) -> dict[str, Entry]:
        d, h = self.dim, self.hidden
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
        inputs = jnp.einsum("ahd,ld->lah", p["input"], x) + bias  # (L, 3, h): what does not depend on the state

        def step(h: Any, token: Any) -> tuple[Any, None]:
            (u, f, n), there = token
            u, f = jax.nn.sigmoid(u + p["recurrent"][0] @ h), jax.nn.sigmoid(f + p["recurrent"][1] @ h)
            new = u * h + (1 - u) * jnp.tanh(n + p["recurrent"][2] @ (f * h))
            return jnp.where(there, new, h), None

        last, _ = jax.lax.scan(step, jnp.zeros(self.hidden, x.dtype), (inputs, real))
        return p["readout"] @ last + p["readout_bias"]


@lru_cache(
    maxsize=64
)  # models are small frozen sizes; an executable is compiled once for each, and each shape of tokens
def _compiled(model: SequenceModel, name: str) -> Callable[..., Any]:
    import jax

    return jax.jit(getattr(model, name))


def _width(size: Callable[[int], int], wanted: int) -> int:
    """The width >= 1 whose size, which grows with it, is nearest to `wanted`."""
    width = 1
    while size(width + 1) <= wanted:
        width += 1
    return min((width, width + 1), key=lambda h: abs(size(h) - wanted))
