"""What makes the sentences of beyond-07 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = (
    "best_softmax",
    "_bayes_risk",
    "_sampled_losses",
    "_best_inverse_temperature",
    "_figure",
)


def _independent(spread):
    """The variance of independent weights of mean 1/m and shape a."""
    return lambda m, a: 1 / (m * a)


MUTATIONS = (
    *replaced(
        "slope",
        "the Bayes predictor of hidden weights is a tenth larger",
        "_sampled_losses",
        lambda drawn: lambda *args: drawn(*args) * [[1, 1], [1, 1], [1.1, 1.1], [1, 1]],
    ),
    *replaced(
        "rest",
        "the Bayes predictor of hidden weights is near the softmax head",
        "_sampled_losses",
        lambda drawn: lambda *args: np.add(drawn(*args), [[0, 0]] * 3 + [[0.5, 0]]),
    ),
    *replaced("bayes", "independent hidden weights", "_weight_variance", _independent),
    *replaced("softmax", "independent hidden weights", "_weight_variance", _independent),
    *replaced("exact", "independent hidden weights", "_weight_variance", _independent),
    *moved("added", "ADDED_RISK"),
    *replaced(
        "added",
        "hidden weights add nothing",
        "_softmax_risk",
        lambda exact: lambda m, a, lam: exact(m, 1e6, lam),
    ),
    *replaced(
        "same",
        "the best inverse temperature is larger at small a",
        "_best_inverse_temperature",
        lambda best: lambda m, a: 1.02 * best(m, a),
    ),
    *moved("best-at", "BEST_INVERSE_TEMPERATURE"),
)
