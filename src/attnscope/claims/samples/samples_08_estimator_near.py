"""The estimator stands near the Bayes-optimal learning curve.

notation: n = alpha d bags of L = 3 tokens, d = 100, strength nu = 5, noise^2 = .1. Risks are
without the label noise.

    predicted   the Bayes-optimal curve at alpha (theory.samples: quadrature, d -> inf, nu and the
        noise known, no data)
    measured    the risk of SingleLocationRegressor with its defaults: it knows neither nu nor the
        noise nor the background's mean and covariance

Message passing on the same bags stands between the two: it attains the curve as d -> inf, and what
this data set has by chance it has too. Its predictor is softmax attention with key sqrt(nu) k and
value v, whose population risk is exact: with s = |v|, f the head of unit value and c = X_J.v*,

    E (s f - c)^2 = s^2 E f^2 - 2 s E f c + 1,
    E f^2 = (R(+v) + R(-v))/2 - 1,     E f c = (R(-v) - R(+v))/4,

R(+-v) the exact risks of softmax at the overlaps of k/|k| and +-v/|v|. The estimator's gate has a
quadratic part and no exact risk; it is the exact one of message passing plus the mean difference of
squared errors on the same TEST fresh bags.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence, Table
from attnscope.claims.compare import BAND, Z, mean_and_error
from attnscope.claims.provenance import Provenance
from attnscope.dynamics.message_passing import message_passing
from attnscope.estimators.regressor import SingleLocationRegressor
from attnscope.figures.figure import Figure, Line, Panel, Points
from attnscope.predictors.attention import Softmax
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk
from attnscope.theory.samples.learning_curve import learning_curve

__all__ = ["BARS", "CLAIM", "curve", "risks"]

DIM = 100
LENGTH = 3
STRENGTH = 5.0
NOISE = 0.1**0.5
# most that the mean risk may exceed message passing's on the same bags, by alpha
BARS = {2: 0.12, 4: 0.05, 8: 0.03, 16: 0.02}
TEST = 10_000
REPLICATES = 60  # data sets per alpha of `--full`
FITTED = "SingleLocationRegressor, its defaults, on sampled bags"
# mean and standard deviation of the ratio over 60 data sets, by alpha
RATIOS = {2: (1.060, 0.064), 4: (1.012, 0.011), 8: (1.004, 0.005), 16: (1.002, 0.003)}
# relative standard deviation of message passing's risk over data sets of this d, rounded up: they
# are better or worse by chance, 1/sqrt d
SCATTER = {2: 0.06, 4: 0.03, 8: 0.012, 16: 0.007}
ASIDE = 1.03  # markers of the same alpha stand this factor apart


def task_of(seed: int) -> SingleLocation:
    return SingleLocation.spiked(
        dim=DIM, length=LENGTH, strength=STRENGTH, noise=NOISE, seed=seed
    )


def curve(alpha: list[float]) -> np.ndarray:
    """The Bayes-optimal risk without noise at each alpha."""
    return np.asarray(learning_curve(task_of(0), alpha=alpha).risk.excess)


def risks(alpha: int, seed: int) -> tuple[float, float]:
    """Of message passing and of the estimator, on the same bags."""
    task = task_of(seed)
    train = task.sample(alpha * DIM, seed=1000 + seed)
    test = task.sample(TEST, seed=50_000 + seed)
    clean = test.tokens[np.arange(TEST), test.location] @ task.value
    best = message_passing(train, STRENGTH, NOISE)
    model = SingleLocationRegressor(random_state=seed).fit(train.tokens, train.target)
    errors = [(it.predict(test.tokens) - clean) ** 2 for it in (best, model)]
    exact = softmax_excess(task, STRENGTH**0.5 * best.key, best.value)
    return exact, exact + float(np.mean(errors[1] - errors[0]))


def softmax_excess(task: SingleLocation, key: np.ndarray, value: np.ndarray) -> float:
    """Population risk of softmax attention with this key and value (d,), exactly."""
    length = float(np.linalg.norm(key))
    size = float(np.linalg.norm(value))
    head = Softmax(length)
    plus, minus = (
        float(risk(task, head, Overlaps.of(task, key / length, v), method="exact").excess)
        for v in (value / size, -value / size)
    )
    return size**2 * ((plus + minus) / 2 - 1) - size * (minus - plus) / 2 + 1


def check(context: Context) -> Evidence:
    alphas = context.pick([4, 8, 16], list(BARS))
    seeds = np.random.default_rng([context.seed, 8]).integers(40_000, size=(4, REPLICATES))
    count = context.pick(3, REPLICATES)
    predicted = curve([float(a) for a in alphas])
    found = np.array(
        [[risks(a, int(s)) for s in row[:count]] for a, row in zip(alphas, seeds)]
    )
    ratios = found[..., 1] / found[..., 0]
    comparisons = []
    for i, alpha in enumerate(alphas):
        bar = f"the bar of {100 * BARS[alpha]:.0f} %"
        mean, deviation = RATIOS[alpha]
        scatter = SCATTER[alpha]
        comparisons += [
            Comparison(
                f"risk over message passing's on the same bags, n = {alpha} d",
                1.0,
                ratios[i].mean(),
                BARS[alpha],
                rule="at most",
                why=f"{bar}; over 60 data sets the ratio is {mean}, of standard deviation {deviation}",
                routes=("message passing, told strength, noise and background", FITTED),
            ),
            Comparison(
                f"risk against the curve, n = {alpha} d",
                predicted[i],
                found[i, :, 1].mean(),
                (BARS[alpha] + Z * scatter / count**0.5) * predicted[i],
                why=f"{bar} and 5 standard errors of {count} data sets of d = {DIM}, whose risks "
                f"scatter by {100 * scatter:.2g} %",
            ),
        ]
    table = _table(alphas, ratios, predicted, found)
    return Evidence(tuple(comparisons), _figure(alphas, found), NOTES, tables=(table,))


# -- words and figure ------------------------------------------------------------------------------


NOTES = (
    "Most of what the estimator does not know costs next to nothing here: only a background that is "
    "not centred at the caller's zero would (its mean's error enters the key)."
)


def _table(
    alphas: list[int], ratios: np.ndarray, predicted: np.ndarray, found: np.ndarray
) -> Table:
    rows = tuple(
        (f"{a} d", p, f[:, 0].mean(), f[:, 1].mean(), r.mean())
        for a, r, p, f in zip(alphas, ratios, predicted, found)
    )
    columns = ("n", "curve", "message passing", "estimator", "mean ratio of the two")
    return Table(
        f"Risks, {ratios.shape[1]} data sets each, the same bags", columns, rows, digits=4
    )


def _figure(alphas: list[int], found: np.ndarray) -> Figure:
    """Left: both on the curve. Right: their ratio."""
    grid = np.geomspace(alphas[0], alphas[-1], 9)
    x = np.array(alphas, dtype=float)
    best, ours = (
        np.array([mean_and_error(row) for row in found[..., i]]).T for i in range(2)
    )
    ratio, error = np.array([mean_and_error(row[:, 1] / row[:, 0]) for row in found]).T
    bars = np.array([1 + BARS[a] for a in alphas])
    aside = ASIDE * x
    left = (
        Line(grid, curve(list(grid)), "Bayes-optimal curve", 0),
        Points(x / ASIDE, best[0], "message passing", 1, BAND * best[1]),
        Points(aside, ours[0], "estimator", 2, BAND * ours[1]),
    )
    right = (
        Line(x, np.ones(len(x)), "message passing", 1),
        Line(x, bars, "bar", 6, dashed=True),
        Points(x, ratio, "estimator", 2, BAND * error),
    )
    text = "bags per dimension, n/d"
    panels = (
        Panel("near the curve", text, "risk without noise", left, log_x=True),
        Panel(
            "against message passing, same bags",
            text,
            "risk over message passing's",
            right,
            log_x=True,
        ),
    )
    return Figure(
        f"The estimator near the curve: d = {DIM}, L = {LENGTH}, strength {STRENGTH:g}",
        panels,
        columns=2,
    )


CLAIM = Claim(
    id="samples-08-estimator-near",
    title="The estimator stands near the Bayes-optimal curve",
    statement=(
        "SingleLocationRegressor, told neither strength nor noise nor background, has at most 5 %, "
        "3 % and 2 % more risk (12 % at n = 2 d) than message passing, which is told them, on the "
        "same n = 4 d, 8 d and 16 d bags, and so stands near the Bayes-optimal learning curve."
    ),
    provenance=Provenance(
        "new here", (), "the curve (replica, checked by message passing) and the estimator"
    ),
    hypotheses=(
        "spiked single-location task, d = 100, L = 3, strength 5, noise^2 = .1; background centred "
        "at zero, where the estimator looks for it"
    ),
    routes=("quadrature of the Bayes-optimal curve, no data", FITTED),
    rests_on=("samples-01-curve-attained",),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.SingleLocation.spiked(dim=100, length=3, strength=5.0, noise=0.1**0.5)\n"
        "train, test = task.sample(800, seed=1), task.sample(20000, seed=2)\n"
        "model = at.SingleLocationRegressor().fit(train.tokens, train.target)\n"
        "risk = ((model.predict(test.tokens) - test.target) ** 2).mean()\n"
        "print(risk, at.learning_curve(task, alpha=8.0).risk.value)\n"
    ),
)
