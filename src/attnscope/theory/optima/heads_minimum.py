"""Local minima of the risk of several heads on the product of their spheres, by a fixed sample of
scores.

notation: trained rows x_1 .. x_m (k_1, v_1, ..., k_H, v_H) in R^(2F + m): the span of orthonormal
teachers first, then m more axes, enough for every way in which m vectors can leave that span. z (n,
L, H) standard normal, fixed.

The risk is the mean of E[(T - Y)^2 | scores] (multi_head_risk.py), written in JAX: (u, w, y) of a
token are Gaussian with covariance C, so with u = A z, A A^T = C_uu,

    E[(w, y) | u] = mean + B z,  B = C_{(w,y)u} A^{-T},    Cov((w, y) | u) = C_{(w,y)(w,y)} - B B^T.

It is smooth in the vectors, so a quasi-Newton search and then Newton's method find its stationary
point to rounding, and the Hessian along x/|x| at unit x (a retraction of second order) is the
Riemannian one. The sample is finite: the same Hessian and gradient on an independent sample show
how much that matters. The keys k_1, ..., k_H must be linearly independent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.x64 import computed_x64
from attnscope.optional import needs
from attnscope.predictors.heads import MultiHead, adds_heads
from attnscope.predictors.inverse_temperature import constant_inverse_temperature
from attnscope.tasks.planted.multi_direction import MultiDirection
from attnscope.theory.optima.sphere_hessian import tangent_basis

__all__ = ["HeadsMinimum", "heads_minimum"]

HEADS_MINIMUM_NAME = "heads_minimum"
# steps after the quasi-Newton search; quadratic convergence needs 3 or 4
NEWTON_STEPS_AFTER_SEARCH = 8
# at the end of the search; rounding of a mean of 10^4 terms is 1e-14
LARGEST_FINAL_GRADIENT = 1e-9


class HeadsMinimum(NamedTuple):
    """vectors (2H, 2F + 2H): rows k_1, v_1, ... in coordinates (k_1*, v_1*, ..., others); risk,
    gradient norm and tangent Hessian eigenvalues on the sample that was minimised;
    `check_*` the same on an independent one.
    """

    vectors: np.ndarray
    risk: float
    gradient: float
    eigenvalues: np.ndarray
    check_risk: float
    check_gradient: float
    check_eigenvalues: np.ndarray


def heads_minimum(
    task: MultiDirection,
    predictor: MultiHead,
    start: np.ndarray,
    samples: int = 8000,
    seed: int = 0,
) -> HeadsMinimum:
    """The local minimum (or other stationary point) next to `start` (2H, 2F), rows k_1, v_1, ... in
    the orthonormal teachers' coordinates.
    """
    needs("jax", HEADS_MINIMUM_NAME)
    lam = constant_inverse_temperature(predictor, HEADS_MINIMUM_NAME)
    if not (adds_heads(predictor) and predictor.head.exponential):
        raise bad(
            "predictor",
            HEADS_MINIMUM_NAME,
            "a MultiHead of Softmax heads",
            predictor,
            "MultiHead(Softmax(1.0), heads=2)",
        )
    m = 2 * predictor.heads
    r = 2 * task.directions
    if task.positions != "distinct" or not np.array_equal(task.teacher_gram, np.eye(r)):
        raise bad(
            "task",
            HEADS_MINIMUM_NAME,
            "one with orthonormal vectors at distinct positions",
            task,
        )
    x = np.concatenate(
        [check.array(start, "start", HEADS_MINIMUM_NAME, (m, r)), np.zeros((m, m))], axis=1
    )
    n = check.integer(samples, "samples", HEADS_MINIMUM_NAME, 100)
    rng = np.random.default_rng([check.seed_value(seed, HEADS_MINIMUM_NAME), 0x3E5])
    # leave the span: a saddle must not be taken for a minimum
    x = x + 0.01 * rng.standard_normal(x.shape)
    with computed_x64():
        first, second = (
            _Sample(
                task,
                predictor.heads,
                lam,
                rng.standard_normal((n, task.length, predictor.heads)),
            )
            for _ in "12"
        )
        x = first.search(_unit_rows(x))
        found = [sample.at(x) for sample in (first, second)]
    if found[0][1] > LARGEST_FINAL_GRADIENT:
        raise AttnscopeError(
            f"the search of {HEADS_MINIMUM_NAME} must end at a stationary point, got gradient {found[0][1]:.2g}; "
            "try another start."
        )
    return HeadsMinimum(x, *found[0], *found[1])


class _Sample:
    """The sampled risk on one set of scores, its gradient and Hessian on the spheres."""

    def __init__(self, task: MultiDirection, heads: int, lam: float, z: np.ndarray) -> None:
        import jax

        risk = _risk_function(task, heads, lam)
        on_spheres = lambda x, z: risk(x / (x * x).sum(1, keepdims=True) ** 0.5, z)
        slope = jax.grad(on_spheres)
        self.z = jax.numpy.asarray(z)
        self._value = jax.jit(jax.value_and_grad(on_spheres))
        self._bend = jax.jit(
            lambda x, direction, z: jax.jvp(lambda y: slope(y, z), (x,), (direction,))[1]
        )

    def value(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self._value(x, self.z)
        return float(value), np.asarray(gradient)

    def search(self, x: np.ndarray) -> np.ndarray:
        shape = x.shape

        def flat(y: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.value(y.reshape(shape))
            return value, gradient.ravel()

        x = _unit_rows(
            minimize(
                flat,
                x.ravel(),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 500, "ftol": 1e-13},
            ).x.reshape(shape)
        )
        for _ in range(NEWTON_STEPS_AFTER_SEARCH):
            gradient, tangent = self.value(x)[1].ravel(), tangent_basis(*x).T
            if np.linalg.norm(gradient) <= LARGEST_FINAL_GRADIENT / 100:
                break
            move = np.linalg.lstsq(
                self._hessian(x, tangent), tangent @ gradient, rcond=1e-10
            )[0]
            x = _unit_rows(x - (move @ tangent).reshape(shape))
        return x

    def at(self, x: np.ndarray) -> tuple[float, float, np.ndarray]:
        value, gradient = self.value(x)
        return (
            value,
            float(np.linalg.norm(gradient)),
            np.linalg.eigvalsh(self._hessian(x, tangent_basis(*x).T)),
        )

    def _hessian(self, x: np.ndarray, tangent: np.ndarray) -> np.ndarray:
        columns = [
            np.asarray(self._bend(x, t.reshape(x.shape), self.z)).ravel() for t in tangent
        ]
        H = tangent @ np.stack(columns, axis=1)
        return (H + H.T) / 2


def _unit_rows(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _risk_function(task: MultiDirection, H: int, lam: float) -> Callable[[Any, Any], Any]:
    import jax
    from jax import numpy as jnp

    F = task.directions
    L = task.length
    r = 2 * F
    scale = np.where(np.arange(L) < F, task.gamma, 1.0)[:, None]

    def risk(x: Any, z: Any) -> Any:
        star = jnp.eye(r, x.shape[1])
        rows = jnp.concatenate([x[0::2], x[1::2], star[1::2]])  # u, w, y
        C = rows @ rows.T
        A = jnp.linalg.cholesky(C[:H, :H])
        B = jax.scipy.linalg.solve_triangular(A, C[:H, H:], lower=True).T  # (H + F, H)
        rest = C[H:, H:] - B @ B.T
        mean = jnp.zeros((L, H + H + F)).at[:F].set(task.signal * star[0::2] @ rows.T)
        seen = mean + scale * (z @ jnp.concatenate([A, B]).T)  # (n, L, 2H + F)
        a = jax.nn.softmax(lam * seen[:, :, :H], axis=1)
        own = jnp.arange(F)
        gap = (a * seen[:, :, H : 2 * H]).sum((1, 2)) - seen[:, own, 2 * H + own].sum(1)
        signed = jnp.concatenate(
            [a, -jnp.broadcast_to(jnp.eye(L, F), (len(z), L, F))], axis=2
        )
        spread = jnp.einsum("nli,ij,nlj,l->n", signed, rest, signed, scale[:, 0] ** 2)
        return (gap**2 + spread).mean()

    return risk
