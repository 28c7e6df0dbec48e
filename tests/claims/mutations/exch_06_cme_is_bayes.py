"""What makes the sentences of exch-06 false."""

from helpers.mutation import moved, replaced

KEEP = ("_errors",)


def _growing(ridge):
    """A ridge in proportion to the length, right at L = 10."""
    return lambda task, length: ridge(task, length) * length / 10


MUTATIONS = (
    *(
        replaced(
            f"mean-{name}",
            "the ridge is 1 % larger",
            "_ridge",
            lambda ridge: lambda task, length: 1.01 * ridge(task, length),
        )[0]
        for name in ("identity", "cosines", "harmonics")
    ),
    *replaced("mean-identity", "the ridge grows with the length", "_ridge", _growing),
    *replaced(
        "risk",
        "the squared error is 20 % above Bayes",
        "_errors",
        lambda errors: lambda *args: (1.2 * errors(*args)[0], errors(*args)[1]),
    ),
    *replaced(
        "variance-identity",
        "the variance lacks 1 % of the prior's part",
        "cme_variance",
        lambda variance: lambda *args, **ridge: 0.99 * variance(*args, **ridge),
    ),
    *moved("coverage", "COVERAGE"),
)
