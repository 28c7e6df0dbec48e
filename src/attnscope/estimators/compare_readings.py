"""Compare both readings of labels 0 and 1 (fit/readings.py) for a model that was fitted under one.

    held-out loss of "single" and of "witness", and the two numbers that indicate tokens of one kind
    (agreement, cosine)

A model fitted as "auto" has already compared them (`readings_`), or found that nothing is left to
compare. A model fitted as "single" is compared with the witness reading of the given bags, a model
fitted as "witness" with "single" fitted to them. The purpose is to find shortcuts: if tokens of
ANOTHER kind than those of class 1 are evidence for class 0, a model that uses them fails as soon as
they appear in bags of class 1 (Raff and Holt 2023). Held-out bags cannot show this, because they
contain the shortcut too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.folds import Fold, gain_and_error, make_folds
from attnscope.estimators.fit.held_out import Options
from attnscope.estimators.fit.mixture import Fitted
from attnscope.estimators.fit.readings import (
    MIN_AGREEMENT,
    MIN_COSINE,
    cosine,
    exchanged_class_models,
    gate_agreement,
)
from attnscope.estimators.fit.stages import MAX_COPY_BYTES
from attnscope.estimators.fit.witness import PROBE_RIDGE, fit_one_ridge, fit_witness
from attnscope.numerics.compiled.data_pass import BERNOULLI
from attnscope.progress import progress

__all__ = ["compare_readings", "reading_warning"]

MIN_CLASS_BAGS = 10  # with fewer bags of the rarer class there is nothing to compare
# by which one reading's held-out loss must be below the other's
READING_LEAD_STANDARD_ERRORS = 2.0
# below, the comparison takes about two seconds and shows no progress
QUIET_TOKEN_NUMBERS = 2e6
SHORTCUT_WARNING = (
    "One kind of token is evidence for the negative class: a shortcut, if such tokens may occur in "
    "positive bags later; try assumption='witness', which uses evidence for the positive class only."
)
WITNESS_WARNING = (
    "Read as witnesses, although evidence for the negative class would predict held-out labels "
    "better: if such tokens never occur in positive bags, try assumption='single'."
)
SINGLE_WARNING = (
    "Tokens of one kind decide for either class, and this reading predicts held-out labels better: "
    "try assumption='single'."
)


def compare_readings(
    model: Any, bags: Any, y: Any, groups: Any, data: Data
) -> dict[str, Any] | None:
    """Losses with standard errors, agreement and cosine. None if there is nothing to compare:
    numbers, other classes than 0 and 1, one token per bag, very few or very many bags.
    """
    if not hasattr(model, "cv_losses_") or not _is_comparable(model, data):
        return None
    found = getattr(model, "readings_", None)
    if found is not None and found["single"] is None:
        return None  # fit found that hardly anything is left to distinguish them by
    if found is not None:
        # older files have none
        doubt = found.get("error") or _independent_error(model.cv_losses_, model.cv_losses_)
        return found | {"error": doubt}
    quiet = bool(model.verbose) or data.tokens.size < QUIET_TOKEN_NUMBERS
    with progress(1, "both readings", disable=quiet):
        if model.assumption_ == "single":
            return _compare_with_witness(model, data)
        return _compare_with_single(model, bags, y, groups, data)


def reading_warning(model: Any, found: dict[str, Any] | None) -> list[str]:
    """A list of at most one warning."""
    if found is None:
        return []
    ahead = found["witness"] - found["single"]
    clear = ahead > READING_LEAD_STANDARD_ERRORS * found["error"]
    one_kind = found["agreement"] > MIN_AGREEMENT or (found["cosine"] or 0.0) > MIN_COSINE
    if model.assumption_ == "single":
        return (
            [SHORTCUT_WARNING]
            if clear and not one_kind and not _is_baseline_better(found)
            else []
        )
    if not clear:
        return []
    return [SINGLE_WARNING if one_kind else WITNESS_WARNING]


def _is_baseline_better(found: dict[str, Any]) -> bool:
    """Does a plain baseline predict held-out labels better than witnesses? Only fit knows the last two
    losses.
    """
    plain = [found.get(name) for name in ("mean_pool", "every_token", "mean_trees")]
    return any(loss is not None and loss < found["witness"] for loss in plain)


def _is_comparable(model: Any, data: Data) -> bool:
    if (
        data.family != BERNOULLI
        or data.tokens.nbytes > MAX_COPY_BYTES
        or data.lengths.max() == 1
    ):
        return False
    number = model.classes_.dtype.kind in "biuf"
    if not number or model.classes_.astype(float).tolist() != [0, 1]:
        return False
    ones = int(data.labels.sum())
    return min(ones, data.size - ones) >= MIN_CLASS_BAGS


def _compare_with_witness(model: Any, data: Data) -> dict[str, Any]:
    """The witness reading of these bags, compared with the model's own held-out loss."""
    folds, options = _folds_and_options(model, data)
    witness = fit_witness(data, folds, options)
    return {
        "chosen": "single",
        "single": float(model.cv_losses_.mean()),
        "witness": float(witness.losses.mean()),
        "mean_pool": float(model.cv_mean_pool_losses_.mean()),
        "error": _difference_error(model.cv_losses_, witness.losses, data.groups),
        "agreement": _exchanged_agreement(
            data, folds, options, witness.models, witness.ridge
        ),
        "cosine": cosine(model.fitted_, data),
    }


def _compare_with_single(
    model: Any, bags: Any, y: Any, groups: Any, data: Data
) -> dict[str, Any]:
    """The reading "single" of these bags, compared with the model's own held-out loss."""
    own = clone(model).set_params(assumption="single", interval="cross")
    single = own.fit(bags, y, groups=groups)
    folds, options = _folds_and_options(model, data)
    models, _ = fit_one_ridge(data, folds, options, PROBE_RIDGE)
    return {
        "chosen": "witness",
        "single": float(single.cv_losses_.mean()),
        "witness": float(model.cv_losses_.mean()),
        "error": _difference_error(model.cv_losses_, single.cv_losses_, data.groups),
        "agreement": _exchanged_agreement(data, folds, options, models, PROBE_RIDGE),
        "cosine": cosine(single.fitted_, data),
    }


def _folds_and_options(model: Any, data: Data) -> tuple[list[Fold], Options]:
    options = model._fit_options("diagnose")._replace(alpha_gate=None, say=lambda line: None)
    return make_folds(data, options.seed), options


def _exchanged_agreement(
    data: Data, folds: list[Fold], options: Options, models: list[Fitted], ridge: float
) -> float:
    others = exchanged_class_models(data, folds, options, ridge)
    return float(gate_agreement(data, folds, models, others)[0])


def _difference_error(own: np.ndarray, other: np.ndarray, groups: np.ndarray | None) -> float:
    """Standard error of a difference of mean losses, bag by bag. The model's own losses belong to the
    bags of its fit. If these are other bags of the same number, the pairs are independent, and the
    standard error of their differences is still right.
    """
    if len(own) != len(other):
        return _independent_error(own, other)
    return gain_and_error(own - other, np.ones(len(own)), groups)[1]


def _independent_error(*losses: np.ndarray) -> float:
    """Standard error of the difference of mean losses on different bags."""
    return float(np.sqrt(sum(np.var(x) / max(len(x) - 1, 1) for x in losses)))
