"""The Bayes-optimal learning curve is attained: message passing on alpha d drawn bags lands on it.

notation: nu = 5, L = 3, noise^2 = .1; k, v the posterior means that message passing finds.

    predicted   q_k, q_v and the risk 1 - q_v (1 - R_B(nu q_k)) from two equations whose averages
                are integrals: no data, no dimension
    measured    k.k*, v.v* and the risk on fresh bags of softmax attention with what message passing
                found in alpha d bags, k* and v* unknown to it

Tolerance: 5 standard errors over data sets (of a t law), and 4/d for what d -> inf leaves out.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence, Table
from attnscope.claims.compare import BAND, worst
from attnscope.claims.provenance import Provenance
from attnscope.claims.samples.drawn_bags import Fits, fits
from attnscope.figures.figure import Figure, Line, Panel, Points
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.samples.curve import LearningCurve
from attnscope.theory.samples.learning_curve import learning_curve

STRENGTH = 5.0
LENGTH = 3
NOISE = 0.1**0.5
ALPHAS = (0.5, 1.0, 2.0, 4.0)
WHY = "5 standard errors over data sets (t law; false alarm 6e-7 an entry) and 4/d for d < infinity"
NAMES = ("overlap of the key", "overlap of the value", "excess risk on fresh bags")


def check(context: Context) -> Evidence:
    dim = context.pick(400, 1000)
    counts = context.pick((50, 40, 24, 14), (24, 24, 24, 24))
    task = SingleLocation.spiked(dim, LENGTH, STRENGTH, NOISE)
    curve = learning_curve(task, ALPHAS)
    found = [
        fits((STRENGTH, LENGTH, NOISE), a, dim, count, [context.seed, 161, i])
        for i, (a, count) in enumerate(zip(ALPHAS, counts))
    ]
    predicted = np.stack([curve.key_overlap, curve.value_overlap, curve.risk.excess], axis=1)
    mean = np.array([seen.mean for seen in found])
    tolerance = np.array([seen.tolerance(dim) for seen in found])
    comparisons = tuple(
        worst(f"{name}, alpha .5 to 4", predicted[:, j], mean[:, j], tolerance[:, j], WHY)
        for j, name in enumerate(NAMES)
    )
    notes = "The prediction is of d -> infinity; the data sets have finite d."
    table = _table(curve, found, dim)
    return Evidence(comparisons, _figure(task, found), notes, tables=(table,))


def _table(curve: LearningCurve, found: list[Fits], dim: int) -> Table:
    rows = tuple(
        (f"{a:g}", p, seen.mean[2], len(seen.rows))
        for a, p, seen in zip(ALPHAS, curve.risk.excess, found)
    )
    columns = ("alpha", "predicted", "measured", "data sets")
    return Table(f"Excess risk, d = {dim}", columns, rows, digits=4)


def _figure(task: SingleLocation, found: list[Fits]) -> Figure:
    alpha = np.geomspace(0.3, 6, 40)
    curve = learning_curve(task, alpha)
    mean = np.array([seen.mean for seen in found])
    bars = BAND * np.array([seen.error for seen in found])
    floor = task.bayes_risk().excess
    risk = Panel(
        "risk",
        "bags per dimension alpha",
        "excess risk",
        (
            Line(alpha, curve.risk.excess, "risk, predicted", 0),
            Points(ALPHAS, mean[:, 2], "risk, message passing", 0, bars[:, 2]),
            Line(alpha[[0, -1]], [floor, floor], "infinitely many bags", 3, dashed=True),
        ),
        log_x=True,
    )
    overlaps = Panel(
        "overlaps",
        "bags per dimension alpha",
        "overlap with the truth",
        (
            Line(alpha, curve.key_overlap, "key, predicted", 1),
            Points(ALPHAS, mean[:, 0], "key, message passing", 1, bars[:, 0]),
            Line(alpha, curve.value_overlap, "value, predicted", 2),
            Points(ALPHAS, mean[:, 1], "value, message passing", 2, bars[:, 1]),
        ),
        log_x=True,
    )
    title = f"Message passing on the Bayes-optimal curve, strength 5, L = 3, d = {task.dim}"
    meanings = ("risk", "key", "value")
    return Figure(title, (risk, overlaps), columns=2, meanings=meanings)


CLAIM = Claim(
    id="samples-01-curve-attained",
    title="Message passing attains the Bayes-optimal learning curve",
    statement=(
        "From n = alpha d bags, key and value unknown, message passing reaches the overlaps and the "
        "risk that the replica equations of the Bayes-optimal estimator predict as d grows, at "
        "every alpha; its predictor is softmax attention."
    ),
    provenance=Provenance(
        "new here",
        ("C/bayes",),
        "the equations at n/d fixed, their channel averages and the algorithm (replica method, not "
        "proved for this channel)",
    ),
    hypotheses=(
        "O(1) spike of strength 5, L = 3, noise^2 = .1, both known; key and value orthogonal; "
        "d = 400 (1000 with --full), n = d/2 to 4 d"
    ),
    routes=("state evolution by quadrature", "message passing on drawn bags"),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.SingleLocation.spiked(dim=400, length=3, strength=5.0, noise=0.1**0.5)\n"
        "curve = at.learning_curve(task, alpha=2.0)\n"
        "found = at.message_passing(task.sample(800, seed=1), 5.0, 0.1**0.5, task=task)\n"
        "print(curve.key_overlap, curve.value_overlap, found.overlaps[-1])\n"
    ),
)
