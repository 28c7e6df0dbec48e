"""What makes the sentences of samples-07 false."""

from helpers.mutation import moved, replaced

KEEP = ("_fits", "_mean_pooling_rise", "_figure")


def exchanged(predicted):
    """The equation of the other key."""
    return lambda task, key, alpha: predicted(
        task, {"oracle": "mean", "mean": "oracle"}[key], alpha
    )


MUTATIONS = (
    *replaced(
        "oracle-risk", "the equation is that of the other key", "_predicted_curves", exchanged
    ),
    *replaced(
        "mean-risk", "the equation is that of the other key", "_predicted_curves", exchanged
    ),
    *replaced(
        "oracle-residual",
        "the equation is that of the other key",
        "_predicted_curves",
        exchanged,
    ),
    *replaced(
        "mean-residual",
        "the equation is that of the other key",
        "_predicted_curves",
        exchanged,
    ),
    *moved("oracle-stated", "ORACLE_RISKS", entry=0),
    *moved("oracle-stated", "ORACLE_RISKS", entry=-1),
    *moved("mean-stated", "MEAN_RISKS", entry=0),
    *moved("mean-stated", "MEAN_RISKS", entry=1),
    *replaced(
        "rise",
        "more bags do not hurt",
        "_mean_pooling_rise",
        lambda rises: lambda seed: 0 * rises(seed),
    ),
    *replaced(
        "rise",
        "the risk falls",
        "_mean_pooling_rise",
        lambda rises: lambda seed: -rises(seed),
    ),
)
