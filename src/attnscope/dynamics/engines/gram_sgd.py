"""Mini-batch SGD of any loss of projections, exact in law, in the Gram matrix of the vectors alone.

notation: d = dim, L = length, F informative tokens, B = batch size, P the m trained vectors, r = 2F
teachers (k_1*, v_1*, ...), n = m + r.

Informative token i is N(s k_i*, gam^2 I_d), the others N(0, I_d), all independent. The loss of a
sequence (losses.py) sees tokens only through projections, so with c = d loss / d (X_l.p_a) (by JAX
autodiff, divided by B) the gradient in p_a is g_a = sum_l c_la X_l. Write R^d = span of all n
vectors (+) the rest, with the frame of the span by Cholesky, trained vectors first; a dependent
vector leaves its axis empty, an arbitrary direction orthogonal to the others. Then, given the Gram
matrix,
    - along the first m axes all tokens are drawn, along the other r the informative ones: this
      fixes every projection, hence c;
    - along the other r axes the background adds independent N(0, S_0), S_0 = sum over background of
      c_l c_l^T (m x m);
    - in the remaining d - n dimensions the g_a enter the new Gram matrix only through their own
      Gram matrix, which is Wishart_m(S, d - n), S = S_0 + gam^2 sum over informative of c_l c_l^T,
      independent of everything else.
A step is p <- (p - alpha (I - p p^T) g)/|.| on spheres, or p <- p - alpha g; the new inner products
follow. The cost does not depend on d. Exact: no limit, no approximation; the Wishart matrix by
Bartlett's factor (columns beyond d - n empty, so that d = n, n + 1, ... are right), chi-squares by
summed squares or by Marsaglia and Tsang's rejection (2000), which is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.deprecated import accept_old_keyword
from attnscope.dynamics.engines.engine import State
from attnscope.dynamics.engines.gram_engine import GramSgd
from attnscope.dynamics.engines.jax_stepper import Stepper, fresh_state
from attnscope.dynamics.engines.losses import Loss
from attnscope.errors import bad
from attnscope.numerics.border.x64 import computed_x64
from attnscope.optional import needs
from attnscope.theory.risks.multi_head_risk import Task

__all__ = ["GenericSgd"]

# runs per executable: a step costs 18, 14, 11 us per run at 16, 32, 64 (L = 10, B = 5), and few
# runs pay for a whole tile
RUNS_PER_TILE = 32
# squared distance to the span of the others, relative, below which a vector counts as dependent: 50
# roundings; vectors that come this close take inner products with a relative error of 1e-7 into the
# step
DEPENDENT_VECTOR_PIVOT = 1e-14
# first counter of the rejection's keys: beyond all that the step's one long draw uses
REJECTION_COUNTER = 1 << 31
# degrees of freedom up to which a chi-square is a sum of squares: cheaper than a rejection loop
SUMMED_FREEDOM = 8


class GenericSgd(GramSgd):
    """SGD on fresh batches in the (m + 2F)-vector Gram matrix, for any loss of projections (module
    docstring).

    Args:
        task: a SingleLocation or a MultiDirection with distinct positions; gives dim, length,
            gamma, signal and noise.
        loss: squared_loss(predictor, heads), logistic_loss(...), or any function of losses.py's
            form.
        step_size: alpha > 0.
        batch_size: fresh sequences a step, >= 1.
        parameters: m, the number of trained vectors; 2 per head, in the order k_1, v_1, k_2, v_2,
            ...
        informative: F, the number of informative tokens, each with its own (key, value) teachers,
            all independent.
        constraint: "sphere" (projected gradient, unit vectors) or "free".

    State: "gram" (runs, n, n) of trained vectors, then teachers. `init` serves m = 2, F = 1;
    `start` any Gram matrix.

    >>> import attnscope as at
    >>> import numpy as np
    >>> start = np.array(at.Overlaps(0.5, 0.0, 0.0, 0.5, 0.0))[:, None]
    >>> task = at.SingleLocation(dim=20, length=5)
    >>> engine = at.GenericSgd(task, at.squared_loss(at.Erf(0.1)), step_size=0.01, batch_size=8)
    >>> state = engine.init(start, seed=0)
    >>> state["gram"].shape
    (1, 4, 4)
    """

    def __init__(
        self,
        task: Task,
        loss: Loss,
        step_size: float,
        batch_size: int,
        *,
        parameters: int = 2,
        informative: int = 1,
        constraint: str = "sphere",
    ) -> None:
        needs("jax", "GenericSgd")
        super().__init__(task, step_size, batch_size, parameters, informative, constraint)
        self.loss = self._checked_loss(loss)
        self._stepper = Stepper(self._step_one_run, RUNS_PER_TILE)

    def _checked_loss(self, loss: Loss) -> Loss:
        import jax
        from jax import numpy as jnp

        try:
            with computed_x64():
                seen, told = (jnp.zeros(shape) for shape in self._projection_shapes())
                jax.eval_shape(jax.grad(loss), seen, told, 0.0, 1.0)
        except Exception as error:
            got = f"{type(error).__name__} for seen {self._projection_shapes()[0]}, told {self._projection_shapes()[1]}"
            must = "a differentiable scalar function loss(seen, told, noise, inverse_temperature)"
            raise bad(
                "loss", "GenericSgd", must, got, "squared_loss(Softmax(2.0))"
            ) from error
        return loss

    def _projection_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return (self.task.length, self.parameters), (self.informative, 2 * self.informative)

    # -- the contract ------------------------------------------------------------------------------

    def _fresh_state(self, grams: np.ndarray, seed: int) -> State:
        return fresh_state({"gram": grams}, seed)

    @accept_old_keyword
    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        """State after len(inverse_temperatures) more steps."""
        return self._stepper.advance(state, inverse_temperatures)

    # -- one step of one run -----------------------------------------------------------------------

    def _step_one_run(self, arrays: dict[str, Any], key: Any, lam: Any) -> dict[str, Any]:
        from jax import numpy as jnp

        m = self.parameters
        alpha = self.step_size
        # a diverged run stays so
        G = jnp.where(jnp.isfinite(arrays["gram"]).all(), arrays["gram"], jnp.nan)
        frame = cholesky(G)  # (n, n), rows: the vectors' coordinates
        P = frame[:m]
        # (m, n) in the frame; (m, m) Gram matrix of the rest
        inside, W = self._batch_gradient(frame, key, lam)
        if self.sphere:
            inside = inside - (P * inside).sum(1, keepdims=True) * P
        moved = P - alpha * inside
        block = product(moved, moved) + alpha**2 * W
        size = jnp.sqrt(jnp.diagonal(block)) if self.sphere else jnp.ones(m)
        corner = product(moved, frame[m:]) / size[:, None]
        block = block / (size[:, None] * size)
        return {"gram": jnp.block([[block, corner], [corner.T, G[m:, m:]]])}

    def _batch_gradient(self, frame: Any, key: Any, lam: Any) -> tuple[Any, Any]:
        """The batch gradient of the m vectors:
        coordinates in the frame, and Gram matrix of what lies outside it.
        """
        import jax
        from jax import numpy as jnp
        from jax import random

        B = self.batch_size
        F = self.informative
        m = self.parameters
        n = self.vectors
        others = self.task.length - F
        task = self.task
        sizes = np.cumsum(
            [B * others * m, B * F * n, B, m * (n - m), bartlett_normals(self.freedom, m)]
        )
        # one call: each costs a second of compilation
        normals = random.normal(key, (int(sizes[-1]),))
        z0, z1, xi, z2, z3 = jnp.split(normals, sizes[:-1].tolist())
        background = z0.reshape(B, others, m)  # coordinates along the first m axes
        means = task.signal * frame[m::2]  # (F, n): of k_1*, k_2*, ...
        marked = means + task.gamma * z1.reshape(B, F, n)
        told = product(marked, frame[m:])  # (B, F, r)
        # (B, L, m)
        seen = jnp.concatenate(
            [product(marked, frame[:m]), product(background, frame[:m, :m])], axis=1
        )
        c = (
            jax.vmap(jax.grad(self.loss), (0, 0, 0, None))(seen, told, task.noise * xi, lam)
            / B
        )
        c1 = c[:, :F].reshape(-1, m)
        c0 = c[:, F:].reshape(-1, m)
        S0 = product(c0.T, c0.T)
        S = S0 + self.spread * product(c1.T, c1.T)
        first = product(c0.T, background.reshape(-1, m).T)
        other = product(cholesky(S0), z2.reshape(n - m, m))
        inside = jnp.concatenate([first, other], axis=1) + product(
            c1.T, marked.reshape(-1, n).T
        )
        factor = product(cholesky(S), bartlett(z3, key, self.freedom, m).T)
        return inside, product(factor, factor)


def product(a: Any, b: Any) -> Any:
    """a @ b.T for small factors: as sums that XLA fuses, not as a library call per run."""
    return (a[..., :, None, :] * b[..., None, :, :]).sum(-1)


def cholesky(G: Any) -> Any:
    """Lower factor A, A A^T = G, of a small positive semidefinite matrix;
    a vanishing pivot leaves its column empty.
    """
    from jax import numpy as jnp

    n = G.shape[0]
    columns = []
    rest = G
    for j in range(n):
        pivot = rest[j, j]
        ok = ~(pivot <= DEPENDENT_VECTOR_PIVOT * G[j, j])  # so that NaN stays NaN
        column = jnp.where(ok, rest[:, j] / jnp.sqrt(jnp.where(ok, pivot, 1.0)), 0.0) * (
            jnp.arange(n) >= j
        )
        rest = rest - column[:, None] * column
        columns.append(column)
    return jnp.stack(columns, axis=1)


def bartlett_normals(freedom: int, m: int) -> int:
    """How many standard normals `bartlett` needs from outside."""
    return m * (m - 1) // 2 + sum(
        f for f in _chi_square_freedoms(freedom, m) if f <= SUMMED_FREEDOM
    )


def _chi_square_freedoms(freedom: int, m: int) -> list[int]:
    return [freedom - j for j in range(min(m, freedom))]  # falling


def bartlett(z: Any, key: Any, freedom: int, m: int) -> Any:
    """Lower (m, m) factor T of T T^T ~ Wishart_m(I, freedom); empty columns from `freedom` on, if
    that is below m.

    z are standard normals; only rejection sampling, for more than SUMMED_FREEDOM degrees of freedom, draws
    from the key.
    """
    from jax import numpy as jnp

    below = z[: m * (m - 1) // 2]
    squares = z[m * (m - 1) // 2 :] ** 2
    freedoms = _chi_square_freedoms(freedom, m)
    few = [f for f in freedoms if f <= SUMMED_FREEDOM]
    ends = np.cumsum(few)
    chi2 = [squares[end - f : end].sum() for f, end in zip(few, ends)]
    large = 2 * gammas(key, np.array(freedoms[: len(freedoms) - len(few)]) / 2)
    diagonal = jnp.sqrt(jnp.stack([*large, *chi2])) if freedoms else jnp.zeros(0)
    T = jnp.zeros((m, m)).at[np.tril_indices(m, -1)].set(below)
    rank = len(freedoms)
    return T.at[np.arange(rank), np.arange(rank)].set(diagonal) * (np.arange(m) < rank)


def gammas(key: Any, shapes: np.ndarray) -> Any:
    """Independent Gamma(shape, 1), shapes >= 1:
    Marsaglia and Tsang's d (1 + x/sqrt(9 d))^3, accepted against a uniform.
    """
    from jax import lax, random
    from jax import numpy as jnp

    if not len(shapes):
        return jnp.zeros(0)
    d = jnp.asarray(shapes - 1 / 3)
    c = 1 / jnp.sqrt(9 * d)

    def proposal(carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        count, value, done = carry
        x, y, z = random.normal(random.fold_in(key, count), (3, len(shapes)))
        v = (1 + c * x) ** 3
        bound = x * x / 2 + d * (1 - v + jnp.log(jnp.where(v > 0, v, 1.0)))
        # the left side is the log of a uniform
        fits = (v > 0) & (-(y * y + z * z) / 2 < bound)
        return count + 1, jnp.where(done, value, d * v), done | fits

    start = (
        jnp.asarray(REJECTION_COUNTER, jnp.uint32),
        jnp.zeros(d.shape),
        jnp.zeros(d.shape, bool),
    )
    return lax.while_loop(lambda carry: ~carry[2].all(), proposal, start)[1]
