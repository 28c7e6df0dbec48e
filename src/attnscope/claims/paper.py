"""A paper and what it says, in our words, with its place and how that is known.

We have not had the full texts: where a number is known from reviews, slides or an abstract only,
`known` says so, and a place without a number says that none is known.

Papers are announced by packages (plugins.py, group attnscope.papers) as a module or object with

    PAPERS      {key: Paper}
    STATEMENTS  {"key/word": Statement}, the key that of its paper

A key is taken once: a plugin that repeats one is left out, with a sentence in `broken`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from attnscope import plugins
from attnscope.errors import AttnscopeError

__all__ = [
    "ABSTRACT",
    "QUOTED",
    "README",
    "SECOND",
    "SLIDES",
    "Paper",
    "PaperList",
    "Statement",
    "known_papers",
]

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


class PaperList(NamedTuple):
    """Papers and statements by key; origins: the package and version that brings a paper; broken: a
    sentence for each entry point that was left out.
    """

    papers: dict[str, Paper]
    statements: dict[str, Statement]
    origins: dict[str, str]
    broken: list[str]


def known_papers() -> PaperList:
    """The papers of attnscope and of the installed plugins.

    >>> known_papers().papers["A"].name
    'Marion et al. 2025'
    """
    return _papers_on_path(tuple(sys.path))


@lru_cache(maxsize=plugins.PATHS_KEPT)
def _papers_on_path(path: tuple[str, ...]) -> PaperList:
    found = PaperList({}, {}, {}, [])
    for point in plugins.announced(plugins.PAPERS):
        try:
            with point.guarded("a module of papers"):
                papers, statements = _tables_of(point)
            taken = [
                key
                for key in (*papers, *statements)
                if key in found.papers | found.statements
            ]
            if taken:
                raise point.refusal(f"{taken[0]}, which is taken", "papers with new keys")
        except AttnscopeError as error:
            found.broken.append(str(error))
            continue
        found.papers.update(papers)
        found.statements.update(statements)
        found.origins.update(dict.fromkeys(papers, point.origin))
    return found


def _tables_of(
    point: plugins.EntryPoint,
) -> tuple[Mapping[str, Paper], Mapping[str, Statement]]:
    """PAPERS and STATEMENTS of an entry point, checked."""
    loaded = point.load()
    papers: Any = getattr(loaded, "PAPERS", None)
    statements: Any = getattr(loaded, "STATEMENTS", None)
    right = (
        isinstance(papers, Mapping)
        and isinstance(statements, Mapping)
        and all(isinstance(paper, Paper) for paper in papers.values())
        and all(
            isinstance(said, Statement) and said.paper in papers
            for said in statements.values()
        )
    )
    if not right:
        must = "a module with PAPERS (Paper by key) and STATEMENTS (Statement by key)"
        raise point.refusal(type(loaded).__name__, must)
    return papers, statements
