"""What makes the sentences of beyond-09 false."""

from helpers.mutation import moved, replaced

KEEP = ("_row", "_bayes_risk", "_figure")


def _like(kind, other):
    """Rows in which one kind of attention does as another, on tokens too."""

    def changed(row):
        def found(*args):
            rows = row(*args)
            same = rows[other]._replace(on_tokens=rows[other].on_tokens or rows[other].risk)
            return {**rows, kind: same}

        return found

    return changed


MUTATIONS = (
    *replaced(
        "posterior",
        "without the term in |x|^2",
        "BayesSoftmax",
        lambda kind: lambda lam, bias, curvature=0.0: kind(lam, bias),
    ),
    *replaced(
        "posterior",
        "without bias and prior",
        "BayesSoftmax",
        lambda kind: lambda lam, bias, curvature=0.0: kind(lam, 0 * bias, curvature),
    ),
    *replaced(
        "attains",
        "the joint softmax does as heads of softmax-1 do",
        "_row",
        _like("Bayes-softmax", "softmax-1"),
    ),
    *moved("number", "BAYES_RISK"),
    *moved("own", "LEAST_LOSS", up=True, by=0.2),
    *replaced(
        "own",
        "plain heads do as the joint softmax",
        "_row",
        _like("plain heads", "Bayes-softmax"),
    ),
    *replaced(
        "gain",
        "softmax-1 gains as much without a bias",
        "_row",
        _like("softmax-1", "softmax-1, bias"),
    ),
    *replaced(
        "dropped",
        "priors are unequal",
        "_bias_effect",
        lambda effect: lambda name: effect("unequal"),
    ),
    *moved("needed", "NO_BIAS_RISK"),
    *replaced(
        "needed", "bias and prior have no effect", "_row", _like("no bias", "Bayes-softmax")
    ),
)

REBUILT = dict.fromkeys(
    (
        "Bayes-softmax: scores and tokens, 5 settings",
        "no bias: scores and tokens, 5 settings",
        "softmax-1, bias: scores and tokens, 5 settings",
        "softmax-1: scores and tokens, 5 settings",
        "plain heads: scores and tokens, 5 settings",
        "one head: scores and tokens, 5 settings",
        "alternatives below the Bayes-softmax",
        "gamma = 0.8, two outputs",
    ),
    "left out: no sentence names it",
)
