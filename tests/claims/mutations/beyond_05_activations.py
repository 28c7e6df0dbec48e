"""What makes the sentences of beyond-05 false."""

from helpers.mutation import moved, replaced

KEEP = ("ranking", "_sampled_risks", "_biased_sigmoid", "_figure")


def _like(name, other):
    """The ranking in which one activation has the risk of another."""
    return lambda ranking: (
        lambda task: (lambda best: {**best, name: best[other]})(ranking(task))
    )


MUTATIONS = (
    *replaced(
        "bound",
        "relu is as good as softmax",
        "ranking",
        _like("relu", "softmax"),
    ),
    *replaced(
        "sigmoid",
        "the bias has no effect",
        "_biased_sigmoid",
        lambda biased: lambda task: 0.749053,
    ),
    *moved("star", "STAR_RISK"),
    *moved("odd", "ODD_RISK"),
    *replaced("odd", "erf is as good as sigma*", "ranking", _like("erf", "sigma*")),
    *replaced("bayes", "softmax is as softmax-1", "ranking", _like("softmax", "softmax-1")),
    *moved("softmax", "SOFTMAX_RISK"),
    *moved("softplus", "SOFTPLUS_RISK"),
    *replaced(
        "softplus",
        "normalisation alone is enough",
        "ranking",
        _like("softplus, normalised", "softmax"),
    ),
    *moved("exp", "EXP_RISK"),
    *replaced("exp", "growth alone is enough", "ranking", _like("exp", "softmax")),
)
