"""SGD of several heads on the vectors in R^d themselves: an independent check of the
Gram-matrix engine, also for positions that may coincide.

    T = sum_h sum_l weight_l(lam X.k_h) X_l.v_h,
        p <- (p - alpha (I - p p^T) g)/|.|  on spheres,  or  p <- p - alpha g,

g the gradient of the mean of (T - Y)^2 over B fresh sequences of full tokens, by JAX autodiff.
Exact up to rounding, and in law. Cost grows with d.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.deprecated import accept_old_keyword
from attnscope.dynamics.engines.engine import MiniBatchEngine, State
from attnscope.dynamics.engines.full_vectors import tile_for
from attnscope.dynamics.engines.jax_stepper import Stepper, fresh_state
from attnscope.dynamics.engines.losses import weight_function
from attnscope.dynamics.engines.vectors_from_gram import gram_of_vectors, starting_vectors
from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.optional import needs
from attnscope.predictors.heads import MultiHead, adds_heads
from attnscope.tasks.base import checked_law, has_law
from attnscope.tasks.planted.multi_direction import MultiDirection
from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["FullHeads"]


class FullHeads(MiniBatchEngine):
    """Mini-batch SGD of heads on full tokens; state:
    "vectors" (runs, 2H, d), rows k_1, v_1, k_2, ..., keys and counter.

    Args:
        task: a SingleLocation or a MultiDirection.
        predictor: a MultiHead.
        step_size: alpha > 0.
        batch_size: fresh sequences a step, >= 1.
        constraint: "sphere" (projected gradient, unit vectors) or "free".

    >>> import attnscope as at
    >>> import numpy as np
    >>> task = at.SingleLocation(dim=20, length=5)
    >>> engine = at.FullHeads(task, at.MultiHead(at.Erf(0.1)), step_size=0.01, batch_size=8)
    >>> state = engine.start(np.eye(6)[None], seed=0)
    >>> state["vectors"].shape
    (1, 4, 20)
    """

    def __init__(
        self,
        task: SingleLocation | MultiDirection,
        predictor: MultiHead,
        step_size: float,
        batch_size: int,
        constraint: str = "sphere",
    ) -> None:
        needs("jax", "FullHeads")
        self.task = _with_directions(task)
        self.predictor = predictor
        if not adds_heads(predictor):
            raise bad(
                "predictor", "FullHeads", "a MultiHead", predictor, "MultiHead(Erf(0.1))"
            )
        super().__init__(step_size, batch_size, constraint)
        self.weights = weight_function(predictor.head, "FullHeads")
        self._stepper = Stepper(
            self._step_one_run, tile_for(self.batch_size * self.task.length * self.task.dim)
        )

    def start(self, matrix: np.ndarray, seed: int) -> State:
        """Vectors with the Gram `matrix` (runs, n, n) of (k_1, v_1, ..., k_1*, v_1*, ...); what
        these leave open is drawn from (seed, run).
        """
        n = 2 * self.predictor.heads + 2 * self.task.directions
        G = check.float_array(matrix, "gram", "FullHeads", (None, n, n))
        seed = check.seed_value(seed, "FullHeads")
        vectors = starting_vectors(G, self.task.teachers, seed, "FullHeads")
        return fresh_state({"vectors": vectors}, seed)

    @accept_old_keyword
    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        """State after len(inverse_temperatures) more steps."""
        return self._stepper.advance(state, inverse_temperatures)

    def gram(self, state: State) -> np.ndarray:
        """(runs, n, n)."""
        return gram_of_vectors(state["vectors"], self.task.teachers)

    def _step_one_run(self, arrays: dict[str, Any], key: Any, lam: Any) -> dict[str, Any]:
        import jax
        from jax import numpy as jnp

        tokens, label = draw_batch(self.task, key, self.batch_size)

        def batch_loss(x: Any) -> Any:
            scores = jnp.einsum("bld,hd->bhl", tokens, x[0::2])
            said = jnp.einsum("bld,hd->bhl", tokens, x[1::2])
            return (((self.weights(lam * scores) * said).sum((1, 2)) - label) ** 2).mean()

        x = arrays["vectors"]
        g = jax.grad(batch_loss)(x)
        if not self.sphere:
            return {"vectors": x - self.step_size * g}
        moved = x - self.step_size * (g - (g * x).sum(1, keepdims=True) * x)
        return {"vectors": moved / jnp.linalg.norm(moved, axis=1, keepdims=True)}


def draw_batch(task: MultiDirection, key: Any, n: int) -> tuple[Any, Any]:
    """n sequences of the task inside JAX: tokens (n, L, d) and labels with noise (n,)."""
    import jax
    from jax import numpy as jnp
    from jax import random

    normal_key, where_key = random.split(key)
    F = task.directions
    L = task.length
    size = n * task.length * task.dim
    # one call: each costs a second of compilation
    normals = random.normal(normal_key, (size + n,))
    z = normals[:size].reshape(n, L, task.dim)
    xi = normals[size:]
    if task.positions == "distinct":
        where = jnp.argsort(random.uniform(where_key, (n, L)), axis=1)[:, :F]
    else:
        where = random.randint(where_key, (n, F), 0, L)
    marks = jax.nn.one_hot(where, L, dtype=z.dtype)  # (n, F, L)
    carried = (marks.sum(1) > 0)[:, :, None]
    tokens = jnp.where(carried, task.gamma * z, z) + task.signal * jnp.einsum(
        "nfl,fd->nld", marks, task.keys
    )
    label = jnp.einsum("nfl,nld,fd->n", marks, tokens, task.values) + task.noise * xi
    return tokens, label


def _with_directions(task: Any) -> MultiDirection:
    hint = "MultiDirection(dim=80, length=10)"
    checked_law(task, (MultiDirection, SingleLocation), "FullHeads", hint)
    if has_law(task, SingleLocation):  # heads do not see positions: their law does not matter
        numbers = {"gamma": task.gamma, "noise": task.noise, "signal": task.signal}
        return MultiDirection(
            task.dim,
            task.length,
            1,
            keys=task.key[None],
            values=task.value[None],
            **numbers,  # type: ignore[arg-type]
        )
    return task
