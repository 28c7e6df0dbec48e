"""Tokens of varying importance: hidden Dirichlet weights change no prediction and add a known
amount to every risk.

notation: Y = sum_{l in S} D_l w_l, (D_l)_{l in S} ~ Dirichlet(a, ..., a), m = |S|, g2 = gamma^2.

The weights are hidden and exchangeable, so E[Y | X] = (1/m) sum_l P(l in S | X) w_l is the
predictor of equal weights, whatever a. The spread of D about 1/m is noise to everybody: for every
predictor that is a function of X

    R(a) = R(equal) + m g2 Var(D_1),       Var(D_1) = (1/m)(1 - 1/m)/(m a + 1),

from 0 at a = inf to g2 (1 - 1/m) at a = 0, where a single unknown token of the m decides. So the
best inverse temperature of a head does not depend on a either.

Routes: that formula with the importance-sampled Bayes risk and the exact softmax risk of equal
weights, against squared errors on sampled sequences with drawn weights; the best inverse
temperature of equal weights against minimisation at small a. That the predictor of equal weights is
E[Y | X] shows in the label's slope on it, 1, and in what it leaves, uncorrelated with another head.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import mean_and_error, sampled, stated, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Mark
from attnscope.numerics.border.estimate import Estimate
from attnscope.predictors.attention import Softmax
from attnscope.predictors.predictions import predict
from attnscope.tasks.planted.multi_location import MultiLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk
from attnscope_claims.drawing import figure, legend, panel, sampled_points
from attnscope_claims.softmax_heads import best_softmax

DIM = 4
LENGTH = 10
SIGNAL = 3.0
COUNTS = (2, 3, 5)
CONCENTRATIONS = (0.05, 0.5, 2.0, 20.0)
# What the statement says: what hidden weights add to a risk at m = 2, a = 0.5, gamma = 1; and the
# best inverse temperature of a softmax head at m = 2, s = 3, equal weights and a = 0.05.
ADDED_RISK = 0.25
BEST_INVERSE_TEMPERATURE = 0.81


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 607])
    n = context.pick(30_000, 300_000)
    draws = context.pick(40_000, 400_000)
    bayes = [_bayes_risk(m, draws, int(rng.integers(2**31))) for m in COUNTS]
    lams, softmax = np.array([best_softmax(_task(m)) for m in COUNTS]).T
    spread = np.array([[_weight_variance(m, a) for a in CONCENTRATIONS] for m in COUNTS])
    drawn = np.array(
        [
            [_sampled_losses(m, a, lam, n, rng) for a in CONCENTRATIONS]
            for m, lam in zip(COUNTS, lams)
        ]
    )
    slope = drawn[..., 2:, :]
    low = _best_inverse_temperature(2, 0.05)
    exact = _softmax_risk(2, 0.5, lams[0])
    error = np.array([b.error for b in bayes])[:, None]
    predicted = np.array([b.value for b in bayes])[:, None] + spread
    head = softmax[:, None] + spread
    comparisons = (
        sampled(
            "Bayes risk: 12 settings",
            predicted,
            drawn[..., 0, 0],
            np.hypot(error, drawn[..., 0, 1]),
            key="bayes",
        ),
        sampled("softmax head: 12 settings", head, drawn[..., 1, :], key="softmax"),
        sampled(
            "slope of the label on the predictor of equal weights: 12 settings",
            1.0,
            slope[..., 0, :],
            key="slope",
        ),
        sampled(
            "slope of what it leaves on its difference from the softmax head: 12 settings",
            0.0,
            slope[..., 1, :],
            scale=1.0,
            key="rest",
        ),
        worst(
            "exact softmax risk, m = 2, a = 0.5, against R(equal) + spread",
            head[0, 1],
            exact,
            1e-9,
            "1e-9: quadrature of the risks of two tasks; the spread is a closed form",
            key="exact",
        ),
        worst(
            "risk added by hidden weights, m = 2, a = 0.5, as stated",
            ADDED_RISK,
            exact - softmax[0],
            1e-9,
            "1e-9: quadrature of the risks of two tasks",
            key="added",
            routes=("stated", "exact risks of the task with hidden and with equal weights"),
        ),
        worst(
            "best temperature, m = 2: a = 0.05 against equal weights",
            lams[0],
            low,
            1e-4,
            "a flat minimum: risks good to 1e-10 or so place it to 1e-5 or so",
            key="same",
        ),
        stated(
            "best-at",
            "best inverse temperature, m = 2, equal weights and a = 0.05, as stated",
            BEST_INVERSE_TEMPERATURE,
            [lams[0], low],
            0.01,
        ),
    )
    notes = f"The best inverse temperature of softmax is {lams[0]:.3f} for every a."
    return Evidence(comparisons, _figure(bayes, softmax, drawn), notes)


def _task(m: int, a: float | None = None) -> MultiLocation:
    if a is None:
        return MultiLocation(DIM, LENGTH, m, gamma=1.0, signal=SIGNAL)
    return MultiLocation(DIM, LENGTH, m, "dirichlet", a, gamma=1.0, signal=SIGNAL)


def _bayes_risk(m: int, draws: int, seed: int) -> Estimate:
    return _task(m).bayes_risk(draws, seed=seed)


def _weight_variance(m: int, a: float) -> float:
    """m Var(D_1) at gamma = 1."""
    return (1 - 1 / m) / (m * a + 1)


def _softmax_risk(m: int, a: float, lam: float) -> float:
    return float(risk(_task(m, a), Softmax(lam), Overlaps.oracle()).value)


def _best_inverse_temperature(m: int, a: float) -> float:
    found = minimize_scalar(
        lambda x: _softmax_risk(m, a, math.exp(x)),
        bounds=(-3.0, 1.4),
        method="bounded",
        options={"xatol": 1e-7},
    )
    return math.exp(found.x)


def _sampled_losses(
    m: int, a: float, lam: float, n: int, rng: np.random.Generator
) -> np.ndarray:
    """(4, 2): mean and standard error of the squared errors of the Bayes predictor of equal weights
    and of the softmax head; slope of the label on that predictor, and of what it leaves on its
    difference from the head. If the predictor is E[Y | X], the slopes are 1 and 0.
    """
    task = _task(m, a)
    batch = task.sample(n, seed=int(rng.integers(2**31)))
    bayes = _task(m).bayes_predict(batch.tokens)
    head = predict(Softmax(lam), task.key, task.value, batch.tokens)
    y = batch.target
    return np.array(
        [
            *(mean_and_error((y - t) ** 2) for t in (bayes, head)),
            _slope(bayes, y),
            _slope(head - bayes, y - bayes),
        ]
    )


def _slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Least squares without intercept (all means are 0), with its standard error."""
    slope = float(x @ y / (x @ x))
    return slope, float(np.sqrt(np.sum((x * (y - slope * x)) ** 2)) / (x @ x))


def _figure(bayes: list, softmax: np.ndarray, drawn: np.ndarray) -> Figure:
    a = np.geomspace(0.01, 100, 40)
    panels = []
    for i, m in enumerate(COUNTS):
        spread = np.array([_weight_variance(m, x) for x in a])
        low = bayes[i].value
        marks: tuple[Mark, ...] = (
            Line(a, low + spread, "Bayes", 0),
            sampled_points(CONCENTRATIONS, drawn[i, :, 0], "", 0),
            Line(a, softmax[i] + spread, "best softmax head", 1),
            sampled_points(CONCENTRATIONS, drawn[i, :, 1], "", 1),
            Line(a, spread, "hidden weights alone", 2, dashed=True),
            Line(a, [low + 1 - 1 / m] * a.size, "one token decides", 3, dashed=True),
            legend(),
        )
        panels.append(
            panel(f"m = {m}", "concentration a", "risk", *marks, log="x", y_range=(0.0, 1.0))
        )
    return figure(
        "Hidden importance adds m Var(D) to every risk (lines predicted, points sampled)",
        *panels,
        columns=3,
    )


CLAIM = Claim(
    id="beyond-07-varying-importance",
    title="Hidden importance weights add a known noise",
    statement=(
        "[If the m informative tokens enter the label with hidden Dirichlet(a) weights, the Bayes "
        "predictor is that of equal weights](slope, rest).",
        "[Every risk grows by exactly gamma^2 (1 - 1/m)/(m a + 1)](bayes, softmax, exact), "
        f"[{ADDED_RISK:g} at m = 2 and a = 0.5](added).",
        "[The best inverse temperature of a head is that of equal weights](same), "
        f"[{BEST_INVERSE_TEMPERATURE:g} at m = 2 and s = 3](best-at).",
    ),
    headline="added",
    provenance=Provenance(
        "new here",
        (),
        "the noise of hidden weights",
    ),
    hypotheses="gamma = 1, L = 10, s = 3, m = 2, 3, 5, a from 0.05 to 20",
    routes=(
        "risk of equal weights and a closed form",
        "sampled sequences with drawn weights; exact risk and minimisation at given a",
    ),
    rests_on=("beyond-06-several-tokens",),
    check=check,
    snippet="""\
import attnscope as at
for a in (0.1, 1.0, 10.0):
    task = at.MultiLocation(dim=20, length=10, relevant=2, weights='dirichlet', concentration=a, gamma=1.0, signal=3.0)
    print(a, task.bayes_risk(samples=20_000).value, at.risk(task, at.Softmax(0.81), at.Overlaps.oracle()).value)
""",
)
