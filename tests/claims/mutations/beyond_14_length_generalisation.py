"""What makes the sentences of beyond-14 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = (
    "_train_model",
    "length_samples",
    "_exact_excess",
    "_weights",
    "_best_excess",
    "risk_given_scores",
    "logit_ratio",
    "_figure",
)

REBUILT = {
    **dict.fromkeys(
        (
            "block, fixed inverse temperature: weight of the informative token",
            "block, log L inverse temperature: weight of the informative token",
            "block, fixed temperature: weight of the informative token",
            "block, log L temperature: weight of the informative token",
        ),
        "rounding decides how a block of JAX trains: other processors give other digits",
    ),
    "simplified, s = 5.5, log L temperature: risk": (
        "the risk given scores, sampled over scores: the tolerance was 0.57 of the prediction"
    ),
    "simplified, s = 4, log L temperature: risk": (
        "the risk given scores, sampled over scores: the tolerance was 0.57 of the prediction"
    ),
}


def _no_repair(sampled):
    """log L has no effect."""
    return lambda *args: (lambda found: {False: found[False], True: found[False]})(
        sampled(*args)
    )


def _all_repaired(sampled):
    """log L brings back the risk and the weight of 16 tokens, whatever the signal."""

    def found(*args):
        curves = sampled(*args)
        short = lambda x: np.repeat(x[:, :1], x.shape[1], axis=1)
        cold = curves[False]
        return {
            False: cold,
            True: cold._replace(excess=short(cold.excess), weight=short(cold.weight)),
        }

    return found


def _kept(exact):
    """The risk of 16 tokens at every length."""
    return lambda *args: (lambda x: np.repeat(x[:, :1], x.shape[1], axis=1))(exact(*args))


MUTATIONS = (
    *moved("short", "SHORT_RISK", up=False, by=0.2),
    *replaced(
        "short",
        "attention is diluted at 16 tokens too",
        "_exact_excess",
        lambda exact: (
            lambda *args: (lambda x: np.repeat(x[:, -1:], x.shape[1], axis=1))(exact(*args))
        ),
    ),
    *moved("long", "LONG_RISK"),
    *replaced("long", "attention keeps its risk", "_exact_excess", _kept),
    *replaced("curve-strong", "attention keeps its risk", "_exact_excess", _kept),
    *replaced("curve-weak", "attention keeps its risk", "_exact_excess", _kept),
    *replaced("block-curve", "blocks keep their weight", "_weights", _kept),
    *replaced(
        "less",
        "blocks lose as much weight as the simplified predictor",
        "_weights",
        lambda weights: lambda *args: weights(*args) - 0.4,
    ),
    *replaced(
        "logits",
        "logits train to the same size",
        "logit_ratio",
        lambda ratio: lambda *args: ratio(*args) / 2,
    ),
    *replaced("repair-simplified", "log L has no effect", "length_samples", _no_repair),
    *replaced("repair-block", "log L has no effect", "length_samples", _no_repair),
    *replaced(
        "weak-log", "log L repairs whatever the signal", "length_samples", _all_repaired
    ),
    *replaced(
        "weak-any",
        "some inverse temperature repairs at s = 4",
        "_best_excess",
        lambda best: lambda task: best(task) / 10,
    ),
)
