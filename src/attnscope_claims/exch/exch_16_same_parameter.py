"""Supervised and masked training find the same parameter.

Both objectives are least squares on one model; only the target differs: the value of a hidden
token, or a label <a, W q> of the latent. Rows of W are independent, so both population risks are
minimised at A = I/h and O = g I or g a', with one h and one g
(theory.exchangeable.learning_curves.best_attention). Measured: fits on independent data from
identity scores, with standard errors from the sandwich formula.

False alarm: 5 standard errors per number (6e-7 each); the whole difference D of the two matrices A
is one chi-square of 9 degrees of freedom, D' Cov^-1 D, whose mean is 9 and which exceeds 46 with
probability 6e-7.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import BAND, sampled, stated, worst
from attnscope.claims.provenance import Provenance
from attnscope.dynamics.networks.attention_model import fit
from attnscope.dynamics.networks.fit_statistics import sandwich
from attnscope.figures.figure import Figure, Points
from attnscope_claims.attention_fits import (
    DIM,
    LABEL,
    NOISE,
    OBJECTIVES,
    minimiser,
    noiseless,
    training,
)
from attnscope_claims.drawing import figure, panel

LENGTHS = (16, 32)
SCORES = slice(0, DIM * DIM)
CHI_SQUARE = 46.0  # exceeded with probability 6e-7 by a chi-square of 9 degrees of freedom
# What the statement says of the one minimiser at LENGTHS: inverse bandwidth and output gain.
INVERSE_BANDWIDTH = (4.22, 4.37)
GAIN = (1.08, 1.18)


def check(context: Context) -> Evidence:
    seeds = iter(np.random.default_rng([context.seed, 516]).integers(2**31, size=20).tolist())
    n = context.pick(10_000, 60_000)
    found = {
        (L, o): _fit_parameters(o, L, n, next(seeds), next(seeds))
        for L in LENGTHS
        for o in OBJECTIVES
    }
    exact = {L: minimiser("masked", L)[1] for L in LENGTHS}
    comparisons = [
        stated(
            "minimiser",
            "minimiser of both risks: 1/h and gain, as stated",
            (*INVERSE_BANDWIDTH, *GAIN),
            [
                x
                for pair in zip(*((e.inverse_bandwidth, e.gain) for e in exact.values()))
                for x in pair
            ],
            0.01,
        )
    ]
    for L in LENGTHS:
        (masked, cov_m), (labelled, cov_s) = (found[L, o] for o in OBJECTIVES)
        D = masked[SCORES] - labelled[SCORES]
        cov = cov_m[SCORES, SCORES] + cov_s[SCORES, SCORES]
        gains, errors = zip(*(_gain(*found[L, o], o) for o in OBJECTIVES))
        comparisons += [
            sampled(
                f"L = {L}: entries of A, masked - supervised",
                np.zeros(9),
                D,
                np.sqrt(np.diag(cov)),
                key=f"entries-{L}",
                scale=exact[L].inverse_bandwidth,
            ),
            worst(
                f"L = {L}: chi-square of the difference",
                9.0,
                D @ np.linalg.solve(cov, D),
                CHI_SQUARE - 9,
                "a chi-square of 9 degrees of freedom (mean 9) exceeds 46 for 6e-7 of the seeds",
                key=f"whole-{L}",
                rule="at most",
                coarse="a chi-square of 9 degrees of freedom has standard deviation 4: only a large "
                "one means a difference",
            ),
            sampled(
                f"L = {L}: A by both objectives and I/h exactly",
                np.eye(DIM).ravel() * exact[L].inverse_bandwidth,
                np.array([masked[SCORES], labelled[SCORES]]),
                np.sqrt([np.diag(c)[SCORES] for c in (cov_m, cov_s)]),
                key=f"scores-{L}",
                scale=exact[L].inverse_bandwidth,
            ),
            sampled(
                f"L = {L}: gain along the label, by both and exactly",
                exact[L].gain,
                gains,
                errors,
                key=f"gain-{L}",
            ),
        ]
    notes = "Both objectives lead to the same scores, within their standard errors."
    return Evidence(tuple(comparisons), _figure(found), notes)


def _fit_parameters(
    objective: str, length: int, n: int, seed: int, other: int
) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and their covariance; the sandwich is taken at the fit,
    on fresh contexts without label noise.
    """
    found = fit(training(objective, n, length, seed), sink=False, progress=False).parameters
    return found.vector, sandwich(
        found, noiseless(objective, n, length, other), NOISE
    ).covariance / n


def _gain(x: np.ndarray, cov: np.ndarray, objective: str) -> tuple[float, float]:
    """Output gain along the label and its standard error: a'O a, or O a, for the unit label a."""
    a = LABEL[0]
    direction = np.outer(a, a).ravel() if objective == "masked" else a
    use = slice(9, 9 + len(direction))
    return float(direction @ x[use]), float(np.sqrt(direction @ cov[use, use] @ direction))


def _figure(found: dict[tuple[int, str], tuple[np.ndarray, np.ndarray]]) -> Figure:
    panels = []
    for L in LENGTHS:
        exact = np.eye(DIM).ravel() * minimiser("masked", L)[1].inverse_bandwidth
        bars = {o: BAND * np.sqrt(np.diag(found[L, o][1])[SCORES]) for o in OBJECTIVES}
        marks = [
            Points(np.arange(9) + 0.2 * i, found[L, o][0][SCORES], o, i, bars[o])
            for i, o in enumerate(OBJECTIVES)
        ]
        panels.append(
            panel(
                f"L = {L}",
                "entry of A: row, column",
                "value (95 %)",
                Points(np.arange(9) - 0.2, exact, "exact", 6),
                *marks,
                x_range=(-0.6, 8.6),
                x_names=tuple(f"{1 + i // DIM},{1 + i % DIM}" for i in range(9)),
            )
        )
    return figure("Masked and supervised training agree entry by entry", *panels, columns=2)


CLAIM = Claim(
    id="exch-16-same-parameter",
    title="Masked and supervised training find one parameter",
    statement=(
        "[Predicting hidden tokens and predicting labels of the latent lead to the same score "
        "matrix, entry by entry](entries-16, entries-32) and [as a whole](whole-16, whole-32), on "
        "independent data.",
        "Both population risks have one minimiser: [1/h = "
        f"{INVERSE_BANDWIDTH[0]:g} at L = 16 and {INVERSE_BANDWIDTH[1]:g} at L = 32, with gains "
        f"{GAIN[0]:g} and {GAIN[1]:g}](minimiser).",
        "Fits of both objectives agree with it: [in their scores](scores-16, scores-32) and [in "
        "their output gain](gain-16, gain-32).",
    ),
    headline="scores-32",
    provenance=Provenance(
        "new here",
        ("B/generalisation",),
        "masked and supervised minimisers compared",
    ),
    hypotheses=(
        "labels linear in a latent linear map with independent rows, keys uniform on the "
        "sphere, noise 1/2, no sink"
    ),
    routes=(
        "exact minimiser of the population risk",
        "Levenberg-Marquardt fits with both objectives",
    ),
    rests_on=("exch-14-length-invariant-parameter",),
    check=check,
    snippet=(
        "import numpy as np\n"
        "from attnscope.dynamics.networks.attention_model import fit, task_contexts\n"
        "from attnscope.tasks.exchangeable.linear_map import LinearMap\n"
        "task = LinearMap(3, 2, noise=0.5, keys='sphere')\n"
        "masked = fit(task_contexts(task, 4000, 32, 'masked', seed=1), sink=False).parameters\n"
        "labelled = fit(task_contexts(task, 4000, 32, 'supervised', [[0.6, 0.8]], seed=2), "
        "sink=False).parameters\n"
        "print(masked.query_key.round(2), labelled.query_key.round(2), sep='\\n')\n"
    ),
)
