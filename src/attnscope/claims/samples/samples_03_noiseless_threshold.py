"""Labels without noise: below a threshold message passing finds a shadow of the value, above it the
value itself.

notation: nu = 1, L = 5, D = 0; q_v the overlap of the value.

    predicted   the local maximum of alpha(q_v), 1.956 bags per dimension: the least solution of the
                equations jumps there from q_v = .78 to q_v = 1. Above it q_k = alpha nu/(1 + alpha
                nu) and the risk is R_B(alpha nu^2/(1 + alpha nu)), in closed form up to R_B
    measured    the share of data sets on which message passing from zero has v.v* > .99, and its
                risk on fresh bags

At finite d the jump is smeared, so it is approached to 25 % at d = 400 and to 10 % at d = 1000.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence, Table
from attnscope.claims.provenance import Provenance
from attnscope.claims.samples.drawn_bags import Fits, fits
from attnscope.figures.figure import Figure, Line, Mark, Panel, Points
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.risks.spiked import spiked_bayes_risk
from attnscope.theory.samples.learning_curve import learning_curve
from attnscope.theory.samples.thresholds import recovery_threshold

STRENGTH = 1.0
LENGTH = 5
RECOVERED = 0.99  # v.v* beyond this: between the shadow's .78 at most and 1
BELOW = "share of data sets recovered"
WHY_SHARE = (
    "one data set in four may be an exception at this d; a wrong threshold moves all of them"
)
WHY_RISK = (
    "5 standard errors over data sets (t law; false alarm 6e-7) and 4/d for d < infinity"
)


def check(context: Context) -> Evidence:
    dim = context.pick(400, 1000)
    count = context.pick(8, 12)
    low, high = context.pick((1.5, 2.5), (1.75, 2.15))
    threshold = recovery_threshold(LENGTH, STRENGTH).reachable
    assert threshold is not None
    setting = (STRENGTH, LENGTH, 0.0)
    below = fits(setting, low, dim, count, [context.seed, 163, 0])
    above = fits(setting, high, dim, count, [context.seed, 163, 1])
    recovered = [float(np.mean(seen.rows[:, 1] > RECOVERED)) for seen in (below, above)]
    closed = spiked_bayes_risk(high * STRENGTH**2 / (1 + high * STRENGTH), LENGTH)
    comparisons = (
        Comparison(f"{BELOW}, alpha = {low:g}", 0.0, recovered[0], 0.25, why=WHY_SHARE),
        Comparison(f"{BELOW}, alpha = {high:g}", 1.0, recovered[1], 0.25, why=WHY_SHARE),
        Comparison(
            "the threshold lies between the two alphas: its place among them, 0 to 1",
            0.5,
            (threshold.value - low) / (high - low),
            0.5,
            why="inside the interval on whose two sides the data sets differ",
            routes=("halfway between failure and success", "turn of alpha(q_v)"),
        ),
        Comparison(
            f"excess risk where the value is found, alpha = {high:g}",
            closed.excess,
            float(above.mean[2]),
            float(above.tolerance(dim)[2]),
            why=WHY_RISK,
        ),
    )
    task = SingleLocation.spiked(dim, LENGTH, STRENGTH)
    figure = _figure(task, threshold.value, (low, below), (high, above))
    notes = (
        f"The threshold is {threshold.value:.4f}; above it the risk is {closed.excess:.4f} as "
        f"predicted, {above.mean[2]:.4f} measured."
    )
    rows = tuple((f"{a:g}", f"{share:.0%}") for a, share in zip((low, high), recovered))
    title = f"Recovered, of {count} data sets of d = {dim}"
    table = Table(title, ("alpha", "share"), rows)
    return Evidence(comparisons, figure, notes, tables=(table,))


def _figure(
    task: SingleLocation,
    threshold: float,
    below: tuple[float, Fits],
    above: tuple[float, Fits],
) -> Figure:
    before = threshold - np.geomspace(
        1.3, 1e-6, 40
    )  # closer together where the curve steepens
    after = np.linspace(threshold + 1e-6, 3.2, 12)
    curve = learning_curve(task, [*before, *after])
    alpha = np.array([*before, np.nan, *after])  # a gap where it jumps
    panels = []
    for title, label, j, line in (
        ("value", "overlap v.v*", 1, curve.value_overlap),
        ("risk", "excess risk", 2, curve.risk.excess),
    ):
        ends = [float(np.min(line)), float(np.max(line))]
        marks: tuple[Mark, ...] = (
            Line(alpha, np.insert(line, len(before), np.nan), "predicted", 0),
            Line([threshold] * 2, ends, "threshold", 2, dashed=True),
            *(
                Points(np.full(len(seen.rows), a), seen.rows[:, j], name, 1)
                for (a, seen), name in (
                    (below, "message passing, each data set"),
                    (above, ""),
                )
            ),
        )
        panels.append(Panel(title, "bags per dimension alpha", label, marks))
    title = f"Recovery without label noise, strength 1, L = 5, d = {task.dim}"
    return Figure(title, tuple(panels), columns=2)


CLAIM = Claim(
    id="samples-03-noiseless-threshold",
    title="Without noise the value is found from a threshold on",
    statement=(
        "With labels free of noise message passing recovers the value exactly from a threshold of "
        "bags per dimension on (1.956 for strength 1 and five tokens) and not below it; beyond, the "
        "risk is the Bayes risk of strength alpha nu^2/(1 + alpha nu)."
    ),
    provenance=Provenance("new here", (), "the threshold, the closed form beyond it"),
    hypotheses=(
        "O(1) spike of strength 1, L = 5, no label noise; d = 400 and alpha 1.5 and 2.5 (with "
        "--full d = 1000, 1.75 and 2.15)"
    ),
    routes=("turn of alpha(q_v), closed form", "message passing on drawn bags"),
    rests_on=(
        "samples-01-curve-attained",
        "beyond-03-decay-in-the-spike",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "print(at.recovery_threshold(length=5, strength=1.0).reachable.value)\n"
        "task = at.SingleLocation.spiked(dim=300, length=5, strength=1.0)\n"
        "for n in (450, 750):\n"
        "    found = at.message_passing(task.sample(n, seed=1), 1.0, 0.0, task=task)\n"
        "    print(n / 300, found.overlaps[-1])\n"
    ),
)
