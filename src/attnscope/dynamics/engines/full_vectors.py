"""Training on the vectors k, v in R^d themselves: an independent check of the reduced
engines, and training without the constraint to spheres.

    FullPopulation   k <- (k - alpha (I - k k^T) grad_k R)/|.|, the same for v, R the exact risk at the
        overlaps of the vectors; its gradient
                     by JAX autodiff through inner products, or by the chain rule where the risk has
                     no JAX form
    FullSgd   the same step with the gradient of a batch loss on B fresh sequences of full tokens,
        or plain SGD or Adam (optax)
                     on unconstrained vectors

The predictor is T = sum_l weight_l(lam X.k) X_l.v and the loss (T - Y)^2, or log(1 + exp(-label T))
with label = sign(Y) in {-1, 1}. Cost grows with d. Exact up to rounding, and in law for SGD.
Overlaps are those of the raw vectors: without the sphere they are inner products, not cosines;
`norms` gives |k| and |v|.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnscope.deprecated import accept_old_keyword
from attnscope.dynamics.engines.engine import State, checked_steps
from attnscope.dynamics.engines.jax_stepper import Stepper, fresh_state
from attnscope.dynamics.engines.losses import LOSSES, weight_function
from attnscope.dynamics.engines.pair_vectors import lengths, pair_overlaps, vectors_with
from attnscope.dynamics.engines.population_exact import exact_gradient
from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.x64 import computed_x64
from attnscope.optional import needs
from attnscope.predictors.attention import Predictor
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import checked_task, has_jax_form, risk_function

__all__ = [
    "FullPopulation",
    "FullSgd",
    "Optimiser",
    "draw_batch",
    "tile_for",
]

SOFTMAX_GRID = 256 * 384  # nodes of the softmax risk's JAX form


class FullPopulation:
    """Projected gradient descent of unit vectors on the exact risk; state: "k", "v" (runs, d).

    Args:
        task: a SingleLocation.
        predictor: one head, such as Erf(0.1).
        step_size: alpha > 0.

    >>> import attnscope as at
    >>> import numpy as np
    >>> start = np.array(at.Overlaps(0.5, 0.0, 0.0, 0.5, 0.0))[:, None]
    >>> engine = at.FullPopulation(at.SingleLocation(dim=20, length=5), at.Erf(0.1), step_size=0.01)
    >>> state = engine.init(start, seed=0)
    >>> state["k"].shape, np.abs(engine.overlaps(state)[:, 0]).round(12).tolist()
    ((1, 20), [0.5, 0.0, 0.0, 0.5, 0.0])
    """

    def __init__(self, task: SingleLocation, predictor: Predictor, step_size: float) -> None:
        needs("jax", "FullPopulation")
        self.task = checked_task(task, "FullPopulation")
        self.predictor = predictor
        self.step_size = check.real(step_size, "step_size", "FullPopulation", 0, strict=True)
        self._analytic = exact_gradient(task, predictor, "FullPopulation")
        self.twin = has_jax_form(self.task, predictor)
        if self.twin:
            self._risk = risk_function(task, predictor)
            entries = 2 * task.dim if predictor.componentwise else SOFTMAX_GRID
            self._stepper = Stepper(self._step_one_run, tile_for(entries))

    def init(self, overlaps: np.ndarray, seed: int) -> State:
        """Runs that start at overlaps (5, runs);
        what the overlaps leave open is drawn from (seed, run).
        """
        k, v = vectors_with(overlaps, self.task, seed, "FullPopulation")
        return fresh_state({"k": k, "v": v}, seed)

    @accept_old_keyword
    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        """State after len(inverse_temperatures) more steps."""
        if self.twin:
            return self._stepper.advance(state, inverse_temperatures)
        inverse_temperatures = checked_steps(
            state, inverse_temperatures, "FullPopulation.advance"
        )
        k = state["k"]
        v = state["v"]
        # a run that has left the finite numbers is an outcome
        with np.errstate(all="ignore"):
            for lam in inverse_temperatures:
                k, v = self._chain_step(k, v, float(lam))
        return {**state, "k": k, "v": v, "step": state["step"] + len(inverse_temperatures)}

    def overlaps(self, state: State) -> np.ndarray:
        """(5, runs)."""
        return pair_overlaps(self.task, state["k"], state["v"])

    def _step_one_run(self, arrays: dict[str, Any], key: Any, lam: Any) -> dict[str, Any]:
        import jax

        ks = self.task.key
        vs = self.task.value
        risk = lambda k, v: self._risk(Overlaps(k @ ks, k @ vs, v @ ks, v @ vs, k @ v), lam)
        k = arrays["k"]
        v = arrays["v"]
        grad_k, grad_v = jax.grad(risk, (0, 1))(k, v)
        return {
            "k": _sphere_step(k, grad_k, self.step_size),
            "v": _sphere_step(v, grad_v, self.step_size),
        }

    def _chain_step(
        self, k: np.ndarray, v: np.ndarray, lam: float
    ) -> tuple[np.ndarray, np.ndarray]:
        ks = self.task.key
        vs = self.task.value
        R = self._analytic(pair_overlaps(self.task, k, v), lam)[:, :, None]  # (5, runs, 1)
        grad_k = R[0] * ks + R[1] * vs + R[4] * v
        grad_v = R[2] * ks + R[3] * vs + R[4] * k
        return _sphere_step(k, grad_k, self.step_size), _sphere_step(
            v, grad_v, self.step_size
        )


class FullSgd:
    """Mini-batch training of k and v on fresh batches of full tokens.

    Args:
        task: a SingleLocation.
        predictor: one head, such as Erf(0.1).
        step_size: alpha > 0.
        batch_size: fresh sequences a step, >= 1.
        optimiser: "sphere-sgd" (projected gradient on unit vectors), "sgd" or "adam"
            (unconstrained).
        loss: "squared" or "logistic" (module docstring).

    State: "k", "v" (runs, d), the optimiser's own arrays, keys and counter.

    >>> import attnscope as at
    >>> import numpy as np
    >>> start = np.array(at.Overlaps(0.5, 0.0, 0.0, 0.5, 0.0))[:, None]
    >>> task = at.SingleLocation(dim=20, length=5)
    >>> engine = at.FullSgd(task, at.Erf(0.1), step_size=0.01, batch_size=8, optimiser="adam")
    >>> state = engine.init(start, seed=0)
    >>> state["k"].shape, engine.overlaps(state)[0].round(12).tolist()
    ((1, 20), [0.5])
    """

    def __init__(
        self,
        task: SingleLocation,
        predictor: Predictor,
        step_size: float,
        batch_size: int,
        optimiser: str = "sphere-sgd",
        loss: str = "squared",
    ) -> None:
        needs("jax", "FullSgd")
        needs("optax", "FullSgd")
        self.task = checked_task(task, "FullSgd")
        self.batch_size = check.integer(batch_size, "batch_size", "FullSgd", 1)
        self.weights = weight_function(predictor, "FullSgd")
        if loss not in LOSSES:
            raise bad("loss", "FullSgd", "'squared' or 'logistic'", loss)
        self.loss = LOSSES[loss]
        self.sphere = optimiser == "sphere-sgd"
        self.optimiser = Optimiser.named(
            optimiser, step_size, "FullSgd", ("sphere-sgd", "sgd", "adam")
        )
        self._stepper = Stepper(
            self._step_one_run, tile_for(self.batch_size * task.length * task.dim)
        )

    def init(self, overlaps: np.ndarray, seed: int) -> State:
        """Runs that start at overlaps (5, runs) with unit vectors;
        what the overlaps leave open is drawn from (seed, run).
        """
        k, v = vectors_with(overlaps, self.task, seed, "FullSgd")
        return fresh_state(self.optimiser.begin({"k": k, "v": v}), seed)

    @accept_old_keyword
    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        """State after len(inverse_temperatures) more steps."""
        return self._stepper.advance(state, inverse_temperatures)

    def overlaps(self, state: State) -> np.ndarray:
        """(5, runs) inner products of the raw vectors."""
        return pair_overlaps(self.task, state["k"], state["v"])

    def norms(self, state: State) -> np.ndarray:
        """(2, runs): |k| and |v|."""
        return lengths(state["k"], state["v"])

    def _step_one_run(self, arrays: dict[str, Any], key: Any, lam: Any) -> dict[str, Any]:
        import jax

        tokens, label = draw_batch(self.task, key, self.batch_size)

        def batch_loss(vectors: dict[str, Any]) -> Any:
            weights = self.weights(lam * (tokens @ vectors["k"]))  # (B, L)
            return self.loss((weights * (tokens @ vectors["v"])).sum(1), label).mean()

        vectors = {"k": arrays["k"], "v": arrays["v"]}
        gradient = jax.grad(batch_loss)(vectors)
        if self.sphere:
            gradient = {
                name: g - (g @ vectors[name]) * vectors[name] for name, g in gradient.items()
            }
        out = self.optimiser.update(arrays, gradient)
        if self.sphere:
            out = {name: x / jax.numpy.linalg.norm(x) for name, x in out.items()}
        return out


def _sphere_step(x: Any, gradient: Any, alpha: float) -> Any:
    """The projected step of unit vectors (..., d), for NumPy and JAX arrays alike."""
    moved = x - alpha * (gradient - (gradient * x).sum(-1, keepdims=True) * x)
    return moved / (moved * moved).sum(-1, keepdims=True) ** 0.5


def tile_for(entries: int) -> int:
    """Runs per executable for runs of this many numbers each: enough to amortise the overhead of
    small kernels, few enough that a handful of runs does not pay for many. A function of the task
    alone, so bits do not depend on the number of runs.
    """
    return int(np.clip((1 << 14) // entries, 1, 16))


def draw_batch(task: SingleLocation, key: Any, n: int) -> tuple[Any, Any]:
    """n sequences of the task inside JAX: tokens (n, L, d) and labels with noise (n,)."""
    from jax import numpy as jnp
    from jax import random

    normal_key, where_key = random.split(key)
    size = n * task.length * task.dim
    # one call: each costs a second of compilation
    normals = random.normal(normal_key, (size + n,))
    z = normals[:size].reshape(n, task.length, task.dim)
    xi = normals[size:]
    pi = (
        np.full(task.length, 1 / task.length)
        if task.location_probs is None
        else task.location_probs
    )
    # roundoff of the sum must not select a position beyond it
    last = int(np.flatnonzero(pi)[-1])
    where = jnp.minimum((random.uniform(where_key, (n, 1)) >= np.cumsum(pi)).sum(1), last)
    marked = jnp.arange(task.length) == where[:, None]  # (n, L)
    tokens = jnp.where(marked[:, :, None], task.signal * task.key + task.gamma * z, z)
    label = (marked * (tokens @ task.value)).sum(1) + task.noise * xi
    return tokens, label


@dataclass(frozen=True)
class Optimiser:
    """An optax optimiser whose state lives as flat arrays beside the parameters it moves."""

    name: str
    step_size: float

    @classmethod
    def named(
        cls, name: object, step_size: object, of: str, allowed: tuple[str, ...]
    ) -> Optimiser:
        """The checked optimiser; "sphere-sgd" moves like "sgd", its projection is the engine's."""
        if name not in allowed:
            raise bad("optimiser", of, " or ".join(repr(x) for x in allowed), name)
        return cls(
            str(name).removeprefix("sphere-"),
            check.real(step_size, "step_size", of, 0, strict=True),
        )

    def begin(self, arrays: State) -> State:
        """The parameters (run axis first) with the optimiser's arrays at its start."""
        import jax

        with computed_x64():
            leaves = jax.tree.leaves(jax.vmap(self._optax_optimiser().init)(arrays))
            return {
                **arrays,
                **{f"optimiser{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)},
            }

    def update(self, arrays: dict[str, Any], gradient: dict[str, Any]) -> dict[str, Any]:
        """One step of one run: the moved parameters and the optimiser's arrays."""
        import jax
        import optax

        optimiser = self._optax_optimiser()
        parameters = {name: arrays[name] for name in gradient}
        leaves, shape = jax.tree.flatten(jax.eval_shape(optimiser.init, parameters))
        memory = jax.tree.unflatten(
            shape, [arrays[f"optimiser{i}"] for i in range(len(leaves))]
        )
        move, memory = optimiser.update(gradient, memory, parameters)
        kept = {f"optimiser{i}": leaf for i, leaf in enumerate(jax.tree.leaves(memory))}
        return {**optax.apply_updates(parameters, move), **kept}

    def _optax_optimiser(self) -> Any:
        import optax

        return {"sgd": optax.sgd, "adam": optax.adam}[self.name](self.step_size)
