"""What makes the sentences of beyond-10 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("_exact_errors", "_error_rates", "_needed_strengths", "_poisson_strength", "_figure")


def _scaled(test, factor):
    """Needed strengths in which one test (a column) needs another strength."""
    return lambda needed: lambda: needed() * np.where(np.arange(3) == test, factor, 1.0)


MUTATIONS = (
    *moved("max", "MAX_LIMIT"),
    *replaced(
        "max",
        "the max test needs 2 sqrt(log L)",
        "_poisson_strength",
        lambda strength: lambda log_length: 2 * np.sqrt(log_length) + 0.84,
    ),
    *moved("bayes", "BAYES_ABOVE", entry=0),
    *moved("bayes", "BAYES_ABOVE", entry=1),
    *replaced(
        "least",
        "the Bayes test needs more than the max test",
        "_needed_strengths",
        _scaled(0, 1.001),
    ),
    *moved("linear", "LINEAR_OVER_ROOT"),
    *replaced(
        "linear",
        "a linear test needs 2.563 sqrt(log L)",
        "_needed_strengths",
        lambda needed: (
            lambda: (
                needed() * [1, 1, 0]
                + np.outer(
                    np.sqrt(np.log([10, 1e2, 1e3, 1e4, 1e6, 1e8, 1e10, 1e12])), [0, 0, 2.563]
                )
            )
        ),
    ),
    *replaced(
        "any-linear",
        "the best weights need a tenth less than equal ones",
        "_needed_strengths",
        _scaled(2, 1.1),
    ),
    *moved("over-log", "BAYES_OVER_LOG"),
)

REBUILT = dict.fromkeys(
    (
        "max test's strength, exact against Poisson limit",
        "theta - sqrt(2 log L) as L grows, max test",
    ),
    "left out: no sentence names it",
)
