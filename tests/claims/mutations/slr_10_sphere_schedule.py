"""What makes the sentences of slr-10 false."""

from dataclasses import replace

import numpy as np
from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("run_experiment", "_race")


def _with_one_at_the_saddle(run):
    """Runs of which the first is at orthogonal vectors at the last log."""

    def changed(name, **options):
        it = run(name, **options)
        log = it.log.copy()
        log[:, 0, -1] = 0.0
        return replace(it, log=log)

    return changed


def _without_exceptions(race):
    """Runs in which the way to the oracle is always the faster."""

    def changed(seed):
        it = race(seed)
        log = it.log.copy()
        log[1] = np.minimum(np.abs(log[1]), np.abs(log[3]))
        return replace(it, log=log)

    return changed


MUTATIONS = (
    *moved("share", "ORACLE_SHARE"),
    *replaced(
        "share",
        "a constant inverse temperature of 0.1 does as well",
        "run_experiment",
        lambda run: (
            lambda name, runs, **options: run(
                "init_sphere_small_lambda" if runs == 1000 else name, runs=runs, **options
            )
        ),
    ),
    *moved("oracle", "ORACLE_EXCESS"),
    *replaced(
        "settled", "one run ends at the saddle", "run_experiment", _with_one_at_the_saddle
    ),
    *moved("swapped", "SWAPPED_EXCESS"),
    *replaced("batches", "there are no exceptions", "_race", _without_exceptions),
)

REBUILT = {
    "overlaps against vectors in R^400, 300 steps of 16 runs": DROPPED,
    "runs at the oracle, of 30: share of 1000 others": DROPPED,
    "excess risk at the end, run by run": DROPPED,
    "share of runs with |eta| > |kappa| after 2000 steps": (
        "0.10 +- 0.13 could not see any difference; now after 1000 steps with 1000 starts"
    ),
}
