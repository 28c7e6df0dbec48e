"""With many bags the learning curve ends in the Cramér-Rao limit.

notation: E(alpha) the Bayes-optimal excess risk at n = alpha d, R_B the population Bayes risk.

    predicted   alpha (E - R_B) at alpha = 10^5 from the replica equations, where the next order is
                a share 10^-5 of it
    measured    (n/d) tr(I^-1 G)/n: Fisher information of one bag at d = 2000, averaged over drawn
                bags (theory.samples.cramer_rao), which knows neither replicas nor a proportional
                limit

The limits that the statement gives are compared with the Fisher information, and the approach to
them with the curve at alpha = 200. The two limits, d -> inf at n/d fixed and n -> inf at d fixed, need not commute; that they do here
is what the claim says.

Tolerance: 5 standard errors of the drawn bags, and 2/d of the limit for d < inf: the blocks of the
information along k* and v* are a share of order 1/d of all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import Z
from attnscope.claims.provenance import Provenance
from attnscope.claims.series import Series
from attnscope.figures.figure import Band, Figure, Line
from attnscope.numerics.border.estimate import Estimate
from attnscope.numerics.border.sampled_estimate import widened
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.samples.cramer_rao import JACKKNIFE_BATCHES, cramer_rao
from attnscope.theory.samples.learning_curve import learning_curve
from attnscope_claims.drawing import figure, level, panel

SETTINGS = ((5.0, 3, 0.1), (2.0, 2, 0.01))  # strength, length, noise^2
DIM = 2000
FAR_ALPHA = 1e5
# What the statement says: the limit of alpha (E - R_B), and its value at alpha = 200 over the limit.
LIMITS = (0.1388, 0.0895)
NEARLY_RATIOS = (1.0034, 0.9992)
FINITE_DIM_BIAS = 2.0  # over d: what blocks along the two directions may add, relatively
WHY = "5 standard errors of the drawn bags (t law, 32 batches; false alarm 6e-7) and 2/d of the limit"


class Ends(NamedTuple):
    """One setting: alpha (E - R_B) along the curve, at its end, and the other route."""

    alpha: np.ndarray
    scaled: np.ndarray
    limit: float
    measured: Estimate

    @property
    def spread(self) -> float:
        """5 standard errors of the other route."""
        return Z * widened(self.measured.error, JACKKNIFE_BATCHES)


def check(context: Context) -> Evidence:
    samples = context.pick(128_000, 1_024_000)
    ends = [_ends(s, L, D, samples, context.seed) for s, L, D in SETTINGS]
    comparisons = (
        Series(
            "limit",
            "(n/d) times the Cramér-Rao limit, as stated",
            range(2),
            LIMITS,
            [end.measured.value for end in ends],
            [end.spread + FINITE_DIM_BIAS / DIM * end.limit + 5e-5 for end in ends],
            why=WHY + ", half a digit",
            routes=("stated", "Fisher information on drawn bags"),
        ),
        Series(
            "curve",
            "alpha (risk - Bayes risk) at alpha = 1e5, as stated",
            range(2),
            LIMITS,
            [end.limit for end in ends],
            5e-5,
            why="half a printed digit",
            routes=("stated", "state evolution by quadrature"),
        ),
        Series(
            "settles",
            "alpha (risk - Bayes risk) at alpha = 200 over that at 1e5, as stated",
            range(2),
            NEARLY_RATIOS,
            [end.scaled[-1] / end.limit for end in ends],
            5e-5,
            why="half a printed digit",
            routes=("stated", "state evolution by quadrature"),
        ),
    )
    notes = "Replicas and the Fisher information agree within the error of the sampled limit."
    return Evidence(comparisons, _figure(ends), notes)


def _ends(strength: float, length: int, D: float, samples: int, seed: int) -> Ends:
    task = SingleLocation.spiked(DIM, length, strength, D**0.5)
    alpha = np.geomspace(0.5, 200, 50)
    curve = learning_curve(task, [*alpha, FAR_ALPHA])
    gap = curve.risk.excess - task.bayes_risk().excess
    return Ends(
        alpha,
        alpha * gap[:-1],
        FAR_ALPHA * gap[-1],
        cramer_rao(task, DIM, samples=samples, seed=seed),
    )


def _figure(ends: list[Ends]) -> Figure:
    panels = []
    for (s, L, D), end in zip(SETTINGS, ends):
        span = end.alpha[[0, -1]]
        bound = np.array([end.measured.value, end.measured.value])
        panels.append(
            panel(
                f"strength {s:g}, L = {L}, noise^2 = {D:g}",
                "bags per dimension alpha",
                "alpha (risk - Bayes risk)",
                Band(span, bound - end.spread, bound + end.spread, "Cramér-Rao, 5 errors", 1),
                Line(end.alpha, end.scaled, "learning curve", 0),
                level(span, end.limit, "its end", 2),
                log="xy",
            )
        )
    return figure("The learning curve ends in the Cramér-Rao limit", *panels, columns=2)


CLAIM = Claim(
    id="samples-02-ends-in-cramer-rao",
    title="The learning curve ends in the Cramér-Rao limit",
    statement=(
        "[As alpha grows, alpha (E(alpha) - R_B) tends to a limit](curve), [from which it is "
        f"{100 * (NEARLY_RATIOS[0] - 1):.2g} % away at alpha = 200 for strength 5](settles).",
        f"[The limit is (n/d) times the Cramér-Rao limit: {LIMITS[0]:g} for strength 5, three "
        f"tokens and noise^2 = .1, and {LIMITS[1]:g} for strength 2, two tokens and noise^2 = .01]"
        "(limit).",
    ),
    headline="limit",
    provenance=Provenance(
        "new here",
        (),
        "both sides; that the limits d -> inf and n -> inf may be exchanged here",
    ),
    hypotheses="O(1) spikes: strength 5, L = 3, noise^2 .1; strength 2, L = 2, noise^2 .01",
    routes=("state evolution by quadrature", "Fisher information on drawn bags"),
    rests_on=(
        "samples-01-curve-attained",
        "slr-20-finite-samples",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.SingleLocation.spiked(dim=2000, length=3, strength=5.0, noise=0.1**0.5)\n"
        "gap = at.learning_curve(task, alpha=1e4).risk.value - task.bayes_risk().value\n"
        "print(1e4 * gap, at.cramer_rao(task, n=2000).value)\n"
    ),
)
