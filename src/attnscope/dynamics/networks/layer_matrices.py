"""Training of a whole softmax attention layer Q, K, V, O with one [CLS] query, by SGD or Adam on
fresh batches.

notation: a (d,) the [CLS] token, Q, K, V (d, p), O (p,), p = inner, lam = inverse temperature.

    T(X) = softmax(lam a^T Q K^T X^T) X V O = softmax(lam k^T X^T) X v,    k = K Q^T a,  v = V O:

the layer computes what softmax attention with the directions k and v computes, whatever p is, but
its gradient steps are those of the factors. `overlaps` are of k/|k| and v/|v|, so they mean what
they mean in the other engines; `norms` are |k| and |v|. The layer's effective inverse temperature
is lam |k|.

Start: all entries N(0, sigma^2), then K and V are corrected by one rank each so that k and v have
exactly the wished overlaps and the norm `scale`; sigma^2 = scale/sqrt(p d) is the size at which
uncorrected k and v would have about this norm too. Exact in law: batches are drawn in full.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.deprecated import accept_old_keyword, old_names
from attnscope.dynamics.engines.engine import State, checked_state
from attnscope.dynamics.engines.full_vectors import Optimiser, draw_batch, tile_for
from attnscope.dynamics.engines.jax_stepper import Stepper, fresh_state
from attnscope.dynamics.engines.pair_vectors import lengths, pair_overlaps, vectors_with
from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.optional import needs
from attnscope.predictors.full_attention import FullAttention
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.risk import checked_task

__all__ = ["FullMatrices"]


@old_names
class FullMatrices:
    """A softmax attention layer trained on the squared loss of its [CLS] row (module docstring).

    Args:
        task: a SingleLocation.
        inverse_temperature: lam of the layer that `layer` returns; `advance` takes its inverse
            temperatures step by step, as every engine.
        inner: p, the inner dimension.
        step_size: alpha > 0.
        batch_size: fresh sequences a step, >= 1.
        optimiser: "sgd" or "adam".
        scale: the norm of k and of v at the start.
        query: "fixed" (the [CLS] token keeps its random direction) or "learned".

    State: "Q", "K", "V" (runs, d, p), "O" (runs, p), "cls" (runs, d), the optimiser's arrays, keys
    and counter.

    >>> import attnscope as at
    >>> import numpy as np
    >>> start = np.array(at.Overlaps(0.5, 0.0, 0.0, 0.5, 0.0))[:, None]
    >>> task = at.SingleLocation(dim=20, length=5)
    >>> engine = at.FullMatrices(task, 1.0, inner=3, step_size=0.01, batch_size=8)
    >>> state = engine.init(start, seed=0)
    >>> state["Q"].shape, engine.layer(state).inverse_temperature
    ((1, 20, 3), 1.0)
    """

    def __init__(
        self,
        task: SingleLocation,
        inverse_temperature: float,
        inner: int,
        step_size: float,
        batch_size: int,
        optimiser: str = "adam",
        scale: float = 0.1,
        query: str = "fixed",
    ) -> None:
        needs("jax", "FullMatrices")
        needs("optax", "FullMatrices")
        self.task = checked_task(task, "FullMatrices")
        self.inverse_temperature = check.real(
            inverse_temperature, "inverse_temperature", "FullMatrices", 0
        )
        self.inner = check.integer(inner, "inner", "FullMatrices", 1)
        self.batch_size = check.integer(batch_size, "batch_size", "FullMatrices", 1)
        self.optimiser = Optimiser.named(
            optimiser, step_size, "FullMatrices", ("sgd", "adam")
        )
        self.scale = check.real(scale, "scale", "FullMatrices", 0, strict=True)
        if query not in ("fixed", "learned"):
            raise bad("query", "FullMatrices", "'fixed' or 'learned'", query)
        self.trained = (
            ("Q", "K", "V", "O") if query == "fixed" else ("Q", "K", "V", "O", "cls")
        )
        # numbers per run: the tokens, or the matrices with their gradients and moments
        entries = max(self.batch_size * task.length, 8 * self.inner) * task.dim
        self._stepper = Stepper(self._step_one_run, tile_for(entries))

    def init(self, overlaps: np.ndarray, seed: int) -> State:
        """Runs whose k/|k| and v/|v| start at overlaps (5, runs);
        everything else is drawn from (seed, run).
        """
        k, v = vectors_with(overlaps, self.task, seed, "FullMatrices")
        entries = (
            12 * len(k) * self.task.dim * self.inner
        )  # three matrices with two moments each, and the step's copies
        check.fits_in_memory(
            entries, 8, "Q, K, V", "FullMatrices", "fewer runs or a smaller inner"
        )
        layers = [
            self._random_layer(k[run], v[run], np.random.default_rng([seed, run, 4]))
            for run in range(len(k))
        ]
        arrays = {
            name: np.stack([layer[name] for layer in layers])
            for name in ("Q", "K", "V", "O", "cls")
        }
        memory = self.optimiser.begin({name: arrays[name] for name in self.trained})
        return fresh_state({**arrays, **memory}, seed)

    def _random_layer(self, k: np.ndarray, v: np.ndarray, rng: np.random.Generator) -> State:
        d = self.task.dim
        p = self.inner
        sigma = (self.scale / np.sqrt(p * d)) ** 0.5
        cls = rng.standard_normal(d)
        cls = cls / np.linalg.norm(cls)
        Q, K, V, O = (
            sigma * rng.standard_normal(shape) for shape in ((d, p), (d, p), (d, p), (p,))
        )
        K = _nearest_mapping(K, Q.T @ cls, self.scale * k)
        V = _nearest_mapping(V, O, self.scale * v)
        return {"Q": Q, "K": K, "V": V, "O": O, "cls": cls}

    @accept_old_keyword
    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        """State after len(inverse_temperatures) more steps."""
        return self._stepper.advance(state, inverse_temperatures)

    def directions(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """The effective k = K Q^T a and v = V O, (runs, d) each."""
        with np.errstate(all="ignore"):
            k = np.einsum(
                "rdp,rep,re->rd", state["K"], state["Q"], state["cls"], optimize=True
            )
            return k, np.einsum("rdp,rp->rd", state["V"], state["O"])

    def overlaps(self, state: State) -> np.ndarray:
        """(5, runs) of the normalised effective directions."""
        k, v = self.directions(state)
        size_k, size_v = lengths(k, v)[:, :, None]
        # a run that has left the finite numbers is an outcome
        with np.errstate(all="ignore"):
            return pair_overlaps(self.task, k / size_k, v / size_v)

    def norms(self, state: State) -> np.ndarray:
        """(2, runs): |k| and |v| of the effective directions."""
        return lengths(*self.directions(state))

    def layer(self, state: State, run: int = 0) -> FullAttention:
        """One run as a FullAttention; its [CLS] token is state["cls"][run]."""
        of = "FullMatrices.layer"
        checked_state(state, of)
        run = check.integer(run, "run", of, 0, len(state["Q"]) - 1)
        Q, K, V, O = (state[name][run] for name in ("Q", "K", "V", "O"))
        return FullAttention(Q, K, V, O[None], self.inverse_temperature)

    def _step_one_run(self, arrays: dict[str, Any], key: Any, lam: Any) -> dict[str, Any]:
        import jax

        tokens, label = draw_batch(self.task, key, self.batch_size)

        def batch_loss(trained: dict[str, Any]) -> Any:
            w = {**arrays, **trained}
            scores = lam * ((tokens @ w["K"]) @ (w["Q"].T @ w["cls"]))  # (B, L)
            values = (tokens @ w["V"]) @ w["O"]
            return (((jax.nn.softmax(scores) * values).sum(1) - label) ** 2).mean()

        gradient = jax.grad(batch_loss)({name: arrays[name] for name in self.trained})
        return {**arrays, **self.optimiser.update(arrays, gradient)}


def _nearest_mapping(matrix: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The matrix nearest to `matrix` that maps x to y."""
    return matrix + np.outer(y - matrix @ x, x) / (x @ x)
