"""What makes the sentences of exch-04 false."""

import numpy as np
from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("_merged_regrets", "_one_label")


def _taken_for(one, other, *fields):
    """The fields of the representation `one` are those of `other`."""

    def change(representation):
        def mutated(task, length, name, *labels):
            found = representation(task, length, name, *labels)
            wrong = representation(task, length, other, *labels)
            values = {field: getattr(wrong, field) for field in fields}
            return found._replace(**values) if name == one else found

        return mutated

    return change


def _no_denominator(merge_costs):
    """The cost p_i p_j |post_i - post_j|^2."""
    return lambda atoms: merge_costs(atoms) * (atoms.mass[:, None] + atoms.mass)


def _free_below(merge_costs):
    """Rare values can be merged without cost."""
    return lambda atoms: np.where(merge_costs(atoms) < 1e-6, 0.0, merge_costs(atoms))


MUTATIONS = (
    *replaced(
        "information",
        "the posterior carries less information",
        "representation",
        _taken_for("posterior", "map", "information"),
    ),
    *replaced(
        "order",
        "the order of the tokens has no entropy",
        "representation",
        _taken_for("counts", "tokens", "entropy"),
    ),
    *replaced(
        "drops",
        "the posterior has the entropy of the counts",
        "representation",
        _taken_for("posterior", "counts", "entropy"),
    ),
    *replaced(
        "split",
        "the split of the two symbols has no entropy",
        "representation",
        _taken_for("posterior", "counts", "entropy"),
    ),
    *(m for entry in range(3) for m in moved("values", "VALUES", entry=entry, by=0.01)),
    *replaced(
        "values",
        "the posterior separates all counts",
        "representation",
        _taken_for("posterior", "counts", "cells"),
    ),
    *replaced("merge-risks", "the cost has no denominator", "merge_costs", _no_denominator),
    *replaced(
        "merge-sequences", "the cost has no denominator", "merge_costs", _no_denominator
    ),
    *replaced("merges", "rare values merge without cost", "merge_costs", _free_below),
)

REBUILT = {
    "number of values of tokens, counts, posterior": DROPPED,
    "one label: atoms of the posterior": DROPPED,
    "one label: atoms of the law of y": DROPPED,
}
