"""What makes the sentences of around-07 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("own_first", "fitted_scores", "_risk_by_counts", "_long_document_scores", "_figure")


def _fit(change):
    """Fitted scores and groups changed."""
    return lambda fitted: lambda *args: change(fitted(*args))


def _no_difference(fit):
    """The same word counts like any word of its topic."""
    return fit._replace(groups=np.full(2, fit.groups.mean()))


def _uniform(fit):
    """Training does not leave uniform attention."""
    return fit._replace(scores=0 * fit.scores, groups=0 * fit.groups)


MUTATIONS = (
    *replaced(
        "smaller",
        "the same word scores like its topic",
        "fitted_scores",
        _fit(_no_difference),
    ),
    *moved("scores", "SCORES", entry=0, by=0.05),
    *moved("scores", "SCORES", entry=1, by=0.05),
    *replaced(
        "counts",
        "the other words of the topic are counted once less",
        "_risk_by_counts",
        lambda f: lambda c, word, topic: f(c, word, 0.9 * topic),
    ),
    *replaced(
        "risk",
        "attention without the scores of the topic",
        "_attention",
        lambda attend: lambda counts, word, topic: attend(counts, word, 0.0),
    ),
    *moved("bayes", "OVER_BAYES", up=False, by=0.1),
    *replaced("row", "training stays at uniform attention", "fitted_scores", _fit(_uniform)),
    *replaced(
        "fitted", "training stays at uniform attention", "fitted_scores", _fit(_uniform)
    ),
    *replaced(
        "long",
        "both scores tend to log(c T/(1-c))",
        "_limit",
        lambda limit: lambda c: np.log(c * 4 / (1 - c)),
    ),
)

REBUILT = dict.fromkeys(
    (
        "risk of uniform attention",
        "risk of the posterior",
    ),
    "left out: no sentence names it",
)
