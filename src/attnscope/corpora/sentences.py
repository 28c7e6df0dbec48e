"""Sentences in which one adjective decides the label: a neutral remark about a city, and a statement
about an animal.

    "There is a museum in Rome. The cat is happy."     label 1, deciding word "happy"

The label is 1 if the adjective is kind, 0 if it is unkind. Nothing else in the text depends on the
label, and the two classes are equally frequent. The design follows the probing experiment of Marion et al.
(ICLR 2025, section 2), with new words and sentences. Splits:

    train   32 + 32 adjectives, four structures (remark first), half of the pairs (animal,
        adjective)
    test   the same adjectives and structures, the other half of the pairs: no sentence of train
        occurs
    unseen adjectives   16 + 16 other adjectives
    unseen structure   adjectives of train in four other structures, two of them with the remark
        behind
    unseen both         other adjectives in other structures

Every adjective, animal and city is one word piece of BERT's vocabulary, so that "the deciding
token" is one token (tests/corpora/test_minilm.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check

__all__ = ["ANTONYMS", "SPLITS", "Sentences", "antonym_pairs", "draw_sentences"]


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


KIND_ADJECTIVES = _split_words(
    "happy good kind brave beautiful friendly gentle lovely clever charming healthy cheerful "
    "wonderful loyal sweet smart "
    "graceful elegant adorable pretty excellent brilliant nice pleasant perfect great amazing "
    "superb polite honest generous cute "
    # unseen in training from here on
    "delightful playful confident splendid magnificent fantastic lucky fabulous warm patient "
    "caring faithful noble gorgeous calm proud"
)
UNKIND_ADJECTIVES = _split_words(
    "sad bad cruel ugly hostile violent nasty stupid awful sick miserable terrible dangerous "
    "vicious mean dirty "
    "clumsy filthy horrible aggressive angry dreadful evil weak rude lazy selfish bitter wicked "
    "disgusting annoying pathetic "
    # unseen in training from here on
    "foul nervous scared lonely jealous savage grim fierce rotten hideous unpleasant unhappy "
    "brutal greedy weird sinister"
)
SEEN_ADJECTIVE_COUNT = 32  # of each list
ANIMALS = _split_words(
    "cat dog horse rabbit goat cow sheep duck fox bear wolf lion tiger monkey elephant parrot "
    "mouse donkey pig owl"
)
CITIES = _split_words(
    "Paris London Rome Berlin Madrid Vienna Tokyo Boston Dublin Oslo Cairo Lisbon Chicago Prague "
    "Athens Moscow"
)
REMARKS = (
    "{city} is a city.",
    "There is a museum in {city}.",
    "The train to {city} leaves at noon.",
    "{city} lies on a river and has an airport.",
    "We walked through the streets of {city} on Monday.",
    "Two roads and a railway lead from {city} to the coast.",
)
STRUCTURES = (
    "{remark} The {animal} is {adjective}.",
    "{remark} Our {animal} was {adjective} today.",
    "{remark} This {animal} looks {adjective} to me.",
    "{remark} I think that the {animal} seems {adjective}.",
)
OTHER_STRUCTURES = (
    "The {animal} is {adjective}. {remark}",
    "{remark} We met the {adjective} {animal} of our neighbours.",
    "Everybody knows the {adjective} {animal} behind the house. {remark}",
    "{remark} How {adjective} that {animal} is!",
)
# split: (adjectives unseen, structures other, parity of the pair (animal, adjective))
SPLITS = {
    "train": (False, False, 0),
    "test": (False, False, 1),
    "unseen adjectives": (True, False, 1),
    "unseen structure": (False, True, 1),
    "unseen both": (True, True, 1),
}
ANTONYMS = {
    "sentiment": (
        "happy sad, good bad, kind cruel, beautiful ugly, friendly hostile, gentle violent, clever "
        "stupid, healthy sick, clean dirty, "
        "polite rude, strong weak, generous greedy, rich poor, safe dangerous, fair unfair, useful "
        "useless, wonderful terrible, love hate, "
        "success failure, sweet bitter, excellent awful, best worst, win lose, friend enemy, joy "
        "grief, hope despair, peace war, "
        "victory defeat, praise blame, heaven hell, hero villain, lovely nasty"
    ),
    "other": (
        "big small, hot cold, long short, old new, fast slow, wide narrow, thick thin, heavy "
        "light, hard soft, wet dry, early late, "
        "open closed, full empty, deep shallow, high low, near far, up down, left right, north "
        "south, east west, day night, summer winter, "
        "above below, inside outside, first last, many few, loud quiet, rough smooth, front back, "
        "top bottom, black white, buy sell"
    ),
}


class Sentences(NamedTuple):
    """texts (n strings), label (n,) 0 or 1, word (n strings, the deciding one), span (n, 2):
    texts[i][span[i, 0]:span[i, 1]] == word[i].
    """

    texts: list[str]
    label: np.ndarray
    word: list[str]
    span: np.ndarray


def draw_sentences(n: int, split: str = "train", seed: int = 0) -> Sentences:
    """Draw n sentences of a split, half of each label (one more of label 0 if n is odd), in random
    order.

    Args:
        n: how many, >= 1.
        split: "train", "test", "unseen adjectives", "unseen structure" or "unseen both".
        seed: of the draw; splits are independent.

    >>> some = draw_sentences(2, "test", seed=3)
    >>> some.texts[0]
    'The train to Chicago leaves at noon. Our lion was awful today.'
    >>> some.label, some.word
    (array([0, 1]), ['awful', 'beautiful'])
    """
    n = check.integer(n, "n", "draw_sentences", 1)
    if split not in SPLITS:
        raise bad("split", "draw_sentences", "one of " + ", ".join(map(repr, SPLITS)), split)
    rng = np.random.default_rng(
        [check.seed_value(seed, "draw_sentences"), list(SPLITS).index(split)]
    )  # splits are independent
    label = rng.permutation(np.arange(n) % 2)
    rows = [_draw_sentence(rng, bool(y), *SPLITS[split]) for y in label]
    return Sentences(
        [r[0] for r in rows], label, [r[1] for r in rows], np.array([r[2] for r in rows])
    )


def _draw_sentence(
    rng: np.random.Generator, kind: bool, unseen: bool, other: bool, parity: int
) -> tuple[str, str, tuple[int, int]]:
    """(text, deciding word, its span)."""
    adjectives = KIND_ADJECTIVES if kind else UNKIND_ADJECTIVES
    a = int(
        rng.integers(SEEN_ADJECTIVE_COUNT, len(adjectives))
        if unseen
        else rng.integers(SEEN_ADJECTIVE_COUNT)
    )
    animal = ANIMALS[
        2 * rng.integers(len(ANIMALS) // 2) + (a + parity) % 2
    ]  # number of animal + a: even in train, odd elsewhere
    remark = REMARKS[rng.integers(len(REMARKS))].format(
        city=CITIES[rng.integers(len(CITIES))]
    )
    structures = OTHER_STRUCTURES if other else STRUCTURES
    structure = (
        structures[rng.integers(len(structures))]
        .replace("{remark}", remark)
        .replace("{animal}", animal)
    )
    start = structure.index("{adjective}")
    return (
        structure.format(adjective=adjectives[a]),
        adjectives[a],
        (start, start + len(adjectives[a])),
    )


def antonym_pairs(kind: str = "sentiment") -> list[tuple[str, str]]:
    """32 pairs of opposites.

    Args:
        kind: "sentiment" (the kind word first) or "other" (size, place, time: no sentiment).

    >>> antonym_pairs()[0], antonym_pairs("other")[0]
    (('happy', 'sad'), ('big', 'small'))
    """
    if kind not in ANTONYMS:
        raise bad("kind", "antonym_pairs", "'sentiment' or 'other'", kind)
    return [
        (first, second)
        for first, second in (pair.split() for pair in ANTONYMS[kind].split(", "))
    ]
