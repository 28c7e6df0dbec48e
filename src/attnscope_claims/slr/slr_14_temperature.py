"""The inverse temperature: the best one, the critical one, and what the choice of weights makes of it.

notation: lam = inverse temperature, s = signal, G standard normal; all at the oracle overlaps (k =
k*, v = v*) unless said.

Best. R(lam) = gam^2 E(1 - erf(lam (s + gam G)))^2 + (L-1) E erf(lam G)^2. The library finds its
minimum as a root of the analytic derivative of the closed form; here again by a search over values
that a general-purpose integrator gives. A minimum found from values is known to sqrt(roundoff) ~
1e-6 in lam, and to roundoff in R.

Critical. Tilt k by phi towards v* and v by psi towards k*: eta = phi, theta = psi, rho = phi + psi.
With erf saturated at the informative token (lam s large), to second order in the angles,

    R = const + (s psi + (L-1) C rho)^2 + gam^2 psi^2 + (L-1) K rho^2 [8/sqrt(1 + 4 lam^2) - 4],
        K = lam^2/(pi (1 + 2 lam^2)) = C^2/4.

Minimising over psi leaves (L-1) K rho^2 [8/sqrt(1 + 4 lam^2) - 4 (1 - del)], del = gam^2 (L-1)/(s^2
+ gam^2), so (k*, v*) turns from a minimum into a saddle at

    lam_c = sqrt(4/(1 - del)^2 - 1)/2  ->  sqrt(3)/2  as d -> inf,   and never if del >= 1,

up to exp(-lam_c^2 s^2/(1 + 2 lam_c^2 gam^2)), below 1e-9 from d = 100 on. Measured: the library's
exact Hessian, and differences of the exact gradient that quadrature gives for erf as a black box
(fourth order, step 1e-3, so 1e-12 in the Hessian; its determinant nearly cancels at large L, which
costs some digits: 1e-8 is left).

Weights. At its best inverse temperature erf is polynomially close to Bayes, softmax and the best
componentwise sigma exponentially: exact risks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import exact_count, stated, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Line, Mark, Panel, Points
from attnscope.numerics.border.estimate import Estimate
from attnscope.predictors.attention import Erf, Softmax
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.landscape import local_geometry
from attnscope.theory.optima.optimal_sigma import optimal_sigma
from attnscope.theory.optima.optimum import optimal_inverse_temperature
from attnscope.theory.optima.oracle_saddle import critical_inverse_temperature
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk
from attnscope_claims.drawing import figure, level, panel
from attnscope_claims.slr.inverse_temperature_routes import (
    best_by_values,
    critical_by_gradient,
    critical_law,
)

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
CRITICAL_SIZES = (
    (100, 3),
    (100, 10),
    (400, 3),
    (400, 10),
    (400, 100),
    (10**4, 10),
    (10**8, 10),
    (10**8, 100),
)
# Stated: the limit of the critical inverse temperature; the exponents of d of the best one between
# the pairs of NEAR_DIMS and FAR_DIMS; the exponent of d of erf's best risk between those of NEAR_DIMS; and the rates
# per dimension at which the regrets of softmax and of the optimal sigma fall, between the last two
# of RATE_DIMS.
LIMIT = math.sqrt(3) / 2
NEAR_DIMS, FAR_DIMS = (6400, 25600), (10**10, 10**12)
BEST_EXPONENTS = (-0.40, -0.47)
RISK_EXPONENT = -0.83
RATES = (0.168, 0.087)
RATE_DIMS = (100, 200, 400)
# of the largest eigenvalue: rounding of an 8 x 8 eigenvalue problem is some 8 units of 2^-52
EIGENVALUE_ROUNDING = 1e-13
RELATIVE_DISTANCE = 0.05  # relative distance from the critical inverse temperature, for what is on either side


def check(context: Context) -> Evidence:
    best = np.array([best_by_values(d, L) for d, L in SIZES]).T
    tasks = [SingleLocation(d, L) for d, L in CRITICAL_SIZES]
    law, hessian, gradient = (
        np.array([critical(task) for task in tasks])
        for critical in (critical_law, critical_inverse_temperature, critical_by_gradient)
    )
    notes = (
        "The law sqrt(4/(1-del)^2 - 1)/2 of the critical inverse temperature, with del = gamma^2 "
        "(L-1)/(s^2 + gamma^2), is new here. Where del >= 1, as with many tokens in few dimensions, "
        "(k*, v*) is a minimum at every inverse temperature."
    )
    return Evidence(
        (
            *_compare_routes(best[0], law, hessian, gradient),
            *_compare_stated(best, hessian),
        ),
        figure("Inverse temperature", _by_dimension(), _critical_panel(gradient)),
        notes,
    )


def _compare_routes(
    best: np.ndarray, law: np.ndarray, hessian: np.ndarray, gradient: np.ndarray
) -> tuple[Comparison, ...]:
    root = np.array([_best_erf(d, L) for d, L in SIZES])
    return (
        worst(
            "best temperature of erf",
            root,
            best,
            1e-6 * root,
            "a minimum found from values is known to sqrt(roundoff), about 1e-6",
            key="best",
        ),
        worst(
            "critical temperature: law and Hessian",
            law,
            hessian,
            1e-9 * law,
            "erf not quite saturated: exp(-lam^2 s^2/(1 + 2 lam^2 gamma^2)), below 1e-9",
            key="critical",
        ),
        worst(
            "critical temperature: law and gradients by quadrature",
            law,
            gradient,
            1e-8 * law,
            "differences good to 1e-12; the determinant nearly cancels at large L",
            key="gradients",
        ),
        worst(
            "critical temperature at d = 1e8, L = 10: sqrt(3)/2",
            LIMIT,
            hessian[CRITICAL_SIZES.index((10**8, 10))],
            1e-6,
            "del = 9e-8 at this d moves the law by 2 del/sqrt(3) = 1e-7",
            key="limit",
        ),
        worst(
            "critical inverse temperature at d = 1e8, L = 100: sqrt(3)/2",
            LIMIT,
            hessian[CRITICAL_SIZES.index((10**8, 100))],
            1e-5,
            "del = 1e-6 at this d moves the law by 2 del/sqrt(3) = 1e-6",
            key="limit-long",
        ),
    )


def _compare_stated(best: np.ndarray, hessian: np.ndarray) -> tuple[Comparison, ...]:
    """The other numbers of the statement."""
    geometry = lambda d, L, lam: local_geometry(SingleLocation(d, L), Erf(lam), ORACLE)
    eigenvalues = np.array(
        [
            [
                geometry(d, L, lam * (1 + side)).eigenvalues
                for side in (-RELATIVE_DISTANCE, RELATIVE_DISTANCE)
            ]
            for (d, L), lam in zip(CRITICAL_SIZES, hessian)
        ]
    )
    lowest = eigenvalues[..., 0]
    zero = EIGENVALUE_ROUNDING * eigenvalues[..., -1]
    turned = (lowest[:, 0] > -zero[:, 0]) & (lowest[:, 1] < -zero[:, 1])
    near = [SIZES.index((d, 10)) for d in NEAR_DIMS]
    far = [best_by_values(d, 10)[0] for d in FAR_DIMS]
    slope = lambda y, d: math.log(y[1] / y[0]) / math.log(d[1] / d[0])
    logs = np.array(
        [[_log_regret(kind, d) for d in RATE_DIMS] for kind in ("softmax", "sigma")]
    )
    rates = -np.diff(logs, axis=1) / np.diff(RATE_DIMS)  # (kinds, 2)
    return (
        exact_count(
            f"sizes with no saddle {RELATIVE_DISTANCE:.0%} below and a saddle {RELATIVE_DISTANCE:.0%} above it",
            len(CRITICAL_SIZES),
            turned.sum(),
            key="saddle",
        ),
        stated(
            "best-exponent",
            "exponents of d of the best inverse temperature, as stated",
            BEST_EXPONENTS,
            [slope(best[0, near], NEAR_DIMS), slope(far, FAR_DIMS)],
            1e-2,
        ),
        stated(
            "polynomial",
            "exponent of d of the best risk of erf, as stated",
            RISK_EXPONENT,
            slope(best[1, near], NEAR_DIMS),
            1e-2,
        ),
        stated(
            "rates",
            "rates of the regrets of softmax and optimal sigma, as stated",
            RATES,
            rates[:, 1],
            1e-3,
        ),
        worst(
            "these rates at half the dimensions, over them",
            1.0,
            rates[:, 0] / rates[:, 1],
            0.05,
            "5 %: factors beside the exponential are powers of d; of a power alone it would be 2",
            key="exponential",
        ),
    )


def _log_regret(kind: str, dim: int) -> float:
    """log of the risk over that of Bayes, at the best inverse temperature."""
    task = SingleLocation(dim, 10)
    at_best = (
        optimal_inverse_temperature(task, Softmax)[1]
        if kind == "softmax"
        else risk(task, optimal_sigma(task), ORACLE)
    )
    gap = float(task.bayes_risk().log_excess - at_best.log_excess)
    return float(at_best.log_excess) + math.log1p(-math.exp(gap))


def _best_erf(dim: int, length: int) -> float:
    return optimal_inverse_temperature(SingleLocation(dim, length), Erf)[0]


def _by_dimension() -> Panel:
    """Risks by dimension at the best inverse temperature, L = 10."""
    excesses: dict[str, Callable[[SingleLocation], Estimate]] = {
        "erf": lambda task: optimal_inverse_temperature(task, Erf)[1],
        "optimal sigma": lambda task: risk(task, optimal_sigma(task), ORACLE),
        "softmax": lambda task: optimal_inverse_temperature(task, Softmax)[1],
        "Bayes": lambda task: task.bayes_risk(),
    }
    dims = np.array([4, 7, 10, 20, 30, 50, 70, 100, 150, 200])
    tasks = [SingleLocation(int(d), 10) for d in dims]
    return panel(
        "best inverse temperature of each, L = 10",
        "dimension d",
        "excess risk",
        *(
            Line(dims, [float(of(task).excess) for task in tasks], name, i)
            for i, (name, of) in enumerate(excesses.items())
        ),
        log="y",
        y_range=(1e-21, 10),
    )


def _critical_panel(found: np.ndarray) -> Panel:
    """Critical inverse temperatures of erf; `found` at CRITICAL_SIZES, by gradients."""
    sizes = np.array(CRITICAL_SIZES)
    marks: list[Mark] = []
    for length, color, least in ((3, 6, 50), (10, 4, 50), (100, 5, 250)):
        grid = np.geomspace(least, 1e8, 80)
        at = sizes[:, 1] == length
        law = [critical_law(SingleLocation(int(d), length)) for d in grid]
        marks += [
            Line(grid, law, f"L = {length}", color),
            Points(sizes[at, 0], found[at], f"L = {length}", color),
        ]
    return panel(
        "critical inverse temperature of erf (points: gradients)",
        "dimension d",
        "inverse temperature",
        *marks,
        level([50, 1e8], math.sqrt(3) / 2, "sqrt(3)/2"),
        log="x",
        y_range=(0.8, 1.6),
    )


CLAIM = Claim(
    id="slr-14-temperature",
    title="Inverse temperature: best, critical, and by kind of weight",
    statement=(
        "[At (k*, v*) the erf predictor has a best inverse temperature](best).",
        "[It falls like "
        f"1/sqrt(d) up to slowly growing factors: as d^({BEST_EXPONENTS[0]:.2f}) at d = 6400 to "
        f"25600 and as d^({BEST_EXPONENTS[1]:.2f}) at 1e10 to 1e12](best-exponent).",
        "[Above a critical inverse temperature (k*, v*) is a saddle](saddle).",
        "[The critical one is sqrt(4/(1 - del)^2 - 1)/2 with del = gamma^2 (L - 1)/(s^2 + "
        "gamma^2)](critical, gradients).",
        "[It tends to sqrt(3)/2 as d grows, for every L](limit, limit-long).",
        "[At its best inverse temperature erf is polynomially close to the Bayes risk, as "
        f"d^({RISK_EXPONENT:g}) at d = 6400 to 25600](polynomial).",
        "[Softmax and the best componentwise sigma are exponentially close](exponential), [as "
        f"e^(-{RATES[0]:g} d) and e^(-{RATES[1]:g} d) at d = 200 to 400](rates).",
    ),
    headline="limit",
    provenance=Provenance(
        "new here",
        ("A/open-temperature",),
        "best and critical inverse temperatures",
    ),
    hypotheses=(
        "k* perp v*, gamma^2 = 1/2, signal sqrt(d/2); the critical "
        "law with erf saturated, from d = 100 on"
    ),
    routes=(
        "closed forms, quadrature, the law above",
        "search over integrated values, differences of gradients",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.SingleLocation(dim=400, length=10)\n"
        "print(at.optimal_inverse_temperature(task, at.Erf))\n"
        "print(at.critical_inverse_temperature(task))\n"
        "print(at.critical_inverse_temperature(at.SingleLocation(dim=10**8, length=10)), 3**0.5 / 2)\n"
    ),
    rests_on=("slr-02-closed-form-risk",),
)
