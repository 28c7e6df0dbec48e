"""What makes the sentences of around-12 false."""

from types import SimpleNamespace

import numpy as np
from helpers.mutation import moved, replaced

KEEP = (
    "_right_tokens",
    "_three_class_regrets",
    "_same_contexts",
    "_curve",
    "_squared_cost",
    "_figure",
)
WHY = "both inverse temperatures on the same contexts, in place of independent ones"
REBUILT = {
    "class 2, L = 10: regret at 5 less that at 3": WHY,
    "class 2, L = 30: regret at 5 less that at 3": WHY,
}


def _one_class(curve):
    """Every class has the regrets of class 1."""
    return lambda L: np.repeat(curve(L)[:, :1], 3, axis=1)


def _sharper_is_better(differences):
    """A larger inverse temperature costs nothing."""
    return lambda *args: [(0.0, error) for _, error in differences(*args)]


def _other_regrets(factor):
    return lambda leaky: lambda *args: factor * leaky(*args)


def _floor(regret):
    """Attention keeps a regret of 0.01 for ever."""
    return lambda *args: SimpleNamespace(value=regret(*args).value + 0.01)


MUTATIONS = (
    *moved("vanishes", "RATE"),
    *replaced("vanishes", "a regret that does not vanish", "decision_regret", _floor),
    *replaced(
        "right",
        "regrets 20 % larger",
        "_right_tokens",
        lambda drawn: lambda *args: (1.2 * drawn(*args)[0], drawn(*args)[1]),
    ),
    *moved("keeps", "NORMAL_REGRET"),
    *moved("keeps", "MEAN_REGRET", by=0.01),
    *moved("passes", "PASSING_TOKENS", by=0.01),
    *replaced("below", "a regret that does not vanish", "decision_regret", _floor),
    *replaced("sum-30-3", "regrets 20 % larger", "_three_class_regrets", _other_regrets(1.2)),
    *replaced("sum-10-0", "regrets 20 % larger", "_three_class_regrets", _other_regrets(1.2)),
    *replaced("finite-10", "sharper costs nothing", "_same_contexts", _sharper_is_better),
    *replaced("finite-30", "sharper costs nothing", "_same_contexts", _sharper_is_better),
    *replaced("best", "every class is like class 1", "_curve", _one_class),
    *moved("best", "BEST_INVERSE_TEMPERATURES", entry=0, by=0.1),
    *moved("best", "BEST_INVERSE_TEMPERATURES", entry=1, by=0.1),
    *replaced("class", "every class is served alike", "_same_contexts", _sharper_is_better),
    *moved("class", "LOST_BY_OTHER", entry=0),
    *replaced(
        "squared",
        "the label's noise is not paid",
        "softmax_curve",
        lambda curve: lambda *args: SimpleNamespace(value=curve(*args).value - 0.25),
    ),
)

REBUILT |= dict.fromkeys(
    (
        "right tokens: closed form and sum",
        "normal forecast",
        "mean forecast",
    ),
    "left out: no sentence names it",
)
