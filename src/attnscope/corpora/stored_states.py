"""A few stored states of all-MiniLM-L6-v2, for machines without the encoder. The text claims then
check a smaller statement, and report that.

The file holds every third coordinate, rounded to 8 bits (of the largest magnitude at its layer and
coordinate), of sentences drawn with seed 0 at the embedding output and the last layer, and of the
single words of the lists at four layers. `tools/make_stored_states.py` writes it with
`token_states`.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from typing import NamedTuple

import numpy as np

from attnscope.corpora.installed import NotInstalled
from attnscope.corpora.minilm import LAYER_COUNT, TokenStates, token_states
from attnscope.corpora.sentences import (
    ANTONYMS,
    KIND_ADJECTIVES,
    SPLITS,
    UNKIND_ADJECTIVES,
    Sentences,
    antonym_pairs,
    draw_sentences,
)

__all__ = ["SplitStates", "WordStates", "split_states", "which_ran", "word_states"]

COORDINATE_STRIDE = 3  # keeps 128 of 384 coordinates
STORED_SEED = 0  # of the stored sentences, for any seed of the run
STORED_SENTENCE_COUNTS = dict.fromkeys(SPLITS, 60) | {"train": 120}
SENTENCE_LAYERS: tuple[int | str, ...] = (0, LAYER_COUNT)
WORD_LAYERS: tuple[int | str, ...] = ("static", 0, LAYER_COUNT // 2, LAYER_COUNT)
MAX_SIGNED_BYTE = 127  # of a signed byte


class SplitStates(NamedTuple):
    """Sentences of each split with their states at `layers`;
    reduced: "" if the encoder ran, otherwise a description of the stored states.
    """

    splits: dict[str, tuple[Sentences, TokenStates]]
    layers: tuple[int | str, ...]
    reduced: str


class WordStates(NamedTuple):
    """word: (layers, coordinates) of each word alone in its text; `reduced` as in SplitStates."""

    states: dict[str, np.ndarray]
    layers: tuple[int | str, ...]
    reduced: str


def split_states(sizes: dict[str, int], seed: int) -> SplitStates:
    """`sizes` sentences of each split, or the stored ones if the encoder is not installed."""
    layers = tuple(range(LAYER_COUNT + 1))
    try:
        token_states(["a"], [0])
    except NotInstalled as missing:
        stored = {name: _stored_split(name) for name in SPLITS}
        many = f"{STORED_SENTENCE_COUNTS['train']} training sentences and {STORED_SENTENCE_COUNTS['test']} per split"
        said = f"stored states of {many}, drawn with seed {STORED_SEED}, at layers 0 and {LAYER_COUNT}"
        return SplitStates(stored, SENTENCE_LAYERS, _reduced_sentence(said, missing))
    drawn = {name: draw_sentences(n, name, seed) for name, n in sizes.items()}
    splits = {name: (s, token_states(s.texts)) for name, s in drawn.items()}
    return SplitStates(splits, layers, "")


def word_states() -> WordStates:
    """Every word of the lists, each alone in its text."""
    words = words_of_claims()
    layers = ("static", *range(LAYER_COUNT + 1))
    try:
        found = [state[:, 1] for state in token_states(words, layers).states]
    except NotInstalled as missing:
        stored = _decode_states("words").transpose(1, 0, 2)
        names = ", ".join(str(layer) for layer in WORD_LAYERS)
        said = f"stored states of the same words at the depths {names}"
        return WordStates(
            dict(zip(words, stored)), WORD_LAYERS, _reduced_sentence(said, missing)
        )
    return WordStates(
        {word: state.astype(float) for word, state in zip(words, found)}, layers, ""
    )


def which_ran(reduced: str) -> str:
    """The sentence in a claim's notes about the source of its states."""
    return "Stored states: see the condition. " if reduced else "States by the encoder. "


def words_of_claims() -> list[str]:
    """The adjectives and the words of all pairs, sorted."""
    pairs = (pair for kind in ANTONYMS for pair in antonym_pairs(kind))
    return sorted(
        {*KIND_ADJECTIVES, *UNKIND_ADJECTIVES, *(word for pair in pairs for word in pair)}
    )


def encode_states(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States (layers, tokens, coordinates) as signed bytes, and the step (layers, 1, coordinates)
    of one unit.

    >>> codes, step = encode_states(np.array([[[2.54], [-1.0]]]))
    >>> codes.ravel(), step.ravel()
    (array([127, -50], dtype=int8), array([0.02], dtype=float32))
    """
    step = np.abs(states).max(axis=1, keepdims=True) / MAX_SIGNED_BYTE
    return np.rint(states / step).astype(np.int8), step.astype(np.float32)


def _reduced_sentence(said: str, missing: NotInstalled) -> str:
    return (
        f"reduced variant on {said}, every third coordinate, rounded to 8 bits, of this size with "
        f"--full too; for the whole claim: {missing}"
    )


def _stored_split(name: str) -> tuple[Sentences, TokenStates]:
    held = _stored_arrays()
    ends = np.cumsum(held[f"{name}/lengths"])[:-1]
    states = np.split(_decode_states(name).astype(np.float32), ends, axis=1)
    words = [part.tolist() for part in np.split(held[f"{name}/words"], ends)]
    spans = np.split(held[f"{name}/spans"].astype(int), ends)
    sentences = draw_sentences(STORED_SENTENCE_COUNTS[name], name, STORED_SEED)
    return sentences, TokenStates(states, words, spans)


def _decode_states(name: str) -> np.ndarray:
    """(layers, tokens, coordinates)"""
    held = _stored_arrays()
    return held[f"{name}/codes"] * held[f"{name}/step"].astype(float)


@cache
def _stored_arrays() -> dict[str, np.ndarray]:
    with (
        as_file(files("attnscope.corpora") / "stored_states.npz") as path,
        np.load(path) as held,
    ):
        return dict(held)
