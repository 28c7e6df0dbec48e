"""What of each paper is checked: every statement we know of, the claims on it, and what is missing.

A statement is checked by the claims whose relation to it is same, sharpened or contradicted.
A claim that is new here is about a statement and does not check it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnscope.claims.claim import Claim
from attnscope.claims.paper import Paper, Statement, known_papers
from attnscope.claims.registry import OWN
from attnscope.claims.verdict import Verdict
from attnscope.report.graph import dependents
from attnscope.report.states import short_id

__all__ = [
    "Mark",
    "Row",
    "Sheet",
    "coverage",
    "known_claims",
    "resting",
    "sentence",
    "unplaced",
]

NEW = "new here"
NOT_RUN = "not run in this report"


@dataclass(frozen=True)
class Mark:
    """A claim beside a statement; `kind` and `word` are its verdict's, "" if it did not run."""

    id: str
    short_id: str
    title: str
    relation: str
    kind: str
    word: str


@dataclass(frozen=True)
class Row:
    """A statement, the claims that check it, and those that are only about it."""

    key: str
    statement: Statement
    checked: tuple[Mark, ...]
    about: tuple[Mark, ...]

    @property
    def gap(self) -> str:
        """Why it is not checked; "" if it is."""
        if self.checked:
            return ""
        if self.statement.missing:
            return self.statement.missing
        return "not checked as it stands; new claims here are about it" if self.about else ""


@dataclass(frozen=True)
class Sheet:
    """A paper and its statements; origin: the plugin that brings it, with its version, "" for the
    papers of attnscope.
    """

    key: str
    paper: Paper
    rows: tuple[Row, ...]
    origin: str = ""

    @property
    def covered(self) -> int:
        """How many statements a claim checks."""
        return sum(bool(row.checked) for row in self.rows)


def known_claims(
    claims: Iterable[Claim], verdicts: Iterable[Verdict]
) -> dict[str, Claim | Verdict]:
    """Claims by id, as their verdicts where they ran."""
    return {claim.id: claim for claim in claims} | {v.id: v for v in verdicts}


def coverage(known: Mapping[str, Claim | Verdict]) -> list[Sheet]:
    """A sheet for each paper."""
    listed = known_papers()
    return [
        Sheet(
            key,
            paper,
            tuple(
                _row(name, statement, known)
                for name, statement in listed.statements.items()
                if statement.paper == key
            ),
            _plugin_of(listed.origins.get(key, "")),
        )
        for key, paper in listed.papers.items()
    ]


def _plugin_of(origin: str) -> str:
    return "" if origin.startswith(OWN) else origin


def unplaced(known: Mapping[str, Claim | Verdict]) -> list[Mark]:
    """The claims that are about no paper's statement."""
    return [_mark(claim) for claim in known.values() if not claim.provenance.of]


def resting(known: Mapping[str, Claim | Verdict]) -> list[tuple[Mark, list[Mark]]]:
    """Each claim that others rest on, with those that fall with it; most first."""
    fall = dependents({name: claim.rests_on for name, claim in known.items()})
    marks = {name: _mark(claim) for name, claim in known.items()}
    rows = [(marks[name], [marks[x] for x in above]) for name, above in fall.items() if above]
    return sorted(rows, key=lambda row: -len(row[1]))


def sentence(claims: Sequence[Claim]) -> str:
    """The counts for the README."""
    sheets = coverage(known_claims(claims, ()))
    told = []
    for sheet in sheets:
        checking = {mark.id for row in sheet.rows for mark in row.checked}
        if checking:
            check = "checks" if len(checking) == 1 else "check"
            told.append(
                f"{len(checking)} {check} {sheet.covered} of {len(sheet.rows)} known "
                f"statements of {sheet.paper.name}"
            )
    new = sum(claim.provenance.relation == NEW for claim in claims)
    return f"Of {len(claims)} claims, " + "; ".join(told) + f"; {new} are new here."


def _row(key: str, statement: Statement, known: Mapping[str, Claim | Verdict]) -> Row:
    marks = [_mark(claim) for claim in known.values() if key in claim.provenance.of]
    checked = tuple(mark for mark in marks if mark.relation != NEW)
    return Row(key, statement, checked, tuple(mark for mark in marks if mark.relation == NEW))


def _mark(claim: Claim | Verdict) -> Mark:
    kind = claim.kind if isinstance(claim, Verdict) else ""
    word = claim.word if isinstance(claim, Verdict) else NOT_RUN
    relation = claim.provenance.relation
    return Mark(claim.id, short_id(claim.id), claim.title, relation, kind, word)
