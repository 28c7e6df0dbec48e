"""Mini-batch SGD of the erf predictor in its five overlaps: exact in law, at the same cost in any
dimension.

The predictor is T(X) = sum_l erf(lam X_l.k) X_l.v with k, v on the unit sphere. A step draws a
fresh batch of B samples of single-location regression (one token N(s k*, gam^2 I_d), the others
N(0, I_d), Y = X_inf.v* + eps xi), takes the gradient of the mean of (T - Y)^2, projects it on the
tangent spaces of the spheres, steps and renormalises.

notation: Gram-Schmidt of (k, v, v*, k*) gives the frame e1..e4 (k*.v* = 0),
    k = e1,  v = rho e1 + r2 e2,  v* = eta e1 + n2 e2 + n3 e3,
        k* = kappa e1 + t2 e2 + t3 e3 + t4 e4.
With u = x.e1, x2 = x.e2, w = x.v = rho u + r2 x2, the gradients are sum c_l x_l and sum e_l x_l
over the batch,
    c_l = (2/B)(T - Y) lam erf'(lam u_l) w_l,    e_l = (2/B)(T - Y) erf(lam u_l).
They depend on the tokens through (u, x2), and by Y through x3 = x.e3 of the informative token.
Given them:
  along e1, e2 the gradients are known;
  along e3   the informative part is known, the background adds N(0, Q), Q = sum_background (c,
      e)(c, e)^T;
  along e4     s t4 sum_informative (c, e) + N(0, P), P = Q + gam^2 sum_informative (c, e)(c, e)^T;
  elsewhere   only the Gram matrix of the two gradients matters: Wishart_2(P, d - 4), drawn by
      Bartlett's
               decomposition with chi^2 of d - 4 and d - 5 degrees of freedom (d = 4: zero, d = 5:
               rank one).
So a step needs 2 normals per background token, 4 per informative one and a handful more.

Exact in law for d >= 4 up to rounding; where a pivot of Gram-Schmidt vanishes (r2 or n3 below 3e-8)
its direction is a fresh one, orthogonal to the others, and the coordinates along it are zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from attnscope.dynamics.engines.engine import State
from attnscope.errors import bad
from attnscope.numerics.compiled.fast_erf import erf_given_exp, exp_negative
from attnscope.numerics.compiled.fast_normal import chi_square_pair, normals, seed_generators
from attnscope.numerics.compiled.numba_flags import FUSED_FLAGS
from attnscope.numerics.compiled.run_tiles import LANES
from attnscope.numerics.compiled.tile_loop import give_tile, take_tile, through_tiles
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.law import Law

__all__ = ["OVERLAP_ORDER", "SgdErf", "seed_generators", "sgd_steps"]

Array = np.ndarray

OVERLAP_ORDER = ("kappa", "eta", "theta", "nu", "rho")
ERF_SLOPE = 2 / math.sqrt(math.pi)  # erf'(0)
ROUNDING_PIVOT = 1e-15  # squared pivots below are rounding: 1 - x^2 is known to about 2e-16
# rows of the work array: the overlaps (0..4), the frame, ...
R2, N2, N3, T2, T3, T4 = range(5, 11)
# ... sums over the background tokens of a sample, with p = lam erf'(lam u) w and sigma = erf(lam
# u): sigma w; p x2, sigma u, sigma x2; p^2, p sigma, sigma^2, ...
OUT, P_2, S_1, S_2, P_P, P_S, S_S = range(11, 18)
# ... sums over the batch: gradients along e1, e2, e3; informative c and e; Q and its informative
# partner, ...
GK2, GK3, GV1, GV2, GV3, C_INF, E_INF, Q11, Q12, Q22, I11, I12, I22 = range(18, 31)
# ... (u, x2) of an informative token; gradients along e4; the Cholesky factor of P
U, X2, GK4, GV4, L11, L21, L22 = range(31, 38)
ERF_ROWS = 38
# seconds per token and tile, roughly: decides only whether threads are worth starting
TOKEN_SECONDS = 1e-7


class SgdErf:
    """The engine of these steps, exact in law for dim >= 4. State: "overlaps" (5, runs) and
    "generators" (runs, 4), one random stream per run.
    """

    def __init__(self, task: SingleLocation, step_size: float, batch_size: int) -> None:
        self.step_size = step_size
        self.law = Law.of(task)
        self.numbers: dict[str, Any] = {
            "dim": task.dim,
            "batch_size": batch_size,
            "noise": task.noise,
        }

    def init(self, overlaps: np.ndarray, seed: int = 0) -> State:
        start = np.array(overlaps, dtype=np.float64)
        return {"overlaps": start, "generators": seed_generators(seed, start.shape[1])}

    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        old = state["overlaps"]
        generators = state["generators"]
        alpha = self.step_size
        new, generators = sgd_steps(
            old, generators, inverse_temperatures, alpha, self.law, **self.numbers
        )
        return {"overlaps": new, "generators": generators}

    def overlaps(self, state: State) -> np.ndarray:
        return state["overlaps"]


def sgd_steps(
    state: np.ndarray,
    generator_states: np.ndarray,
    inverse_temperatures: np.ndarray,
    step_size: float,
    law: Law,
    *,
    dim: int,
    batch_size: int,
    noise: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Overlaps and generator states after len(inverse_temperatures) steps of mini-batch SGD on
    fresh batches.

    state (5, runs) in the order of OVERLAP_ORDER; generator_states (runs, 4) from `seed_generators`;
    inverse_temperatures (steps,) the lam of each step; the law with k* perp v*; dim >= 4. Run i
    depends on its own column and generator only. Two calls with a split schedule, the generators
    handed on, equal one call bit for bit. A run that becomes non-finite stays so.
    """
    state = np.ascontiguousarray(state, dtype=np.float64)
    generators = np.ascontiguousarray(generator_states, dtype=np.uint64)
    if (
        state.ndim != 2
        or state.shape[0] != len(OVERLAP_ORDER)
        or generators.shape != (state.shape[1], 4)
    ):
        got = f"shapes {state.shape} and {generators.shape}"
        raise bad(
            "state and generator_states",
            "sgd_steps",
            "arrays of shapes (5, runs) and (runs, 4)",
            got,
        )
    if dim < 4:
        raise bad(
            "dim",
            "sgd_steps",
            "an integer >= 4 (the four vectors k, v, k*, v* need room)",
            dim,
        )
    inverse_temperatures = np.ascontiguousarray(inverse_temperatures, dtype=np.float64)
    if state.size == 0 or inverse_temperatures.size == 0:
        return state.copy(), generators.copy()
    gamma = float(law.gamma)
    task = (
        float(step_size),
        gamma,
        float(law.signal),
        int(law.length),
        int(batch_size),
        float(noise),
    )
    degrees = int(dim) - 4
    variance = gamma**2
    starts = (state, generators, inverse_temperatures)
    return _run_tiles(*starts, task, degrees=degrees, informative_variance=variance)


def _run_tiles(
    state: Array,
    generators: Array,
    inverse_temperatures: Array,
    task: tuple[float, float, float, int, int, float],
    *,
    degrees: int,
    informative_variance: float,
) -> tuple[Array, Array]:
    """`degrees` of the Wishart law and `informative_variance` in P are arguments:
    tests plant errors there.
    """
    length = task[3]
    batch_size = task[4]
    setting = (inverse_temperatures, *task, degrees, informative_variance)
    seconds = inverse_temperatures.size * batch_size * length * TOKEN_SECONDS
    return through_tiles(_advance_tiles, state, generators, setting, seconds)


@njit(**FUSED_FLAGS)
def _advance_tiles(
    tiles: Array,
    seeds: Array,
    inverse_temperatures: Array,
    alpha: float,
    gam: float,
    s: float,
    length: int,
    batch: int,
    eps: float,
    degrees: int,
    variance: float,
    lanes: int,
) -> None:
    """Advance tiles (n, 5, LANES), generators (n, 4, LANES) in place;
    `lanes` = LANES (see population_erf).
    """
    # local arrays of constant shape: the compiler then knows that their rows do not overlap
    x = np.empty((ERF_ROWS, LANES))
    g = np.empty(4 * LANES, np.uint64)
    z = np.empty(2 * LANES)
    chi2 = np.empty(2 * LANES)
    for tile in range(tiles.shape[0]):
        take_tile(x, g, tiles[tile], seeds[tile], lanes)
        for t in range(inverse_temperatures.size):
            lam = inverse_temperatures[t]
            _write_frame(x, lanes)
            _clear_rows(x, GK2, I22, lanes)
            for _ in range(batch):
                _clear_rows(x, OUT, S_S, lanes)
                for _ in range(length - 1):
                    normals(z, g, lanes)
                    _add_background_token(x, z, lam, lanes)
                _add_informative_token(x, z, g, lam, gam, s, eps, 2.0 / batch, lanes)
            _gradient_outside(x, z, g, s, variance, lanes)
            chi_square_pair(chi2, z, g, degrees, lanes)
            normals(z, g, lanes)
            _move_overlaps(x, z, chi2, alpha, 1.0 if degrees > 0 else 0.0, lanes)
        give_tile(x, g, tiles[tile], seeds[tile], lanes)


@njit(forceinline=True, **FUSED_FLAGS)
def _clear_rows(x: Array, first: int, last: int, lanes: int) -> None:
    for j in range(first, last + 1):
        for i in range(lanes):
            x[j, i] = 0.0


@njit(forceinline=True, **FUSED_FLAGS)
def _inverse_root(x: float) -> float:
    """1/sqrt(x), or 0 where x is a vanished pivot."""
    return 1.0 / math.sqrt(x) if x > ROUNDING_PIVOT else 0.0


@njit(forceinline=True, **FUSED_FLAGS)
def _write_frame(x: Array, lanes: int) -> None:
    """Coordinates of v, v*, k* in the frame."""
    for i in range(lanes):
        kap, eta, the, nu, rho = x[0, i], x[1, i], x[2, i], x[3, i], x[4, i]
        r2 = 1.0 - rho * rho
        inverse = _inverse_root(r2)
        n2 = (nu - rho * eta) * inverse
        t2 = (the - rho * kap) * inverse
        n3 = 1.0 - eta * eta - n2 * n2
        inverse_3 = _inverse_root(n3)
        t3 = -(eta * kap + n2 * t2) * inverse_3
        t4 = 1.0 - kap * kap - t2 * t2 - t3 * t3
        x[R2, i], x[N2, i], x[N3, i] = r2 * inverse, n2, n3 * inverse_3
        x[T2, i], x[T3, i], x[T4, i] = t2, t3, math.sqrt(t4 if t4 > 0.0 else 0.0)


@njit(forceinline=True, **FUSED_FLAGS)
def _add_background_token(x: Array, z: Array, lam: float, lanes: int) -> None:
    """Add one background token, (u, x2) = z, to the sums of its sample."""
    for i in range(lanes):
        u = z[i]
        x2 = z[LANES + i]
        w = x[4, i] * u + x[R2, i] * x2
        score = lam * u
        e = exp_negative(score * score)
        sigma = erf_given_exp(score, e)
        p = lam * ERF_SLOPE * e * w
        x[OUT, i] += sigma * w
        x[P_2, i] += p * x2
        x[S_1, i] += sigma * u
        x[S_2, i] += sigma * x2
        x[P_P, i] += p * p
        x[P_S, i] += p * sigma
        x[S_S, i] += sigma * sigma


@njit(forceinline=True, **FUSED_FLAGS)
def _add_informative_token(
    x: Array,
    z: Array,
    g: Array,
    lam: float,
    gam: float,
    s: float,
    eps: float,
    weight: float,
    lanes: int,
) -> None:
    """Draw the informative token and the label of a sample;
    add the sample to the sums over the batch.
    """
    normals(z, g, lanes)
    for i in range(lanes):
        x[U, i], x[X2, i] = s * x[0, i] + gam * z[i], s * x[T2, i] + gam * z[LANES + i]
    normals(z, g, lanes)
    for i in range(lanes):
        u = x[U, i]
        x2 = x[X2, i]
        x3 = s * x[T3, i] + gam * z[i]
        w = x[4, i] * u + x[R2, i] * x2
        y = x[1, i] * u + x[N2, i] * x2 + x[N3, i] * x3 + eps * z[LANES + i]
        score = lam * u
        e = exp_negative(score * score)
        sigma = erf_given_exp(score, e)
        p = lam * ERF_SLOPE * e * w
        factor = weight * (x[OUT, i] + sigma * w - y)
        # c and e of the docstring
        c = factor * p
        e = factor * sigma
        square = factor * factor
        x[GK2, i] += factor * x[P_2, i] + c * x2
        x[GK3, i] += c * x3
        x[GV1, i] += factor * x[S_1, i] + e * u
        x[GV2, i] += factor * x[S_2, i] + e * x2
        x[GV3, i] += e * x3
        x[C_INF, i] += c
        x[E_INF, i] += e
        x[Q11, i] += square * x[P_P, i]
        x[Q12, i] += square * x[P_S, i]
        x[Q22, i] += square * x[S_S, i]
        x[I11, i] += c * c
        x[I12, i] += c * e
        x[I22, i] += e * e


@njit(forceinline=True, **FUSED_FLAGS)
def _cholesky(a: float, b: float, c: float) -> tuple[float, float, float]:
    """Lower triangle (l11, l21, l22) of [[a, b], [b, c]] >= 0."""
    inverse = 1.0 / math.sqrt(a) if a > 0.0 else 0.0
    l21 = b * inverse
    rest = c - l21 * l21
    return a * inverse, l21, math.sqrt(rest if rest > 0.0 else 0.0)


@njit(forceinline=True, **FUSED_FLAGS)
def _gradient_outside(
    x: Array,
    z: Array,
    g: Array,
    s: float,
    variance: float,
    lanes: int,
) -> None:
    """Complete the gradients along e3, draw them along e4, and leave the Cholesky factor of P."""
    normals(z, g, lanes)
    for i in range(lanes):
        l11, l21, l22 = _cholesky(x[Q11, i], x[Q12, i], x[Q22, i])
        x[GK3, i] += l11 * z[i]
        x[GV3, i] += l21 * z[i] + l22 * z[LANES + i]
    normals(z, g, lanes)
    for i in range(lanes):
        p11 = x[Q11, i] + variance * x[I11, i]
        p22 = x[Q22, i] + variance * x[I22, i]
        l11, l21, l22 = _cholesky(p11, x[Q12, i] + variance * x[I12, i], p22)
        x[GK4, i] = s * x[T4, i] * x[C_INF, i] + l11 * z[i]
        x[GV4, i] = s * x[T4, i] * x[E_INF, i] + l21 * z[i] + l22 * z[LANES + i]
        x[L11, i], x[L21, i], x[L22, i] = l11, l21, l22


@njit(forceinline=True, **FUSED_FLAGS)
def _move_overlaps(
    x: Array, z: Array, chi2: Array, alpha: float, some: float, lanes: int
) -> None:
    """Add the Gram matrix of the other directions (`some` = 1 if any, else 0), step,
    renormalise.
    """
    for i in range(lanes):
        kap, eta, the, nu, rho = x[0, i], x[1, i], x[2, i], x[3, i], x[4, i]
        r2 = x[R2, i]
        n2 = x[N2, i]
        n3 = x[N3, i]
        t2 = x[T2, i]
        t3 = x[T3, i]
        t4 = x[T4, i]
        gk2 = x[GK2, i]
        gk3 = x[GK3, i]
        gk4 = x[GK4, i]
        gv1 = x[GV1, i]
        gv2 = x[GV2, i]
        gv3 = x[GV3, i]
        gv4 = x[GV4, i]
        # Bartlett: P = l l^T, the Wishart matrix is m m^T with m = l b, b = [[chi, 0], [normal,
        # chi']]
        l22 = x[L22, i]
        b11 = math.sqrt(chi2[i])
        m11 = x[L11, i] * b11
        m21 = x[L21, i] * b11 + l22 * some * z[i]
        w11 = m11 * m11
        w12 = m11 * m21
        w22 = m21 * m21 + l22 * l22 * chi2[LANES + i]

        radial = rho * gv1 + r2 * gv2
        # tangent; grad_k just loses its e1 = k component
        gv1 = gv1 - radial * rho
        gv2 = gv2 - radial * r2
        k2 = 1.0 + alpha * alpha * (gk2 * gk2 + gk3 * gk3 + gk4 * gk4 + w11)
        v2 = 1.0 + alpha * alpha * (gv1 * gv1 + gv2 * gv2 + gv3 * gv3 + gv4 * gv4 + w22)
        cross = gk2 * gv2 + gk3 * gv3 + gk4 * gv4 + w12
        k_scale = 1.0 / math.sqrt(k2)
        v_scale = 1.0 / math.sqrt(v2)
        x[0, i] = (kap - alpha * (gk2 * t2 + gk3 * t3 + gk4 * t4)) * k_scale
        x[1, i] = (eta - alpha * (gk2 * n2 + gk3 * n3)) * k_scale
        x[2, i] = (the - alpha * (gv1 * kap + gv2 * t2 + gv3 * t3 + gv4 * t4)) * v_scale
        x[3, i] = (nu - alpha * (gv1 * eta + gv2 * n2 + gv3 * n3)) * v_scale
        x[4, i] = (rho - alpha * (gk2 * r2 + gv1) + alpha * alpha * cross) * (
            k_scale * v_scale
        )
