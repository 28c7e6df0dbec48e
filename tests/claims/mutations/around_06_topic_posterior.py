"""What makes the sentences of around-06 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("_errors", "_masked_fit", "_figure")


def _without_sink(attend):
    """The sink, the last key, gets the score of a word."""

    def attention(query, keys, *rest, **named):
        return attend(query, np.zeros_like(keys), *rest, **named)

    return attention


def _fit(change):
    """Fitted values changed: change(matrix, parts, shares) -> (matrix, parts)."""

    def apply(masked):
        def fitted(length, ridge, n, rng, *shares):
            matrix, parts, fit = masked(length, ridge, n, rng, *shares)
            found = change(fit.matrix, fit.parts, shares)
            return matrix, parts, fit._replace(matrix=found[0], parts=found[1])

        return fitted

    return apply


def _no_blocks(matrix, parts, shares):
    """Masked prediction learns the identity alone."""
    return 0.3 * np.eye(len(matrix)), parts


def _no_same_word(matrix, parts, shares):
    return matrix, parts * [0, 1, 1]


def _flat_blocks(matrix, parts, shares):
    return matrix, parts * [1, 0.7, 1]


def _always_same_word(matrix, parts, shares):
    """The same-word part does not come from words that are kept."""
    return matrix, parts + np.array([0.118 * bool(shares), 0, 0])


MUTATIONS = (
    *replaced("layer", "no sink of logit log(T alpha)", "softmax_attention", _without_sink),
    *replaced(
        "risk",
        "an error 1 % larger",
        "_errors",
        lambda errors: lambda *args: 1.01 * errors(*args),
    ),
    *replaced("pattern-20", "no blocks", "_masked_fit", _fit(_no_blocks)),
    *replaced("pattern-200", "no blocks", "_masked_fit", _fit(_no_blocks)),
    *replaced("parts-20", "no same-word part", "_masked_fit", _fit(_no_same_word)),
    *replaced("parts-200", "blocks of 0.7 times the size", "_masked_fit", _fit(_flat_blocks)),
    *replaced("stated", "no same-word part", "_masked_fit", _fit(_no_same_word)),
    *moved("stated", "SAME_TOPIC"),
    *replaced(
        "kept", "a same-word part without kept words", "_masked_fit", _fit(_always_same_word)
    ),
)
