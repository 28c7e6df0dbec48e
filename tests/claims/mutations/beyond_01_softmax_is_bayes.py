"""What makes the sentences of beyond-01 false."""

from helpers.mutation import moved, replaced

from attnscope.tasks.planted.max_location import MaxLocation

KEEP = ("_sampled", "_figure", "_softmax_risk")


def _exchanged(right):
    """nu for the spike and sqrt(nu) for the max-type location."""
    return lambda task: (
        task.strength**0.5 if isinstance(task, MaxLocation) else task.signal**2
    )


MUTATIONS = (
    *replaced("spiked", "k = nu k* with the spike", "_inverse_temperature", _exchanged),
    *moved("number", "PUBLISHED"),
    *replaced(
        "max-type", "k = sqrt(nu) k* with the max-type", "_inverse_temperature", _exchanged
    ),
    *moved("wrong", "WRONG_OVER_BAYES", by=1e-4),
    *replaced(
        "wrong", "the inverse temperature has no effect", "GAINS", lambda gains: (1.0,) * 4
    ),
    *moved("linear", "LINEAR_OVER_BAYES", entry=0),
    *moved("linear", "LINEAR_OVER_BAYES", entry=1),
)
