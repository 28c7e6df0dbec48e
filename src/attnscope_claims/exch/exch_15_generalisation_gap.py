"""The generalisation gap falls like 1/n and does not grow with the length, unless weights are tied
to positions.

gap = [R_train(theta*) - R_train(fit)] + [R(fit) - R(theta*)], theta* the exact population minimiser
(a control variate: R_train(theta*) - R(theta*), the noise that does not depend on the fit, is left
out). Predicted: Takeuchi's tr(H^-1 J)/n at theta*, from contexts no fit has seen; slope -1 in n.
Measured: mean over independent fits of the attention model, both objectives. The absolute gap falls
with L because the risk does; "does not grow" is stated for gap/R(theta*), R known exactly.

Per-position weights, o = sum_l q'A_l k_l v_l with its own A_l at every position (9L parameters,
least squares) on the same task: the relative gap grows in proportion to L; one shared A (9
parameters) stays flat. Predicted by the same trace, measured by the same control variate: the best
weights are alpha I at every position, with alpha in closed form.

False alarm: 5 standard errors over fits (Student's law, 31 degrees of freedom: 2e-5 each; 15 for
linear weights: 2e-4), plus 10 % for the sampling error of the traces and for order 1/n^2 (5 % each
way for the slopes of linear weights).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import BAND, Z, mean_and_error, worst
from attnscope.claims.provenance import Provenance
from attnscope.dynamics.networks.attention_model import fit
from attnscope.dynamics.networks.fit_statistics import generalisation_gap, sandwich
from attnscope.figures.figure import Figure, Line, Mark, Points
from attnscope_claims.attention_fits import (
    NOISE,
    OBJECTIVES,
    TASK,
    minimiser,
    noiseless,
    training,
)
from attnscope_claims.drawing import figure, panel
from attnscope_claims.sphere_errors import Curve, compare_slope, spread_slope

SIZES = np.array([256, 512, 1024, 2048])
LENGTHS = np.array([8, 16, 32, 64])
LENGTH, SIZE = 32, 512
POSITIONS = np.array([4, 8, 16, 32])
ROWS = 1500
TRACE_ERROR = 0.1
SLOPE_ERROR = 0.3
FITS_WHY = (
    "5 standard errors over fits (Student's law: 2e-5 an entry) + 10 %: trace, order 1/n^2"
)
LINEAR_WHY = (
    "5 standard errors over fits (Student's law: 2e-4 an entry) + 10 %: trace, order 1/n^2"
)
TILT_WHY = (
    "5 standard errors over fits (Student's law: 2e-4) + what 5 % each way do to the slope"
)
NAMES = {False: "per-position", True: "shared"}
# What the statement says: the slope of the gap in n; the largest slope of gap/risk in L that counts as
# not growing; and the slope of gap/risk in L with own weights at every position. All are slopes of
# logarithms.
IN_SIZE = -1.0
GROWTH = 0.1
PER_POSITION = 1.0
SINGLE_WHY = (
    "one setting shows the order of magnitude; the ratio over all settings is compared"
)


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 515])
    fits = context.pick(32, 400)
    tests = context.pick(800, 20_000)
    traces = {
        (o, L): _trace(o, int(L), context.pick(160_000, 2_000_000) // int(L), rng)
        for o in OBJECTIVES
        for L in LENGTHS
    }
    settings = [(n, LENGTH) for n in SIZES] + [(SIZE, L) for L in LENGTHS if L != LENGTH]
    gaps = {
        (o, n, L): _gap(o, int(n), int(L), fits, tests, rng)
        for o in OBJECTIVES
        for n, L in settings
    }
    by_size, by_length = (
        {o: tuple(np.array([gaps[o, n, L] for n, L in axis]).T) for o in OBJECTIVES}
        for axis in (settings[: len(SIZES)], [(SIZE, L) for L in LENGTHS])
    )
    in_n = {o: traces[o, LENGTH] / SIZES for o in OBJECTIVES}
    risks = {
        o: np.array([minimiser(o, int(L))[1].error + NOISE**2 for L in LENGTHS])
        * (2 if o == "masked" else 1)
        for o in OBJECTIVES
    }
    in_length = {
        o: np.array([traces[o, L] for L in LENGTHS]) / SIZE / risks[o] for o in OBJECTIVES
    }
    relative = {
        o: (by_length[o][0] / risks[o], by_length[o][1] / risks[o]) for o in OBJECTIVES
    }
    positions = {
        shared: np.array(
            [_positions(int(L), shared, context.pick(16, 200), rng) for L in POSITIONS]
        ).T
        for shared in (False, True)
    }
    law = {
        shared: np.array(
            [_linear_law(int(L), shared, context.pick(6000, 40_000), rng) for L in POSITIONS]
        )
        for shared in (False, True)
    }
    comparisons = (
        *(
            worst(
                f"{o}: gap by n, L = 32",
                in_n[o],
                by_size[o][0],
                Z * by_size[o][1] + TRACE_ERROR * in_n[o],
                FITS_WHY,
            )
            for o in OBJECTIVES
        ),
        _pooled_ratio({(o, n, L): traces[o, L] / n for o, n, L in gaps}, gaps),
        _pooled_slope([spread_slope(SIZES, *by_size[o]) for o in OBJECTIVES]),
        *(
            worst(
                f"{o}: slope of the gap in n",
                IN_SIZE,
                spread_slope(SIZES, by_size[o][0])[0],
                SLOPE_ERROR,
                "5 to 6 standard errors of the slope, each 0.05 to 0.06",
            )
            for o in OBJECTIVES
        ),
        *(
            worst(
                f"{o}: gap/risk by L, n = 512",
                in_length[o],
                relative[o][0],
                Z * relative[o][1] + TRACE_ERROR * in_length[o],
                FITS_WHY,
                coarse=SINGLE_WHY,
            )
            for o in OBJECTIVES
        ),
        *(_does_not_grow(o, in_length[o], relative[o]) for o in OBJECTIVES),
        *(
            worst(
                f"{name} weights: gap/risk by L",
                law[k],
                positions[k][0],
                Z * positions[k][1] + TRACE_ERROR * law[k],
                LINEAR_WHY,
                coarse="one length shows the order of magnitude; the slope in L is the content",
            )
            for k, name in NAMES.items()
        ),
        *(
            replace(
                _slopes(name, law[k], (positions[k][0], positions[k][1])),
                key=name,
                scale=PER_POSITION,
            )
            for k, name in NAMES.items()
        ),
        _as_stated(spread_slope(POSITIONS, *positions[False])),
    )
    notes = "Weights of their own at every position make the gap grow in proportion to L."
    figure = _figure(in_n, by_size, in_length, relative, law, positions)
    return Evidence(comparisons, figure, notes)


def _pooled_ratio(law: dict, gaps: dict) -> Comparison:
    """Mean over all settings and both objectives of the measured gap over Takeuchi's."""
    ratio, error = np.array([np.array(gaps[key]) / law[key] for key in gaps]).T
    return worst(
        "gap over Takeuchi's, mean of all settings",
        1.0,
        ratio.mean(),
        float(Z * np.linalg.norm(error) / len(error)) + TRACE_ERROR,
        FITS_WHY,
        key="takeuchi",
    )


def _pooled_slope(slopes: list[tuple[float, float]]) -> Comparison:
    """Mean over both objectives of the slope in n, as stated."""
    slope, error = np.array(slopes).T
    return worst(
        "slope of the gap in n, both objectives",
        IN_SIZE,
        slope.mean(),
        float(Z * np.linalg.norm(error) / len(error)) + 0.02,
        "5 standard errors over fits (Student's law: 2e-5) + 0.02: order 1/n^2 at n = 256",
        key="size",
    )


def _as_stated(slope: tuple[float, float]) -> Comparison:
    """Slope in L of own weights at every position."""
    return worst(
        "per-position weights: slope of gap/risk in L, as stated",
        PER_POSITION,
        slope[0],
        Z * slope[1] + 0.06,
        "5 standard errors over fits (Student's law: 2e-4) + 0.06: p/(n - p - 1) for p/n",
        key="proportion",
    )


def _does_not_grow(objective: str, predicted: np.ndarray, measured: Curve) -> Comparison:
    """Takeuchi's slope is negative; up to GROWTH is allowed, some 4 standard errors above it."""
    law = spread_slope(LENGTHS, predicted)[0]
    slope = spread_slope(LENGTHS, measured[0])[0]
    return worst(
        f"{objective}: slope of gap/risk in L is below {GROWTH:g}",
        law,
        slope,
        GROWTH - law,
        "up to 0.1 counts as not growing: some 4 standard errors (0.06) above the law's slope",
        key=f"flat-{objective}",
        rule="at most",
        scale=PER_POSITION,
    )


def _trace(objective: str, length: int, n: int, rng: np.random.Generator) -> float:
    return sandwich(
        minimiser(objective, length)[0],
        noiseless(objective, n, length, int(rng.integers(2**31))),
        NOISE,
    ).trace


def _gap(
    objective: str, n: int, length: int, fits: int, tests: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean gap and its standard error over fits; each has its own training and test contexts."""
    best, seed, gaps = (
        minimiser(objective, length)[0],
        lambda: int(rng.integers(2**31)),
        np.empty(fits),
    )
    for i in range(fits):
        train = training(objective, n, length, seed())
        found = fit(train, best, progress=False).parameters
        gaps[i] = generalisation_gap(
            found, best, train, noiseless(objective, tests, length, seed())
        )
    return mean_and_error(gaps)


def _positions(
    length: int, shared: bool, fits: int, rng: np.random.Generator
) -> tuple[float, float]:
    """gap/risk of least squares on the features q_i k_lj v_l, summed over positions if shared;
    same control variate.
    """
    best, risk = _best_linear(length, shared)
    gaps = np.empty(fits)
    for i in range(fits):
        (x, y), (x2, y2) = (
            _features(length, ROWS, shared, int(rng.integers(2**31))) for _ in range(2)
        )
        found = np.linalg.lstsq(x, y, rcond=None)[0]
        drop = lambda x, y, found=found: np.mean((x @ best - y) ** 2 - (x @ found - y) ** 2)
        gaps[i] = drop(x, y) - drop(x2, y2)
    return mean_and_error(gaps / risk)


def _best_linear(length: int, shared: bool) -> tuple[np.ndarray, float]:
    """alpha I at every position, and its risk: alpha = E[yS]/E[S^2] for S = sum_l (q.k_l) v_l,
    E[yS] = L/3, E[S^2] = L (1+s^2)/3 + L (L-1)/9.
    """
    alpha = (1 / 3) / ((1 + NOISE**2) / 3 + (length - 1) / 9)
    return alpha * np.tile(
        np.eye(3).ravel(), 1 if shared else length
    ), 1 + NOISE**2 - alpha * length / 3


def _features(length: int, n: int, shared: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    b = TASK.sample(n, length, seed)
    x = np.einsum("ni,nlj,nl->nlij", b.query, b.keys, b.values[:, :, 0])
    return (x.sum(axis=1) if shared else x).reshape(n, -1), b.target[:, 0]


def _linear_law(length: int, shared: bool, n: int, rng: np.random.Generator) -> float:
    """Takeuchi's 2 tr(E[xx']^-1 E[r^2 xx'])/(n R), with the next order p/(n-p-1) + p/n of a
    Gaussian design in place of 2p/n.
    """
    x, y = _features(length, n, shared, int(rng.integers(2**31)))
    r2 = (x @ _best_linear(length, shared)[0] - y) ** 2
    leverage = np.sum(x * np.linalg.solve(x.T @ x, x.T).T, axis=1)
    p = x.shape[1]
    return float(
        np.mean(r2 * leverage)
        / (np.mean(r2) * np.mean(leverage))
        * (p / (ROWS - p - 1) + p / ROWS)
    )


def _slopes(name: str, law: np.ndarray, measured: Curve) -> Comparison:
    return compare_slope(
        f"{name} weights: slope of gap/risk in L", POSITIONS, law, measured, 0.05, TILT_WHY
    )


def _figure(
    in_n: dict, by_size: dict, in_length: dict, relative: dict, law: dict, positions: dict
) -> Figure:
    top = max(float(np.max(mean + BAND * error)) for mean, error in relative.values())
    size = panel(
        "attention, L = 32",
        "training contexts n",
        "generalisation gap",
        *_laws_and_fits(SIZES, in_n, SIZES, by_size),
        log="xy",
    )
    length = panel(
        "attention, n = 512",
        "context length L",
        "gap / risk",
        *_laws_and_fits(LENGTHS, in_length, LENGTHS, relative),
        y_range=(0.0, 1.1 * top),
    )
    tied = panel(
        f"linear weights, n = {ROWS}",
        "context length L",
        "gap / risk",
        *(
            mark
            for i, shared in enumerate((False, True))
            for mark in (
                Line(POSITIONS, law[shared], f"{NAMES[shared]}, Takeuchi", i + 2),
                Points(
                    POSITIONS,
                    positions[shared][0],
                    f"{NAMES[shared]}, fits",
                    i + 2,
                    BAND * positions[shared][1],
                ),
            )
        ),
    )
    return figure("The gap falls with n and does not grow with L", size, length, tied)


def _laws_and_fits(x: np.ndarray, laws: dict, at: np.ndarray, fits: dict) -> tuple[Mark, ...]:
    """Of every objective, the law as a line over x and the fits as points."""
    marks: list[Mark] = []
    for i, objective in enumerate(OBJECTIVES):
        mean, error = fits[objective]
        marks.append(Line(x, laws[objective], f"{objective}, Takeuchi", i))
        marks.append(Points(at, mean, f"{objective}, fits", i, BAND * error))
    return tuple(marks)


CLAIM = Claim(
    id="exch-15-generalisation-gap",
    title="Generalisation gap: 1/n, and no growth with length",
    statement=(
        f"[The generalisation gap of attention falls as n^({IN_SIZE:g}) with the number n of "
        "training sequences](size), and [it equals Takeuchi's tr(H^-1 J)/n](takeuchi).",
        "Relative to the risk it does not grow with the number of tokens: [its slope in L is at "
        f"most {GROWTH:g} for the masked](flat-masked) and [for the supervised "
        "objective](flat-supervised).",
        "[Separate weights at every position make it grow in proportion to the length, with slope "
        f"{PER_POSITION:g}](proportion, per-position), and [shared linear weights do not](shared).",
    ),
    headline="takeuchi",
    provenance=Provenance(
        "sharpened",
        ("B/generalisation",),
        "the numbers, relative to the risk",
    ),
    hypotheses=(
        "latent linear map, keys uniform on the sphere, noise 1/2, no sink; n large "
        "against the number of parameters (11 and 13)"
    ),
    routes=(
        "Takeuchi's trace at the exact minimiser",
        "fits on independent data, gap by control variate",
    ),
    rests_on=("exch-14-length-invariant-parameter",),
    check=check,
    snippet=(
        "import numpy as np\n"
        "from attnscope.dynamics.networks.attention_model import AttentionParameters, fit, "
        "task_contexts\n"
        "from attnscope.dynamics.networks.fit_statistics import generalisation_gap, sandwich\n"
        "from attnscope.tasks.exchangeable.linear_map import LinearMap\n"
        "from attnscope.theory.exchangeable.learning_curves import best_attention\n"
        "task, b = LinearMap(3, 2, noise=0.5, keys='sphere'), best_attention(dim=3, length=32, "
        "sink=False)\n"
        "best = AttentionParameters(b.inverse_bandwidth * np.eye(3), None, b.gain * np.eye(2))\n"
        "clean = lambda n, seed: task_contexts(task, n, 32, 'supervised', seed=seed)\n"
        "print('Takeuchi', sandwich(best, clean(4000, 0), label_noise=0.5).trace / 512)\n"
        "data = [(task_contexts(task, 512, 32, 'masked', seed=s), clean(2000, 100 + s)) for s in "
        "range(20)]\n"
        "print('measured', np.mean([generalisation_gap(fit(a, best).parameters, best, a, b) for a, "
        "b in data]))\n"
    ),
    condition="relative to the risk: the absolute gap falls with L, as the risk does",
)
