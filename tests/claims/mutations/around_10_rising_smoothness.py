"""What makes the sentences of around-10 false."""

from helpers.mutation import moved, replaced

KEEP = ("_variance_curve", "_paired_growth", "_figure", "product_spectrum")


def _more(share):
    """Predicted errors larger by a share."""
    return lambda curve: lambda *args: tuple((1 + share) * x for x in curve(*args))


def _one_coordinate(sampled):
    """Four coordinates alike have the error of one, relative to the trace."""

    def draw(law, trace, *rest):
        mean, error = sampled(law, trace, *rest)
        return (mean / 16.6 if len(law[0]) == 4 else mean), error

    return draw


MUTATIONS = (
    *(
        mutation
        for key in ("curve-1", "curve-8", "curve-32", "curve-alike")
        for mutation in replaced(key, "an error 10 % larger", "_curve", _more(0.1))
    ),
    *moved("saturates", "GROWTH"),
    *replaced(
        "sampled",
        "sampled errors grow by 2 %",
        "_paired_growth",
        lambda grown: lambda *args: (grown(*args)[0] + 0.02, grown(*args)[1]),
    ),
    *moved("sampled", "GROWTH_SAMPLED"),
    *replaced(
        "bound", "the trace alone, without 1 - G", "_slope", lambda G: lambda *args: 0.0
    ),
    *moved("alike", "EQUAL_EXCESS", entry=0, by=0.05),
    *moved("alike", "EQUAL_EXCESS", entry=3, by=0.05),
    *moved("alike-ratio", "EQUAL_RATIO"),
    *replaced(
        "alike-ratio", "more coordinates cost nothing", "_variance_curve", _one_coordinate
    ),
)
