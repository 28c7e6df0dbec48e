"""What makes the sentences of beyond-15 false."""

from dataclasses import replace

import numpy as np
from helpers.mutation import moved, replaced

from attnscope.predictors.blocks.compared_models import DenseNet, GatedRecurrent

KEEP = ("_train_model", "_test_models", "_exact_excess", "layer_norm_floor", "_figure")


def _risk_of(kind, factor):
    """Models of a kind that end with another risk at the training length."""

    def change(train):
        def found(model, *args):
            history = train(model, *args)
            scale = factor if isinstance(model, kind) else 1.0
            return replace(history, excess=scale * history.excess)

        return found

    return change


def _far(name, risk):
    """Risks at the longest length that are others for one model."""

    def change(tested):
        def found(*args):
            long = tested(*args)
            excess = long[name].excess.copy()
            excess[:, -1] = risk
            return {**long, name: long[name]._replace(excess=excess)}

        return found

    return change


def _kept(exact):
    """The risk of the training length at every length."""
    return lambda *args: (lambda x: np.repeat(x[:, :1], x.shape[1], axis=1))(exact(*args))


MUTATIONS = (
    *replaced(
        "dense", "the dense net finds the token", "_train_model", _risk_of(DenseNet, 0.2)
    ),
    *replaced(
        "recurrent",
        "the recurrent unit does not learn at 32 tokens",
        "_train_model",
        _risk_of(GatedRecurrent, 10.0),
    ),
    *replaced(
        "recurrent-long",
        "the recurrent unit retrieves",
        "_test_models",
        _far("recurrent", 0.1),
    ),
    *moved("lost", "LOST_SHARE", by=0.2),
    *replaced("lost", "attention does not dilute", "_exact_excess", _kept),
    *replaced("curve", "attention does not dilute", "_exact_excess", _kept),
    *replaced("block", "the block does not retrieve", "_test_models", _far("block", 0.5)),
    *replaced(
        "above-blocks", "the block dilutes as much", "_test_models", _far("block", 0.25)
    ),
)
