"""The witness reading of two classes, fitted: tokens speak for the positive class only.

    minimise  sum_i weight_i loss_i(g, a, c, b) + ridge |g|^2/2 + (c + 1)^2/2 + (b - b0)^2/20

over the scores u = g.(x, |x|^2) and the numbers a, c, b of witness_law.py, by L-BFGS with its
analytic slopes, along a path of ridges from strong to weak, each point from the one before. The two
weak penalties keep c and b finite where bags say nothing of them. The sum is not convex: beside the
path from g = 0 (whose first step goes along the difference of the classes' mean tokens) others
begin at directions in which the classes' second moments differ, and at random ones. Start, ridge
and features are chosen by the held-out loss of the same folds as everything else.

A fitted model is a `Fitted` with combine = WITNESS: gate = g, values.bias = (a, c, b, average log
length), no value weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from attnscope.estimators.fit.attention import random_waves
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import Fold, Options, each, gain_and_error, probe_folds
from attnscope.estimators.fit.mixture import (
    FeatureMap,
    Fitted,
    bag_answers,
    no_features,
    output_losses,
)
from attnscope.estimators.fit.ridge import values_from
from attnscope.estimators.fit.stages import Selected
from attnscope.estimators.fit.witness_law import WITNESS, Numbers, loss_and_slopes

__all__ = ["WitnessFit", "fit_witness", "witness_step"]

# beside a sum of log likelihoods in standardised tokens; musk1, elephant, musk2 are best at 10,
# ucsb (58 bags, 708 features) at 300, birds and protein at 1 to 3
RIDGES = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
SHORT = RIDGES[4:]  # of starts other than zero, which a stronger ridge would forget
STEPS = 40  # of L-BFGS per point, as everywhere (held_out.LBFGS_STEPS)
ENOUGH = 1e-7  # relative gain of a step below which it ends
BACKGROUND = -3.0  # b0: one bag in twenty is positive for no visible reason
FIRM = 0.1  # precision of b about b0: two units either way cost a fifth of a bag's log loss
OTHERS = 3  # starts beside zero, at most: each costs three short fits on the first folds
LONG = 2.0  # size of their gates: a token two deviations along has odds e^4
CAUTION = 1.5  # standard errors a richer gate must gain, as in held_out


class WitnessFit(NamedTuple):
    """The model of all bags with its held-out figures, and the models of the folds."""

    selected: Selected
    models: list[Fitted]


def fit_witness(data: Data, folds: list[Fold], options: Options) -> WitnessFit:
    """Choose and fit; data.labels are 1 for the positive class."""
    waves = options.gate == "random-features"
    norms = {"linear": (False,), "quadratic": (True,), "random-features": (True,)}
    best: tuple[list[Fitted], np.ndarray, np.ndarray, tuple] | None = None
    starts: dict[str, float] = {}
    for norm in norms.get(options.gate, (False, True)):
        plain = _blank(data, norm)
        blank = random_waves(plain, data, options.seed) if waves else plain
        new = _best_path(data, folds, blank, options, starts)
        if best is not None:
            gain, error = gain_and_error(best[1] - new[1], data.weight)
            options.say(f"witness, quadratic: held-out loss lower by {gain:.4g}")
        if best is None or gain > CAUTION * error:
            best = new
    assert best is not None
    models, losses, output, (name, begin, ridges) = best
    fitted = begin
    for ridge in ridges:
        fitted = witness_step(fitted, data, ridge)
    stages = ["witness", f"start {name}", f"ridge {ridges[-1]:g}"]
    options.say(f"witness: held-out loss {np.average(losses, weights=data.weight):.4g}")
    selected = Selected(fitted, stages, losses, output, np.zeros(data.size), starts, 0.0)
    return WitnessFit(selected, models)


def witness_step(fitted: Fitted, data: Data, ridge: float, steps: int = STEPS) -> Fitted:
    """L-BFGS from `fitted` at one ridge."""
    inputs = fitted.features(data.tokens)
    d = data.tokens.shape[1]
    log_length = float(fitted.values.bias[3])

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        gate = theta[:-3]
        rate, slope, background = theta[-3:]
        numbers = Numbers(rate, slope, background, log_length)
        u = data.tokens @ gate[:d] + inputs @ gate[d:]
        loss, each, slopes = loss_and_slopes(
            u, data.offsets, data.labels, data.weight, numbers
        )
        loss += ridge / 2 * gate @ gate + (slope + 1) ** 2 / 2
        loss += FIRM / 2 * (background - BACKGROUND) ** 2
        slopes += (0.0, slope + 1, FIRM * (background - BACKGROUND))
        along = np.concatenate([data.tokens.T @ each, inputs.T @ each]) + ridge * gate
        return loss, np.concatenate([along, slopes])

    start = np.concatenate([fitted.gate, fitted.values.bias[:3]])
    options = {"maxiter": steps, "maxcor": 20, "ftol": ENOUGH}
    theta = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    bias = np.append(theta[-3:], log_length)
    values = fitted.values._replace(bias=bias, precision=ridge)
    return fitted._replace(gate=theta[:-3], values=values)


# -- starts and paths ------------------------------------------------------------------------------


def _blank(data: Data, norm: bool) -> Fitted:
    """g = 0 and as many witnesses as positive bags."""
    d = data.tokens.shape[1]
    features: FeatureMap = no_features(d)._replace(norm=norm)
    log_length = float(np.average(np.log(data.lengths), weights=data.weight))
    share = float(np.average(data.labels, weights=data.weight))
    rate = np.log(-np.log1p(-min(share, 0.95))) - log_length
    bias = np.array([rate, -1.0, BACKGROUND, log_length])
    values = values_from(np.zeros((d, 1)), bias, 1.0, 1.0)
    return Fitted(None, np.zeros(d + norm), features, values, data.family, WITNESS)


def _directions(data: Data, seed: int, count: int) -> list[tuple[str, np.ndarray]]:
    """Unit vectors (d,): both ends of the direction along which tokens of positive bags spread more
    than those of negative ones, then random.
    """
    if count < 1:
        return []
    side = data.per_token(np.where(data.labels == 1, 1.0, -1.0))
    weight = data.per_token(data.weight)
    for sign in (1.0, -1.0):
        side[side == sign] *= 1 / max(weight[side == sign].sum(), 1.0)
    rng = np.random.default_rng([seed, 4])
    vector: np.ndarray = rng.standard_normal((data.tokens.shape[1],))
    for _ in range(20):  # power steps: the leading direction need only be a fair start
        vector = _unit(vector)
        vector = vector + data.tokens.T @ (side * weight * (data.tokens @ vector))
    found = [("moments", vector), ("moments reversed", -vector)]
    rng = np.random.default_rng([seed, 5])
    random = [
        (f"random {i}", rng.standard_normal(len(vector))) for i in range(count - len(found))
    ]
    return [(name, _unit(v)) for name, v in (found + random)[:count]]


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / max(float(np.linalg.norm(vector)), 1e-300)


def _best_path(
    data: Data, folds: list[Fold], blank: Fitted, options: Options, losses: dict[str, float]
) -> tuple[list[Fitted], np.ndarray, np.ndarray, tuple]:
    """Fold models, held-out losses (n,) and outputs (n, 2) of the best start and ridge, and how to
    get there: (name, model to begin with, ridges). `losses` takes those of the starts.
    """
    first = folds[: probe_folds(folds)]
    count = min(options.n_starts - 1, OTHERS)
    starts: list[tuple[str, Fitted, tuple[float, ...]]] = [("zero", blank, RIDGES)]
    for name, vector in _directions(data, options.seed, count):
        gate = np.concatenate([LONG * vector, blank.gate[len(vector) :]])
        starts.append((name, blank._replace(gate=gate), SHORT))
    if options.alpha_gate is not None:
        starts = [(name, begin, (options.alpha_gate,)) for name, begin, _ in starts]
    tried = []
    for start in starts:
        found = _walk(first, start[1], start[2], options)
        tried.append(min(_mean(data, first, point) for point in found))
        losses[start[0]] = min(losses.get(start[0], np.inf), tried[-1])
    name, begin, ridges = starts[int(np.argmin(tried))]
    points = _walk(folds, begin, ridges, options)
    best = int(np.argmin([_mean(data, folds, point) for point in points]))
    models, output = points[best]
    return models, output_losses(output, data), output, (name, begin, ridges[: best + 1])


def _walk(
    folds: list[Fold], begin: Fitted, ridges: tuple[float, ...], options: Options
) -> list[tuple[list[Fitted], np.ndarray]]:
    """Models of these folds and outputs (n, 2; halves where no fold holds the bag out) after every
    ridge.
    """

    def one(fold: Fold) -> list[tuple[Fitted, np.ndarray]]:
        train = fold.train
        held = fold.held
        model = begin
        out = []
        for ridge in ridges:
            model = witness_step(model, train, ridge)
            out.append((model, bag_answers(model, held.tokens, held.offsets).output))
        return out

    found = each(one, folds, options.workers)
    points = []
    for i in range(len(ridges)):
        output = np.full((folds[0].data.size, 2), 0.5)
        for fold, walked in zip(folds, found):
            output[fold.out] = walked[i][1]
        points.append(([walked[i][0] for walked in found], output))
    return points


def _mean(data: Data, folds: list[Fold], point: tuple[list[Fitted], np.ndarray]) -> float:
    rows = np.concatenate([fold.out for fold in folds])
    return float(np.average(output_losses(point[1], data)[rows], weights=data.weight[rows]))
