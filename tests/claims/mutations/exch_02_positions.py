"""What makes the sentences of exch-02 false."""

import numpy as np
from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"


def _causal(attention):
    """Attention that weighs later tokens more."""

    def mutated(query, keys, values, *args):
        order = np.linspace(0.9, 1.1, np.shape(values)[-2])[:, None]
        return attention(query, keys, values * order, *args)

    return mutated


def _first_symbol_decides(task):
    """A label that the contents alone give: whether the first token is A or B."""

    class Other(task):
        def sample(self, *args):
            batch = super().sample(*args)
            # repeat one symbol where the label is +1
            content = batch.content.copy()
            content[batch.target > 0] = np.roll(content[batch.target > 0], 1, axis=-1)
            return batch._replace(content=content)

    return Other


def _no_positions(attach):
    """Positions that are all the same."""

    def mutated(content, positions=None, **width):
        return attach(content, None if positions is None else 0 * positions, **width)

    return mutated


MUTATIONS = (
    *replaced("permuted", "attention weighs later tokens more", "softmax_attention", _causal),
    *replaced("blind", "the contents give the label", "OrderTask", _first_symbol_decides),
    *moved("blind-mean", "BLIND_RISK"),
    *replaced(
        "blind-mean", "the contents give the label", "OrderTask", _first_symbol_decides
    ),
    *replaced(
        "seeing", "all tokens have the same position", "attach_positions", _no_positions
    ),
    *moved("seeing-mean", "SEEING_RISK"),
    *replaced(
        "seeing-mean", "all tokens have the same position", "attach_positions", _no_positions
    ),
)

REBUILT = {
    "digits: accuracy without positions": DROPPED,
    "digits: accuracy with positions, against pixels": DROPPED,
}
