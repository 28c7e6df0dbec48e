"""What makes the sentences of slr-20 false."""

from helpers.mutation import moved, replaced

KEEP = ("measured", "cramer_rao")


def _last_pass(change):
    """`change` applied to the regrets (sizes, passes) of the runs."""

    def mutate(measured):
        def mutated(*args):
            seen = measured(*args)
            mean = seen.mean.copy()
            mean[:, -1] = change(mean)
            return seen._replace(mean=mean)

        return mutated

    return mutate


def _known_background(cramer_rao):
    """The limit of an estimator that knows the background and needs no intercept."""
    return lambda task, n, *unknown: cramer_rao(task, n)


MUTATIONS = (
    *replaced(
        "known-20", "passes gain nothing", "measured", _last_pass(lambda mean: mean[:, 0])
    ),
    *replaced(
        "known-40",
        "the regret is 20 % above the limit",
        "measured",
        _last_pass(lambda mean: 1.2 * mean[:, -1]),
    ),
    *replaced(
        "doubtful-40",
        "the regret is 20 % above the limit",
        "measured",
        _last_pass(lambda mean: 1.2 * mean[:, -1]),
    ),
    *replaced("doubtful-20", "the background is known", "cramer_rao", _known_background),
    *replaced("limit", "the background is known", "cramer_rao", _known_background),
    *moved("finite", "FINITE_RATIO"),
    *replaced(
        "finite",
        "least squares attains its limit at finite n",
        "excess_factor",
        lambda factor: lambda n: 1.0 + 0 * n,
    ),
    *moved("moments", "MOMENTS_LOG_RATIO"),
    *replaced(
        "moments",
        "moments are as good as one pass",
        "measured",
        lambda measured: (
            lambda *args: measured(*args)._replace(mean=measured(*args).mean[:, [1, 1, 2, 3]])
        ),
    ),
)
