"""What makes the sentences of slr-16 false."""

from helpers.mutation import moved, replaced

KEEP = ("_by_dimension", "_posterior", "_random_start", "_over_starts")


def _untrained(by_dimension):
    """Training that changes nothing."""
    return lambda *args: tuple(x[[0, 0]] for x in by_dimension(*args))


MUTATIONS = (
    *replaced(
        "random",
        "a random k finds the location twice as often",
        "_random_start",
        lambda start: lambda *args: tuple(2 * x for x in start(*args)),
    ),
    *moved("deviation", "DEVIATION"),
    *replaced(
        "deviation",
        "a random k finds the location more often in few dimensions",
        "_over_starts",
        lambda mean: lambda of, dim: mean(of, dim) * (1 + 0.1 / dim),
    ),
    *moved("accuracies", "ACCURACIES", entry=0),
    *moved("accuracies", "ACCURACIES", entry=1),
    *replaced("accuracies", "training changes nothing", "_by_dimension", _untrained),
    *moved("posteriors", "POSTERIORS", entry=0, by=0.06),
    *moved("posteriors", "POSTERIORS", entry=1),
    *moved("share-start", "SHARE_BEFORE"),
    *moved("share-end", "SHARE_AFTER"),
    *replaced("share-end", "training changes nothing", "_by_dimension", _untrained),
)
