"""The best linear attention, exactly, and the constant with which its risk falls: L/nu, not
L/((L-1) nu).

notation: T = sum_l (c + X_l.k) X_l.v, g2 = gamma^2, s = signal, nu = s^2 at gamma = 1.

    R* = g2/(1 + g2 [1/(L-1) + s^2/(L-1+g2^2)]),      gamma = 1:  1/R* = L/(L-1) + nu/L,  nu R* -> L

L/(L-1) does occur, but as the value of 1/R* at nu = 0; as the constant of the decay, (L/(L-1))/nu,
it is right at L = 2 only.

Routes: the formula against minimisation over all k, v in R^4 and c from random starts (which knows
only the risk as a polynomial in k, v, c), and against least squares on ALL linear and quadratic
token statistics sum_l X_l, sum_l X_l X_l^T of sampled sequences (d = 3: 9 features). Fitting 9
coefficients on n sequences changes the mean squared error by about 9/n of it, a hundredth of its
standard error.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import mean_and_error, sampled, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.linear_optimum import (
    free_linear_excess,
    linear_optimum,
)
from attnscope_claims.drawing import figure, panel, sampled_points

FREE_SETTINGS = (
    (0.7, 2.0, 6),
    (1.0, 2.0, 6),
    (1.3, 1.0, 3),
    (0.7, 5.0, 2),
    (1.0, 0.5, 4),
    (0.5, 3.0, 20),
)  # gamma, signal, length
START_COUNT = 6
LENGTHS = (2, 3, 10)
STRENGTHS = (2.0, 10.0, 50.0)
STRONG_NU = (
    # nu at which nu R* is compared with its limit; it is below L by less than L^3/((L-1) nu), 1 %
    # for rounding
    1e5
)
# x = L^2/((L-1) nu): nu R* = L/(1 + x) and 0 <= L - L/(1 + x) <= L x; nearly all of it is used, as
# the bound is sharp for small x
REMAINDER_WHY = (
    "proved and sharp remainder: 0 <= L - nu R* <= L^3/((L-1) nu); 1 % for rounding"
)
BFGS_TOLERANCE = 1e-8  # how well BFGS_WHY resolves a minimum in nine variables
BFGS_WHY = "how well BFGS resolves a minimum in nine variables, its gradient stopped at 1e-9"
# What the statement says: the constant of the decay over the quoted one, L/(L-1), at LENGTHS. The
# constant is measured as 1 over the slope of 1/R* in nu, which has no remainder.
OVER_QUOTED = (1.0, 2.0, 9.0)
ABSENT_NU = 1e-9  # nu at which 1/R* is read off as at nu = 0; it moves by nu/L


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 602])
    n = context.pick(40_000, 400_000)
    tasks = [SingleLocation(4, L, gamma=g, signal=s) for g, s, L in FREE_SETTINGS]
    found = [_least_risk_by_bfgs(t, rng) for t in tasks]
    grid = [[SingleLocation.spiked(3, L, nu) for nu in STRENGTHS] for L in LENGTHS]
    best = np.array([[linear_optimum(t).risk.value for t in row] for row in grid])
    drawn = np.array(
        [[_regression_error(t, n, int(rng.integers(2**31))) for t in row] for row in grid]
    )
    L = np.array(LENGTHS)
    least = lambda nu: np.array(
        [_least_risk_along_teachers(SingleLocation.spiked(3, x, nu)) for x in LENGTHS]
    )
    strong, absent = STRONG_NU * least(STRONG_NU), 1 / least(ABSENT_NU)
    quoted = L / (L - 1)
    constant = STRONG_NU / (STRONG_NU / strong - absent)
    comparisons = (
        worst(
            "R* as the statement writes it, against the same minimisation",
            [_stated_risk(*setting) for setting in FREE_SETTINGS],
            found,
            BFGS_TOLERANCE,
            BFGS_WHY,
            key="free",
        ),
        sampled(
            "R* against least squares on all quadratic statistics",
            best,
            drawn,
            key="quadratic",
        ),
        worst(
            f"nu R* at nu = {STRONG_NU:g} against L",
            L,
            strong,
            1.01 * L**3 / ((L - 1) * STRONG_NU),
            REMAINDER_WHY,
            key="decay",
        ),
        worst(
            "constant of the decay over the quoted L/(L-1), as stated",
            OVER_QUOTED,
            constant / quoted,
            1e-6 * np.array(OVER_QUOTED),
            "a hundred times the search of a flat minimum, 1e-8 of the risk",
            key="quoted",
        ),
        worst(
            "1/R* at nu = 0 against the quoted L/(L-1)",
            quoted,
            absent,
            1e-8,
            "ten times what nu = 1e-9 and the search of a flat minimum move",
            key="absent",
        ),
    )
    notes = (
        f"At L = 10, nu = 50 the optimum is {best[2, 2]:.4f}; the quoted (L/(L-1))/nu would be "
        f"{10 / 9 / 50:.4f}."
    )
    return Evidence(comparisons, _figure(drawn), notes)


def _stated_risk(gamma: float, signal: float, length: int) -> float:
    """The least risk of linear attention as the statement writes it."""
    g2 = gamma**2
    return g2 / (1 + g2 * (1 / (length - 1) + signal**2 / (length - 1 + g2**2)))


def _least_risk_by_bfgs(task: SingleLocation, rng: np.random.Generator) -> float:
    """The least risk found by BFGS_WHY over k, v in R^dim and the offset."""
    d = task.dim
    f = lambda p: free_linear_excess(task, p[:d], p[d : 2 * d], p[2 * d])
    starts = rng.normal(0, 0.4, (START_COUNT, 2 * d + 1))
    return min(minimize(f, p, method="BFGS", options={"gtol": 1e-9}).fun for p in starts)


def _least_risk_along_teachers(task: SingleLocation) -> float:
    """The least risk over k = a k*, v = b v*, c: given a : c the best b is a least-squares
    coefficient, so one variable is left.
    """
    f = lambda a, b, c: free_linear_excess(task, a * task.key, b * task.value, c)

    def least(p: np.ndarray) -> float:
        a, c = np.cos(p[0]), np.sin(p[0])
        zero, up, down = f(a, 0.0, c), f(a, 1.0, c), f(a, -1.0, c)
        return zero - (up - down) ** 2 / (8 * (up + down - 2 * zero))

    angles = np.linspace(0, np.pi, 50)
    start = angles[np.argmin([least(np.array([x])) for x in angles])]
    return float(
        minimize(
            least, [start], method="Nelder-Mead", options={"xatol": 1e-12, "fatol": 1e-15}
        ).fun
    )


def _regression_error(task: SingleLocation, n: int, seed: int) -> tuple[float, float]:
    """Mean squared error of least squares on all quadratic statistics, and its standard error."""
    x, y, _ = task.sample(n, seed=seed)
    second = np.einsum("nli,nlj->nij", x, x)[:, *np.triu_indices(task.dim)]
    features = np.concatenate([x.sum(axis=1), second, np.ones((n, 1))], axis=1)
    fit = features @ np.linalg.lstsq(features, y, rcond=None)[0]
    return mean_and_error((y - fit) ** 2)


def _figure(drawn: np.ndarray) -> Figure:
    nus = np.geomspace(0.5, 2000, 40)
    panels = []
    for i, L in enumerate(LENGTHS):
        tasks = [SingleLocation.spiked(3, L, nu) for nu in nus]
        bayes = [
            r for r in (t.bayes_risk().value for t in tasks if t.signal**2 < 60) if r > 1.5e-3
        ]
        marks = (
            Line(
                nus, [linear_optimum(t).risk.value for t in tasks], "best linear attention", 0
            ),
            sampled_points(STRENGTHS, drawn[i], "all quadratic statistics", 0),
            Line(nus, L / (L - 1) / nus, "quoted (L/(L-1))/nu", 3, dashed=True),
            Line(nus[: len(bayes)], bayes, "Bayes = softmax", 2),
        )
        panels.append(
            panel(
                f"L = {L}",
                "strength nu of the spike",
                "risk",
                *marks,
                log="xy",
                y_range=(4e-4, 1.5),
            )
        )
    return figure(
        "The best linear attention falls like L/nu (lines exact, points sampled)",
        *panels,
        columns=3,
    )


CLAIM = Claim(
    id="beyond-02-linear-optimum",
    title="The exact optimum of linear attention, of order L/nu",
    statement=(
        "[Over all vectors and offsets the least risk of linear attention is gamma^2/(1 + gamma^2 "
        "(1/(L-1) + s^2/(L-1+gamma^4)))](free).",
        "[It is also the least over all quadratic token statistics](quadratic).",
        "[With unit variance and a spike nu it falls like L/nu](decay).",
        "[The quoted constant L/(L-1) is the value of 1/risk at nu = 0](absent).",
        "[As the constant of the decay it is right at L = 2 only: it is too small by a factor of "
        f"{OVER_QUOTED[1]:g} at L = 3 and of {OVER_QUOTED[2]:g} at L = 10](quoted).",
    ),
    headline="decay",
    provenance=Provenance(
        "sharpened",
        ("C/linear",),
        "the exact optimum; the quoted constant is theirs",
    ),
    hypotheses="uniform location, key perpendicular to value, population risk",
    routes=(
        "closed form",
        "minimisation over free vectors; least squares on sampled sequences",
    ),
    check=check,
    snippet="""\
import attnscope as at
for L in (2, 3, 10):
    best = at.linear_optimum(at.SingleLocation.spiked(dim=20, length=L, strength=50.0))
    print(L, best.risk.value, 'quoted', L / (L - 1) / 50)
""",
)
