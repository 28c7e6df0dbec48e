"""What makes the sentences of beyond-11 false."""

import math

from helpers.mutation import moved, replaced

KEEP = ("_in_law", "_on_vectors", "_figure")


def _slower(alignment):
    """Cosines that approach 1 like 1/sqrt(alpha)."""
    return lambda task, alpha: alignment(task, math.sqrt(alpha))


def _again_the_value(drawn):
    """Reusing the samples gives the query the value's cosine."""

    def columns(*args):
        value, _, fresh, difference = drawn(*args)
        return [value, value, fresh, (value[0] - fresh[0], difference[1])]

    return columns


MUTATIONS = (
    *replaced("value", "1/sqrt(alpha)", "two_step_alignment", _slower),
    *replaced("query", "1/sqrt(alpha)", "two_step_alignment", _slower),
    *moved("at-two", "AT_TWO", entry=0),
    *moved("at-two", "AT_TWO", entry=1),
    *replaced("tangent", "1/sqrt(alpha)", "two_step_alignment", _slower),
    *replaced("value-decay", "1/sqrt(alpha)", "two_step_alignment", _slower),
    *moved("value-decay", "ALPHA_MISS", entry=0),
    *moved("query-decay", "ALPHA_MISS", entry=1),
    *moved("times", "TIMES_SMALLER"),
    *replaced(
        "times",
        "the query is no better than the value",
        "two_step_alignment",
        lambda alignment: lambda task, alpha: (alignment(task, alpha)[0],) * 2,
    ),
    *replaced(
        "reuse", "reused samples give the value again", "_on_vectors", _again_the_value
    ),
)

REBUILT = dict.fromkeys(
    (
        "cosine of the value, d = 200",
        "cosine of the query, same samples, d = 200",
        "cosine of the query, fresh samples, d = 200",
        "error of the summed tokens along the value",
        "error of the logsumexp along the query",
    ),
    "left out: no sentence names it",
)
