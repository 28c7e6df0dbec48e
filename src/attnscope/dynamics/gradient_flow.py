"""Gradient flow on the spheres: what training tends to as the step size goes to zero.

notation: R the population risk as a function of the overlaps (kap, eta, the, nu, rho), R_x its
partial derivatives, c = k*.v*, t = step size x steps.

    dk/dt = -(I - k k^T) grad_k R,   dv/dt = -(I - v v^T) grad_v R,
        grad_k R = R_kap k* + R_eta v* + R_rho v,  grad_v R = R_the k* + R_nu v* + R_rho k,

closes on the overlaps. With a = grad_k R . k and b = grad_v R . v,

    kap' = a kap - (R_kap + c R_eta + R_rho the)   eta' = a eta - (c R_kap + R_eta + R_rho nu)
        a = R_kap kap + R_eta eta + R_rho rho
    the' = b the - (R_the + c R_nu + R_rho kap)   nu'  = b nu  - (c R_the + R_nu + R_rho eta)
        b = R_the the + R_nu nu + R_rho rho
    rho' = (a + b) rho - (R_kap the + R_eta nu + R_rho) - (R_the kap + R_nu eta + R_rho).

Solved by an explicit Runge-Kutta method of order 8 (scipy's DOP853), to the tolerance given, with
the exact gradient of the risk where a route has one, else with that of its fixed nodes
(theory/nodes).

Limits. Projected gradient descent with step size alpha is an Euler step up to O(alpha^2), so after
time t it is off by O(alpha). SGD with any batch size has the same mean step and independent
fluctuations of size alpha: it is off by O(alpha) in the mean and scatters by O(sqrt(alpha)) over a
fixed time (the law of large numbers along the path), and both vanish. The dimension enters the
scatter, not the flow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from attnscope.dynamics.engines.population_exact import exact_gradient
from attnscope.dynamics.overlap_runs import exact_excess
from attnscope.dynamics.starts import Start, starting_overlaps
from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.attention import Predictor, has_one_head
from attnscope.predictors.inverse_temperature import constant_inverse_temperature
from attnscope.tasks.base import PlantedTask
from attnscope.theory.overlaps import Overlaps, alignment_of, nearest_possible
from attnscope.theory.route import checked_planted

__all__ = ["GradientFlow", "gradient_flow"]


@dataclass(frozen=True, eq=False)
class GradientFlow:
    """Overlaps along the flow; what `gradient_flow` returns.

    Attributes:
        task, predictor: whose risk flows down.
        time: (times,), step size times number of steps.
        log: (5, runs, times), the overlaps in the order of Overlaps.
        error: bounds the local error of an overlap: the solver's tolerance.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> start = at.Overlaps(0.1, 0.0, 0.0, 0.1, 0.0)
    >>> flow = at.gradient_flow(task, at.Erf(0.1), start, [0, 2, 5])
    >>> flow.time, flow.overlaps.kappa.round(3)
    (array([0., 2., 5.]), array([[0.1  , 0.248, 0.655]]))
    """

    task: Any  # a planted task
    predictor: Predictor
    time: np.ndarray
    log: np.ndarray
    error: float

    @property
    def overlaps(self) -> Overlaps:
        """Fields of shape (runs, times)."""
        return Overlaps(*self.log)

    @property
    def excess(self) -> np.ndarray:
        """Exact risk over noise^2, (runs, times); it never rises."""
        lam = constant_inverse_temperature(self.predictor, "gradient_flow")
        return exact_excess(self.task, self.predictor, self.log, np.full(len(self.time), lam))

    @property
    def risk(self) -> np.ndarray:
        """Exact risk, (runs, times)."""
        return self.excess + self.task.noise**2


def gradient_flow(
    task: PlantedTask,
    predictor: Predictor,
    start: Start,
    times: Any,
    runs: int = 1,
    seed: int = 0,
    tolerance: float = 1e-10,
) -> GradientFlow:
    """The population gradient flow of k and v on their spheres.

    Args:
        task: a planted task: SingleLocation, MultiLocation, ..., or your own Planted.
        predictor: one head with a gradient on this task.
        start: as in `train`: "sphere", "manifold", "moments", an Overlaps, or (k, v).
        times: (n,) increasing, >= 0; step size times number of steps.
        runs: how many, where the start is drawn.
        seed: of the starts.
        tolerance: relative and absolute tolerance of the solver per step.

    >>> from attnscope.predictors.attention import Erf
    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> flow = gradient_flow(SingleLocation(dim=400, length=10), Erf(0.1), Overlaps(0.1, 0.0, 0.0, 0.1, 0.0), [0, 2, 5])
    >>> flow.overlaps.nu.round(3)
    array([[0.1  , 0.492, 0.986]])
    """
    checked_planted(task, "gradient_flow")
    if not has_one_head(predictor):
        raise bad(
            "predictor",
            "gradient_flow",
            "a predictor with one head and an exact gradient",
            predictor,
            "Erf(0.1)",
        )
    lam = constant_inverse_temperature(predictor, "gradient_flow")
    gradient = exact_gradient(task, predictor, "gradient_flow")
    t = check.float_array(times, "times", "gradient_flow", (None,))
    if t[0] < 0 or (np.diff(t) <= 0).any():
        raise bad(
            "times",
            "gradient_flow",
            "increasing and >= 0",
            "other numbers",
            "numpy.linspace(0, 100, 51)",
        )
    runs = check.integer(runs, "runs", "gradient_flow", 1)
    seed = check.seed_value(seed, "gradient_flow")
    tol = check.real(tolerance, "tolerance", "gradient_flow", 1e-13, 1e-2)
    o = starting_overlaps(task, start, runs, seed)
    log = np.stack(
        [
            _solve_run(
                lambda x: velocity(x, gradient(x, lam), alignment_of(task)), o[:, [i]], t, tol
            )
            for i in range(runs)
        ],
        1,
    )
    # a start on the border of what is possible (k = v) stays there, up to the solver's error
    possible = nearest_possible(np.clip(log, -1, 1), alignment_of(task))
    return GradientFlow(task, predictor, t, possible, tol)


def _solve_run(field: Any, o: np.ndarray, t: np.ndarray, tol: float) -> np.ndarray:
    """(5, times) of one run that starts at o (5, 1):
    runs are solved one by one, so that the accuracy of each does not depend on the others.
    """
    if t[-1] == 0:
        return np.repeat(o, len(t), axis=1)
    found = solve_ivp(
        lambda _, x: field(x[:, None])[:, 0],
        (0.0, t[-1]),
        o[:, 0],
        method="DOP853",
        t_eval=t,
        rtol=tol,
        atol=tol,
    )
    if not found.success or not np.isfinite(found.y).all():
        raise AttnscopeError(
            f"the solution of gradient_flow must exist up to time {t[-1]:g}, got {found.message}; try a "
            "shorter time."
        )
    return found.y


def velocity(o: np.ndarray, gradient: np.ndarray, c: float) -> np.ndarray:
    """d/dt of overlaps (5, runs) along the flow (module docstring)."""
    kap, eta, the, nu, rho = o
    R_kap, R_eta, R_the, R_nu, R_rho = gradient
    a = R_kap * kap + R_eta * eta + R_rho * rho
    b = R_the * the + R_nu * nu + R_rho * rho
    return np.stack(
        [
            a * kap - (R_kap + c * R_eta + R_rho * the),
            a * eta - (c * R_kap + R_eta + R_rho * nu),
            b * the - (R_the + c * R_nu + R_rho * kap),
            b * nu - (c * R_the + R_nu + R_rho * eta),
            (a + b) * rho
            - (R_kap * the + R_eta * nu + R_rho)
            - (R_the * kap + R_nu * eta + R_rho),
        ]
    )
