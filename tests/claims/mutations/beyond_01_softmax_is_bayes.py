"""What makes the sentences of beyond-01 false."""

from helpers.mutation import moved, replaced

KEEP = ("_figure", "_softmax_risk")


MUTATIONS = (
    *replaced(
        "spiked",
        "k = nu k* with the spike",
        "_spiked_lambda",
        lambda right: lambda task: right(task) ** 2,
    ),
    *moved("number", "PUBLISHED_RISK"),
    *replaced(
        "max-type",
        "k = sqrt(nu) k* with the max-type",
        "_max_lambda",
        lambda right: lambda task: right(task) ** 0.5,
    ),
    *moved("wrong", "WRONG_OVER_BAYES", by=1e-4),
    *replaced(
        "wrong", "the inverse temperature has no effect", "GAINS", lambda gains: (1.0,) * 4
    ),
    *moved("linear", "LINEAR_OVER_BAYES", entry=0),
    *moved("linear", "LINEAR_OVER_BAYES", entry=1),
)

REBUILT = dict.fromkeys(
    (
        "sampled softmax, spiked: 20 settings",
        "sampled softmax, max-type: 9 settings",
        "best of four wrong temperatures, L = 3, nu = 5",
    ),
    "left out: no sentence names it",
)
