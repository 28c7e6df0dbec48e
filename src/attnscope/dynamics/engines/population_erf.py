"""Population projected gradient descent of the erf predictor, in its five overlaps.

The predictor is T(X) = sum_l erf(lam X_l.k) X_l.v with k, v on the unit sphere; its risk R depends
on
    kappa = k.k*,  eta = k.v*,  theta = v.k*,  nu = v.v*,  rho = k.v        (k*.v* = 0).
notation: s signal, L length, gam scale of the informative token, lam inverse temperature; g = lam
    gam, S^2 = 1 + 2 g^2, q^2 = 1 + 4 g^2, m = lam s / S, n = lam gam^2 / S, C
        = 2 lam / sqrt(pi (1 + 2 lam^2));
    a = m kappa, A = erf(a), E = erf'(a), B = erf(a/q), F = erf'(a/q), Z
        = E_G erf(lam s kappa + g G)^2.

    R = gam^2 - 2 gam^2 nu A - 2 gam^2 m eta theta E + 4 n^2 eta rho a E + (s^2 theta^2 + gam^2) Z
        + 4 gam^2 m theta rho B E - 4 n^2 rho^2 a B E + 2 n^2 rho^2 E F / q + H rho^2
        + 2 (L-1) C rho (s theta A + n rho E) + constant,
    H = (L-1) (8/pi) lam^2 / (sqrt(1 + 4 lam^2) (1 + 2 lam^2)) + (L-1)(L-2) C^2.

With A' = E, E' = -2aE, B' = F/q, F' = -2aF/q^2, Z' = 2EB (derivatives in a), partial derivatives
follow, and
    grad_k R = R_kappa k* + R_eta v* + R_rho v,     grad_v R = R_theta k* + R_nu v* + R_rho k.
A step moves k to (k - alpha t_k) / |k - alpha t_k| with t_k = (I - k k^T) grad_k R, and the same for v;
the new overlaps are inner products of combinations of (k, v, k*, v*): they follow from the old five
in any dimension.

Z without quadrature in the loop: Z = A^2 + V, and with w = a^2, y = 1 - x^2,
    V = (4/pi) int_{1/q}^1 e^{-w(1+x^2)} / (1+x^2) dx = e^{-2w} sum_j c_j w^j,
    c_j = (4/pi) int_{1/q}^1 y^j / (j! (2-y)) dx > 0.
The c_j depend on the inverse temperature alone, so all runs share them. As w^j e^{-2w} / j! <=
2^{-j}, what follows term j is below (y_max / 2)^j, y_max = 1 - 1/q^2 < 1: for gam^2 = 1/2, 10 terms
do at lam = .1, 37 at lam = 1, 58 at any.

Exact up to rounding. Runs go through the processor's vector lanes in tiles of fixed width
(numerics/compiled/run_tiles.py): a run's bits depend neither on the other runs, nor on the threads,
nor on how a schedule is cut into calls.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numba import njit

from attnscope.dynamics.engines.engine import State
from attnscope.errors import bad
from attnscope.numerics.compiled.fast_erf import erf_given_exp, exp_negative
from attnscope.numerics.compiled.numba_flags import FUSED_FLAGS
from attnscope.numerics.compiled.run_tiles import LANES, from_tiles, share, to_tiles
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.law import Law

__all__ = ["OVERLAP_ORDER", "PopulationErf", "population_steps"]

Array = np.ndarray

OVERLAP_ORDER = ("kappa", "eta", "theta", "nu", "rho")
CONSTANT_BLOCK_STEPS = (
    4096  # steps whose constants are tabulated at once under a schedule: 2.4 MB
)
# Gauss-Legendre for the c_j. Measured: with 12 nodes already Z is right to 3e-16 for lam from 1e-3
# to 1e3.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
SERIES_END = 1e-17  # where the series ends: below the rounding of Z
TERMS_PER_SWEEP = 12  # terms of the series added per sweep over the lanes
MOST_TERMS = 60  # columns for the c_j: 2^-57 < SERIES_END, in whole groups
CONSTANT_COLUMNS = 14  # columns of a row of constants before the c_j
TERM_COUNT_COLUMN = CONSTANT_COLUMNS - 1  # column that holds the number of terms
ERF_SLOPE = 2 / math.sqrt(math.pi)  # erf'(0)
LARGEST_W = 700.0  # w from which on e^{-w} counts as zero; keeps the series finite
TILE_STEP_SECONDS = 2e-7  # seconds, roughly: decides only whether threads are worth starting


class PopulationErf:
    """The engine of these steps. State: "overlaps" (5, runs)."""

    def __init__(self, task: SingleLocation, step_size: float) -> None:
        self.step_size = step_size
        self.law = Law.of(task)

    def init(self, overlaps: np.ndarray, seed: int = 0) -> State:
        """Nothing is random: the seed is not used."""
        return {"overlaps": np.array(overlaps, dtype=np.float64)}

    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        return {
            "overlaps": population_steps(
                state["overlaps"], inverse_temperatures, self.step_size, self.law
            )
        }

    def overlaps(self, state: State) -> np.ndarray:
        return state["overlaps"]


def population_steps(
    state: np.ndarray,
    inverse_temperatures: np.ndarray,
    step_size: float,
    law: Law,
) -> np.ndarray:
    """The overlaps after len(inverse_temperatures) steps of projected gradient descent on the
    population risk.

    state (5, runs) in the order of OVERLAP_ORDER; inverse_temperatures (steps,) the lam of each
    step; the law with k* perp v*. Returns a new (5, runs). Two calls with a split schedule equal
    one call bit for bit, and a run does not depend on the others. A run that becomes non-finite
    stays so: check where you log. Nothing is validated beyond the shape of the state.

    >>> start = np.array([[0.1], [0.0], [0.0], [0.1], [0.0]])
    >>> end = population_steps(start, np.full(20_000, 0.1), 4e-3, Law(0.5**0.5, 200**0.5, 10))
    >>> end[:, 0].round(3)
    array([0.984, 0.   , 0.   , 1.   , 0.   ])
    """
    state = np.ascontiguousarray(state, dtype=np.float64)
    if state.ndim != 2 or state.shape[0] != len(OVERLAP_ORDER):
        raise bad(
            "state", "population_steps", "an array of shape (5, runs)", f"shape {state.shape}"
        )
    inverse_temperatures = np.ascontiguousarray(inverse_temperatures, dtype=np.float64)
    if state.size == 0 or inverse_temperatures.size == 0:
        return state.copy()
    tiles = to_tiles(state)
    setting = (float(step_size), float(law.gamma), float(law.signal), int(law.length))
    if np.all(inverse_temperatures == inverse_temperatures[0]):
        _run_tiles(
            tiles,
            _constant_row(float(inverse_temperatures[0]), *setting),
            inverse_temperatures.size,
        )
    else:
        for i in range(0, inverse_temperatures.size, CONSTANT_BLOCK_STEPS):
            rows = _constant_rows(
                inverse_temperatures[i : i + CONSTANT_BLOCK_STEPS], *setting
            )
            _run_tiles(tiles, rows, len(rows))
    return from_tiles(tiles, state.shape[1])


def _run_tiles(tiles: np.ndarray, rows: np.ndarray, steps: int) -> None:
    def work(begin: int, end: int) -> None:
        _advance_tiles(tiles[begin:end], rows, steps, LANES)

    share(work, len(tiles), len(tiles) * steps * TILE_STEP_SECONDS)


@lru_cache(maxsize=16)  # 600 bytes each; a run at one lambda asks at every log point
def _constant_row(lam: float, alpha: float, gam: float, s: float, length: int) -> np.ndarray:
    """The row of one inverse temperature."""
    return _constant_rows(np.array([lam]), alpha, gam, s, length)


def _constant_rows(
    lam: np.ndarray, alpha: float, gam: float, s: float, length: int
) -> np.ndarray:
    """A row per inverse temperature: the constants of a step (the gradient's times the step size),
    then the c_j.
    """
    g2 = (lam * gam) ** 2
    others = length - 1.0
    slope = alpha * ERF_SLOPE
    S = np.sqrt(1 + 2 * g2)
    q = np.sqrt(1 + 4 * g2)
    m = lam * s / S
    n = lam * gam**2 / S
    C = 2 * lam / np.sqrt(np.pi * (1 + 2 * lam**2))
    H = (
        8 / np.pi * lam**2 / (np.sqrt(1 + 4 * lam**2) * (1 + 2 * lam**2))
        + (length - 2) * C**2
    )
    columns: list[np.ndarray | float] = [m, 1 / q, 2 + 1 / q**2]
    columns += [
        alpha * 2 * gam**2,
        alpha * 2 * s**2,
        alpha * 2 * others * C * s,
        alpha * 2 * others * H,
    ]
    # the factor erf'(0) of E = erf'(0) e^{-a^2} is moved into the constants that meet E
    columns += [
        slope * 2 * gam**2,
        slope * 2 * gam**2 * m,
        slope * 4 * n**2,
        slope * 2 * s**2,
    ]
    columns += [slope * 2 * others * C * s, slope * 4 * others * C * n]
    rows = np.zeros((lam.size, CONSTANT_COLUMNS + MOST_TERMS))
    for i, column in enumerate(columns):
        rows[:, i] = column
    y_max = 4 * g2 / (1 + 4 * g2)  # 1 - 1/q^2 without cancellation
    _write_coefficients(rows, y_max, y_max / (1 + 1 / q), NODES, WEIGHTS, LANES)
    return rows


@njit(**FUSED_FLAGS)
def _write_coefficients(
    rows: Array,
    y_max: Array,
    width: Array,
    nodes: Array,
    weights: Array,
    lanes: int,
) -> None:
    """Write the number of terms and the c_j into the rows:
    Gauss-Legendre on [1/q, 1], of that width.
    """
    y = np.empty(LANES)
    power = np.empty(LANES)
    c = np.empty((MOST_TERMS, LANES))
    for first in range(0, width.size, lanes):
        here = min(lanes, width.size - first)
        most = 0
        for t in range(here):
            rows[first + t, TERM_COUNT_COLUMN] = _term_count(y_max[first + t])
            most = max(most, int(rows[first + t, TERM_COUNT_COLUMN]))
        c[:] = 0.0
        for node in range(nodes.size):
            for t in range(lanes):
                length = width[first + min(t, here - 1)]
                gap = length * 0.5 * (nodes[node] + 1.0)  # 1 - x
                y[t] = gap * (2.0 - gap)
                power[t] = 2.0 / math.pi * length * weights[node] / (2.0 - y[t])
            for j in range(most):
                over = 1.0 / (j + 1.0)
                for t in range(lanes):
                    c[j, t] += power[t]
                    power[t] *= y[t] * over
        for t in range(here):
            for j in range(int(rows[first + t, TERM_COUNT_COLUMN])):
                rows[first + t, CONSTANT_COLUMNS + j] = c[j, t]


@njit(**FUSED_FLAGS)
def _term_count(y_max: float) -> int:
    """How many terms leave a remainder below SERIES_END."""
    terms, bound = 1, 1.0
    while bound > SERIES_END and terms < MOST_TERMS:
        bound *= 0.5 * y_max
        terms += 1
    return terms


@njit(**FUSED_FLAGS)
def _advance_tiles(tiles: Array, rows: Array, steps: int, lanes: int) -> None:
    """Advance tiles (n, 5, LANES) in place; `lanes` = LANES, at run time:
    a constant unrolls the loops.
    """
    # x: five overlaps; w = a^2, e^{-a^2}, e^{-a^2/q^2}, erf(a), erf(a/q); the series. One local
    # array of constant shape: the compiler then knows that its rows do not overlap. Loops copy it:
    # slices take 3 s to compile.
    x = np.empty((11, LANES))
    scheduled = rows.shape[0] > 1
    for tile in range(tiles.shape[0]):
        for j in range(5):
            for i in range(lanes):
                x[j, i] = tiles[tile, j, i]
        for t in range(steps):
            row = rows[t if scheduled else 0]
            _write_exp_and_erf(x, row, lanes)
            _write_series(x, row, lanes)
            _move_overlaps(x, row, lanes)
        for j in range(5):
            for i in range(lanes):
                tiles[tile, j, i] = x[j, i]


@njit(forceinline=True, **FUSED_FLAGS)
def _write_exp_and_erf(x: Array, row: Array, lanes: int) -> None:
    m = row[0]
    q_inverse = row[1]
    for i in range(lanes):
        a = m * x[0, i]
        b = a * q_inverse
        w = a * a
        w = w if w < LARGEST_W else LARGEST_W
        e = exp_negative(w)
        f = exp_negative(b * b)
        x[5, i], x[6, i], x[7, i] = w, e, f
        x[8, i], x[9, i] = erf_given_exp(a, e), erf_given_exp(b, f)


@njit(forceinline=True, **FUSED_FLAGS)
def _write_series(x: Array, row: Array, lanes: int) -> None:
    """x[10] = sum_j c_j w^j, twelve terms per sweep, by pairs: Horner's rule is one long chain."""
    for i in range(lanes):
        x[10, i] = 0.0
    last = (
        CONSTANT_COLUMNS
        + (int(row[TERM_COUNT_COLUMN]) - 1) // TERMS_PER_SWEEP * TERMS_PER_SWEEP
    )
    for j in range(last, CONSTANT_COLUMNS - 1, -TERMS_PER_SWEEP):
        c0 = row[j]
        c1 = row[j + 1]
        c2 = row[j + 2]
        c3 = row[j + 3]
        c4 = row[j + 4]
        c5 = row[j + 5]
        c6 = row[j + 6]
        c7 = row[j + 7]
        c8 = row[j + 8]
        c9 = row[j + 9]
        c10 = row[j + 10]
        c11 = row[j + 11]
        for i in range(lanes):
            w = x[5, i]
            w2 = w * w
            w4 = w2 * w2
            low = (c0 + c1 * w) + w2 * (c2 + c3 * w)
            middle = (c4 + c5 * w) + w2 * (c6 + c7 * w)
            high = (c8 + c9 * w) + w2 * (c10 + c11 * w) + w4 * x[10, i]
            x[10, i] = low + w4 * (middle + w4 * high)


@njit(forceinline=True, **FUSED_FLAGS)
def _move_overlaps(x: Array, row: Array, lanes: int) -> None:
    """One step of the five overlaps. R_* are the partial derivatives times the step size."""
    m = row[0]
    q_inverse = row[1]
    q_two = row[2]
    gam2 = row[3]
    s2 = row[4]
    c_s = row[5]
    h2 = row[6]
    e_gam2 = row[7]
    e_m = row[8]
    e_n = row[9]
    e_s2 = row[10]
    e_cs = row[11]
    e_cn = row[12]
    slope_q = ERF_SLOPE * q_inverse
    for i in range(lanes):
        kap, eta, the, nu, rho = x[0, i], x[1, i], x[2, i], x[3, i], x[4, i]
        # f is F/q
        a = m * kap
        e = x[6, i]
        f = x[7, i] * slope_q
        A = x[8, i]
        B = x[9, i]
        Z = A * A + e * e * x[10, i]

        h = eta - 2 * rho * B
        p = a * h + rho * f
        by_theta = e_s2 * the * B + 2 * e_m * p + e_cs * rho
        by_rho = (
            e_n * ((1 - 2 * a * a) * (eta - rho * B) - q_two * a * f * rho) - e_cn * rho * a
        )
        R_kap = m * e * (e_gam2 * (B - nu) + the * by_theta + rho * by_rho)
        R_eta = e * (e_n * rho * a - e_m * the)
        R_the = s2 * the * Z + c_s * rho * A - e * e_m * h
        R_nu = -gam2 * A
        R_rho = e * (e_n * p + 2 * e_m * the * B + e_cn * rho) + h2 * rho + c_s * the * A

        # inner products of grad_k, grad_v with k*, v*, k, v and with each other
        k_ks = R_kap + R_rho * the
        k_vs = R_eta + R_rho * nu
        v_ks = R_the + R_rho * kap
        v_vs = R_nu + R_rho * eta
        k_v = R_kap * the + R_eta * nu + R_rho
        v_k = R_the * kap + R_nu * eta + R_rho
        k_k = R_kap * kap + R_eta * eta + R_rho * rho
        v_v = R_the * the + R_nu * nu + R_rho * rho
        both = R_kap * v_ks + R_eta * v_vs + R_rho * v_v
        # squared lengths of k - alpha t_k and v - alpha t_v
        k2 = 1 + (R_kap * k_ks + R_eta * k_vs + R_rho * k_v - k_k * k_k)
        v2 = 1 + (R_the * v_ks + R_nu * v_vs + R_rho * v_k - v_v * v_v)

        # k - alpha t_k = ck k - alpha grad_k
        ck = 1 + k_k
        cv = 1 + v_v
        kap = ck * kap - k_ks
        eta = ck * eta - k_vs
        the = cv * the - v_ks
        nu = cv * nu - v_vs
        rho = ck * (cv * rho - v_k) - cv * k_v + both
        # A vector is no shorter than its part in the plane of k*, v*. Without this, rounding at a
        # point of that plane which repels (k = -k*, say) may grow into overlaps that no vectors
        # have.
        k_plane = kap * kap + eta * eta
        v_plane = the * the + nu * nu
        k_length = math.sqrt(k2 if k2 > k_plane else k_plane)
        v_length = math.sqrt(v2 if v2 > v_plane else v_plane)
        scale = 1 / (k_length * v_length)  # one division for both
        k_scale = scale * v_length
        v_scale = scale * k_length
        x[0, i], x[1, i] = kap * k_scale, eta * k_scale
        x[2, i], x[3, i], x[4, i] = the * v_scale, nu * v_scale, rho * scale
