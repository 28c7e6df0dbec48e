"""Training runs as overlaps at the logged steps, and what follows from them: risk, distance to the
manifold, and where each run ended.

notation: overlaps (kappa, eta, theta, nu, rho) = (k.k*, k.v*, v.k*, v.v*, k.v); M = {eta = theta =
rho = 0}, the paper's invariant manifold.

Entry t holds the overlaps after t updates; risk and excess are exact, at the inverse temperature of
step t. Derived quantities are computed on first access and kept. Where a run diverged (became
non-finite at step diverged_at), its later entries repeat its last finite overlaps and its outcome
says "diverged": nothing public is NaN. Modules that measure or explain runs (`rates`, `diagnose`)
use this class; `trajectory` adds the methods for users.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from attnscope.dynamics.engines.engine import OverlapEngine, State
from attnscope.dynamics.outcome_table import Ends, ends_of
from attnscope.dynamics.setup import Setup
from attnscope.dynamics.trajectory_base import Runs
from attnscope.predictors.attention import Predictor
from attnscope.predictors.inverse_temperature import InverseTemperature
from attnscope.tasks.base import PlantedTask, has_classes, is_defined
from attnscope.theory.nodes.node_routes import defined_excess
from attnscope.theory.optima.landscape import known_landscape, stationary_points
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import sampled
from attnscope.theory.route import find_route

__all__ = [
    "OverlapRuns",
    "at_inverse_temperature",
    "classify",
    "exact_excess",
    "swapped_theta",
]

ALIGNED_COSINE = 0.9  # an overlap from here on counts as aligned (within 26 degrees)
# sequences per logged point where the risk is sampled: 3 % of the null risk; `risk` takes more
SAMPLED_SEQUENCES = 2000
CHUNK_RISKS = 1 << 18  # risks evaluated at once: about 40 temporaries of 2 MB


@dataclass(frozen=True, eq=False, repr=False)
class OverlapRuns(Runs):
    """Runs of one head, read off their five overlaps; `Trajectory` says what the fields are."""

    setup: Setup
    step: np.ndarray
    log: np.ndarray
    inverse_temperature: np.ndarray
    diverged_at: np.ndarray
    swapped_at: np.ndarray
    state: State

    SETUP: ClassVar[type] = Setup
    LOGGED: ClassVar[str] = "log"
    LOGS: ClassVar[int] = 2

    @property
    def overlaps(self) -> Overlaps:
        """Fields of shape (runs, logs)."""
        return Overlaps(*self.log)

    @cached_property
    def excess(self) -> np.ndarray:
        """Exact risk over noise^2, (runs, logs), at the running inverse temperature."""
        return exact_excess(
            self.setup.task, self.setup.predictor, self.log, self.inverse_temperature
        )

    @property
    def excess_is_cheap(self) -> bool:
        """Whether `excess` is a closed form, or was computed already."""
        row = find_route(self.setup.task, self.setup.predictor)
        return "excess" in vars(self) or (row is not None and row.closed)

    @property
    def last_excess(self) -> np.ndarray:
        """The last column of `excess`, (runs,), without the others."""
        if self.excess_is_cheap:
            return self.excess[:, -1]
        last = (self.log[:, :, -1:], self.inverse_temperature[-1:])
        return exact_excess(self.setup.task, self.setup.predictor, *last)[:, 0]

    @cached_property
    def distance(self) -> np.ndarray:
        """Distance to the manifold, sqrt(theta^2 + eta^2 + rho^2), (runs, logs)."""
        _, eta, theta, _, rho = self.log
        return np.sqrt(theta**2 + eta**2 + rho**2)

    @cached_property
    def outcome(self) -> np.ndarray:
        """(runs,) "oracle", "swapped", "diverged" or "undecided", from the last logged overlaps."""
        theta = swapped_theta(
            self.setup.task, self.setup.predictor, float(self.inverse_temperature[-1])
        )
        return np.where(
            self.diverged_at >= 0, "diverged", classify(Overlaps(*self.log[:, :, -1]), theta)
        )

    def ends(self) -> Ends:
        """Excess risk and sizes of the overlaps at the last log point, by outcome."""
        what = "error" if has_classes(self.setup.task) else "excess"
        o = self.overlaps
        shown = {"kappa": o.kappa, "eta": o.eta, "theta": o.theta, "nu": o.nu}
        sizes = {f"|{name}|": np.abs(np.asarray(x)[:, -1]) for name, x in shown.items()}
        return ends_of(self.outcome, {what: self.last_excess} | sizes)

    @staticmethod
    def read(engine: Any, state: State) -> np.ndarray:
        """Overlaps (5, runs)."""
        machine: OverlapEngine = engine
        return machine.overlaps(state)

    @staticmethod
    def lost(read: np.ndarray) -> np.ndarray:
        """(runs,) not finite."""
        return ~np.isfinite(read).all(axis=0)

    @staticmethod
    def held(read: np.ndarray, before: np.ndarray, lost: np.ndarray) -> np.ndarray:
        """What is logged: cosines within [-1, 1], the last entry again where a run is lost."""
        return np.where(lost, before, np.clip(read, -1, 1))


def exact_excess(
    task: PlantedTask, predictor: Predictor, log: np.ndarray, inverse_temperature: np.ndarray
) -> np.ndarray:
    """Excess (runs, logs) at logged overlaps: exact where the pair has a route everywhere, else
    from SAMPLED_SEQUENCES draws per point.

    A block of columns at a time; closed forms take all inverse temperatures at once, others one by
    one.
    """
    row = find_route(task, predictor)
    out = np.empty(log.shape[1:])
    block = max(1, CHUNK_RISKS // log.shape[1]) if row is not None and row.closed else 1
    for i in range(0, len(inverse_temperature), block):
        part = slice(i, i + block)
        lam = inverse_temperature[part] if block > 1 else float(inverse_temperature[i])
        o = Overlaps(*log[:, :, part])
        if (row is None or row.missing(task, predictor, o)) and is_defined(task):
            out[:, part] = defined_excess(
                task, predictor, o, float(inverse_temperature[i]), SAMPLED_SEQUENCES, 0
            ).excess
        elif row is None or row.missing(task, predictor, o):
            out[:, part] = sampled(
                row, task, predictor, o, float(inverse_temperature[i]), SAMPLED_SEQUENCES, 0
            ).excess
        else:
            out[:, part] = row.excess(task, predictor, o, lam).excess
    return out


def classify(o: Overlaps, theta: float) -> np.ndarray:
    """ "oracle", "swapped" or "undecided" per entry;
    `theta` is the size of theta at the role-swapped point.
    """
    oracle = (
        (o.kappa * o.nu > 0)
        & (np.abs(o.kappa) >= ALIGNED_COSINE)
        & (np.abs(o.nu) >= ALIGNED_COSINE)
    )
    swapped = (
        (o.eta * o.theta > 0)
        & (np.abs(o.eta) >= ALIGNED_COSINE)
        & (np.abs(o.theta) >= ALIGNED_COSINE * theta)
    )
    return np.where(oracle, "oracle", np.where(swapped, "swapped", "undecided"))


def swapped_theta(task: Any, predictor: Predictor, inverse_temperature: float) -> float:
    """|theta| at the role-swapped stationary point;
    1 (full alignment) where there is none or none has been derived.
    """
    if (
        not known_landscape(task)
        or inverse_temperature == 0
        or task.signal == 0
        or task.alignment != 0
    ):
        return 1.0
    row = find_route(task, predictor)
    if row is not None and row.swapped is not None:
        return float(row.swapped(task, inverse_temperature).theta)
    found = [
        p.overlaps
        for p in stationary_points(
            task, at_inverse_temperature(predictor, inverse_temperature)
        )
        if p.name == "swapped"
    ]
    return (
        abs(float(found[0].theta)) if found and abs(found[0].eta) >= ALIGNED_COSINE else 1.0
    )


def at_inverse_temperature(
    predictor: Predictor, inverse_temperature: InverseTemperature
) -> Predictor:
    """The same predictor at another inverse temperature (predictors are frozen, their constructors
    differ).
    """
    out = copy.copy(predictor)
    object.__setattr__(out, "inverse_temperature", inverse_temperature)
    return out
