"""What makes the sentences of around-14 false."""

import numpy as np
from helpers.mutation import moved, replaced

HEAD = "attnscope_claims.around.head_complexity"


KEEP = ("_inside_gain", "_suprema")


def _suprema(one, pooled=lambda L: 1.0):
    """Sampled complexities of heads and of sums times factors of the length."""

    def change(sampled):
        def draw(L, *rest):
            parts = zip(sampled(L, *rest), (one(L), pooled(L)))
            return tuple((mean * factor, error * factor) for (mean, error), factor in parts)

        return draw

    return change


def _ends(change):
    """The closed form changed: change(L, Q, value)."""
    return lambda ends: lambda L, Q: change(L, Q, ends(L, Q))


MUTATIONS = (
    *replaced(
        "closed-1",
        "tanh Q sqrt(2/pi) at length 1",
        f"{HEAD}:at_the_ends",
        _ends(lambda L, Q, x: np.tanh(Q) * x if L == 1 else x),
    ),
    *replaced("length-1", "complexity 5 % larger", "_suprema", _suprema(lambda L: 1.05)),
    *replaced(
        "closed-2",
        "length 2 is like length 1",
        f"{HEAD}:at_the_ends",
        _ends(lambda L, Q, x: np.sqrt(2 / np.pi) if L == 2 else x),
    ),
    *replaced("length-2", "complexity 5 % larger", "_suprema", _suprema(lambda L: 1.05)),
    *replaced(
        "largest",
        "the complexity grows with the length",
        "_suprema",
        _suprema(lambda L: L**0.5),
    ),
    *replaced(
        "falls",
        "the complexity grows with the length",
        f"{HEAD}:at_the_ends",
        _ends(lambda L, Q, x: x * L**0.2),
    ),
    *replaced(
        "approach",
        "the limit is sqrt(2/pi)",
        f"{HEAD}:limit",
        lambda limit: lambda Q: 0.79788,
    ),
    *moved("power", "APPROACH_POWER"),
    *moved("stated", "COMPLEXITY", entry=0, by=0.01),
    *moved("stated", "COMPLEXITY", entry=1, by=0.01),
    *moved("stated", "COMPLEXITY", entry=2, by=0.01),
    *moved("pooling", "POOLING_SLOPE"),
    *replaced(
        "pooling",
        "sum pooling does not grow",
        "_suprema",
        _suprema(lambda L: 1.0, lambda L: L**-0.5),
    ),
    *replaced(
        "bound",
        "the ends give 5 % more than the whole",
        f"{HEAD}:at_the_ends",
        _ends(lambda L, Q, x: 1.05 * x),
    ),
)

REBUILT = dict.fromkeys(
    (
        "complexity, L = 3",
        "length of the largest complexity",
    ),
    "left out: no sentence names it",
)
