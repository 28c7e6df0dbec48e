"""With the key known, ridge on the value alone follows one scalar equation.

notation: nu = 5, L = 3, noise^2 = .1, ridge .1; alpha = n/d; s1, s2 the informative token's weight and
the sum of squared weights.

    predicted   V = 1/(l + alpha E[s2/(1 + V s2)]) and what follows from it, by trapezoid sums
    measured    ridge regression on the pooled tokens of alpha d drawn bags; risk on fresh bags,
                mean squared residual on the fitted ones

for the oracle's key, sqrt(nu) k*, and for the zero key, which pools all tokens alike. That more bags
first hurt there is a small effect, so it is measured on many small data sets: mean pooling is ridge
regression on features f ~ N(sqrt(nu) k*/L, I/L) with labels f.v* + N(0, 1 - 1/L + noise^2), so only f
and the label are drawn, and the risk of v is 1 - 2 v.v*/L + |v|^2/L + nu (k*.v)^2/L^2.

Tolerance: the spread of one fit at d = 400 was measured beforehand on 40 other data sets (SPREAD,
rounded up) and falls like 1/sqrt d; 5 of it over the root of the number of fits, and 4/d for what
d -> inf leaves out (among it the direction k* of the features, which the equation neglects).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import STANDARD_ERRORS, Z, mean_and_error
from attnscope.claims.provenance import Provenance
from attnscope.claims.series import Series
from attnscope.figures.figure import Figure, Mark
from attnscope.predictors.attention import Softmax
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.samples.learning_curve import learning_curve
from attnscope_claims.drawing import figure, panel
from attnscope_claims.samples.ridge_fits import fit_value

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
FINITE_DIM_BIAS = 4.0  # times 1/d
KEYS = ("oracle", "mean")
# What the statement says: excess risk by key at ALPHAS, and how much the risk of mean pooling rises
# from alpha = .5 to 1.
ORACLE_RISKS = (0.741, 0.562, 0.325, 0.214)
MEAN_RISKS = (1.091, 1.148, 1.047, 0.871)
RISE = 0.057
SMALL_DIM = 100  # dimension of the small data sets
SMALL_SETS = 1000  # of them
WHY = (
    "5 sd of the mean of the fits (sd of one known from 40 others; false alarm 6e-7) and 4/d"
)


def check(context: Context) -> Evidence:
    dim = context.pick(DIM, 1000)
    count = context.pick(10, 20)
    task = SingleLocation.spiked(dim, LENGTH, STRENGTH, NOISE)
    rng = np.random.default_rng([context.seed, 167])
    fits = _fits(task, rng.integers(2**31, size=(len(ALPHAS), count)))
    curves = [_predicted_curves(task, key, ALPHAS) for key in KEYS]
    allowed = Z * SPREAD * math.sqrt(DIM / dim / count) + FINITE_DIM_BIAS / dim
    series = [
        Series(
            f"{key}-{what}",
            f"{what}, {key} key, alpha .5 to 4",
            ALPHAS,
            curves[i][j],
            fits[i, ..., j].mean(axis=1),
            allowed[i, :, j],
            why=WHY,
            error=fits[i, ..., j].std(axis=1, ddof=1) / math.sqrt(count),
        )
        for i, key in enumerate(KEYS)
        for j, what in enumerate(("risk", "residual"))
    ]
    rise, error = mean_and_error(_mean_pooling_rise(context.seed))
    stated = [
        Series(
            f"{key}-stated",
            f"risk, {key} key, as stated",
            ALPHAS,
            risks,
            curve[0],
            5e-4,
            why="half a printed digit",
            routes=("stated", "one scalar equation"),
        )
        for key, curve, risks in zip(KEYS, curves, (ORACLE_RISKS, MEAN_RISKS))
    ]
    rising = Comparison(
        "rise of the risk of mean pooling from alpha = .5 to 1",
        RISE,
        rise,
        Z * error + 5e-4 + 1 / SMALL_DIM,
        why=f"{STANDARD_ERRORS}; 1/d for d = {SMALL_DIM}; half a digit",
        routes=("stated", "ridge regression on many small data sets"),
        key="rise",
    )
    notes = "The curves are of d -> infinity."
    return Evidence((*series, *stated, rising), _figure(task, series), notes)


def _fits(task: SingleLocation, seeds: np.ndarray) -> np.ndarray:
    """(keys, alphas, fits, 2): risk and residual; seeds (alphas, fits)."""
    return np.array(
        [
            [
                [fit_value(task, round(a * task.dim), k, RIDGE, int(s)) for s in row]
                for a, row in zip(ALPHAS, seeds)
            ]
            for k in (task.signal * task.key, np.zeros(task.dim))
        ]
    )


def _predicted_curves(
    task: SingleLocation, key: str, alpha: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Excess risk and residual at each alpha."""
    curve = learning_curve(task, alpha, Softmax(1.0), RIDGE, key=key)
    return np.asarray(curve.risk.excess), np.asarray(curve.training_error)


def _mean_pooling_rise(seed: int) -> np.ndarray:
    """(SMALL_SETS,): risk of mean pooling from d bags less that from the first d/2 of them."""
    d = SMALL_DIM
    rng = np.random.default_rng([seed, 168])
    # k* and v* are the first two axes
    features = rng.standard_normal((SMALL_SETS, d, d)) / math.sqrt(LENGTH)
    features[..., 0] += math.sqrt(STRENGTH) / LENGTH
    noise = math.sqrt(1 - 1 / LENGTH + NOISE**2)
    target = features[..., 1] + noise * rng.standard_normal((SMALL_SETS, d))
    half, full = (_pooled_risk(features[:, :n], target[:, :n]) for n in (d // 2, d))
    return full - half


def _pooled_risk(features: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Excess risk of ridge on each set of features (sets, n, d) and targets (sets, n)."""
    gram = features.swapaxes(1, 2) @ features + SMALL_DIM * RIDGE * np.eye(SMALL_DIM)
    v = np.linalg.solve(gram, np.einsum("snd,sn->sd", features, target)[..., None])[..., 0]
    along = STRENGTH * (v[:, 0] / LENGTH) ** 2
    return 1 - 2 * v[:, 1] / LENGTH + np.sum(v**2, axis=1) / LENGTH + along


def _figure(task: SingleLocation, series: list[Series]) -> Figure:
    alpha = np.geomspace(0.35, 6, 40)
    lines = [_predicted_curves(task, key, alpha) for key in KEYS]
    panels = []
    for j, what in enumerate(("excess risk", "mean squared residual")):
        marks: list[Mark] = []
        for i, key in enumerate(KEYS):
            marks += series[2 * i + j].marks(f"{key} key", i, (alpha, lines[i][j]))
        panels.append(panel(what, "bags per dimension alpha", what, *marks, log="x"))
    title = f"Ridge on the value (points fitted), strength 5, L = 3, ridge .1, d = {task.dim}"
    return figure(title, *panels, columns=2)


CLAIM = Claim(
    id="samples-07-key-known",
    title="With the key known, one equation gives the ridge fit",
    statement=(
        "[With the oracle's key, ridge regression of the label on the pooled tokens has the risk]"
        "(oracle-risk) and [the residual](oracle-residual) of one scalar equation.",
        f"[The risk is {ORACLE_RISKS[0]:g} above the noise at alpha = .5 and "
        f"{ORACLE_RISKS[-1]:g} at 4](oracle-stated).",
        "The same equation gives [the risk](mean-risk) and [the residual](mean-residual) of mean "
        "pooling.",
        f"[There more bags first hurt: the risk is {MEAN_RISKS[0]:g} at alpha = .5, "
        f"{MEAN_RISKS[1]:g} at 1](mean-stated), [higher by {RISE:g}](rise).",
    ),
    headline="rise",
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
