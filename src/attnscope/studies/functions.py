"""The functions a study repeats over a grid: flat numbers in, one flat dict of numbers out.

Each is a thin call of the library, importable by name (so that worker processes and Dask find it) and free of state. `gamma2` is gamma^2, `signal`
None means sqrt(dim/2). Add a function here, or name your own as "package.module:function" in the TOML file.
"""

from __future__ import annotations

import numpy as np

from attnscope.dynamics.train import train
from attnscope.errors import bad
from attnscope.predictors.attention import Erf, LinearAttention, Predictor, Softmax
from attnscope.predictors.temperature import InverseTime, Temperature
from attnscope.tasks.single_location import SingleLocation
from attnscope.theory import optimum
from attnscope.theory.oracle_saddle import critical_temperature
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk

__all__ = ["FUNCTIONS", "optimal_temperature", "oracle_risk", "outcomes"]

FAMILIES: dict[str, type[Predictor]] = {"erf": Erf, "softmax": Softmax, "linear": LinearAttention}


def oracle_risk(
    dim: int,
    length: int,
    gamma2: float = 0.5,
    noise: float = 0.0,
    signal: float | None = None,
    predictor: str = "erf",
    temperature: float = 0.1,
) -> dict[str, float]:
    """Exact risk of a predictor at (k*, v*), beside the null, linear and Bayes risks."""
    task = SingleLocation(dim, length, gamma=gamma2**0.5, noise=noise, signal=signal)
    value = risk(task, _family(predictor)(temperature), Overlaps.oracle())
    bayes = task.bayes_risk()
    return {
        "risk": value.value,
        "excess": value.excess,
        "log_excess": value.log_excess,
        "null": task.null_risk().value,
        "linear": task.linear_risk().value,
        "bayes": bayes.value,
        "bayes_log_excess": bayes.log_excess,
    }


def optimal_temperature(
    dim: int, length: int, gamma2: float = 0.5, signal: float | None = None, predictor: str = "erf"
) -> dict[str, float]:
    """Best temperature of a predictor at (k*, v*), its risk, and the critical temperature of the erf oracle."""
    task = SingleLocation(dim, length, gamma=gamma2**0.5, signal=signal)
    best, value = optimum.optimal_temperature(task, _family(predictor))
    critical = critical_temperature(task)
    out = {"optimal_temperature": best, "risk": value.value, "log_excess": value.log_excess}
    return out | ({"critical_temperature": critical} if np.isfinite(critical) else {})


def outcomes(
    dim: int,
    temperature: float,
    length: int = 10,
    gamma2: float = 0.5,
    noise: float = 0.0,
    signal: float | None = None,
    predictor: str = "erf",
    rate: float = 0.0,
    start: str = "sphere",
    runs: int = 30,
    steps: int = 20_000,
    step_size: float = 4e-3,
    batch_size: int | None = None,
    swap_move: bool = False,
    seed: int = 0,
) -> dict[str, float]:
    """Fractions of training runs that reach the oracle, the swapped minimum, neither, or diverge; `rate` > 0: temperature/(1 + rate t)."""
    task = SingleLocation(dim, length, gamma=gamma2**0.5, noise=noise, signal=signal)
    schedule: Temperature = InverseTime(temperature, rate) if rate else temperature
    run = train(
        task,
        _family(predictor)(schedule),
        start=start,
        runs=runs,
        steps=steps,
        step_size=step_size,
        log_every=steps,
        batch_size=batch_size,
        swap_move=swap_move,
        seed=seed,
        progress=False,
    )
    fractions = {name: float(np.mean(run.outcome == name)) for name in ("oracle", "swapped", "undecided", "diverged")}
    return fractions | {"median_excess": float(np.median(run.excess[:, -1]))}


FUNCTIONS = {function.__name__: function for function in (oracle_risk, optimal_temperature, outcomes)}


def _family(name: str) -> type[Predictor]:
    if name not in FAMILIES:
        raise bad("predictor", "a study", f"one of {', '.join(FAMILIES)}", name)
    return FAMILIES[name]
