"""What makes the sentences of slr-03 false."""

from helpers.mutation import moved, replaced

KEEP = ("_least_squares", "_after_training")


MUTATIONS = (
    *replaced(
        "linear",
        "risk gamma^2 - gamma^4/L",
        "_linear_gain",
        lambda gain: lambda task: task.gamma**4 / task.length,
    ),
    *replaced(
        "gain",
        "the gain does not fall with L",
        "_linear_gain",
        lambda gain: lambda task: task.gamma**4 / (1 + task.gamma**2),
    ),
    *replaced(
        "dims",
        "the gain falls with d",
        "_linear_gain",
        lambda gain: lambda task: gain(task) * 2 / task.dim**0.5,
    ),
    *replaced(
        "small-net",
        "the smallest net does as well as the net written by hand",
        "_after_training",
        lambda trained: (
            lambda *args: (
                lambda tested, by_hand, attention: (
                    {**tested, 1: by_hand},
                    by_hand,
                    attention,
                )
            )(*trained(*args))
        ),
    ),
    *moved("parameters", "PARAMETER_RATIO"),
    *moved("attention-risk", "ATTENTION_RISK"),
    *replaced(
        "attention-risk",
        "attention is no better than the smallest net",
        "_after_training",
        lambda trained: (
            lambda *args: (
                lambda tested, by_hand, _: (tested, by_hand, (tested[1][0], *tested[1]))
            )(*trained(*args))
        ),
    ),
    *moved("linear-risk", "LINEAR_RISK"),
)
