"""A map from a sequence of tokens to a number, with its parameters beside it: what every trainable
model shares.

Models are frozen sizes; their numbers are a dict of NumPy arrays from `init`. `output` is a pure
JAX function of single sequences batched by vmap, in the precision that is active; `predict` and
`sensitivity` evaluate it in float64, with NumPy arrays in and out. notation: x_l in R^d tokens, T(X) the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple, TypeGuard

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.whole_values import whole_numbers
from attnscope.numerics.border.x64 import computed_x64
from attnscope.optional import needs

__all__ = ["Entry", "Parameters", "SequenceModel", "is_sequence_model"]

BLOCK_TOKEN_ENTRIES = 1 << 21  # token entries per call of a compiled map: 16 MB

Parameters = dict[str, np.ndarray]


class Entry(NamedTuple):
    """Shape of a parameter array and its start: every entry `mean` + `deviation` N(0, 1)."""

    shape: tuple[int, ...]
    deviation: float
    mean: float = 0.0


class SequenceModel:
    """A map from a sequence of tokens (L, d) to a number, with parameters beside it.
    Subclasses give `entries` and `one`.
    """

    two_vectors: ClassVar[bool] = False  # the parameters are k and v alone

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
        rng = np.random.default_rng(
            [check.seed_value(seed, f"{type(self).__name__}.init"), 7]
        )
        return {
            name: e.mean + e.deviation * rng.standard_normal(e.shape)
            for name, e in self.entries().items()
        }

    def output(self, p: Any, tokens: Any, mask: Any = None) -> Any:
        """T(X) (n,) of tokens (n, L, d), in JAX and in the active precision."""
        needs("jax", f"{type(self).__name__}.output")
        import jax

        real = jax.numpy.ones(tokens.shape[:2], bool) if mask is None else mask
        return jax.vmap(partial(self.one, p))(tokens, real)

    def predict(
        self, parameters: Parameters, tokens: np.ndarray, mask: np.ndarray | None = None
    ) -> np.ndarray:
        """T(X), (n,), in float64; mask (n, L), True = real token."""
        out = self._evaluate_in_blocks("output", parameters, tokens, mask, "predict")
        if not np.isfinite(out).all():
            raise bad(
                "tokens",
                f"{type(self).__name__}.predict",
                "of a size that keeps the prediction finite",
                "an overflow",
            )
        return out

    def sensitivity(
        self, parameters: Parameters, tokens: np.ndarray, location: np.ndarray
    ) -> np.ndarray:
        """The gradient of T in the token at `location` (n,) of each sequence, averaged:
        an estimate of E[dT/dX_J], (d,).
        """
        of = f"{type(self).__name__}.sensitivity"
        n, length = self._checked_tokens(tokens, None, of)[0].shape[:2]
        where = whole_numbers(location, "location", of, length, (n,))
        # (n, L, d)
        slopes = self._evaluate_in_blocks(
            "_token_slopes", parameters, tokens, None, "sensitivity"
        )
        return slopes[np.arange(n), where].mean(axis=0)

    def _token_slopes(self, p: Any, tokens: Any, mask: Any) -> Any:
        import jax

        return jax.vmap(jax.grad(partial(self.one, p)))(tokens, mask)

    def _evaluate_in_blocks(
        self, name: str, parameters: object, tokens: object, mask: object, method: str
    ) -> np.ndarray:
        """The map self.name(p, tokens, mask) in float64, a few MB of tokens at a time."""
        of = f"{type(self).__name__}.{method}"
        needs("jax", of)
        x, real = self._checked_tokens(tokens, mask, of)
        p = self._checked_parameters(parameters, of)
        run = _compiled_map(self._without_inverse_temperature(), name)
        # an argument of the executable: another inverse temperature compiles nothing
        if hasattr(self, "inverse_temperature"):
            p["inverse_temperature"] = np.asarray(self.inverse_temperature)
        block = max(1, BLOCK_TOKEN_ENTRIES // (x.shape[1] * x.shape[2]))
        parts = []
        with computed_x64():
            for i in range(0, len(x), block):
                part = slice(i, i + block)
                parts.append(np.asarray(run(p, x[part].astype(np.float64), real[part])))
        return np.concatenate(parts)

    def _without_inverse_temperature(self) -> SequenceModel:
        """What an executable depends on."""
        return self

    def _checked_tokens(
        self, tokens: object, mask: object, of: str
    ) -> tuple[np.ndarray, np.ndarray]:
        x, real = check.tokens_array(tokens, of, dim=self.dim, mask=mask)
        return x, np.ones(x.shape[:2], bool) if real is None else real

    def _checked_parameters(self, parameters: object, of: str) -> Parameters:
        wanted = self.entries()
        if not isinstance(parameters, dict) or set(parameters) != set(wanted):
            raise bad(
                "parameters",
                of,
                f"a dict with the arrays {', '.join(wanted)}",
                parameters,
                "model.init(seed=0)",
            )
        return {
            name: check.float_array(parameters[name], name, of, e.shape)
            for name, e in wanted.items()
        }


@lru_cache(
    maxsize=64
)  # models are small frozen sizes; an executable is compiled once for each, and each shape of tokens
def _compiled_map(model: SequenceModel, name: str) -> Callable[..., Any]:
    import jax

    return jax.jit(getattr(model, name))


def is_sequence_model(model: object) -> TypeGuard[SequenceModel]:
    """Whether this has parameters and a map of a sequence to a number."""
    needed = (getattr(type(model), name, None) for name in ("entries", "one"))
    return all(callable(method) for method in needed)
