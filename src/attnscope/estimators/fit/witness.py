"""The witness reading of two classes, fitted: tokens are evidence for the positive class only.

    minimise  sum_i weight_i loss_i(g, a, c, b) + ridge |g|^2/2 + (c + 1)^2/2 + (b - b0)^2/20

over the scores u = g.(x, |x|^2) and the numbers a, c, b of witness_law.py, by L-BFGS with analytic
slopes. Ridges go from strong to weak, each point from the last one, until the held-out loss has
risen twice. The two weak penalties keep c and b finite where bags do not determine them. The share
w of wrong labels is chosen last, by held-out probabilities.

The sum is not convex. One path starts from g = 0, whose first step follows the difference of the
classes' mean tokens. Other paths start at directions in which the classes' second moments differ,
and at random ones; they continue only if their first point is better. Start, ridge and |x|^2 are
chosen by the held-out loss of the same folds as everything else: start and path on the first folds,
then the other folds follow.

A fitted model is a `Fitted` with combine = WITNESS: gate = g, values.bias = (a, c, b, average log
length, w), no value weights.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from attnscope.estimators.fit.attention import random_waves
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import (
    PATH_LBFGS_STEPS,
    PATH_STALL_SHARE,
    PROBE_LEAD_STANDARD_ERRORS,
    RIVAL_GAIN_STANDARD_ERRORS,
    Fold,
    Options,
    best_fold,
    gain_and_error,
    map_jobs,
    probe_folds,
)
from attnscope.estimators.fit.mixture import (
    LBFGS_STOP_GAIN,
    FeatureMap,
    Fitted,
    bag_answers,
    no_features,
    output_losses,
)
from attnscope.estimators.fit.ridge import values_from
from attnscope.estimators.fit.stages import Selected
from attnscope.estimators.fit.witness_law import (
    WITNESS,
    Numbers,
    loss_and_slopes,
    mix_wrong_labels,
    wrong_label_share,
)

__all__ = [
    "PROBE_RIDGE",
    "WitnessFit",
    "blank_model",
    "fit_one_ridge",
    "fit_witness",
    "try_rival",
    "with_label_noise",
    "witness_step",
]

# added to a sum of log likelihoods in standardised tokens; musk1, elephant and musk2 are best at 10,
# ucsb (58 bags, 708 features) at 300, birds and protein at 1 to 3
WITNESS_RIDGES = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
START_RIDGES = WITNESS_RIDGES[
    4:
]  # for starts other than zero, which a stronger ridge would undo
# for a first fit at one ridge: mid-path, best on half of the multiple-instance sets
PROBE_RIDGE = 10.0
BACKGROUND_LOG_ODDS = -3.0  # b0: one bag in twenty is positive without a witness
# of b about b0: two units either way cost a fifth of a bag's log loss
BACKGROUND_PRECISION = 0.1
MAX_OTHER_STARTS = 3  # besides zero; each costs a short fit on the first folds
START_GATE_SIZE = 2.0  # norm of their gates: a token two deviations along has odds e^4
# on all bags the fit converges, so that it does not depend on the fold it starts from
FINAL_LBFGS_STEPS = 200
FINAL_STOP_GAIN = 1e-10


class WitnessFit(NamedTuple):
    """A candidate: its stages, its models of the folds (w = 0), held-out losses (n,) and outputs
    (n, 2), ridge, the losses of the starts, and w. `on_all_bags` fits it on all bags.
    """

    stages: list[str]
    models: list[Fitted]
    losses: np.ndarray
    output: np.ndarray
    ridge: float
    start_losses: dict[str, float]
    wrong: float = 0.0

    def on_all_bags(self, data: Data, folds: list[Fold]) -> Selected:
        """Fit until convergence from the fold that did best; a fresh start could end in another basin."""
        begin = self.models[best_fold(folds, self.losses)]
        fitted = witness_step(begin, data, self.ridge, FINAL_LBFGS_STEPS, FINAL_STOP_GAIN)
        bias = np.append(fitted.values.bias, self.wrong)
        fitted = fitted._replace(values=fitted.values._replace(bias=bias))
        nothing = np.zeros(data.size)
        return Selected(
            fitted, self.stages, self.losses, self.output, nothing, self.start_losses, 0.0
        )


def fit_witness(data: Data, folds: list[Fold], options: Options) -> WitnessFit:
    """The candidate with the lowest held-out loss; data.labels are 1 for the positive class."""
    options.clock.stage("witness")
    norm = options.gate in ("quadratic", "random-features")
    blank = blank_model(data, norm)
    if options.gate == "random-features":
        blank = random_waves(blank, data, options.seed)
    found = _best_path(data, folds, blank, options)
    if options.gate == "auto" and not options.clock.over:
        found = _with_norm(data, folds, found, options)
    found = with_label_noise(data, found)
    options.say(f"witness: held-out loss {np.average(found.losses, weights=data.weight):.4g}")
    return found


def with_label_noise(data: Data, found: WitnessFit) -> WitnessFit:
    """Add the most probable share w of wrong labels, given its outputs for w = 0."""
    right = found.output[np.arange(data.size), data.labels.astype(int)]
    wrong = wrong_label_share(right, data.weight)
    output = mix_wrong_labels(found.output, wrong)
    return found._replace(output=output, losses=output_losses(output, data), wrong=wrong)


def fit_one_ridge(
    data: Data, folds: list[Fold], options: Options, ridge: float
) -> tuple[list[Fitted], np.ndarray]:
    """Linear models of these folds from g = 0, and held-out losses (n,), NaN outside these folds."""
    begin = [blank_model(data, norm=False)] * len(folds)
    models, output = _follow_path(folds, begin, (ridge,), options)[0]
    losses = output_losses(output, data)
    held = np.concatenate([fold.out for fold in folds])
    losses[np.setdiff1d(np.arange(data.size), held)] = np.nan
    return models, losses


def _with_norm(
    data: Data, folds: list[Fold], linear: WitnessFit, options: Options
) -> WitnessFit:
    """|x|^2 in the score, from the linear models, if that lowers the held-out loss."""
    begun = [
        model._replace(
            gate=np.append(model.gate, 0.0), features=model.features._replace(norm=True)
        )
        for model in linear.models
    ]
    return try_rival(data, folds, linear, begun, (linear.ridge,), "quadratic", options)


def try_rival(
    data: Data,
    folds: list[Fold],
    held: WitnessFit,
    begun: list[Fitted],
    ridges: tuple[float, ...],
    name: str,
    options: Options,
) -> WitnessFit:
    """The rival that goes on from these models of the folds, if its best point lowers the held-out
    loss by CAUTION standard errors; tried on the first folds before it is on all.
    """
    probe = probe_folds(folds)
    first = folds[:probe]
    points = _follow_path(first, begun[:probe], ridges, options)
    at = int(np.argmin([_held_out_loss(data, first, point) for point in points]))
    seen = np.concatenate([fold.out for fold in first])
    lead = held.losses - output_losses(mix_wrong_labels(points[at][1], held.wrong), data)
    groups = None if data.groups is None else data.groups[seen]
    gain, error = gain_and_error(lead[seen], data.weight[seen], groups)
    options.say(f"witness, {name}: held-out loss lower by {gain:.4g} on {probe} folds")
    if gain <= PROBE_LEAD_STANDARD_ERRORS * error:
        return held
    path = ridges[: at + 1]
    others, rest = _follow_path(folds[probe:], begun[probe:], path, options, stop=False)[-1]
    models, output = points[at]
    output[rest_of(folds, probe)] = rest[rest_of(folds, probe)]
    losses = output_losses(mix_wrong_labels(output, held.wrong), data)
    gain, error = gain_and_error(held.losses - losses, data.weight, data.groups)
    if gain <= RIVAL_GAIN_STANDARD_ERRORS * error:
        return held
    return held._replace(
        stages=[*held.stages, name],
        models=models + others,
        losses=losses,
        output=output,
        ridge=ridges[at],
    )


def rest_of(folds: list[Fold], probe: int) -> np.ndarray:
    """Bags that no fold before `probe` holds out."""
    return np.concatenate([fold.out for fold in folds[probe:]] or [np.empty(0, int)])


def witness_step(
    fitted: Fitted,
    data: Data,
    ridge: float,
    steps: int = PATH_LBFGS_STEPS,
    enough: float = LBFGS_STOP_GAIN,
) -> Fitted:
    """L-BFGS from `fitted` at one ridge."""
    inputs = fitted.features(data.tokens)
    d = data.tokens.shape[1]
    log_length = float(fitted.values.bias[3])

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        gate = theta[:-3]
        rate, slope, background = theta[-3:]
        numbers = Numbers(rate, slope, background, log_length)
        u = data.tokens @ gate[:d] + inputs @ gate[d:]
        loss, map_jobs, slopes = loss_and_slopes(
            u, data.offsets, data.labels, data.weight, numbers
        )
        loss += ridge / 2 * gate @ gate + (slope + 1) ** 2 / 2
        loss += BACKGROUND_PRECISION / 2 * (background - BACKGROUND_LOG_ODDS) ** 2
        slopes += (0.0, slope + 1, BACKGROUND_PRECISION * (background - BACKGROUND_LOG_ODDS))
        along = np.concatenate([data.tokens.T @ map_jobs, inputs.T @ map_jobs]) + ridge * gate
        return loss, np.concatenate([along, slopes])

    start = np.concatenate([fitted.gate, fitted.values.bias[:3]])
    options = {"maxiter": steps, "maxcor": 20, "ftol": enough}
    theta = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    bias = np.append(theta[-3:], log_length)
    values = fitted.values._replace(bias=bias, precision=ridge)
    return fitted._replace(gate=theta[:-3], values=values)


# -- starts and paths ------------------------------------------------------------------------------


def blank_model(data: Data, norm: bool) -> Fitted:
    """g = 0 and as many witnesses as positive bags."""
    d = data.tokens.shape[1]
    features: FeatureMap = no_features(d)._replace(norm=norm)
    log_length = float(np.average(np.log(data.lengths), weights=data.weight))
    share = float(np.average(data.labels, weights=data.weight))
    rate = np.log(-np.log1p(-min(share, 0.95))) - log_length
    bias = np.array([rate, -1.0, BACKGROUND_LOG_ODDS, log_length])
    values = values_from(np.zeros((d, 1)), bias, 1.0, 1.0)
    return Fitted(None, np.zeros(d + norm), features, values, data.family, WITNESS)


def _start_directions(data: Data, seed: int, count: int) -> list[tuple[str, np.ndarray]]:
    """Unit vectors (d,): both signs of the direction along which tokens of positive bags vary more
    than tokens of negative bags, then random ones.
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
        vector = _unit_vector(vector)
        vector = vector + data.tokens.T @ (side * weight * (data.tokens @ vector))
    found = [("moments", vector), ("moments reversed", -vector)]
    rng = np.random.default_rng([seed, 5])
    random = [
        (f"random {i}", rng.standard_normal(len(vector))) for i in range(count - len(found))
    ]
    return [(name, _unit_vector(v)) for name, v in (found + random)[:count]]


def _unit_vector(vector: np.ndarray) -> np.ndarray:
    return vector / max(float(np.linalg.norm(vector)), 1e-300)


def _best_path(data: Data, folds: list[Fold], blank: Fitted, options: Options) -> WitnessFit:
    """The best start, chosen on the first folds, and the best ridge, chosen on all."""
    probe = probe_folds(folds)
    first = folds[:probe]
    whole = WITNESS_RIDGES if options.alpha_gate is None else (options.alpha_gate,)
    name = "zero"
    begin = blank
    points = _follow_path(first, [blank] * probe, whole, options)
    ridges = whole[: len(points)]
    lowest = min(_held_out_loss(data, first, point) for point in points)
    losses = {name: lowest}
    for other, vector in _start_directions(
        data, options.seed, min(options.n_starts - 1, MAX_OTHER_STARTS)
    ):
        if options.clock.over:
            break
        gate = np.concatenate([START_GATE_SIZE * vector, blank.gate[len(vector) :]])
        start = blank._replace(gate=gate)
        path = START_RIDGES if options.alpha_gate is None else whole
        found = _follow_path(first, [start] * probe, path[:1], options)
        losses[other] = _held_out_loss(data, first, found[0])
        if losses[other] >= lowest:
            continue  # a worse basin, or the same
        found += _follow_path(first, found[0][0], path[1:], options)
        losses[other] = min(_held_out_loss(data, first, point) for point in found)
        if losses[other] < lowest:
            name = other
            begin = start
            points = found
            ridges = path[: len(found)]
            lowest = losses[other]
    others = _follow_path(
        folds[probe:], [begin] * (len(folds) - probe), ridges, options, stop=False
    )
    rest = rest_of(folds, probe)
    for (_, output), (_, more) in zip(points, others):
        output[rest] = more[rest]
    best = int(np.argmin([_held_out_loss(data, folds, point) for point in points]))
    models, output = points[best]
    models = models + others[best][0]
    stages = ["witness", f"start {name}", f"ridge {ridges[best]:g}"]
    return WitnessFit(
        stages, models, output_losses(output, data), output, ridges[best], losses
    )


def _follow_path(
    folds: list[Fold],
    begin: list[Fitted],
    ridges: tuple[float, ...],
    options: Options,
    stop: bool = True,
) -> list[tuple[list[Fitted], np.ndarray]]:
    """Models of these folds and outputs (n, 2; halves where no fold holds the bag out) after every
    ridge; `stop` after two ridges that raise the held-out loss, or out of time.
    """
    if not folds:
        return [([], np.empty((0, 2)))] * len(ridges)
    data = folds[0].data
    parts = [(fold.train, fold.held) for fold in folds]
    models = begin
    points: list[tuple[list[Fitted], np.ndarray]] = []
    lowest = np.inf
    worse = 0
    for ridge in ridges:
        jobs = list(zip(models, parts))
        step = partial(_step_and_output, ridge=ridge)
        found = map_jobs(step, jobs, options.workers)
        models = [model for model, _ in found]
        output = np.full((data.size, 2), 0.5)
        for fold, (_, held) in zip(folds, found):
            output[fold.out] = held
        points.append((models, output))
        loss = _held_out_loss(data, folds, points[-1])
        # strictly above: under a strong ridge the loss hardly moves at first
        worse = worse + 1 if loss > (1 + PATH_STALL_SHARE) * lowest else 0
        lowest = min(loss, lowest)
        if stop and (worse == 2 or options.clock.over):
            break
    return points


def _step_and_output(
    job: tuple[Fitted, tuple[Data, Data]], ridge: float
) -> tuple[Fitted, np.ndarray]:
    model, (train, held) = job
    model = witness_step(model, train, ridge)
    return model, bag_answers(model, held.tokens, held.offsets).output


def _held_out_loss(
    data: Data, folds: list[Fold], point: tuple[list[Fitted], np.ndarray]
) -> float:
    rows = np.concatenate([fold.out for fold in folds])
    return float(np.average(output_losses(point[1], data)[rows], weights=data.weight[rows]))
