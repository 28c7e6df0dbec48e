"""Replica symmetry fails where its own stability number says so, and holds where it does not.

notation: linear attention, nu = 5, L = 2, noise^2 = .1; alpha = n/d, the same ridge on key and
value.

    predicted   mean squared residual of the fit, and the spectral radius of the replicon matrix:
                both from the replica-symmetric solution alone
    measured    the residual of L-BFGS on alpha d drawn bags

With ridge .1 and two bags or so a dimension (as many as key and value have components together) the
data can nearly be interpolated: there the equations promise a residual several times too small. A
residual contradicts its prediction when they differ by more than the tolerance that the others
keep.

Tolerance, relative: 5 SPREAD over the root of the number of fits, SPREAD the standard deviation of
one fit at d = 400 measured beforehand on 6 to 60 other data sets (rounded up), and 10/d for what
d -> inf leaves out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import BAND, Z, exact_count, worst
from attnscope.claims.provenance import Provenance
from attnscope.claims.series import Series
from attnscope.figures.figure import Figure, Points
from attnscope.predictors.attention import LinearAttention
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.samples.learning_curve import learning_curve
from attnscope.theory.samples.ridge_erm import LARGEST_STABILITY
from attnscope_claims.drawing import figure, level, panel
from attnscope_claims.samples.ridge_fits import fit_both

STRENGTH = 5.0
NOISE = 0.1**0.5
DIM = 400  # of the spreads
FINITE_DIM_BIAS = 10.0  # times 1/d
WHY = "5 sd of the mean of the fits (sd of one known from others; false alarm 6e-7 each) and 10/d"


class Row(NamedTuple):
    """A setting, how many fits (default, --full), and the relative spread of one fit."""

    alpha: float
    ridge: float
    fits: tuple[int, int]
    spread: float


ROWS = (
    Row(1.0, 0.1, (8, 12), 0.06),
    Row(2.0, 1.0, (5, 8), 0.11),
    Row(2.0, 0.5, (4, 8), 0.10),
    Row(2.0, 0.1, (3, 6), 0.08),
    Row(2.5, 0.1, (3, 6), 0.08),
)


# What the statement says: the residual over its prediction of the last settings of ROWS, those near
# interpolation, and the spectral radius of each setting.
TIMES = (2.0, 5.0)
RADII = (0.87, 0.43, 0.63, 2.37, 3.53)


def check(context: Context) -> Evidence:
    dim = context.pick(DIM, 1000)
    predicted, stability = _theory(dim)
    counts = [context.pick(*row.fits) for row in ROWS]
    rng = np.random.default_rng([context.seed, 166])
    seeds = [rng.integers(2**31, size=n).tolist() for n in counts]
    measured = np.array([_residual(dim, r, s) for r, s in zip(ROWS, seeds)]) / predicted
    allowed = np.array(
        [
            Z * row.spread * math.sqrt(DIM / dim / n) + FINITE_DIM_BIAS / dim
            for row, n in zip(ROWS, counts)
        ]
    )
    flagged = stability >= LARGEST_STABILITY
    wrong = np.abs(measured - 1) > allowed
    comparisons = (
        worst(
            "residual over its prediction, stable settings",
            1.0,
            measured[~flagged],
            allowed[~flagged],
            WHY,
            key="stable",
        ),
        exact_count(
            "settings flagged by the stability, and those that contradict",
            flagged.sum(),
            wrong.sum(),
            key="contradict",
        ),
        exact_count(
            f"settings where flag and contradiction coincide, of {len(ROWS)}",
            len(ROWS),
            (flagged == wrong).sum(),
            key="coincide",
        ),
        Series(
            "times",
            "residual over its prediction near interpolation, as stated",
            range(len(TIMES)),
            TIMES,
            measured[-len(TIMES) :],
            (allowed * measured)[-len(TIMES) :] + 0.05,
            why=WHY + " of it, and half a digit",
            routes=("stated", "L-BFGS on drawn bags"),
        ),
        Series(
            "radius",
            "spectral radius by setting, as stated",
            range(len(ROWS)),
            RADII,
            stability,
            0.005,
            why="half a printed digit",
            routes=("stated", "replica-symmetric equations"),
        ),
    )
    notes = f"The prediction is right where the stability is below {LARGEST_STABILITY:g}."
    figure = _figure(measured, allowed, stability, dim)
    return Evidence(comparisons, figure, notes)


def _task(dim: int) -> SingleLocation:
    return SingleLocation.spiked(dim, 2, STRENGTH, NOISE)


def _theory(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """(settings,): residuals and spectral radii of the replica-symmetric solutions."""
    predictor = LinearAttention(1.0, offset=1.0)
    curves = [
        learning_curve(_task(dim), r.alpha, predictor, r.ridge, unstable="return")
        for r in ROWS
    ]
    return np.array([c.training_error for c in curves]), np.array(
        [c.stability for c in curves]
    )


def _residual(dim: int, row: Row, seeds: list[int]) -> float:
    """Mean over fits of the mean squared residual."""
    n = round(row.alpha * dim)
    fits = [fit_both(_task(dim), n, False, (row.ridge, row.ridge), seed) for seed in seeds]
    return float(np.mean([fit.training for fit in fits]))


def _figure(
    measured: np.ndarray, allowed: np.ndarray, stability: np.ndarray, dim: int
) -> Figure:
    names = tuple(f"{r.alpha:g}, {r.ridge:g}" for r in ROWS)
    x = np.arange(len(ROWS))
    ends = [-0.4, len(ROWS) - 0.6]

    return figure(
        f"Linear attention fitted by ridge, L = 2, d = {dim}",
        panel(
            "residual of the fit",
            "alpha, ridge",
            "measured over predicted",
            Points(
                x,
                measured,
                "measured",
                0,
                BAND / Z * (allowed - FINITE_DIM_BIAS / dim) * measured,
            ),
            level(ends, 1, "as predicted", 1),
            log="y",
            x_names=names,
        ),
        panel(
            "what the solution says of itself",
            "alpha, ridge",
            "stability",
            Points(x, stability, "spectral radius", 2),
            level(ends, LARGEST_STABILITY, "refused from here on", 3),
            x_names=names,
        ),
    )


CLAIM = Claim(
    id="samples-06-stability",
    title="Replica symmetry fails where it is unstable",
    statement=(
        "[Fits on drawn bags meet the replica-symmetric residual of linear attention where the "
        "spectral radius of its own replicon matrix is below 0.9](stable).",
        "[They contradict it where it is not](contradict, coincide).",
        f"[With ridge .1 the radius is {RADII[3]:g} at alpha = 2 and {RADII[4]:g} at 2.5](radius).",
        f"[There, near interpolation, the residual is about {TIMES[0]:g} and {TIMES[1]:g} "
        "times the predicted one](times).",
    ),
    headline="times",
    provenance=Provenance(
        "new here", (), "the replicon matrix of the fit and its use as a warning"
    ),
    hypotheses=(
        "linear attention with offset, O(1) spike of strength 5, L = 2, noise^2 = .1; d = 400 "
        "(1000 with --full); L-BFGS from moments stands for the minimum"
    ),
    routes=("replica-symmetric equations and their stability", "L-BFGS on drawn bags"),
    rests_on=("samples-05-ridge-fits",),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.SingleLocation.spiked(dim=400, length=2, strength=5.0, noise=0.1**0.5)\n"
        "linear = at.LinearAttention(1.0, offset=1.0)\n"
        "for ridge in (0.1, 0.5):\n"
        "    fit = at.learning_curve(task, 2.0, linear, ridge, unstable='return')\n"
        "    print(ridge, fit.training_error, fit.stability)\n"
    ),
)
