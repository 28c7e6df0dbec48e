"""What makes the sentences of beyond-06 false."""

import numpy as np
from helpers.mutation import moved, replaced
from scipy.special import softmax

KEEP = ("best_softmax", "_sampled_regret", "_figure")


def _by_softmax(kind):
    """Inclusion probabilities m times those of a single token: what one softmax head weighs by."""

    class Wrong(kind):
        def posterior(self, tokens):
            g2 = self.gamma**2
            square = (1 / g2 - 1) / 2 * np.sum(tokens * tokens, axis=2)
            return 3 * softmax(self.signal / g2 * (tokens @ self.key) - square, axis=1)

    return Wrong


MUTATIONS = (
    *replaced(
        "inclusion", "inclusion probabilities are m softmax", "MultiLocation", _by_softmax
    ),
    *replaced(
        "one",
        "softmax has its posterior at s^2",
        "_softmax_risk",
        lambda risk: lambda task, lam: risk(task, lam**2),
    ),
    *moved("risk", "PUBLISHED_RISKS", entry=1),
    *moved("regret", "REGRET"),
    *replaced(
        "regret",
        "one head attains the Bayes risk at m = 2",
        "_sampled_regret",
        lambda drawn: lambda *args: (0.0, drawn(*args)[1]),
    ),
    *moved("best-at", "BEST_INVERSE_TEMPERATURE"),
    *replaced(
        "best-at",
        "the best inverse temperature is s",
        "best_softmax",
        lambda best: lambda task: (task.signal, best(task)[1]),
    ),
    *moved("decay", "EXPONENT"),
    *replaced(
        "decay",
        "the best risk falls exponentially",
        "best_softmax",
        lambda best: lambda task: (best(task)[0], np.exp(-task.signal)),
    ),
    *replaced(
        "sigmoid",
        "sigmoid attention has 1 % more risk",
        "_sigmoid",
        lambda sigmoid: lambda task: 1.01 * sigmoid(task),
    ),
)

REBUILT = dict.fromkeys(
    (
        "Bayes risk, m = 2: posterior variance and squared error",
        "best softmax head, m = 2, sampled",
        "regret of the best softmax head, m = 2",
    ),
    "left out: no sentence names it",
)
