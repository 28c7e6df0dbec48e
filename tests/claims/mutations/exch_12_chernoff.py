"""What makes the sentences of exch-12 false."""

import numpy as np
from helpers.mutation import moved, replaced

from attnscope.tasks.exchangeable.topics import Topics

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("_log_masses", "_wrong_mass")


def _hellinger(chernoff):
    """1 - sum sqrt(pq) in place of the Chernoff information."""

    def rate(task):
        found = chernoff(task)
        p, q = (task.emissions[i] for i in found.pair)
        return found._replace(rate=1 - float(np.sum(np.sqrt(p * q))))

    return rate


def _easiest(chernoff):
    """The pair that is easiest to distinguish."""

    def rate(task):
        if task.topics == 2:
            return chernoff(task)
        pairs = [Topics([0.5, 0.5], np.delete(task.emissions, i, axis=0)) for i in range(3)]
        return max(chernoff(pair) for pair in pairs)

    return rate


MUTATIONS = (
    *replaced("rate", "the rate is the squared Hellinger distance", "chernoff", _hellinger),
    *replaced("pair", "the easiest pair sets the rate", "chernoff", _easiest),
    *moved("power", "POWER"),
    *moved("exponential", "GROWTH"),
    *replaced(
        "exponential",
        "the mass falls as 1/L",
        "_log_masses",
        lambda logs: lambda task, lengths: [-float(np.log(L)) for L in lengths],
    ),
    *replaced(
        "constant",
        "the law without the prior of the wrong topic",
        "asymptotic_topic_error",
        lambda law: lambda task, L: law(Topics([0.5, 0.5], task.emissions), L),
    ),
    *replaced(
        "sampled",
        "posteriors that know half of the wrong mass",
        "_wrong_mass",
        lambda drawn: lambda *args: drawn(*args) / 2,
    ),
)

REBUILT = {
    "log of the wrong mass: integral against counts": DROPPED,
}
