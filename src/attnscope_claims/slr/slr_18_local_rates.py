"""How fast training goes: local rates from the Hessian against slopes of the measured excess risk,
and the time to leave the saddle.

notation: mu an eigenvalue of the Riemannian Hessian, alpha = step size.

At a minimum the distance shrinks by max |1 - alpha mu| per step (mu != 0), the excess over its
limit by the square. Measured: slope of log(excess - limit) over log points between 1e-4 of the
first gap and rounding; terms beyond second order are then of relative size sqrt(1e-4) = 1 %, the
tolerance, beside the fit's own error, the drift of the slope within the window: a start with little
of the slowest mode shows the next one first (1 of 305 runs looked at). At the saddle at orthogonal
vectors the overlaps' unstable components grow by 1 + alpha |mu|; from overlaps of size SMALL_OVERLAP up to
ESCAPE_OVERLAP the neglected terms are s SMALL_OVERLAP + ESCAPE_OVERLAP^2 = .0023, and twice that is allowed. From random
starts (s |theta| about .7) the first-order time is an estimate only: shown, not compared.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import worst
from attnscope.claims.provenance import Provenance
from attnscope.dynamics.rates import EscapeTime, MeasuredRate
from attnscope.dynamics.starts import StartName
from attnscope.dynamics.train import train
from attnscope.dynamics.trajectory import Trajectory
from attnscope.figures.figure import Figure, Line, Points
from attnscope.predictors.attention import Erf
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.landscape import stationary_points
from attnscope.theory.overlaps import Overlaps
from attnscope_claims.drawing import figure, panel

TASK = SingleLocation(dim=400, length=10)
ALPHA = 4e-3
# inverse_temperature: about ten times the slowest time
STEPS = {0.03: 60_000, 0.05: 60_000, 0.08: 120_000, 0.1: 400_000}
SLOPE_TOLERANCE = 0.01
SMALL_OVERLAP, ESCAPE_OVERLAP = 1e-4, 0.03
# What the statement says, at inverse temperature 0.1: the half-life of the distance to the oracle in
# steps of ALPHA, and the most negative eigenvalue of the Hessian at the saddle.
HALF_LIFE = 16_200
NEGATIVE_EIGENVALUE = -0.772


def check(context: Context) -> Evidence:
    runs = context.pick(30, 200)
    trained = {
        (lam, start): _train(lam, start, runs, context.seed)
        for lam in STEPS
        for start in ("manifold", "sphere")
    }
    rates = {
        (*where, limit): run.rate(limit)
        for where, run in trained.items()
        for limit in ("oracle", "swapped")
        if (run.outcome == limit).any()
    }
    small = _escape_from_small(context)
    random = train(
        TASK, Erf(0.1), "sphere", 200, 6000, ALPHA, 10, context.seed, progress=False
    ).escape()
    comparisons = (
        *(
            _compare_rates(limit, start, rates)
            for limit, start in sorted({(limit, start) for _, start, limit in rates})
        ),
        *_escape(small),
        worst(
            "steps in which the distance to the oracle halves, as stated",
            HALF_LIFE,
            np.log(2) / np.median(rates[(0.1, "manifold", "oracle")].decay),
            SLOPE_TOLERANCE * HALF_LIFE,
            "1 %: terms beyond second order, sqrt(1e-4)",
            key="half-life",
            routes=("stated", "slope of trained runs, median"),
        ),
    )
    ratio = np.quantile(random.measured / random.predicted, (0.025, 0.5, 0.975))
    notes = (
        f"From random starts the saddle is left after {ratio[1]:.2f} times the first-order "
        f"estimate in the median, {ratio[0]:.2f} to {ratio[2]:.2f} for 95 % of the runs."
    )
    return Evidence(comparisons, _figure(rates, small, random), notes)


def _train(lam: float, start: str, runs: int, seed: int) -> Trajectory:
    return train(
        TASK,
        Erf(lam),
        cast(StartName, start),
        runs,
        STEPS[lam],
        ALPHA,
        STEPS[lam] // 200,
        seed,
        progress=False,
    )


def _compare_rates(
    limit: str, start: str, rates: dict[tuple[float, str, str], MeasuredRate]
) -> Comparison:
    """All runs of one kind over all inverse temperatures: the one whose rate strains its tolerance
    most.
    """
    chosen = [rate for (_, s, name), rate in rates.items() if (s, name) == (start, limit)]
    predicted = np.concatenate(
        [np.full(len(rate.decay), rate.predicted.decay) for rate in chosen]
    )
    measured, drift = (
        np.concatenate([getattr(rate, x) for rate in chosen]) for x in ("decay", "error")
    )
    return worst(
        f"rate per step towards the {limit}, start {start}, {len(measured)} runs",
        predicted,
        measured,
        SLOPE_TOLERANCE * predicted + drift,
        "1 %: terms beyond second order, sqrt(1e-4), + the drift of the slope in its window",
        key=f"{limit}-{start}",
    )


def _escape_from_small(context: Context) -> EscapeTime:
    """Escape times from overlaps of size SMALL_OVERLAP,
    logged often enough that interpolation does not matter.
    """
    o = SMALL_OVERLAP * np.random.default_rng([context.seed, 18]).standard_normal((5, 30))
    return train(
        TASK, Erf(0.1), Overlaps(*o), 30, 6000, ALPHA, 5, context.seed, progress=False
    ).escape(ESCAPE_OVERLAP)


def _escape(small: EscapeTime) -> tuple[Comparison, Comparison]:
    neglected = 2 * (TASK.signal * SMALL_OVERLAP + ESCAPE_OVERLAP**2)
    why = "twice the neglected terms, s SMALL + LEVEL^2 = .0023 of the time"
    times = worst(
        f"steps to leave the saddle, from overlaps of size {SMALL_OVERLAP}",
        small.predicted,
        small.measured,
        neglected * small.predicted,
        why,
        key="escape",
    )
    saddle = next(p for p in stationary_points(TASK, Erf(0.1)) if p.name == "degenerate")
    growth = np.log1p(-ALPHA * saddle.eigenvalues.min()) * small.predicted / small.measured
    return times, worst(
        "negative eigenvalue at the saddle, from the times, as stated",
        NEGATIVE_EIGENVALUE,
        -np.expm1(np.median(growth)) / ALPHA,
        neglected * abs(NEGATIVE_EIGENVALUE) + 5e-4,
        f"{why}; half a printed digit",
        key="negative",
        routes=("stated", "escape times of trained runs, median"),
    )


def _figure(
    rates: dict[tuple[float, str, str], MeasuredRate],
    small: EscapeTime,
    random: EscapeTime,
) -> Figure:
    both = np.array(
        [[rate.predicted.decay, np.median(rate.decay)] for rate in rates.values()]
    )
    names = [name for *_, name in rates]
    ends = np.array([both.min() / 2, both.max() * 2])
    pick = lambda name: both[[x == name for x in names]].T
    compared = panel(
        "rates, medians of up to 30 runs",
        "predicted rate per step",
        "measured rate per step",
        Line(ends, ends, "equal", 6, dashed=True),
        *(
            Points(pick(name)[0], pick(name)[1], name, i)
            for i, name in enumerate(("oracle", "swapped"))
        ),
        log="xy",
    )
    top = float(max(small.measured.max(), random.measured.max()))
    left = panel(
        "leaving the saddle",
        "predicted steps, first order",
        "measured steps",
        Points(random.predicted, random.measured, "random starts", 5),
        Points(small.predicted, small.measured, f"overlaps of {SMALL_OVERLAP:g}", 6),
        Line([0, top], [0, top], "equal", 6, dashed=True),
    )
    return figure(
        "Local rates: Hessian against training (d = 400, step 0.004)",
        compared,
        left,
    )


CLAIM = Claim(
    id="slr-18-local-rates",
    title="Predicted local rates and escape times are measured",
    statement=(
        "[On the manifold the distance to the oracle shrinks at the linear rate given by the "
        "Hessian on the spheres](oracle-manifold).",
        f"[At inverse temperature 0.1 it halves every {HALF_LIFE} steps](half-life).",
        "[From starts off the manifold the rate is that of the Hessian near the oracle]"
        "(oracle-sphere) [and near the role-swapped minimum](swapped-sphere).",
        "[Runs leave the saddle at orthogonal vectors at the rate of its negative "
        f"eigenvalue](escape), [{NEGATIVE_EIGENVALUE:g} at inverse temperature 0.1](negative).",
    ),
    headline="half-life",
    provenance=Provenance(
        "new here",
        ("A/theorem-5",),
        "local rates and escape times",
    ),
    hypotheses=(
        "erf predictor, population gradient, d = 400, L = 10, inverse temperatures 0.03 to 0.1, "
        "step 0.004"
    ),
    condition=(
        "escape times to first order, from small overlaps; from random starts they are .7 "
        "to 1.5 times the estimate"
    ),
    routes=("eigenvalues of the closed-form Hessian", "slopes and times of trained runs"),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.SingleLocation(dim=400, length=10)\n"
        'run = at.train(task, at.Erf(0.05), start="manifold", runs=10, steps=60_000, log_every=300, progress=False)\n'
        "rate = run.rate()\n"
        "print(rate.decay.mean(), rate.predicted.decay)\n"
    ),
    rests_on=("slr-02-closed-form-risk",),
)
