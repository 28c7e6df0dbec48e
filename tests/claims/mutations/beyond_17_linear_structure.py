"""What makes the sentences of beyond-17 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("word_states", "_alignment", "_figure")


def aligned(**changes):
    """Alignments whose arrays are changed."""
    return lambda alignment: (
        lambda *args: (
            lambda it: it._replace(
                **{name: change(getattr(it, name)) for name, change in changes.items()}
            )
        )(alignment(*args))
    )


MUTATIONS = (
    *moved("alignment", "ALIGNMENT", entry=0),
    *moved("alignment", "ALIGNMENT", entry=1),
    *moved("deviations", "DEVIATIONS"),
    *moved("other-alignment", "OTHER_ALIGNMENT"),
    *replaced(
        "alignment", "differences point anywhere", "_alignment", aligned(value=np.zeros_like)
    ),
    *replaced(
        "swaps", "differences point anywhere", "_alignment", aligned(value=np.zeros_like)
    ),
    *replaced(
        "repaired",
        "dealing the words anew changes nothing",
        "_alignment",
        aligned(repaired=lambda a: a + 0.15),
    ),
    *replaced(
        "others",
        "all opposites are equally aligned",
        "_alignment",
        aligned(value=np.ones_like),
    ),
    *replaced(
        "ordered",
        "a direction orders no better than chance",
        "_by_pairs",
        lambda order: lambda x: order(x) & (np.arange(len(x)) % 2 == 0),
    ),
)

REBUILT = dict.fromkeys(
    (
        "swap null: standard deviation of A, all layers",
        "re-pairing: sum of squared differences, all layers",
        "pairs put in order, mean of layers",
    ),
    "left out: no sentence names it",
)
