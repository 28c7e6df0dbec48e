"""Temperature: the best one, the critical one, and what the choice of weights makes of it.

notation: lam = temperature, s = signal, G standard normal; all at the oracle overlaps (k = k*, v =
v*) unless said.

Best.   R(lam) = gam^2 E(1 - erf(lam (s + gam G)))^2 + (L-1) E erf(lam G)^2. The library finds its
    minimum as a root of the analytic derivative
           of the closed form; here again by a search over values that a general-purpose integrator
           gives. A minimum found from values is known to sqrt(roundoff) ~ 1e-6 in lam, and to
           roundoff in R.
Critical.  Tilt k by phi towards v* and v by psi towards k*: eta = phi, theta = psi, rho = phi +
psi. With erf saturated at the
           informative token (lam s large), to second order in the angles,
               R = const + (s psi + (L-1) C rho)^2 + gam^2 psi^2 + (L-1) K rho^2 [8/sqrt(1 + 4
                   lam^2) - 4],   K = lam^2/(pi (1 + 2 lam^2)) = C^2/4.
           Minimising over psi leaves (L-1) K rho^2 [8/sqrt(1 + 4 lam^2) - 4 (1 - del)], del
               = gam^2 (L-1)/(s^2 + gam^2), so (k*, v*)
           turns from a minimum into a saddle at
               lam_c = sqrt(4/(1 - del)^2 - 1)/2  ->  sqrt(3)/2  as d -> inf,
                   and never if del >= 1,
           up to exp(-lam_c^2 s^2/(1 + 2 lam_c^2 gam^2)), below 1e-9 from d = 100 on. Measured: the
           library's exact Hessian, and differences of the exact gradient that quadrature gives for
           erf as a black box (fourth order, step 1e-3, so 1e-12 in the Hessian; its determinant
           nearly cancels at large L, which costs some digits: 1e-8 is left).
Weights.   At its best temperature erf is polynomially close to Bayes, softmax and the best
    componentwise sigma exponentially: exact risks
           against Monte Carlo, and against each other where they must coincide: at gam = 1 softmax
           with lam = s is the Bayes predictor.
"""

from __future__ import annotations

import math

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence, Table
from attnscope.claims.compare import BAND, mean_and_error, sampled, worst
from attnscope.claims.provenance import Provenance
from attnscope.claims.slr.temperature_routes import (
    best_by_values,
    critical_by_gradient,
    critical_law,
)
from attnscope.figures.figure import Figure, Line, Panel, Points
from attnscope.predictors.attention import Erf, Predictor, Softmax
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.optimal_sigma import optimal_sigma
from attnscope.theory.optima.optimum import optimal_temperature
from attnscope.theory.optima.oracle_saddle import critical_temperature
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk

ORACLE = Overlaps.oracle()
# (d, L)
SIZES = (
    (10, 10),
    (50, 10),
    (100, 10),
    (400, 10),
    (400, 100),
    (1600, 10),
    (6400, 10),
    (25600, 10),
)
CRITICAL = (
    (100, 3),
    (100, 10),
    (400, 3),
    (400, 10),
    (400, 100),
    (10**4, 10),
    (10**8, 10),
    (10**8, 100),
)
SHOWN = SingleLocation(dim=50, length=10)
# softmax beyond 1 errs too rarely to be sampled
TRIED = {Erf: (0.03, 0.1, 0.3), Softmax: (0.2, 0.5, 1.0)}
# likewise: beyond, errors are rare and sampled means skewed
SIGMA_DIMS = (10, 20, 30)
BAYES_DIMS = (5, 10)


def check(context: Context) -> Evidence:
    seeds = np.random.default_rng([context.seed, 14]).integers(2**31, size=10).tolist()
    samples = context.pick(200_000, 2_000_000)
    best = np.array([(*_best(d, L), *best_by_values(d, L)) for d, L in SIZES]).T
    law = np.array([critical_law(SingleLocation(d, L)) for d, L in CRITICAL])
    hessian = np.array([critical_temperature(SingleLocation(d, L)) for d, L in CRITICAL])
    gradient = np.array([critical_by_gradient(SingleLocation(d, L)) for d, L in CRITICAL])
    drawn = {
        kind: np.array(
            [
                _sampled(SHOWN, kind(lam), samples, seed)
                for lam, seed in zip(TRIED[kind], seeds)
            ]
        ).T
        for kind in TRIED
    }
    sigma = np.array(
        [
            _sampled(
                SingleLocation(d, 10), optimal_sigma(SingleLocation(d, 10)), samples, seed
            )
            for d, seed in zip(SIGMA_DIMS, seeds[3:])
        ]
    ).T
    bayes = np.array(
        [
            _bayes_on_vectors(SingleLocation(d, 10), context.pick(40_000, 400_000), seed)
            for d, seed in zip(BAYES_DIMS, seeds[6:])
        ]
    ).T
    comparisons = _compared(best, law, hessian, gradient, drawn, sigma, bayes)
    notes = (
        "The law sqrt(4/(1-del)^2 - 1)/2 of the critical temperature, with del = gamma^2 "
        "(L-1)/(s^2 + gamma^2), is new here. Where del >= 1, as with many tokens in few dimensions, "
        "(k*, v*) is a minimum at every temperature."
    )
    figure = _figure(best, gradient, drawn, sigma, bayes)
    return Evidence(comparisons, figure, notes, tables=_tables(best, hessian))


def _compared(
    best: np.ndarray,
    law: np.ndarray,
    hessian: np.ndarray,
    gradient: np.ndarray,
    drawn: dict,
    sigma: np.ndarray,
    bayes: np.ndarray,
) -> tuple[Comparison, ...]:
    ones = [SingleLocation(d, 10, gamma=1.0) for d in (10, 50, 400)]
    return (
        worst(
            "best temperature of erf",
            best[0],
            best[2],
            1e-6 * best[0],
            "a minimum found from values is known to sqrt(roundoff), about 1e-6",
        ),
        worst(
            "risk at the best temperature of erf",
            best[1],
            best[3],
            1e-9 * best[1],
            "roundoff: at a minimum 1e-6 in temperature is 1e-12 in risk, the integrals 1e-13",
        ),
        worst(
            "critical temperature: law and Hessian",
            law,
            hessian,
            1e-9 * law,
            "erf not quite saturated: exp(-lam^2 s^2/(1 + 2 lam^2 gamma^2)), below 1e-9",
        ),
        worst(
            "critical temperature: law and gradients by quadrature",
            law,
            gradient,
            1e-8 * law,
            "differences good to 1e-12; the determinant nearly cancels at large L",
        ),
        worst(
            "critical temperature at d = 1e8, L = 10: sqrt(3)/2",
            math.sqrt(3) / 2,
            hessian[CRITICAL.index((10**8, 10))],
            1e-6,
            "del = 9e-8 at this d moves the law by 2 del/sqrt(3) = 1e-7",
        ),
        sampled(
            "erf by temperature, d = 50",
            [_excess(SHOWN, Erf(lam)) for lam in TRIED[Erf]],
            *drawn[Erf],
        ),
        sampled(
            "softmax by temperature, d = 50",
            [_excess(SHOWN, Softmax(lam)) for lam in TRIED[Softmax]],
            *drawn[Softmax],
        ),
        sampled(
            "optimal sigma, d = 10, 20, 30",
            [
                _excess(SingleLocation(d, 10), optimal_sigma(SingleLocation(d, 10)))
                for d in SIGMA_DIMS
            ],
            *sigma,
        ),
        sampled(
            "Bayes, d = 5, 10",
            [float(SingleLocation(d, 10).bayes_risk().excess) for d in BAYES_DIMS],
            *bayes,
        ),
        worst(
            "gamma = 1: log risk of Bayes and of softmax at lam = s",
            [t.bayes_risk().log_excess for t in ones],
            [risk(t, Softmax(t.signal), ORACLE).log_excess for t in ones],
            1e-9,
            "two quadratures, each good to 1e-11 of the risk",
        ),
    )


def _tables(best: np.ndarray, hessian: np.ndarray) -> tuple[Table, Table]:
    small = critical_temperature(SingleLocation(50, 100))
    critical = Table(
        "Critical temperature, by the Hessian",
        ("d", "L", "temperature"),
        (
            (400, 10, f"{hessian[CRITICAL.index((400, 10))]:.4f}"),
            (50, 100, f"{small:.4f}" if math.isfinite(small) else "none"),
            ("infinity", "any", f"{math.sqrt(3) / 2:.4f}"),
        ),
    )
    rows = tuple((d, n, a, b) for (d, n), a, b in zip(SIZES, best[0], best[1]))
    table = Table("erf at its best temperature", ("d", "L", "temperature", "risk"), rows)
    return table, critical


def _excess(task: SingleLocation, predictor: Predictor) -> float:
    return float(risk(task, predictor, ORACLE).excess)


def _best(dim: int, length: int) -> tuple[float, float]:
    lam, at_best = optimal_temperature(SingleLocation(dim, length), Erf)
    return lam, float(at_best.excess)


def _sampled(
    task: SingleLocation, predictor: Predictor, samples: int, seed: int
) -> tuple[float, float]:
    out = risk(task, predictor, ORACLE, "monte-carlo", samples, seed)
    return float(out.excess), float(out.error)


def _bayes_on_vectors(task: SingleLocation, n: int, seed: int) -> tuple[float, float]:
    """Mean and standard error of Var(Y | X) on sampled sequences:
    its expectation is the Bayes risk.
    """
    variances = []
    for batch in task.batches(n, 2000, seed):
        p = task.location_posterior(batch.tokens)
        w = batch.tokens @ task.value
        variances.append(np.sum(p * w**2, axis=1) - np.sum(p * w, axis=1) ** 2)
    return mean_and_error(np.concatenate(variances))


def _figure(
    best: np.ndarray, gradient: np.ndarray, drawn: dict, sigma: np.ndarray, bayes: np.ndarray
) -> Figure:
    panels = (
        _by_temperature(drawn),
        _by_dimension(sigma, bayes),
        _best_temperature(best),
        _critical_temperature(gradient),
    )
    return Figure("Temperature", panels, columns=2)


def _by_temperature(drawn: dict) -> Panel:
    grid = np.geomspace(0.01, 20, 45)
    names = {Erf: "erf", Softmax: "softmax"}
    level = lambda x, name, color: Line([0.01, 20], [x, x], name, color, dashed=True)
    return Panel(
        f"d = {SHOWN.dim}, L = {SHOWN.length} (lines exact, points sampled)",
        "temperature",
        "excess risk",
        (
            level(0.5, "null", 6),
            *(
                Line(grid, [_excess(SHOWN, kind(float(lam))) for lam in grid], names[kind], i)
                for i, kind in enumerate(TRIED)
            ),
            *(
                Points(TRIED[kind], drawn[kind][0], names[kind], i, BAND * drawn[kind][1])
                for i, kind in enumerate(TRIED)
            ),
            level(_excess(SHOWN, optimal_sigma(SHOWN)), "optimal sigma", 2),
            level(float(SHOWN.bayes_risk().excess), "Bayes", 3),
        ),
        log_x=True,
        log_y=True,
    )


def _by_dimension(sigma: np.ndarray, bayes: np.ndarray) -> Panel:
    dims = np.array([4, 7, 10, 20, 30, 50, 70, 100, 150, 200])
    tasks = [SingleLocation(int(d), 10) for d in dims]
    return Panel(
        "best temperature of each, L = 10",
        "dimension d",
        "excess risk",
        (
            Line(dims, [optimal_temperature(t, Erf)[1].excess for t in tasks], "erf", 0),
            Line(dims, [_excess(t, optimal_sigma(t)) for t in tasks], "optimal sigma", 2),
            Line(
                dims, [optimal_temperature(t, Softmax)[1].excess for t in tasks], "softmax", 1
            ),
            Line(dims, [float(t.bayes_risk().excess) for t in tasks], "Bayes", 3),
            Points(SIGMA_DIMS, sigma[0], "optimal sigma", 2, BAND * sigma[1]),
            Points(BAYES_DIMS, bayes[0], "Bayes", 3, BAND * bayes[1]),
        ),
        log_y=True,
        y_range=(1e-21, 10),
    )


def _best_temperature(best: np.ndarray) -> Panel:
    wide = np.geomspace(10, 1e6, 24)

    def by_length(L: int) -> list[float]:
        return [optimal_temperature(SingleLocation(int(d), L), Erf)[0] for d in wide]

    pick = lambda L: [i for i, size in enumerate(SIZES) if size[1] == L]
    return Panel(
        "best temperature of erf (points: search over values)",
        "dimension d",
        "temperature",
        tuple(
            mark
            for L, color in ((10, 4), (100, 5))
            for mark in (
                Line(wide, by_length(L), f"L = {L}", color),
                Points([SIZES[i][0] for i in pick(L)], best[2, pick(L)], f"L = {L}", color),
            )
        ),
        log_x=True,
        log_y=True,
    )


def _critical_temperature(gradient: np.ndarray) -> Panel:
    curves = [
        (L, color, np.geomspace(50 if L < 100 else 250, 1e8, 80))
        for L, color in ((3, 6), (10, 4), (100, 5))
    ]
    return Panel(
        "critical temperature of erf (points: gradients)",
        "dimension d",
        "temperature",
        (
            *(
                Line(
                    d,
                    [critical_law(SingleLocation(int(x), L)) for x in d],
                    f"L = {L}",
                    color,
                )
                for L, color, d in curves
            ),
            *(
                Points(
                    [d for d, L in CRITICAL if length == L],
                    gradient[[length == L for _, L in CRITICAL]],
                    f"L = {length}",
                    color,
                )
                for length, color, _ in curves
            ),
            Line([50, 1e8], [math.sqrt(3) / 2] * 2, "sqrt(3)/2", 6, dashed=True),
        ),
        log_x=True,
        y_range=(0.8, 1.6),
    )


CLAIM = Claim(
    id="slr-14-temperature",
    title="Temperature: best, critical, and by kind of weight",
    statement=(
        "At (k*, v*) the erf predictor has a best temperature, which falls like 1/sqrt(d) up to "
        "slowly growing factors, and a critical one above "
        "which (k*, v*) is a saddle; it tends to sqrt(3)/2 as d grows, for every L, and equals "
        "sqrt(4/(1-del)^2 - 1)/2, "
        "del = gamma^2 (L-1)/(s^2+gamma^2), at finite d. "
        "At its best temperature erf is polynomially close to the Bayes risk; softmax and the best "
        "componentwise sigma are exponentially close."
    ),
    provenance=Provenance(
        "new here",
        ("A/open-temperature",),
        "best and critical temperatures",
    ),
    hypotheses=(
        "k* perp v*, gamma^2 = 1/2 (gamma = 1 where said), signal sqrt(d/2); the critical "
        "law with erf saturated, from d = 100 on"
    ),
    routes=(
        "closed forms, quadrature, the law above",
        "search over integrated values, differences of gradients, Monte Carlo",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.SingleLocation(dim=400, length=10)\n"
        "print(at.optimal_temperature(task, at.Erf))\n"
        "print(at.critical_temperature(task))\n"
        "print(at.critical_temperature(at.SingleLocation(dim=10**8, length=10)), 3**0.5 / 2)\n"
    ),
    rests_on=("slr-02-closed-form-risk",),
)
