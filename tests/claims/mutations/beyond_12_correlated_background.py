"""What makes the sentences of beyond-12 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("_best_and_risk", "_sampled_risks", "_figure", "optimal_inverse_temperature")


def _repaired(exact):
    """An intercept repairs all that a mean costs."""

    def found(task):
        ways = np.array(exact(task))
        ways[1] = ways[2]
        return ways

    return found


def _isotropic_cost(exact):
    """The background costs the plain oracle nothing."""

    def found(task):
        ways = np.array(exact(task))
        ways[0] = ways[2]
        return ways

    return found


def _plain_signal(isotropic):
    """The signal stays s."""

    def found(task):
        other = isotropic(task)
        return type(other)(other.dim, other.length, gamma=other.gamma, signal=task.signal)

    return found


MUTATIONS = (
    *moved("isotropic", "ISOTROPIC_RISK"),
    *moved("mean", "MEAN_V_RISKS", entry=0),
    *replaced("mean", "the mean costs nothing", "_best_and_risk", _isotropic_cost),
    *moved("intercept", "MEAN_V_RISKS", entry=1),
    *replaced("intercept", "an intercept repairs everything", "_best_and_risk", _repaired),
    *moved("correlation", "CORRELATED_RISKS", entry=0),
    *moved("correlation", "CORRELATED_RISKS", entry=1),
    *moved("correlation", "CORRELATED_RISKS", entry=2),
    *replaced("whitened", "the signal stays s", "_whitened_task", _plain_signal),
    *replaced(
        "erf",
        "the risk is not scaled by |v'|^2",
        "_squared_length",
        lambda f: lambda task: 1.0,
    ),
    *replaced(
        "any-mean",
        "the whitened risk grows with the mean",
        "_best_and_risk",
        lambda exact: (
            lambda task: (
                exact(task) * (1 + 0.01 * (np.arange(3) == 2)[:, None] * task.mean.any())
            )
        ),
    ),
    *replaced(
        "bayes",
        "the risk is not scaled by |v'|^2",
        "_squared_length",
        lambda f: lambda task: 1.0,
    ),
    *replaced("bayes", "the signal stays s", "_whitened_task", _plain_signal),
)

REBUILT = dict.fromkeys(
    ("variance 5 along k*: whitened against plain",),
    "left out: no sentence names it",
)
