"""Learning curves in samples: times that must stay below their bars, idle and warm.

    python bench/bench_samples.py

Every row is gated on a number that is known: the excess risk .2567 at strength 5, L = 3, noise^2 =
.1, two bags per dimension.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
from table import heading, limit, seconds

import attnscope as at
from attnscope.numerics.integrals.location_channel import FINE_RULE, Positions, averages

TASK = at.SingleLocation.spiked(dim=1000, length=3, strength=5.0, noise=0.1**0.5)
ALPHAS = np.geomspace(0.25, 8, 28)
AVERAGES = (  # where they are cheap, dear (a narrow law) and long
    ("L = 3, overlaps .9 and .9", 4.5**0.5, 0.9, 0.2, 3),
    ("L = 3, overlap of the value .01", 2.0**0.5, 0.01, 1.09, 3),
    ("L = 1000, overlaps .5 and .999", 2.5**0.5, 0.999, 0.011, 1000),
)


def bars() -> None:
    for what, s, q, V, length in AVERAGES:
        positions = Positions.of_lengths(np.array([length]), np.ones(1))
        close = np.abs(
            np.subtract(averages(s, q, V, positions), averages(s, q, V, positions, FINE_RULE))
        )
        assert close.max() < 1e-7
        limit(f"averages, {what}", seconds(lambda: averages(s, q, V, positions)), 0.040)
    assert abs(at.learning_curve(TASK, 2.0).risk.excess - 0.2567) < 1e-4
    limit("Bayes curve, 28 alphas", seconds(lambda: at.learning_curve(TASK, ALPHAS), 3), 2.0)
    limit("bags_needed", seconds(lambda: at.bags_needed(TASK, 0.3), 3), 2.0)
    limit(
        "recovery_threshold, L = 5, strength 1, noise .01",
        seconds(lambda: at.recovery_threshold(5, 1.0, 0.01), 3),
        2.0,
    )
    batch = TASK.sample(2000, seed=1)
    found = at.message_passing(batch, 5.0, 0.1**0.5, task=TASK)
    assert np.abs(found.overlaps[-1] - 0.9).max() < 0.05
    limit(
        "message passing, d = 1000, alpha = 2, L = 3",
        seconds(lambda: at.message_passing(batch, 5.0, 0.1**0.5), 3),
        5.0,
    )


def fit_bars() -> None:
    """Ridge fits, gated on printed numbers: .4211 (L = 2, ridge .5), .4507 +- .002 (L = 5, .3)."""
    for length, ridge, alpha, known, off, bar in (
        (2, 0.5, 2.0, 0.4211, 1e-4, 5.0),
        (2, 0.1, 4.0, 0.2260, 5e-4, 5.0),
        (5, 0.3, 4.0, 0.4507, 4e-3, 30.0),
    ):
        task = at.SingleLocation.spiked(1000, length, 5.0, 0.1**0.5)
        fit = lambda: at.learning_curve(task, alpha, at.Softmax(1.0), ridge)
        assert abs(fit().risk.excess - known) < off
        limit(f"softmax fit, L = {length}, ridge {ridge:g}", seconds(fit, 3), bar)
    task = at.SingleLocation.spiked(1000, 2, 5.0, 0.1**0.5)
    linear = at.LinearAttention(1.0, offset=1.0)
    assert abs(at.learning_curve(task, 4.0, linear, 0.5).risk.excess - 0.4775) < 2e-3
    fit = lambda: at.learning_curve(task, 4.0, linear, 0.5)
    limit("linear fit, L = 2, ridge 0.5", seconds(fit, 3), 5.0)
    limit(
        "best ridge of a linear fit",
        seconds(lambda: at.best_ridge(task, 4.0, linear), 1),
        10.0,
    )


if __name__ == "__main__":
    heading("learning curves in samples")
    bars()
    fit_bars()
