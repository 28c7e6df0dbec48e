"""What makes the sentences of exch-14 false."""

import numpy as np
from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("_fit_parameters", "_used_at", "_figure")


def _tilted(fitted):
    """Fits whose scores have entries off the diagonal."""

    def fit(*args):
        trace, gain, off = fitted(*args)
        return trace, gain, off + np.array([[0.8], [0.0]])

    return fit


def _longer_is_sharper(fitted):
    """Fits whose scores sharpen as log L."""

    def fit(length, *args):
        (trace, error), gain, off = fitted(length, *args)
        return (trace * (length / 32) ** 0.2, error), gain, off

    return fit


def _no_gain(fitted):
    return lambda *args: (lambda trace, gain, off: (trace, (1.0, gain[1]), off))(
        *fitted(*args)
    )


MUTATIONS = (
    *replaced("off", "scores off the diagonal", "_fit_parameters", _tilted),
    *replaced(
        "trace", "longer contexts sharpen the scores", "_fit_parameters", _longer_is_sharper
    ),
    *moved("within", "LIMIT_DISTANCE", up=False, by=0.05),
    *moved("limit", "LIMIT"),
    *replaced(
        "long",
        "the criterion is V(h)/rho_1(h), with a wider best bandwidth",
        "limit_bandwidth",
        lambda limit: lambda dim, noise: 1.05 * limit(dim, noise),
    ),
    *moved("refitted", "LOST_SHARE"),
    *moved("rises", "GAINS", entry=0, by=0.15),
    *moved("rises", "GAINS", entry=-1),
    *replaced("rises", "the gain is 1 at every length", "_fit_parameters", _no_gain),
    *moved("gain-limit", "GAIN_LIMIT"),
    *replaced(
        "gain-long",
        "the gain tends to 1",
        "softmax_filter",
        lambda rho: lambda *args: 1.0,
    ),
    *moved("kept", "KEPT_GAIN"),
)

REBUILT = {
    "gain of the fit, every L": DROPPED,
    "trace A/3 of the fit against the limit 1/h": DROPPED,
    "scores of L = 32, gain refitted: error over the best, L = 16..128": DROPPED,
    "error at L = 8..512 of the parameter of L = 32": DROPPED,
}
