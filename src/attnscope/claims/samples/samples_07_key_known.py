"""With the key known, ridge on the value alone follows one scalar equation.

notation: nu = 5, L = 3, noise^2 = .1, ridge .1; alpha = n/d; s1, s2 the deciding token's weight and
the sum of squared weights.

    predicted   V = 1/(l + alpha E[s2/(1 + V s2)]) and what follows from it, by trapezoid sums
    measured    ridge regression on the pooled tokens of alpha d drawn bags; risk on fresh bags,
                mean squared residual on the fitted ones

for the oracle's key, sqrt(nu) k*, and for the zero key, which pools all tokens alike.

Tolerance: the spread of one fit at d = 400 was measured beforehand on 40 other data sets (SPREAD,
rounded up) and falls like 1/sqrt d; 5 of it over the root of the number of fits, and 4/d for what
d -> inf leaves out (among it the direction k* of the features, which the equation neglects).
"""

from __future__ import annotations

import math

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence, Table
from attnscope.claims.compare import BAND, Z, worst
from attnscope.claims.provenance import Provenance
from attnscope.claims.samples.ridge_fits import fit_value
from attnscope.figures.figure import Figure, Line, Panel, Points
from attnscope.predictors.attention import Softmax
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.samples.learning_curve import learning_curve

STRENGTH = 5.0
LENGTH = 3
NOISE = 0.1**0.5
RIDGE = 0.1
ALPHAS = (0.5, 1.0, 2.0, 4.0)
DIM = 400  # of SPREAD
# standard deviation of one fit, by key and alpha: risk, mean squared residual
SPREAD = np.array(
    [
        [(0.056, 0.005), (0.065, 0.011), (0.024, 0.017), (0.011, 0.016)],
        [(0.041, 0.015), (0.047, 0.025), (0.028, 0.027), (0.021, 0.028)],
    ]
)
FINITE = 4.0  # times 1/d
KEYS = ("oracle", "mean")
WHY = (
    "5 sd of the mean of the fits (sd of one known from 40 others; false alarm 6e-7) and 4/d"
)


def check(context: Context) -> Evidence:
    dim = context.pick(DIM, 1000)
    count = context.pick(10, 20)
    task = SingleLocation.spiked(dim, LENGTH, STRENGTH, NOISE)
    vectors = (task.signal * task.key, np.zeros(dim))
    rng = np.random.default_rng([context.seed, 167])
    seeds = rng.integers(2**31, size=(len(ALPHAS), count))
    fits = np.array(
        [
            [
                [fit_value(task, round(a * dim), k, RIDGE, int(s)) for s in row]
                for a, row in zip(ALPHAS, seeds)
            ]
            for k in vectors
        ]
    )  # (keys, alphas, fits, 2)
    mean = fits.mean(axis=2)
    curves = [learning_curve(task, ALPHAS, Softmax(1.0), RIDGE, key=key) for key in KEYS]
    allowed = Z * SPREAD * math.sqrt(DIM / dim / count) + FINITE / dim
    comparisons = []
    for i, (key, c) in enumerate(zip(KEYS, curves)):
        told = ((0, "risk", c.risk.excess), (1, "residual", c.training_error))
        comparisons += [
            worst(
                f"{what}, {key} key, alpha .5 to 4", p, mean[i, :, j], allowed[i, :, j], WHY
            )
            for j, what, p in told
        ]
    rows = tuple(
        (f"{key} key, alpha {a:g}", p, m)
        for i, (key, c) in enumerate(zip(KEYS, curves))
        for a, p, m in zip(ALPHAS, c.risk.excess, mean[i, :, 0])
    )
    title = f"Excess risk, {count} fits each, d = {dim}"
    table = Table(title, ("", "predicted", "measured"), rows, digits=4)
    notes = "The curves are of d -> infinity."
    return Evidence(tuple(comparisons), _figure(task, fits), notes, tables=(table,))


def _figure(task: SingleLocation, fits: np.ndarray) -> Figure:
    alpha = np.geomspace(0.35, 6, 40)
    panels = []
    for j, what in enumerate(("excess risk", "mean squared residual")):
        marks: list[Line | Points] = []
        for i, key in enumerate(KEYS):
            curve = learning_curve(task, alpha, Softmax(1.0), RIDGE, key=key)
            line = curve.risk.excess if j == 0 else curve.training_error
            seen = fits[i, :, :, j]
            bars = BAND * seen.std(axis=1, ddof=1) / math.sqrt(seen.shape[1])
            marks += [
                Line(alpha, line, f"{key} key, predicted", i),
                Points(ALPHAS, seen.mean(axis=1), f"{key} key, fitted", i, bars),
            ]
        panels.append(Panel(what, "bags per dimension alpha", what, tuple(marks), log_x=True))
    title = f"Ridge on the value, strength 5, L = 3, ridge .1, d = {task.dim}"
    return Figure(title, tuple(panels), columns=2, meanings=KEYS)


CLAIM = Claim(
    id="samples-07-key-known",
    title="With the key known, one equation gives the ridge fit",
    statement=(
        "Ridge regression of the label on the pooled tokens of n = alpha d bags, the key given, has "
        "the risk and the residual that one scalar equation with random row lengths predicts: for "
        "the oracle's key and for mean pooling, where more bags first hurt."
    ),
    provenance=Provenance(
        "new here",
        (),
        "the weights of attention as row lengths of a known theory of ridge regression",
    ),
    hypotheses=(
        "softmax weights with the key sqrt(nu) k* or 0, O(1) spike of strength 5, L = 3, noise^2 = "
        ".1, ridge .1; d = 400 (1000 with --full)"
    ),
    routes=("one scalar equation by trapezoid sums", "ridge regression on drawn bags"),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.SingleLocation.spiked(dim=400, length=3, strength=5.0, noise=0.1**0.5)\n"
        "for key in ('oracle', 'mean'):\n"
        "    curve = at.learning_curve(task, [0.5, 1, 2, 4], at.Softmax(1.0), ridge=0.1, key=key)\n"
        "    print(key, curve.risk.excess.round(4))\n"
    ),
)
