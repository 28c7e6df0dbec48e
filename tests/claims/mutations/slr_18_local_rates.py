"""What makes the sentences of slr-18 false."""

from helpers.mutation import moved, replaced

KEEP = ("_train", "_escape_from_small")
RATES = "attnscope.dynamics.rates:predicted_rate"


def _slower(predicted):
    return lambda *args: predicted(*args)._replace(decay=0.95 * predicted(*args).decay)


MUTATIONS = (
    *replaced("oracle-manifold", "the rate is 5 % lower than the Hessian's", RATES, _slower),
    *replaced("oracle-sphere", "the rate is 5 % lower than the Hessian's", RATES, _slower),
    *replaced("swapped-sphere", "the rate is 5 % lower than the Hessian's", RATES, _slower),
    *moved("half-life", "HALF_LIFE"),
    *replaced(
        "half-life",
        "the rate does not depend on the inverse temperature",
        "_train",
        lambda train: lambda lam, *args: train(min(lam, 0.08), *args),
    ),
    *replaced(
        "escape",
        "the overlaps grow as exp(2 alpha mu t)",
        "_escape_from_small",
        lambda drawn: (
            lambda *args: drawn(*args)._replace(predicted=drawn(*args).predicted / 2)
        ),
    ),
    *moved("negative", "NEGATIVE_EIGENVALUE"),
)
