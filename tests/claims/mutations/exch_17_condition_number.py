"""What makes the sentences of exch-17 false."""

import numpy as np
from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("bottleneck_trials",)


def _excess_times(factor):
    """Measured excesses times factor(kappa, n, L)."""

    def change(trials):
        def drawn(kappa, samples, length, *rest, **named):
            excess, bound = trials(kappa, samples, length, *rest, **named)
            return excess * factor(np.atleast_1d(kappa), samples, length), bound

        return drawn

    return change


def _linear_bound(trials):
    """kappa times the pretraining error in place of kappa^2."""

    def drawn(kappa, *rest, **named):
        excess, bound = trials(kappa, *rest, **named)
        return excess, bound / np.atleast_1d(kappa)

    return drawn


def _law(change):
    return lambda law: (
        lambda kappa, n, L: change(np.asarray(kappa), np.asarray(n), np.asarray(L))
    )


MUTATIONS = (
    *replaced(
        "condition",
        "the law without 1 - c",
        "bottleneck_law",
        _law(lambda kappa, n, L: 9 * 0.09 * kappa**2 / n),
    ),
    *replaced(
        "size",
        "p directions in place of p - r",
        "bottleneck_law",
        lambda law: lambda *args: law(*args) * 12 / 9,
    ),
    *replaced(
        "length",
        "an excess that falls with the length",
        "bottleneck_trials",
        _excess_times(lambda kappa, n, L: (16 / L) ** 0.1),
    ),
    *moved("slope-condition", "IN_CONDITION"),
    *moved("slope-size", "IN_SIZE"),
    *replaced(
        "slope-condition",
        "the excess grows as kappa",
        "bottleneck_trials",
        _excess_times(lambda kappa, n, L: 1 / kappa),
    ),
    *replaced(
        "slope-size",
        "the excess falls as 1/sqrt(n)",
        "bottleneck_trials",
        _excess_times(lambda kappa, n, L: (n / 1000) ** 0.5),
    ),
    *replaced(
        "slope-length",
        "the excess falls as L^-0.1",
        "bottleneck_trials",
        _excess_times(lambda kappa, n, L: L**-0.1),
    ),
    *replaced("bound", "kappa in place of kappa^2", "bottleneck_trials", _linear_bound),
    *moved("lost", "LOST_SHARE"),
)

REBUILT = {
    "slope in kappa": DROPPED,
    "slope in n": DROPPED,
    "slope in L": DROPPED,
    "condition number of the label": DROPPED,
}
