"""What the papers of a plugin must satisfy: PAPERS and STATEMENTS with new keys, a statement's key
that begins with that of its paper, and no empty text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from attnscope.claims.paper import Paper, Statement, known_papers
from attnscope.plugin_checks.claim_checks import broken_sentence
from attnscope.plugin_checks.record import CheckFailed, CheckRecord, checks
from attnscope.plugins import EntryPoint

__all__ = ["paper_records"]


def paper_records(point: EntryPoint) -> Iterator[CheckRecord]:
    """The checks of one module of papers."""
    steps = [
        ("statements belong to papers", lambda: _check_papers(point)),
        ("keys are new", lambda: broken_sentence(point, known_papers().broken)),
    ]
    yield from checks(point.origin, "papers", point.name, steps)


def _check_papers(point: EntryPoint) -> None:
    loaded = point.load()
    papers = getattr(loaded, "PAPERS", None)
    statements = getattr(loaded, "STATEMENTS", None)
    if not (isinstance(papers, Mapping) and isinstance(statements, Mapping)):
        raise point.refusal(type(loaded).__name__, "a module with PAPERS and STATEMENTS")
    for key, paper in papers.items():
        if not isinstance(paper, Paper):
            raise CheckFailed(f"PAPERS[{key!r}] is a {type(paper).__name__}, not a Paper.")
        _check_texts(f"PAPERS[{key!r}]", paper, ())
    for key, said in statements.items():
        if not isinstance(said, Statement):
            raise CheckFailed(
                f"STATEMENTS[{key!r}] is a {type(said).__name__}, not a Statement."
            )
        if said.paper not in papers:
            raise CheckFailed(
                f"STATEMENTS[{key!r}] is of {said.paper!r}, which PAPERS lacks."
            )
        if not key.startswith(f"{said.paper}/"):
            raise CheckFailed(
                f"the key {key!r} of a statement must begin with '{said.paper}/'."
            )
        _check_texts(f"STATEMENTS[{key!r}]", said, ("missing",))


def _check_texts(name: str, entry: Paper | Statement, may_be_empty: tuple[str, ...]) -> None:
    for field, text in asdict(entry).items():
        if field not in may_be_empty and not str(text).strip():
            raise CheckFailed(f"{name} has an empty {field}.")
