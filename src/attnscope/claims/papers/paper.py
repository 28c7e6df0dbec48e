"""A paper and what it says, in our words, with its place and how that is known.

We have not had the full texts: where a number is known from reviews, slides or an abstract only,
`known` says so, and a place without a number says that none is known.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ABSTRACT", "QUOTED", "README", "SECOND", "SLIDES", "Paper", "Statement"]

SECOND = "second-hand: public reviews"
README = "the authors' README and configuration"
SLIDES = "the authors' slides"
ABSTRACT = "abstract and public summaries"
QUOTED = "second-hand: as quoted in reviews"


@dataclass(frozen=True)
class Paper:
    """A paper, its short name, and the version we speak of."""

    name: str
    title: str
    version: str


@dataclass(frozen=True)
class Statement:
    """What a paper says, in our words; `place` and how it is known.

    missing: why no claim checks it, where none does.
    """

    paper: str
    place: str
    known: str
    says: str
    missing: str = ""
