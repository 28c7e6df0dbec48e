"""What makes the sentences of beyond-02 false."""

from helpers.mutation import moved, replaced

KEEP = ("_least", "_along", "_regressed", "_figure")

MUTATIONS = (
    *replaced(
        "free",
        "gamma^2 instead of gamma^4",
        "_stated",
        lambda stated: (
            lambda g, s, L: g * g / (1 + g * g * (1 / (L - 1) + s * s / (L - 1 + g * g)))
        ),
    ),
    *replaced(
        "quadratic",
        "some quadratic statistic has a fifth less risk",
        "_regressed",
        lambda regressed: lambda *args: regressed(*args) * [[0.8], [1.0]],
    ),
    *replaced(
        "decay",
        "the risk falls like L/(L-1)/nu",
        "_along",
        lambda along: lambda task: along(task) / (task.length - 1),
    ),
    *replaced(
        "absent",
        "1/risk at nu = 0 is L",
        "_along",
        lambda along: lambda task: along(task) / (task.length - 1),
    ),
    *moved("quoted", "OVER_QUOTED", entry=1),
    *moved("quoted", "OVER_QUOTED", entry=2),
)
