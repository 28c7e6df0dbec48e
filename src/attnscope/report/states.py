"""The states of verdicts on the page: a word, a sign and a colour each, counted apart."""

from __future__ import annotations

from collections.abc import Sequence

from attnscope.claims.verdict import WORDS, Verdict

__all__ = ["SIGNS", "counts", "short_id"]

# by kind; "" is a claim that this report did not run
SIGNS = {
    "holds": "✓",
    "condition": "◐",
    "declared": "≠",
    "unexpected": "!",
    "skipped": "–",
    "error": "✗",
    "": "·",
}


def counts(verdicts: Sequence[Verdict]) -> list[tuple[str, str, int]]:
    """(kind, word, how many) of each kind that occurs, in the order of WORDS."""
    kinds = [verdict.kind for verdict in verdicts]
    return [(kind, word, kinds.count(kind)) for kind, word in WORDS.items() if kind in kinds]


def short_id(claim_id: str) -> str:
    """A claim's family and number.

    >>> short_id("slr-02-closed-form-risk")
    'slr-02'
    """
    return "-".join(claim_id.split("-")[:2])
