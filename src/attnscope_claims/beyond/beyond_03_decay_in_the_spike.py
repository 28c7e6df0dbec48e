"""How fast the risk falls with the strength of an O(1) spike: exponentially for softmax (= Bayes),
like L/nu for linear attention.

notation: nu = strength, L = length.

    fixed L   R_B = (L-1) (1/2) sqrt(pi/nu) e^{-nu/4} [1 - pi^2/(4 nu) + 5 pi^4/(32 nu^2) - 61
        pi^6/(384 nu^3) + ...]
                 (moments pi^2, 5 pi^4, 61 pi^6 of the density 1/(2 pi cosh(z/2)) in the two-token
                 integral; more than one wrong token adds an exponentially smaller relative
                 correction)
    L = e^{r nu} R_B = e^{-nu (E(r) + o(1))},  E(r) = 1/4 - r up to r
        = 1/8, then (1/sqrt 2 - sqrt r)^2 up to 1/2
    linear       |R* - L/nu| <= L^3/((L-1) nu^2)

Routes: these expansions against the exact Bayes risk, by Mellin contours (fixed L) and by Laplace
transforms (L up to e^{240}); for linear attention against numerical minimisation of its exact risk
over inverse temperature and offset. The slope of log R_B between nu and 2 nu differs from E by a log 2/nu
when R_B ~ nu^{-a} e^{-nu E}; the allowance is that of 0 <= a <= 1.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Mark, Points
from attnscope.predictors.attention import LinearAttention, Softmax
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.linear_optimum import linear_optimum
from attnscope.theory.overlaps import Overlaps, as_arrays
from attnscope.theory.risk import risk, unchecked_risk
from attnscope.theory.risks.spiked import (
    spiked_asymptotic,
    spiked_bayes_risk,
    spiked_exponent,
)
from attnscope_claims.drawing import figure, panel

DIM = 4
LENGTHS = (2, 3, 10, 100)
# where wrong tokens come one at a time: the rest is below 1e-9 of the risk at L = 100
STRONG_NUS = (320.0, 640.0, 1280.0)
RATES = (0.05, 0.125, 0.2, 0.3, 0.4)
# What the statement says: the decay of log R_B per unit of nu at fixed length.
FIXED_RATE = 0.25
ATTAINED_NUS = (5.0, 10.0, 20.0)  # nu at which softmax is compared with Bayes, L = 10
LINEAR_NUS = (1e3, 1e4)
# e^{-x} lies between two successive Taylor sums, so an average of e^{-z^2/(4 nu)} does too
NEXT_TERM_WHY = "proved remainder, nearly all used: at most the next term, 61 pi^6/(384 nu^3)"
POWERS_WHY = (
    "log 2/(2 nu), both ways: R_B ~ nu^-a e^(-nu E) with 0 <= a <= 1; predicted a = 1/2"
)
# R* = (L/nu)/(1 + x), x = L^2/((L-1) nu), so the bound is (L/nu) x
SHARP_WHY = "proved and sharp remainder, nearly all used: |R* - L/nu| <= L^3/((L-1) nu^2)"


def check(context: Context) -> Evidence:
    nu = np.array(STRONG_NUS)
    L = np.array(LENGTHS)
    measured = np.array(
        [[_over_leading(length, x) for x in STRONG_NUS] for length in LENGTHS]
    )
    predicted = 1 - np.pi**2 / (4 * nu) + 5 * np.pi**4 / (32 * nu**2)
    base = context.pick(200.0, 600.0)
    # what a factor nu^(-1/2) adds to a slope; 0 and twice that are allowed
    root = math.log(2) / (2 * base)
    slopes = np.array([_slope(r, base) for r in RATES])
    exponents = np.array([spiked_exponent(r) for r in RATES])
    linear = np.array([[_least_linear(length, x) for x in LINEAR_NUS] for length in LENGTHS])
    bound = (L**3 / (L - 1))[:, None] / np.square(LINEAR_NUS)
    comparisons = (
        worst(
            "R_B over its leading term: 12 settings",
            predicted,
            measured,
            61 * np.pi**6 / (384 * nu**3),
            NEXT_TERM_WHY,
            key="leading",
        ),
        worst(
            f"slope of log R_B for L = e^(r nu), nu = {base:g} to {2 * base:g}",
            exponents + root,
            slopes,
            root,
            POWERS_WHY,
            key="exponent",
        ),
        worst(
            "slope at r = 0, L = 10: 1/4 and the root of nu",
            FIXED_RATE + root,
            _fixed_slope(10, base),
            root,
            POWERS_WHY,
            key="fixed",
        ),
        worst(
            "log of the softmax risk against log Bayes, L = 10",
            [
                math.log(SingleLocation.spiked(DIM, 10, x).bayes_risk().value)
                for x in ATTAINED_NUS
            ],
            [math.log(_softmax_risk(x)) for x in ATTAINED_NUS],
            1e-8,
            "two different quadratures, each good to about 1e-11 of the risk",
            routes=("Mellin contours", "Laplace transforms at inverse temperature sqrt(nu)"),
            key="softmax",
        ),
        worst(
            "best linear attention against L/nu: 8 settings",
            L[:, None] / np.array(LINEAR_NUS),
            linear,
            bound,
            SHARP_WHY,
            key="linear",
        ),
    )
    notes = (
        f"The factor nu^(-1/2) alone would add {root:+.4f} to a slope. The threshold, beyond which "
        "the risk falls, is nu = 2 log L."
    )
    return Evidence(comparisons, _figure(), notes)


def _over_leading(length: int, nu: float) -> float:
    """R_B (Mellin contours) over (L-1) (1/2) sqrt(pi/nu) e^{-nu/4}, in logarithms."""
    leading = math.log(length - 1) + 0.5 * math.log(math.pi / nu) - math.log(2) - nu / 4
    return math.exp(SingleLocation.spiked(DIM, length, nu).bayes_risk().log_excess - leading)


def _softmax_risk(nu: float) -> float:
    task = SingleLocation.spiked(DIM, 10, nu)
    return float(risk(task, Softmax(task.signal), Overlaps.oracle()).value)


def _slope(rate: float, nu: float) -> float:
    """Of log R_B per unit of nu, from nu to twice that, at length e^(rate nu)."""
    at = lambda x: float(spiked_bayes_risk(x, math.exp(rate * x)).log_excess)
    return (at(nu) - at(2 * nu)) / nu


def _fixed_slope(length: int, nu: float) -> float:
    """The same at fixed length."""
    at = lambda x: float(SingleLocation.spiked(DIM, length, x).bayes_risk().log_excess)
    return (at(nu) - at(2 * nu)) / nu


def _least_linear(length: int, nu: float) -> float:
    """Least exact risk of linear attention at (k*, v*) over inverse temperature and offset,
    started at the zero predictor's scale.
    """
    task = SingleLocation.spiked(DIM, length, nu)
    oracle = as_arrays(Overlaps.oracle())

    def value(logs: np.ndarray) -> float:
        inverse_temperature, offset = map(math.exp, logs)
        return float(
            unchecked_risk(
                task,
                LinearAttention(inverse_temperature, offset),
                oracle,
                inverse_temperature,
            ).value
        )

    start = [-math.log(nu), -math.log(nu)]
    options = {"xatol": 1e-9, "fatol": 1e-15, "maxiter": 2000}
    return float(minimize(value, start, method="Nelder-Mead", options=options).fun)


def _figure() -> Figure:
    nus = np.linspace(1, 80, 40)
    marks: list[Mark] = []
    for i, L in enumerate((2, 10, 100)):
        tasks = [SingleLocation.spiked(DIM, L, nu) for nu in nus]
        marks += [
            Line(nus, [t.bayes_risk().value for t in tasks], f"Bayes = softmax, L = {L}", i),
            Line(nus, [spiked_asymptotic(nu, L) for nu in nus], "", i, dashed=True),
            Line(nus, [linear_optimum(t).risk.value for t in tasks], "", i, thin=True),
        ]
    marks += [
        Line([], [], "leading term", 6, dashed=True),
        Line([], [], "best linear attention", 6, thin=True),
    ]
    rates = np.linspace(0, 0.5, 60)
    shown = np.array([0.02, 0.05, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45])
    found = [_slope(r, 100.0) for r in shown]

    return figure(
        "Exponential decay of the Bayes risk, polynomial decay of linear attention",
        panel(
            "fixed length",
            "strength nu of the spike",
            "risk",
            *marks,
            log="y",
            y_range=(1e-10, 2),
        ),
        panel(
            "length e^(r nu)",
            "r = log(length)/nu",
            "decay rate of log risk per unit of nu",
            Line(rates, [spiked_exponent(r) for r in rates], "E(r)", 3),
            Points(shown, found, "slope of the exact risk, nu = 100 to 200", 5),
        ),
    )


CLAIM = Claim(
    id="beyond-03-decay-in-the-spike",
    title="Exponential against polynomial decay in the spike",
    statement=(
        "[For a spike of strength nu the Bayes risk at fixed length is (L-1) (1/2) sqrt(pi/nu) "
        "e^{-nu/4} (1 + O(1/nu))](leading), and [softmax attains it](softmax).",
        f"[At fixed length its logarithm falls by {FIXED_RATE:g} per unit of nu](fixed).",
        "[For L = e^{r nu} the Bayes risk is e^{-nu E(r)} to leading order, with E(r) = 1/4 - r up to "
        "r = 1/8 and (1/sqrt 2 - sqrt r)^2 up to 1/2](exponent).",
        "[The best linear attention falls only like L/nu](linear).",
    ),
    headline="fixed",
    provenance=Provenance(
        "sharpened",
        ("C/bayes", "C/linear"),
        "prefactor and exponent",
    ),
    hypotheses="gamma = 1, uniform location, key perpendicular to value",
    routes=(
        "expansions in 1/nu and error exponents",
        "exact Bayes risk by Mellin contours and Laplace transforms; minimised exact risk",
    ),
    rests_on=(
        "beyond-01-softmax-is-bayes",
        "beyond-02-linear-optimum",
    ),
    check=check,
    snippet="""\
import attnscope as at
for nu in (20.0, 40.0, 80.0):
    task = at.SingleLocation.spiked(dim=20, length=10, strength=nu)
    print(nu, task.bayes_risk().value, at.spiked_asymptotic(nu, 10), at.linear_optimum(task).risk.value)
""",
)
