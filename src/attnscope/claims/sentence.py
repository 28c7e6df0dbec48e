"""The statement of a claim as data: sentences whose assertions name the comparison that tests them.

A sentence is written with the Markdown notation of a link, [words](key):

    "[At inverse temperature 0.05 the swapped minimum has the lower risk](gap), and "
    "[the two risks cross at 0.0913](crossing)."

`words` is an assertion and `key` is the `Comparison.key` of the comparison that would fail if the
assertion were false; several keys are separated by commas. Words outside a link only connect the
assertions: they contain no number and claim nothing by themselves. A reader sees the sentence
without keys; the report shows for every assertion which comparison tests it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Assertion", "Sentence", "sentences_of"]

LINK = re.compile(r"\[([^\[\]]+)\]\(([a-z0-9][a-z0-9, -]*)\)")


@dataclass(frozen=True)
class Assertion:
    """Words of a sentence and the keys of the comparisons that test them; no keys for words that
    only connect.
    """

    words: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sentence:
    """One sentence, cut into its assertions and the words between them.

    >>> it = Sentence.parse("[The risk is 0.11](risk), so [erf locates](share, gap).")
    >>> it.text, it.keys
    ('The risk is 0.11, so erf locates.', ('risk', 'share', 'gap'))
    >>> Sentence.parse("Nothing is tied here.").keys
    ()
    """

    assertions: tuple[Assertion, ...]

    @staticmethod
    def parse(text: str) -> Sentence:
        """The sentence of a text with links."""
        found: list[Assertion] = []
        end = 0
        for link in LINK.finditer(text):
            if link.start() > end:
                found.append(Assertion(text[end : link.start()]))
            keys = tuple(key.strip() for key in link[2].split(",") if key.strip())
            found.append(Assertion(link[1], keys))
            end = link.end()
        if end < len(text) or not found:
            found.append(Assertion(text[end:]))
        return Sentence(tuple(found))

    @property
    def text(self) -> str:
        """The sentence as a reader sees it."""
        return " ".join("".join(part.words for part in self.assertions).split())

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the comparisons that test it, each once, in the order of the words."""
        return tuple(dict.fromkeys(key for part in self.assertions for key in part.keys))

    @property
    def loose(self) -> tuple[str, ...]:
        """The words that no comparison tests."""
        return tuple(part.words for part in self.assertions if not part.keys)


def sentences_of(statement: str | Sequence[str]) -> tuple[Sentence, ...]:
    """The sentences of a statement; a plain string is one sentence that names no comparison."""
    if isinstance(statement, str):
        return (Sentence((Assertion(statement),)),)
    return tuple(Sentence.parse(text) for text in statement)
