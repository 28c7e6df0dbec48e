"""What makes the sentences of slr-12 false."""

from dataclasses import replace

import numpy as np
from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("_train_runs", "_numpy_flow")


def _with_one_at_the_saddle(trained):
    """Runs of which the first is at orthogonal vectors at the last log."""

    def changed(*args):
        it = trained(*args)
        log = it.log.copy()
        log[:, 0, -1] = 0.0
        return replace(it, log=log)

    return changed


def _times(factor):
    """The role-swapped minimum with theta times a factor."""
    return lambda swapped: (
        lambda task, lam: (lambda o: o._replace(theta=factor * o.theta))(swapped(task, lam))
    )


def _by_one_vector(_):
    """A rule that looks at k alone."""
    return lambda task, lam, o: np.where(np.abs(o.kappa) > np.abs(o.eta), "oracle", "swapped")


MUTATIONS = (
    *replaced(
        "settled-0", "one run ends at the saddle", "_train_runs", _with_one_at_the_saddle
    ),
    *replaced(
        "settled-1", "one run ends at the saddle", "_train_runs", _with_one_at_the_saddle
    ),
    *moved("half", "ORACLE_SHARE"),
    *replaced("theta-0", "theta is 1 % smaller", "swapped_overlaps", _times(0.99)),
    *replaced("theta-1", "theta is 1 % smaller", "swapped_overlaps", _times(0.99)),
    *moved("rule", "RULE_SHARES", entry=0.02),
    *moved("rule", "RULE_SHARES", entry=0.1),
    *replaced("rule", "the overlaps of k alone decide", "basin_prediction", _by_one_vector),
)

REBUILT = {
    "excess risk of the swapped runs, temperature 0.02": DROPPED,
    "share of starts foretold by the first-order rule, temperature 0.02": DROPPED,
    "excess risk of the swapped runs, temperature 0.1": DROPPED,
    "share of starts foretold by the first-order rule, temperature 0.1": DROPPED,
}
