"""Sentences as bags of token states, for estimators, with the location of the deciding token."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.corpora.minilm import TokenStates, token_states
from attnscope.corpora.sentences import Sentences
from attnscope.errors import bad

__all__ = ["TextBags", "bags_of_layer", "deciding_token", "text_bags"]


class TextBags(NamedTuple):
    """bags[i] (L_i, 384) float32, label (n,), location (n,) of the deciding token in its bag,
    words[i] the L_i word pieces.
    """

    bags: list[np.ndarray]
    label: np.ndarray
    location: np.ndarray
    words: list[list[str]]


def text_bags(
    sentences: Sentences, layer: int | str = "static", special: bool = False
) -> TextBags:
    """The sentences' token states at one layer, as bags with labels.

    `text_bags(draw_sentences(300), layer="static")` is a single-location classification problem:
    one static embedding decides.

    Args:
        sentences: as `draw_sentences` returns them.
        layer: "static", 0 (embedding output), 1 .. 6.
        special: keep [CLS] and [SEP], which are left out by default.

    >>> import attnscope as at
    >>> sentences = at.draw_sentences(300)  # doctest: +SKIP
    >>> len(at.text_bags(sentences, layer="static").bags)  # doctest: +SKIP
    300
    >>> at.text_bags(at.draw_sentences(2), layer=9)
    Traceback (most recent call last):
        ...
    attnscope.errors.AttnscopeError: layers of token_states must be a list of ..., got [9]; ...
    """
    if not isinstance(sentences, Sentences):
        raise bad(
            "sentences",
            "text_bags",
            "Sentences, whose deciding words are known",
            sentences,
            "draw_sentences(300), or token_states(texts) of texts of your own",
        )
    return bags_of_layer(sentences, token_states(sentences.texts, [layer]), 0, special)


def bags_of_layer(
    sentences: Sentences, states: TokenStates, row: int, special: bool = False
) -> TextBags:
    """The same from computed states; `row` is the index of the layer in the `layers` of token_states."""
    inner = slice(None) if special else slice(1, -1)
    location = deciding_token(sentences, states) - (0 if special else 1)
    bags = [state[row, inner] for state in states.states]
    return TextBags(bags, sentences.label, location, [words[inner] for words in states.words])


def deciding_token(sentences: Sentences, states: TokenStates) -> np.ndarray:
    """Number (n,) of the token, [CLS] counted, that begins where the deciding word begins."""
    if len(sentences.texts) != len(states.spans):
        raise bad(
            "states",
            "deciding_token",
            f"of {len(sentences.texts)} texts",
            f"{len(states.spans)} texts",
        )
    starts = [
        np.flatnonzero((s[:, 0] == a) & (s[:, 1] > a))
        for s, (a, _) in zip(states.spans, sentences.span)
    ]
    if any(len(found) != 1 for found in starts):
        raise bad(
            "states",
            "deciding_token",
            "of the sentences' own texts",
            "no token where the deciding word begins",
        )
    return np.concatenate(starts)
