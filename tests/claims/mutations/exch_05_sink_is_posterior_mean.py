"""What makes the sentences of exch-05 false."""

from helpers.mutation import moved, replaced

KEEP = ("_risk",)


def _for_one_length(attend):
    """A sink whose logit is right at L = 10 only."""

    def mutated(task, x, sink):
        length = x.shape[-2]
        return attend(task, x, sink if sink is None else sink + 1e-6 * (length - 10))

    return mutated


MUTATIONS = (
    *replaced(
        "dense", "the logit is minus the logarithm", "_sink", lambda s: lambda t: -s(t)
    ),
    *replaced("posterior", "the logit is 0", "_sink", lambda s: lambda t: 0.0),
    *replaced("posterior", "the logit depends on the length", "_attend", _for_one_length),
    *replaced("sink", "the logit is 1 higher", "_sink", lambda s: lambda t: s(t) + 1),
    *replaced(
        "plain",
        "the risk of the mean is the noise variance d/(L + 1)",
        "_risk_of_mean",
        lambda risk: lambda task, L: risk(task, L + 1),
    ),
    *moved("without", "RATIO_WITHOUT_SINK", entry=1),
    *moved("without", "RATIO_WITHOUT_SINK", entry=64),
    *replaced(
        "without",
        "the sink makes no difference",
        "_risk",
        lambda risk: lambda task, L, n, sink, seed: risk(task, L, n, None, seed),
    ),
)
