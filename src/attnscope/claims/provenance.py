"""Where a claim comes from, as data: which paper says what, where, and how we know.

A `Statement` is something a paper says, in our words, with its place there. We have not had the
full texts: where a number is known from reviews, slides or an abstract only, `known` says so, and
a place without a number says that none is known. A claim names the statements that it checks and
its relation to them:

    same           the statement, checked unchanged
    sharpened      the statement with numbers, constants, rates or a condition that are ours
    contradicted   the statement fails as it stands
    new here       no statement of a paper; the ones named are what it is about

A formula of ours is attributed to nobody: `ours` says what a claim adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnscope.claims.paper import Paper, Statement, known_papers
from attnscope.errors import bad

__all__ = ["RELATIONS", "Paper", "Provenance", "Statement"]

RELATIONS = ("same", "sharpened", "contradicted", "new here")


@dataclass(frozen=True)
class Provenance:
    """Of one claim: the statements it checks or is about (keys of STATEMENTS in a paper's file), and what is ours.

    >>> Provenance("same", ("A/theorem-1",)).line
    'Marion et al. 2025, Theorem 1 (second-hand: public reviews)'
    >>> Provenance("new here").line
    'new here'
    """

    relation: str
    of: tuple[str, ...] = ()
    ours: str = ""

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise bad("relation", "Provenance", f"one of {RELATIONS}", self.relation)
        for key in self.of:
            if key not in known_papers().statements:
                raise bad("of", "Provenance", "keys of STATEMENTS of a paper", key)
        if self.relation != "new here" and not self.of:
            raise bad(
                "of", "Provenance", "a statement", "none", "'new here' where there is none"
            )

    @property
    def statements(self) -> tuple[Statement, ...]:
        return tuple(known_papers().statements[key] for key in self.of)

    @property
    def paper(self) -> str:
        """The key of the first paper, or "" where the claim is about none."""
        return self.statements[0].paper if self.of else ""

    @property
    def line(self) -> str:
        """One line for tables."""
        papers = known_papers().papers
        about = "; ".join(
            f"{papers[s.paper].name}, {s.place} ({s.known})" for s in self.statements
        )
        if self.relation == "new here":
            return f"new here; about {about}" if about else "new here"
        return f"{about}; new here: {self.ours}" if self.ours else about

    def record(self) -> dict[str, Any]:
        """For verdicts.json."""
        first = self.statements[0] if self.of else None
        paper = known_papers().papers[first.paper] if first else None
        return {
            "relation": self.relation,
            "paper": paper.title if paper else None,
            "version": paper.version if paper else None,
            "place": first.place if first else None,
            "known": first.known if first else None,
            "paraphrase": first.says if first else None,
            "statements": list(self.of),
            "ours": self.ours,
        }
