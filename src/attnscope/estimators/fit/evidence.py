"""How strongly held-out labels support one deciding token, and the mean token.

    token     the model's loss is below the loss of a constant
    mean      the mean token's loss is below the loss of a constant
    lead      the model's loss is below the lower of these two
    density   the labels' log density under the mixture over tokens is above the log density of a
              constant and of the mean token,   log f(y) = log sum_l p_l N(y; w_l, noise + u)
    gate      the log density is above that with equal weights p_l = 1/L: the features show which
              token decides

Each number is a mean over bags in units of its standard error. A label near the value of ONE token
of its bag has a high density even if the weights p do not show which token. Squared error does not
reveal this, because it depends on the mean of the mixture only. For classes the density is the
probability of the label.

notation: p_l weights, w_l values, u the bag's uncertainty of values (ridge.py). The standard errors
are over bags, given the folds. They do not include that the model was chosen by the same losses, so
diagnose.py asks for a few standard errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.estimators.fit.data import Data, label_log_density
from attnscope.estimators.fit.folds import Fold, gain_and_error
from attnscope.estimators.fit.held_out import Track
from attnscope.estimators.fit.mixture import (
    Fitted,
    bag_answers,
    constant_output,
    output_losses,
)
from attnscope.estimators.fit.pooled import Pooled
from attnscope.numerics.compiled.data_pass import GAUSSIAN, MIXTURE, bag_max, bag_sum

__all__ = ["evidence", "evidence_of", "held_out_densities", "log_densities"]

MAX_STANDARD_ERRORS = 1e3  # reported where every bag gains the same


def log_densities(fitted: Fitted, data: Data) -> np.ndarray:
    """log f of each label in standardised units (n, 2): with the model's weights, and with equal
    weights. Soft and witness models have no mixture: both columns are the density about the output.
    """
    answers = bag_answers(fitted, data.tokens, data.offsets)
    if fitted.combine != MIXTURE:
        if data.family == GAUSSIAN:
            one = _normal_log_density(data.labels - answers.output[:, 0], answers.spread**2)
        else:
            one = -output_losses(answers.output, data)
        return np.column_stack([one, one])
    labels = data.per_token(data.labels)
    if data.family == GAUSSIAN:
        width = data.per_token(fitted.values.noise + answers.unsure)
        each = _normal_log_density(labels - answers.value[:, 0], width)
    else:
        each = label_log_density(labels, answers.value, data.family, 1.0)
    equal = -np.log(data.per_token(data.lengths))
    weighted = np.log(np.maximum(answers.weight, 1e-300))
    return np.column_stack([_log_sums(each + w, data) for w in (weighted, equal)])


def _log_sums(x: np.ndarray, data: Data) -> np.ndarray:
    top = bag_max(x, data.offsets)
    return top + np.log(bag_sum(np.exp(x - data.per_token(top)), data.offsets))


def held_out_densities(folds: list[Fold], track: Track) -> np.ndarray:
    """Log densities (n, 2) of every bag under the model of the fold that holds it out."""
    out = np.empty((folds[0].data.size, 2))
    for fold, model in zip(folds, track.models):
        out[fold.out] = log_densities(model, fold.held)
    return out


def evidence(
    data: Data, losses: np.ndarray, densities: np.ndarray, pooled: Pooled | None
) -> dict[str, float]:
    """All five numbers, from the model's losses (n,) and log densities (n, 2). pooled=None: there is
    no mean token to compare with.
    """
    nothing = output_losses(constant_output(data), data)
    flat = _without_tokens(data, nothing)
    best = nothing
    densest = flat
    if pooled is not None:
        if data.average(pooled.losses) < data.average(nothing):
            best = pooled.losses
        smooth = -pooled.losses
        if data.family == GAUSSIAN:
            smooth = _normal_log_density(data.labels - pooled.output[:, 0], pooled.spread**2)
        if data.average(smooth) > data.average(flat):
            densest = smooth
    return {
        "token": _gain_in_errors(nothing - losses, data),
        "mean": 0.0 if pooled is None else _gain_in_errors(nothing - pooled.losses, data),
        "lead": _gain_in_errors(best - losses, data),
        "density": _gain_in_errors(densities[:, 0] - densest, data),
        "gate": _gain_in_errors(densities[:, 0] - densities[:, 1], data),
    }


def evidence_of(selected: Any, pooled: Pooled, data: Data) -> dict[str, float]:
    """The evidence of a selected fit, from its held-out losses, outputs and spreads."""
    density = getattr(selected, "density", None)
    if density is None:
        one = -selected.held_out
        if data.family == GAUSSIAN:
            one = _normal_log_density(data.labels - selected.output[:, 0], selected.spread**2)
        density = np.column_stack([one, one])
    return evidence(data, selected.held_out, density, pooled)


def _without_tokens(data: Data, losses: np.ndarray) -> np.ndarray:
    """Log densities of a model without tokens: numbers are normal about their mean."""
    if data.family != GAUSSIAN:
        return -losses
    variance = max(data.average(losses), 1e-300)
    return -0.5 * (losses / variance + np.log(2 * np.pi * variance))


def _gain_in_errors(gain: np.ndarray, data: Data) -> float:
    mean, error = gain_and_error(gain, data.weight, data.groups)
    if mean == 0:
        return 0.0
    return float(
        np.clip(mean / max(error, 1e-300), -MAX_STANDARD_ERRORS, MAX_STANDARD_ERRORS)
    )


def _normal_log_density(miss: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return -0.5 * (miss**2 / variance + np.log(2 * np.pi * variance))
