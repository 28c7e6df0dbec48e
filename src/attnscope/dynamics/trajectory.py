"""What training returns: the overlaps of every run at the logged steps, and what follows from them.

notation: overlaps (kappa, eta, theta, nu, rho) = (k.k*, k.v*, v.k*, v.v*, k.v); M = {eta = theta =
rho = 0}, the paper's invariant manifold.

Entry t holds the overlaps after t updates; risk and excess are exact, at the temperature of step t.
Derived quantities are computed on first access and kept. Where a run diverged (became non-finite at
step diverged_at), its later entries repeat its last finite overlaps and its outcome says
"diverged": nothing public is NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from attnscope.dynamics.engines.engine import OverlapEngine, State
from attnscope.dynamics.engines.engine_table import engine_for
from attnscope.dynamics.loop import continued
from attnscope.dynamics.setup import Setup
from attnscope.dynamics.trajectory_base import Runs
from attnscope.figures.figure import Figure, Panel
from attnscope.figures.outcomes import BANDS, by_outcome, paths_by_outcome
from attnscope.html_tables import Sentences
from attnscope.predictors.attention import Predictor
from attnscope.predictors.temperature import Temperature
from attnscope.tasks.base import PlantedTask, has_classes, is_defined
from attnscope.theory.nodes.node_routes import sampled_on_nodes
from attnscope.theory.optima.landscape import known_landscape, stationary_points
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import sampled
from attnscope.theory.route import find_route

if TYPE_CHECKING:
    import pandas as pd

    from attnscope.dynamics.rates import EscapeTime, MeasuredRate

__all__ = ["Trajectory", "at_temperature", "classify", "exact_excess", "swapped_theta"]

ALIGNED = 0.9  # an overlap from here on counts as aligned (within 26 degrees)
# sequences per logged point where the risk is sampled: 3 % of the null risk; `risk` takes more
SAMPLED = 2000
CHUNK = 1 << 18  # risks evaluated at once: about 40 temporaries of 2 MB
# distance drawn: what is below float64's resolution of 1 is no distance any more
SMALLEST = 1e-16
BELOW = -0.03  # axes of sizes begin here: a curve at 0 must not hide behind the axis


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(Runs):
    """Training runs side by side; see the module docstring and `train`.

    Attributes:
        step: (logs,) 0, log_every, 2 log_every, ..., always ending with the last step.
        log: (5, runs, logs) the overlaps in the order of Overlaps; `overlaps` gives them by name.
        temperature: (logs,) that of each logged step.
        diverged_at: (runs,) the step after which a run was no longer finite, or -1.
        swapped_at: (runs,) the step of the last swap move, or -1.
        state: what the engine needs to go on from the last logged step.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=40, length=5)
    >>> run = at.train(task, at.Erf(0.1), runs=3, steps=400, step_size=1e-2)
    >>> run.step, run.excess.shape
    (array([  0, 200, 400]), (3, 3))
    >>> run.extend(200).step
    array([  0, 200, 400, 600])
    """

    setup: Setup
    step: np.ndarray
    log: np.ndarray
    temperature: np.ndarray
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
        """Exact risk over noise^2, (runs, logs), at the running temperature."""
        return exact_excess(self.setup.task, self.setup.predictor, self.log, self.temperature)

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
        last = (self.log[:, :, -1:], self.temperature[-1:])
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
            self.setup.task, self.setup.predictor, float(self.temperature[-1])
        )
        return np.where(
            self.diverged_at >= 0, "diverged", classify(Overlaps(*self.log[:, :, -1]), theta)
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per run and logged step: run, step, temperature, the five overlaps, excess,
        distance.
        """
        import pandas as pd

        logs = len(self.step)
        columns: dict[str, Any] = {"run": np.repeat(np.arange(self.runs), logs)}
        columns |= {
            name: np.tile(x, self.runs)
            for name, x in (("step", self.step), ("temperature", self.temperature))
        }
        columns |= {name: x.ravel() for name, x in self.overlaps._asdict().items()}
        return pd.DataFrame(
            columns | {"excess": self.excess.ravel(), "distance": self.distance.ravel()}
        )

    def figure(self, ended: bool = True) -> Figure:
        """Excess risk, distance to the manifold, the five overlaps and the paths, as plain data.

        Runs are grouped by outcome: medians with the central 95 % of each group, or one by one
        (figures/outcomes.py). ended=False: no outcome yet, all runs one by one.
        """
        outcome = self.outcome if ended else np.full(self.runs, "on the way")
        classes = has_classes(self.setup.task)
        what = "error" if classes else "excess risk"
        drawn = lambda values: by_outcome(self.step, values, outcome)
        # on the manifold the distance is 0, which no logarithm shows
        off = bool((self.distance > 0).all())
        far = float(self.distance.max())
        near = max(SMALLEST, float(self.distance.min()))
        shown = (near / 1.3, far * 1.3) if off else (BELOW, max(1.05, 1.05 * far))
        away = Panel(
            "off the manifold",
            "step",
            "distance",
            drawn(self.distance),
            log_y=off,
            y_range=shown,
        )
        overlaps = [
            Panel(f"|{name}|", "step", f"|{name}|", drawn(np.abs(x)), y_range=(BELOW, 1.05))
            for name, x in self._in_pairs()
        ]
        kappa = self.overlaps.kappa
        nu = self.overlaps.nu
        square = (-1.05, 1.05)
        paths = Panel(
            "paths",
            "kappa",
            "nu",
            paths_by_outcome(kappa, nu, outcome),
            x_range=square,
            y_range=square,
        )
        panels = (
            Panel(what, "step", what, drawn(self.excess), log_y=True),
            away,
            *overlaps,
            paths,
        )
        title = (
            f"{self.setup.predictor!r}, {self.setup.task.dim} dimensions, {self.runs} runs "
            f"({BANDS})"
        )
        return Figure(title, panels, columns=2)

    def _in_pairs(self) -> list[tuple[str, np.ndarray]]:
        """The overlaps by name: the oracle's two, those of swapped roles, and k.v."""
        o = self.overlaps._asdict()
        return [(name, o[name]) for name in ("kappa", "nu", "eta", "theta", "rho")]

    def extend(self, steps: int, progress: bool = True) -> Trajectory:
        """A new Trajectory that goes `steps` further, bit for bit that of an uninterrupted run.

        If this one ended between two multiples of log_every, that last entry is left out of the new
        one.
        """
        return continued(self, engine_for, steps, progress)

    def diagnose(self) -> Sentences:
        """What happened, in sentences: one group of runs after the other, with the numbers."""
        from attnscope.dynamics.diagnose import diagnose

        return Sentences(diagnose(self))

    def _repr_html_(self) -> str:
        from attnscope.dynamics.ends import run_card

        return run_card(self)

    def rate(self, limit: str = "oracle") -> MeasuredRate:
        """Measured linear rate of the runs that ended at `limit`, beside the predicted one."""
        from attnscope.dynamics.rates import measured_rate

        return measured_rate(self, limit)

    def escape(self, level: float = 0.3) -> EscapeTime:
        """Steps until each run has left the saddle at orthogonal vectors,
        measured and predicted to first order.
        """
        from attnscope.dynamics.rates import measured_escape

        return measured_escape(self, level)

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
    task: PlantedTask, predictor: Predictor, log: np.ndarray, temperature: np.ndarray
) -> np.ndarray:
    """Excess (runs, logs) at logged overlaps: exact where the pair has a route everywhere, else
    from SAMPLED draws per point.

    A block of columns at a time; closed forms take all temperatures at once, others one by one.
    """
    row = find_route(task, predictor)
    out = np.empty(log.shape[1:])
    block = max(1, CHUNK // log.shape[1]) if row is not None and row.closed else 1
    for i in range(0, len(temperature), block):
        part = slice(i, i + block)
        lam = temperature[part] if block > 1 else float(temperature[i])
        o = Overlaps(*log[:, :, part])
        if (row is None or row.missing(task, predictor, o)) and is_defined(task):
            out[:, part] = sampled_on_nodes(
                task, predictor, o, float(temperature[i]), SAMPLED, 0
            ).excess
        elif row is None or row.missing(task, predictor, o):
            out[:, part] = sampled(
                row, task, predictor, o, float(temperature[i]), SAMPLED, 0
            ).excess
        else:
            out[:, part] = row.excess(task, predictor, o, lam).excess
    return out


def classify(o: Overlaps, theta: float) -> np.ndarray:
    """ "oracle", "swapped" or "undecided" per entry;
    `theta` is the size of theta at the role-swapped point.
    """
    oracle = (o.kappa * o.nu > 0) & (np.abs(o.kappa) >= ALIGNED) & (np.abs(o.nu) >= ALIGNED)
    swapped = (
        (o.eta * o.theta > 0)
        & (np.abs(o.eta) >= ALIGNED)
        & (np.abs(o.theta) >= ALIGNED * theta)
    )
    return np.where(oracle, "oracle", np.where(swapped, "swapped", "undecided"))


def swapped_theta(task: Any, predictor: Predictor, temperature: float) -> float:
    """|theta| at the role-swapped stationary point;
    1 (full alignment) where there is none or nobody has computed it.
    """
    if (
        not known_landscape(task)
        or temperature == 0
        or task.signal == 0
        or task.alignment != 0
    ):
        return 1.0
    row = find_route(task, predictor)
    if row is not None and row.swapped is not None:
        return float(row.swapped(task, temperature).theta)
    found = [
        p.overlaps
        for p in stationary_points(task, at_temperature(predictor, temperature))
        if p.name == "swapped"
    ]
    return abs(float(found[0].theta)) if found and abs(found[0].eta) >= ALIGNED else 1.0


def at_temperature(predictor: Predictor, temperature: Temperature) -> Predictor:
    """The same predictor at another temperature (predictors are frozen, their constructors
    differ).
    """
    import copy

    out = copy.copy(predictor)
    object.__setattr__(out, "temperature", temperature)
    return out
