"""The paper's five training experiments as named settings (Marion, Berthier, Biau, Boyer, ICLR
2025).
"""

from __future__ import annotations

from typing import NamedTuple

from attnscope.deprecated import old_names
from attnscope.dynamics.starts import StartName
from attnscope.dynamics.train import EngineName, train
from attnscope.dynamics.trajectory import Trajectory
from attnscope.errors import bad
from attnscope.predictors.attention import Erf
from attnscope.predictors.inverse_temperature import InverseTemperature, InverseTime
from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["EXPERIMENTS", "Experiment", "run_experiment"]


@old_names
class Experiment(NamedTuple):
    """Erf at `inverse_temperature` on SingleLocation(dim, length, gamma^2 = 1/2, noise),
    trained from `start`.
    """

    dim: int
    inverse_temperature: InverseTemperature
    step_size: float
    steps: int
    start: StartName
    log_every: int
    batch_size: int | None = None
    noise: float = 0.0
    length: int = 10
    gamma: float = 0.5**0.5

    def task(self) -> SingleLocation:
        return SingleLocation(self.dim, self.length, gamma=self.gamma, noise=self.noise)


EXPERIMENTS: dict[str, Experiment] = {
    "init_manifold": Experiment(400, 0.1, 4e-3, 20_000, "manifold", 200),
    "init_sphere_large_lambda": Experiment(400, 0.9, 1e-3, 120_000, "sphere", 1_000),
    "init_sphere_small_lambda": Experiment(400, 0.1, 4e-3, 20_000, "sphere", 200),
    "init_sphere_schedule": Experiment(
        400, InverseTime(1.0, rate=1e-4), 4e-3, 120_000, "sphere", 1_000
    ),
    "sgd_init_sphere_schedule": Experiment(
        80,
        InverseTime(2.0, rate=1e-4),
        1e-3,
        200_000,
        "sphere",
        2_000,
        batch_size=5,
        noise=0.1,
    ),
}


def run_experiment(
    name: str,
    runs: int = 30,
    seed: int = 0,
    engine: EngineName = "reduced",
    progress: bool = True,
) -> Trajectory:
    """Train one of the five, `EXPERIMENTS[name]`.

    Args:
        name: which: a key of EXPERIMENTS.
        runs: how many.
        seed: run i is a function of (seed, i).
        engine: "reduced" or "full", as in `train`.
        progress: show a bar on stderr if that is a terminal.

    >>> run_experiment("init_manifold", runs=4)
    Trajectory(4 runs, 20000 steps: 4 oracle)
    """
    if name not in EXPERIMENTS:
        raise bad("name", "run_experiment", "one of " + ", ".join(EXPERIMENTS), name)
    e = EXPERIMENTS[name]
    return train(
        e.task(),
        Erf(e.inverse_temperature),
        start=e.start,
        runs=runs,
        steps=e.steps,
        step_size=e.step_size,
        log_every=e.log_every,
        seed=seed,
        batch_size=e.batch_size,
        engine=engine,
        progress=progress,
    )
