"""Labels 0 and 1 under both readings of fit/readings.py, for a model that was fitted under one.

    held-out loss of "single" and of "witness", and the signs of tokens of one kind (agreement,
    cosine)

A model fitted as "auto" has compared them (`readings_`), or seen that nothing is left to compare.
One fitted as "single" is compared with the witness reading of the bags at hand, one fitted as
"witness" with "single" fitted to them. What it is for is a shortcut: where tokens of ANOTHER kind
than those of class 1 speak for class 0, a model that listens to them is lost as soon as they turn
up in bags of class 1 (a poison; Raff and Holt 2023). Held-out bags cannot show that, for they hold
it too.
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
    AGREE,
    ALIKE,
    LOOK,
    against,
    cosine,
    gate_agreement,
)
from attnscope.estimators.fit.witness import at_one_ridge, fit_witness
from attnscope.numerics.compiled.data_pass import BERNOULLI
from attnscope.progress import progress

__all__ = ["both_readings", "reading_warning"]

LARGE = 2**28  # bytes of tokens beyond which no second fit is made, as in fit
FEWEST = 10  # bags of the rarer class: with fewer there is nothing to compare
CLEAR = 2.0  # standard errors by which one reading's held-out loss must be below the other's
SHORT = 2e6  # numbers in the tokens below which the comparison takes some two seconds
POISON = (
    "One kind of token speaks for the negative class: a shortcut, if it may turn up in positive "
    "bags later; try assumption='witness', which listens to tokens for the positive class only."
)
READ_AS_WITNESS = (
    "Read as witnesses although tokens that speak for the negative class would predict held-out "
    "labels better: if they never turn up in positive bags, try assumption='single'."
)
ONE_KIND = (
    "Tokens of one kind decide for either class, and read so they predict held-out labels better: "
    "try assumption='single'."
)


def both_readings(
    model: Any, bags: Any, y: Any, groups: Any, data: Data
) -> dict[str, Any] | None:
    """Losses with errors, and the signs; None where there is nothing to compare: numbers, more or
    other classes, one token a bag, very few or very many bags.
    """
    if not hasattr(model, "cv_losses_") or not _zero_one(model, data):
        return None
    found = getattr(model, "readings_", None)
    if found is not None and found["single"] is None:
        return None  # fit saw that hardly anything is left to tell them apart by
    if found is not None:
        # files written earlier have none
        doubt = found.get("error") or _apart(model.cv_losses_, model.cv_losses_)
        return found | {"error": doubt}
    quiet = bool(model.verbose) or data.tokens.size < SHORT
    with progress(1, "both readings", disable=quiet):
        if model.assumption_ == "single":
            return _beside_single(model, data)
        return _beside_witness(model, bags, y, groups, data)


def reading_warning(model: Any, found: dict[str, Any] | None) -> list[str]:
    """At most one sentence."""
    if found is None:
        return []
    ahead = found["witness"] - found["single"]
    clear = ahead > CLEAR * found["error"]
    one_kind = found["agreement"] > AGREE or (found["cosine"] or 0.0) > ALIKE
    if model.assumption_ == "single":
        return [POISON] if clear and not one_kind and not _alike(found) else []
    if not clear:
        return []
    return [ONE_KIND if one_kind else READ_AS_WITNESS]


def _alike(found: dict[str, Any]) -> bool:
    """Do all tokens alike predict held-out labels better than witnesses? The last two are asked by
    fit alone.
    """
    plain = [found.get(name) for name in ("mean_pool", "every_token", "mean_trees")]
    return any(loss is not None and loss < found["witness"] for loss in plain)


def _zero_one(model: Any, data: Data) -> bool:
    if data.family != BERNOULLI or data.tokens.nbytes > LARGE or data.lengths.max() == 1:
        return False
    number = model.classes_.dtype.kind in "biuf"
    if not number or model.classes_.astype(float).tolist() != [0, 1]:
        return False
    ones = int(data.labels.sum())
    return min(ones, data.size - ones) >= FEWEST


def _beside_single(model: Any, data: Data) -> dict[str, Any]:
    """The witness reading of these bags beside the model's own held-out loss."""
    folds, options = _folds(model, data)
    witness = fit_witness(data, folds, options)
    return {
        "chosen": "single",
        "single": float(model.cv_losses_.mean()),
        "witness": float(witness.losses.mean()),
        "mean_pool": float(model.cv_mean_pool_losses_.mean()),
        "error": _error(model.cv_losses_, witness.losses, data.groups),
        "agreement": _agreement(data, folds, options, witness.models, witness.ridge),
        "cosine": cosine(model.fitted_, data),
    }


def _beside_witness(model: Any, bags: Any, y: Any, groups: Any, data: Data) -> dict[str, Any]:
    """ "single" of these bags beside the model's own held-out loss."""
    own = clone(model).set_params(assumption="single", interval="cross")
    single = own.fit(bags, y, groups=groups)
    folds, options = _folds(model, data)
    models, _ = at_one_ridge(data, folds, options, LOOK)
    return {
        "chosen": "witness",
        "single": float(single.cv_losses_.mean()),
        "witness": float(model.cv_losses_.mean()),
        "error": _error(model.cv_losses_, single.cv_losses_, data.groups),
        "agreement": _agreement(data, folds, options, models, LOOK),
        "cosine": cosine(single.fitted_, data),
    }


def _folds(model: Any, data: Data) -> tuple[list[Fold], Options]:
    options = model._options("diagnose")._replace(alpha_gate=None, say=lambda line: None)
    return make_folds(data, options.seed), options


def _agreement(
    data: Data, folds: list[Fold], options: Options, models: list[Fitted], ridge: float
) -> float:
    others = against(data, folds, options, ridge)
    return float(gate_agreement(data, folds, models, others)[0])


def _error(own: np.ndarray, other: np.ndarray, groups: np.ndarray | None) -> float:
    """Standard error of a difference of mean losses, bag by bag. The model's own are of the bags it
    was fitted to: if those are others, as many of them, pairs are independent, and the spread of
    their differences is that of both.
    """
    if len(own) != len(other):
        return _apart(own, other)
    return gain_and_error(own - other, np.ones(len(own)), groups)[1]


def _apart(*losses: np.ndarray) -> float:
    """The same, as if their bags were different ones."""
    return float(np.sqrt(sum(np.var(x) / max(len(x) - 1, 1) for x in losses)))
