"""Population projected gradient descent in the five overlaps, for any predictor whose risk has an
exact gradient.

notation: R_kap ... R_rho the partial derivatives of the risk in the overlaps (theory/risk.py),
alpha = step size, c = k*.v*.

    grad_k R = R_kap k* + R_eta v* + R_rho v,      grad_v R = R_the k* + R_nu v* + R_rho k,
    k <- (k - alpha (I - k k^T) grad_k R)/|.|,     the same for v, both from the old pair.

New k and v are combinations of (k, v, k*, v*), so their inner products follow from the 4 x 4 Gram
matrix of these, whatever the dimension. As the step is tangential, |k - alpha t|^2 = 1 + alpha^2
|t|^2 >= 1 and nothing cancels. Exact up to rounding and the error of the gradient's route (closed
form for Erf and LinearAttention, vectorised over runs; for Softmax at a constant inverse
temperature from integrals that are found once, softmax_profile.py; quadrature, run by run, for the
others). Every operation is elementwise over runs, so a run's bits do not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnscope.deprecated import accept_old_keyword
from attnscope.dynamics.engines.engine import State, checked_steps
from attnscope.numerics.border import validation as check
from attnscope.predictors.attention import Predictor
from attnscope.tasks.base import PlantedTask
from attnscope.theory.overlaps import Overlaps, alignment_of, checked_overlaps
from attnscope.theory.route import (
    checked_planted,
    closed_form,
    needed,
    prepared_gradient,
)

__all__ = ["PopulationExact", "exact_gradient"]


class PopulationExact:
    """Projected gradient descent on the exact risk; state: "overlaps" (5, runs).

    Args:
        task: a planted task: SingleLocation, MultiLocation, ..., or your own Planted.
        predictor: one head with an exact gradient on this task.
        step_size: alpha > 0.

    >>> import attnscope as at
    >>> import numpy as np
    >>> start = np.array(at.Overlaps(0.5, 0.0, 0.0, 0.5, 0.0))[:, None]
    >>> engine = at.PopulationExact(at.SingleLocation(dim=20, length=5), at.Erf(0.1), step_size=0.1)
    >>> state = engine.advance(engine.init(start), np.full(100, 0.1))
    >>> engine.overlaps(state).round(3).ravel().tolist()
    [0.987, 0.0, 0.0, 0.998, 0.0]
    """

    def __init__(self, task: PlantedTask, predictor: Predictor, step_size: float) -> None:
        self.task = checked_planted(task, "PopulationExact")
        self.predictor = predictor
        self.step_size = check.real(step_size, "step_size", "PopulationExact", 0, strict=True)
        self.gradient = exact_gradient(self.task, predictor, "PopulationExact")
        self.prepared = False

    def init(self, overlaps: np.ndarray, seed: int = 0) -> State:
        """Runs that start at overlaps (5, runs). Nothing is random."""
        check.seed_value(seed, "PopulationExact")
        o = Overlaps(*check.array(overlaps, "overlaps", "PopulationExact", (5, None)))
        return {"overlaps": np.stack(checked_overlaps(o, self.task, "PopulationExact"))}

    @accept_old_keyword
    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        """State after len(inverse_temperatures) more steps;
        a run that leaves the finite numbers stays outside.
        """
        inverse_temperatures = checked_steps(
            state, inverse_temperatures, "PopulationExact.advance"
        )
        o = state["overlaps"]
        if not self.prepared:
            self._prepare_gradient()
        with np.errstate(all="ignore"):
            for lam in inverse_temperatures:
                o = self._step_all_runs(o, float(lam))
        return {"overlaps": o}

    def overlaps(self, state: State) -> np.ndarray:
        """(5, runs)."""
        return state["overlaps"]

    def _prepare_gradient(self) -> None:
        """At a constant inverse temperature, where the pair has one, its prepared gradient: always
        or never, so that a run's bits do not depend on how its steps are divided.
        """
        self.prepared = True
        inverse_temperature = self.predictor.inverse_temperature
        if callable(inverse_temperature):
            return
        found = prepared_gradient(self.task, self.predictor, float(inverse_temperature))
        if found is not None:
            self.gradient = lambda o, lam: found(o)

    def _step_all_runs(self, o: np.ndarray, lam: float) -> np.ndarray:
        kap, eta, the, nu, rho = o
        c = alignment_of(self.task)
        alpha = self.step_size
        R_kap, R_eta, R_the, R_nu, R_rho = self.gradient(o, lam)
        along_k = R_kap * kap + R_eta * eta + R_rho * rho
        along_v = R_the * the + R_nu * nu + R_rho * rho
        # coefficients of the new vectors, before normalising, in (k, v, k*, v*) ...
        a = (1 + alpha * along_k, -alpha * R_rho, -alpha * R_kap, -alpha * R_eta)
        b = (-alpha * R_rho, 1 + alpha * along_v, -alpha * R_the, -alpha * R_nu)
        # ... and their inner products with these four
        rows = (
            (1.0, rho, kap, eta),
            (rho, 1.0, the, nu),
            (kap, the, 1.0, c),
            (eta, nu, c, 1.0),
        )
        a_dot, b_dot = ([_gram_product(x, row) for row in rows] for x in (a, b))
        size_a = np.sqrt(_gram_product(a, a_dot))
        size_b = np.sqrt(_gram_product(b, b_dot))
        new_rho = _gram_product(b, a_dot) / (size_a * size_b)
        return np.stack(
            [
                a_dot[2] / size_a,
                a_dot[3] / size_a,
                b_dot[2] / size_b,
                b_dot[3] / size_b,
                new_rho,
            ]
        )


def _gram_product(x: Any, y: Any) -> Any:
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3]


def exact_gradient(
    task: PlantedTask, predictor: Predictor, of: str
) -> Callable[[np.ndarray, float], np.ndarray]:
    """The exact gradient as a raw function: overlaps (5, runs) and an inverse temperature to (5,
    runs); NaN at non-finite overlaps.
    """
    route = needed("gradient", task, predictor, of, "mini-batch SGD, which needs none")
    if closed_form(task, predictor):  # closed forms broadcast, and NaN passes through
        return lambda o, lam: np.stack(route(task, predictor, Overlaps(*o), lam)[:5])

    def gradient(o: np.ndarray, lam: float) -> np.ndarray:
        out, finite = np.full(o.shape, np.nan), np.isfinite(o).all(axis=0)
        if finite.any():
            out[:, finite] = np.asarray(route(task, predictor, Overlaps(*o[:, finite]), lam))[
                :5
            ]
        return out

    return gradient
