"""What makes the sentences of beyond-02 false."""

from helpers.mutation import moved, replaced

KEEP = ("_least_risk_by_bfgs", "_least_risk_along_teachers", "_regression_error", "_figure")

MUTATIONS = (
    *replaced(
        "free",
        "gamma^2 instead of gamma^4",
        "_stated_risk",
        lambda stated: (
            lambda g, s, L: g * g / (1 + g * g * (1 / (L - 1) + s * s / (L - 1 + g * g)))
        ),
    ),
    *replaced(
        "quadratic",
        "some quadratic statistic has a fifth less risk",
        "_regression_error",
        lambda regressed: lambda *args: (lambda r, e: (0.8 * r, e))(*regressed(*args)),
    ),
    *replaced(
        "decay",
        "the risk falls like L/(L-1)/nu",
        "_least_risk_along_teachers",
        lambda along: lambda task: along(task) / (task.length - 1),
    ),
    *replaced(
        "absent",
        "1/risk at nu = 0 is L",
        "_least_risk_along_teachers",
        lambda along: lambda task: along(task) / (task.length - 1),
    ),
    *moved("quoted", "OVER_QUOTED", entry=1),
    *moved("quoted", "OVER_QUOTED", entry=2),
)

REBUILT = dict.fromkeys(
    (
        "R* against minimisation over k, v, c: 6 settings",
        "normalised linear attention, (L-1)/(L+nu)",
    ),
    "left out: no sentence names it",
)
