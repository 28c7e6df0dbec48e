"""Tokens of varying importance: hidden Dirichlet weights change no prediction and add a known
amount to every risk.

notation: Y = sum_{l in S} D_l w_l, (D_l)_{l in S} ~ Dirichlet(a, ..., a), m = |S|, g2 = gamma^2.

The weights are hidden and exchangeable, so E[Y | X] = (1/m) sum_l P(l in S | X) w_l is the
predictor of equal weights, whatever a. The spread of D about 1/m is noise to everybody: for every
predictor that is a function of X

    R(a) = R(equal) + m g2 Var(D_1),       Var(D_1) = (1/m)(1 - 1/m)/(m a + 1),

from 0 at a = inf to g2 (1 - 1/m) at a = 0, where a single token of the m decides (and nothing tells
which). So the best temperature of a head does not depend on a either.

Routes: that formula with the importance-sampled Bayes risk and the exact softmax risk of equal
weights, against squared errors on sampled sequences with drawn weights; the best temperature of
equal weights against minimisation at small a.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from attnscope.claims.claim import Claim, Comparison, Context, Evidence, Table
from attnscope.claims.compare import BAND, mean_and_error, sampled
from attnscope.claims.provenance import Provenance
from attnscope.claims.softmax_heads import best_softmax
from attnscope.figures.figure import Figure, Line, Mark, Panel, Points
from attnscope.predictors.attention import Softmax
from attnscope.predictors.predictions import predict
from attnscope.tasks.planted.multi_location import MultiLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk

DIM = 4
LENGTH = 10
SIGNAL = 3.0
COUNTS = (2, 3, 5)
CONCENTRATIONS = (0.05, 0.5, 2.0, 20.0)


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 607])
    n = context.pick(30_000, 300_000)
    equal = [_task(m) for m in COUNTS]
    bayes = [
        t.bayes_risk(context.pick(40_000, 400_000), seed=int(rng.integers(2**31)))
        for t in equal
    ]
    lams, softmax = np.array([best_softmax(t) for t in equal]).T
    spread = np.array([[_spread(m, a) for a in CONCENTRATIONS] for m in COUNTS])
    drawn = np.array(
        [
            [_sampled(m, a, lam, n, rng) for a in CONCENTRATIONS]
            for m, lam in zip(COUNTS, lams)
        ]
    )
    error = np.array([b.error for b in bayes])[:, None]
    predicted = np.array([b.value for b in bayes])[:, None] + spread
    head = softmax[:, None] + spread
    comparisons = (
        sampled(
            "Bayes risk: 12 settings",
            predicted,
            drawn[..., 0, 0],
            np.hypot(error, drawn[..., 0, 1]),
        ),
        sampled("softmax head: 12 settings", head, drawn[..., 1, 0], drawn[..., 1, 1]),
        Comparison(
            "exact softmax risk, m = 2, a = 0.5, against R(equal) + spread",
            head[0, 1],
            _exact(2, 0.5, lams[0]),
            1e-9,
            why="1e-9: quadrature of the risks of two tasks; the spread is a closed form",
        ),
        Comparison(
            "best temperature, m = 2: a = 0.05 against equal weights",
            lams[0],
            _best_temperature(2, 0.05),
            1e-4,
            why="a flat minimum: risks good to 1e-10 or so place it to 1e-5 or so",
        ),
    )
    notes = f"The best softmax temperature is {lams[0]:.3f} for every a."
    rows = (
        *((f"{a:g}", x) for x, a in zip(predicted[0], CONCENTRATIONS)),
        ("equal weights", bayes[0].value),
    )
    table = Table(f"Bayes risk, m = 2, s = {SIGNAL:g}", ("a", "risk"), rows)
    return Evidence(comparisons, _figure(bayes, softmax, drawn), notes, tables=(table,))


def _task(m: int, a: float | None = None) -> MultiLocation:
    if a is None:
        return MultiLocation(DIM, LENGTH, m, gamma=1.0, signal=SIGNAL)
    return MultiLocation(DIM, LENGTH, m, "dirichlet", a, gamma=1.0, signal=SIGNAL)


def _spread(m: int, a: float) -> float:
    """m Var(D_1) at gamma = 1."""
    return (1 - 1 / m) / (m * a + 1)


def _exact(m: int, a: float, lam: float) -> float:
    return float(risk(_task(m, a), Softmax(lam), Overlaps.oracle()).value)


def _best_temperature(m: int, a: float) -> float:
    found = minimize_scalar(
        lambda x: _exact(m, a, math.exp(x)),
        bounds=(-3.0, 1.4),
        method="bounded",
        options={"xatol": 1e-7},
    )
    return math.exp(found.x)


def _sampled(m: int, a: float, lam: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """(2, 2): mean and standard error of the squared errors of Bayes and of the softmax head."""
    task = _task(m, a)
    batch = task.sample(n, seed=int(rng.integers(2**31)))
    outputs = (
        task.bayes_predict(batch.tokens),
        predict(Softmax(lam), task.key, task.value, batch.tokens),
    )
    return np.array([mean_and_error((batch.target - t) ** 2) for t in outputs])


def _figure(bayes: list, softmax: np.ndarray, drawn: np.ndarray) -> Figure:
    a = np.geomspace(0.01, 100, 40)
    panels = []
    for i, m in enumerate(COUNTS):
        spread = np.array([_spread(m, x) for x in a])
        low = bayes[i].value
        marks: tuple[Mark, ...] = (
            Line(a, low + spread, "Bayes", 0),
            Points(CONCENTRATIONS, drawn[i, :, 0, 0], "", 0, BAND * drawn[i, :, 0, 1]),
            Line(a, softmax[i] + spread, "best softmax head", 1),
            Points(CONCENTRATIONS, drawn[i, :, 1, 0], "", 1, BAND * drawn[i, :, 1, 1]),
            Line(a, spread, "hidden weights alone", 2, dashed=True),
            Line(a, [low + 1 - 1 / m] * a.size, "one token decides", 3, dashed=True),
            Points([], [], "sampled, 95 %", 6),
        )
        panels.append(
            Panel(
                f"m = {m}", "concentration a", "risk", marks, log_x=True, y_range=(0.0, 1.0)
            )
        )
    return Figure(
        "Hidden importance adds m Var(D) to every risk (lines predicted, points sampled)",
        tuple(panels),
        columns=3,
    )


CLAIM = Claim(
    id="beyond-07-varying-importance",
    title="Hidden importance weights add a known noise",
    statement=(
        "If the m informative tokens enter the label with hidden Dirichlet(a) weights, the Bayes "
        "predictor and the best temperature of a head are "
        "those of equal weights, and every risk grows by exactly gamma^2 (1 - 1/m)/(m a + 1)."
    ),
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
    snippet=(
        "import attnscope as at\n"
        "for a in (0.1, 1.0, 10.0):\n"
        "    task = at.MultiLocation(dim=20, length=10, relevant=2, weights='dirichlet', "
        "concentration=a, gamma=1.0, signal=3.0)\n"
        "    print(a, task.bayes_risk(samples=20_000).value, at.risk(task, at.Softmax(0.81), "
        "at.Overlaps.oracle()).value)\n"
    ),
)
