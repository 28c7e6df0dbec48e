"""Population projected gradient descent of linear attention, compiled.

The step and its formulas are those of population_exact.py with the gradient of
theory/risks/linear_risk.py, written out for one run and in the same order of operations, runs side by side in
the processor's vector lanes: without contraction into fused operations the two give the same bits
(tested), and this one is far faster. notation: as there; o = offset, al = o + lam s kap, be = s the, c = k*.v*.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.dynamics.engines.engine import State
from attnscope.dynamics.engines.population_exact import PopulationExact
from attnscope.numerics.compiled.run_tiles import LANES
from attnscope.theory.law import Law

__all__ = ["PopulationLinear"]

Array = np.ndarray


class PopulationLinear(PopulationExact):
    """PopulationExact of a LinearAttention; state: "overlaps" (5, runs)."""

    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        """State after len(inverse_temperatures) more steps;
        a run that leaves the finite numbers stays outside.
        """
        law = Law.of(self.task)
        o = np.array(state["overlaps"], dtype=np.float64)
        lam = np.asarray(inverse_temperatures, dtype=np.float64)
        numbers = (law.gamma**2, law.signal, float(law.length) - 1, float(law.alignment))
        offset: float = getattr(self.predictor, "offset")  # noqa: B009  # LinearAttention's own
        _advance_runs(o, lam, float(self.step_size), float(offset), *numbers, LANES)
        return {"overlaps": o}


@njit(cache=True, error_model="numpy", nogil=True)
def _advance_runs(
    o: Array,
    inverse_temperatures: Array,
    alpha: float,
    offset: float,
    g2: float,
    s: float,
    others: float,
    c: float,
    lanes: int,
) -> None:
    """Move o (5, runs) by one step for each inverse temperature, LANES runs side by side; `lanes` =
    LANES, at run time: a constant unrolls the loops.
    """
    x = np.zeros(
        (5, LANES)
    )  # of constant shape: the compiler knows that its rows do not overlap
    for first in range(0, o.shape[1], lanes):
        here = min(lanes, o.shape[1] - first)
        for j in range(5):
            for i in range(here):
                x[j, i] = o[j, first + i]
        for lam in inverse_temperatures:
            for i in range(lanes):
                kap, eta, the, nu, rho = x[0, i], x[1, i], x[2, i], x[3, i], x[4, i]
                al = offset + lam * s * kap
                be = s * the
                M = al * be + lam * rho * (g2 + others) - s * c
                R_al = 2 * g2 * (al - nu + lam * be * rho) + 2 * M * be
                R_be = 2 * g2 * lam * (lam * be - eta + al * rho) + 2 * M * al
                R_rho = (
                    2 * g2 * al * lam * be
                    + 2 * (lam * lam) * rho * (g2 * g2 + others)
                    + 2 * M * lam * (g2 + others)
                )
                R_kap = R_al * lam * s
                R_eta = -2 * g2 * lam * be
                R_the = R_be * s
                R_nu = -2 * g2 * al
                along_k = R_kap * kap + R_eta * eta + R_rho * rho
                along_v = R_the * the + R_nu * nu + R_rho * rho
                # coefficients of the new vectors in (k, v, k*, v*) ...
                a0, a1, a2, a3 = (
                    1 + alpha * along_k,
                    -alpha * R_rho,
                    -alpha * R_kap,
                    -alpha * R_eta,
                )
                b0, b1, b2, b3 = (
                    -alpha * R_rho,
                    1 + alpha * along_v,
                    -alpha * R_the,
                    -alpha * R_nu,
                )
                # ... and their inner products with these four
                ak = a0 * 1.0 + a1 * rho + a2 * kap + a3 * eta
                av = a0 * rho + a1 * 1.0 + a2 * the + a3 * nu
                aks = a0 * kap + a1 * the + a2 * 1.0 + a3 * c
                avs = a0 * eta + a1 * nu + a2 * c + a3 * 1.0
                bk = b0 * 1.0 + b1 * rho + b2 * kap + b3 * eta
                bv = b0 * rho + b1 * 1.0 + b2 * the + b3 * nu
                bks = b0 * kap + b1 * the + b2 * 1.0 + b3 * c
                bvs = b0 * eta + b1 * nu + b2 * c + b3 * 1.0
                size_a = math.sqrt(a0 * ak + a1 * av + a2 * aks + a3 * avs)
                size_b = math.sqrt(b0 * bk + b1 * bv + b2 * bks + b3 * bvs)
                rho = (b0 * ak + b1 * av + b2 * aks + b3 * avs) / (size_a * size_b)
                kap, eta = aks / size_a, avs / size_a
                the, nu = bks / size_b, bvs / size_b
                x[0, i], x[1, i], x[2, i], x[3, i], x[4, i] = kap, eta, the, nu, rho
        for j in range(5):
            for i in range(here):
                o[j, first + i] = x[j, i]
