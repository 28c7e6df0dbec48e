"""What makes the sentences of slr-11 false."""

from helpers.mutation import moved, replaced

from attnscope.dynamics.experiments import EXPERIMENTS
from attnscope.dynamics.train import train
from attnscope.predictors.attention import Erf

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("run_experiment", "stationary_excess")


def _without_schedule(name, runs, seed, progress):
    """SGD at the inverse temperature of the start."""
    e = EXPERIMENTS[name]
    return train(
        e.task(),
        Erf(2.0),
        e.start,
        runs,
        20_000,
        e.step_size,
        1000,
        seed,
        e.batch_size,
        progress=False,
    )


def _times(factor):
    """The law of the stationary noise, times a factor."""
    return lambda law: lambda *args: tuple(factor * x for x in law(*args))


MUTATIONS = (
    *replaced(
        "oracle",
        "inverse temperature 2 does as well",
        "run_experiment",
        lambda _: _without_schedule,
    ),
    *moved("excess", "EXCESS"),
    *moved("own", "ORACLE_EXCESS"),
    *replaced("noise", "SGD adds no noise", "stationary_excess", _times(0)),
    *replaced("noise", "alpha/2 in place of alpha/4", "stationary_excess", _times(2)),
)

REBUILT = {
    "law after 200 steps: largest of 10 differences, in standard errors": DROPPED,
}
