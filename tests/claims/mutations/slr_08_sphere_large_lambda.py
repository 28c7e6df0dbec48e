"""What makes the sentences of slr-08 false."""

from types import SimpleNamespace

import numpy as np
from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = (
    "run_experiment",
    "_extend_run",
    "_departure",
    "tilted_minimum",
    "critical_by_gradient",
)


def _cold(run):
    """Runs at inverse temperature 0.1."""
    return lambda name, **options: run("init_sphere_small_lambda", **options)


def _as_minimum(points):
    """The stationary points, all of them minima."""
    return lambda *args: [
        SimpleNamespace(name=p.name, eigenvalues=np.abs(p.eigenvalues)) for p in points(*args)
    ]


MUTATIONS = (
    *replaced("oracle", "inverse temperature 0.1", "run_experiment", _cold),
    *replaced("patience", "inverse temperature 0.1", "run_experiment", _cold),
    *replaced("settled", "inverse temperature 0.1", "run_experiment", _cold),
    *replaced("growth", "(k*, v*) is a minimum", "stationary_points", _as_minimum),
    *moved("critical", "CRITICAL_INVERSE_TEMPERATURE"),
    *moved("null", "TIMES_NULL"),
    *moved("tilted", "TILTED_EXCESS"),
)

REBUILT = {
    "overlaps against vectors in R^400, 1000 steps of 16 runs": DROPPED,
    "excess risk of the tilted minimum": DROPPED,
}
