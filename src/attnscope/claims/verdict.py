"""What came of one claim, and running it.

A verdict holds whatever a reader needs to judge: the claim's words, the comparisons, the figure as
plain data, the seconds. `holds` is True, False or None (skipped). A check that raises is a verdict
too: it does not hold, is never as expected (even where the claim was declared to fail), and the
other claims go on.
"""

from __future__ import annotations

import os
import time
import traceback
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from attnscope.claims.claim import Claim, Comparison, Context, Evidence, Skipped
from attnscope.claims.provenance import Provenance
from attnscope.claims.sentence import Sentence
from attnscope.claims.table import Table
from attnscope.figures.figure import Figure
from attnscope.optional import NotInstalled

__all__ = ["REGISTRY", "Verdict", "broken_off", "run_claim", "run_named"]

REGISTRY = "attnscope.claims.registry"  # the module whose `listed_claims` lists the claims
COPIED = (
    "id",
    "title",
    "provenance",
    "expected",
    "condition",
    "sentences",
    "hypotheses",
    "routes",
    "snippet",
    "rests_on",
)
INFINITE = float("inf")  # detectable deviation of a prediction of zero without a scale
# the states of a verdict, in the order of reports
WORDS = {
    "holds": "holds",
    "condition": "holds under a condition",
    "declared": "fails, as declared",
    "unexpected": "unexpected",
    "skipped": "skipped",
    "error": "error",
}


@dataclass(frozen=True, eq=False)
class Verdict:
    """A claim after its check.

    Args:
        holds: None if skipped.
        seconds: of the check alone.
        comparisons, figure, notes, tables: as the check returned them; without any if it was
        skipped or raised. skipped: why, in words ("" if it ran).
        error: frames (file names without folders) and message of what the check raised ("" if
        nothing).
        origin: the package that brings the claim, with its version.

    predicted, measured, tolerance are those of the headline: the comparison that the claim names,
    or else the one nearest to breaking; None without any.
    """

    id: str
    title: str
    provenance: Provenance
    expected: bool
    condition: str
    sentences: tuple[Sentence, ...]
    hypotheses: str
    routes: tuple[str, str]
    snippet: str
    holds: bool | None
    seconds: float
    comparisons: tuple[Comparison, ...] = ()
    figure: Figure | None = None
    notes: str = ""
    skipped: str = ""
    error: str = ""
    rests_on: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    headline_key: str = ""
    origin: str = ""

    @property
    def statement(self) -> str:
        """The statement as a reader sees it."""
        return " ".join(sentence.text for sentence in self.sentences)

    @property
    def headline(self) -> Comparison | None:
        """The comparison the summary shows."""
        if self.figure is None:
            return None
        return Evidence(self.comparisons, self.figure).headline(self.headline_key)

    @property
    def predicted(self) -> float | None:
        return self.headline.predicted if self.headline else None

    @property
    def measured(self) -> float | None:
        return self.headline.measured if self.headline else None

    @property
    def tolerance(self) -> float | None:
        return self.headline.tolerance if self.headline else None

    @property
    def broken(self) -> tuple[Comparison, ...]:
        """The comparisons that do not hold."""
        return tuple(c for c in self.comparisons if not c.holds)

    @property
    def kind(self) -> str:
        """One of the names in WORDS."""
        if self.error:
            return "error"
        if self.holds is None:
            return "skipped"
        if self.holds != self.expected:
            return "unexpected"
        if not self.holds:
            return "declared"
        return "condition" if self.condition else "holds"

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        return WORDS[self.kind]

    @property
    def as_expected(self) -> bool:
        """Whether nothing speaks against it: as declared, or skipped."""
        return self.kind in ("holds", "condition", "declared", "skipped")

    @property
    def source(self) -> str:
        """The provenance in a line."""
        return self.provenance.line

    def _repr_html_(self) -> str:
        from attnscope.claims.verdict_cards import verdict_card

        heading = f"{self.id}: {self.title}. {self.word.capitalize()}."
        said = [text for text in (self.condition, self.skipped, self.notes) if text]
        return verdict_card([heading, *said], self.comparisons, self.figure)

    def record(self) -> dict[str, Any]:
        """The claim's entry in verdicts.json (docs/claims.md says what each field is)."""
        return {
            "id": self.id,
            "title": self.title,
            "origin": self.origin,
            "state": self.word,
            "expected": self.expected,
            "holds": self.holds,
            "condition": self.condition,
            "reason": self.skipped or (self.notes if self.error else ""),
            "provenance": self.provenance.record(),
            "rests_on": list(self.rests_on),
            "sentences": [
                {"text": sentence.text, "tested_by": list(sentence.keys)}
                for sentence in self.sentences
            ],
            "headline": self.headline_key,
            "predicted": self.predicted,
            "measured": self.measured,
            "tolerance": self.tolerance,
            "comparisons": [self._comparison_record(c) for c in self.comparisons],
            "notes": "" if self.error else " ".join(self.notes.split()),
            "tables": [table.record() for table in self.tables],
            "seconds": round(self.seconds, 3),
        }

    def _comparison_record(self, comparison: Comparison) -> dict[str, Any]:
        """One comparison as plain data."""
        return {
            "key": comparison.key,
            "what": comparison.what,
            "predicted": comparison.predicted,
            "measured": comparison.measured,
            "tolerance": comparison.tolerance,
            "rule": comparison.rule,
            "holds": comparison.holds,
            "why": comparison.why,
            "detectable": comparison.detectable if comparison.detectable < INFINITE else None,
            "coarse": comparison.coarse,
            "routes": list(comparison.routes or self.routes),
        }


def run_claim(claim: Claim, context: Context) -> Verdict:
    """Check one claim; whatever its check does, there is a verdict."""
    start = time.perf_counter()
    seen: dict[str, Any]
    try:
        evidence = claim.check(context)
        seen = {
            "holds": evidence.holds,
            "comparisons": evidence.comparisons,
            "figure": evidence.figure,
            "notes": evidence.notes,
            "tables": evidence.tables,
            "condition": "; ".join(filter(None, (claim.condition, evidence.reduced))),
        }
    except (Skipped, NotInstalled) as reason:
        seen = {"holds": None, "skipped": str(reason)}
    except Exception as error:
        seen = {"holds": False, "notes": _last_line(error), "error": _short_traceback(error)}
    return Verdict(**(_claim_fields(claim) | seen), seconds=time.perf_counter() - start)


def run_named(claim_id: str, seed: int, full: bool, registry: str = REGISTRY) -> Verdict:
    """Check the claim of that id: what travels to another process is the name, not the code."""
    row = import_module(registry).listed_claims().claims[claim_id]
    return replace(run_claim(row.load(), Context(seed, full)), origin=row.origin)


def broken_off(claim: Claim, error: str, seconds: float, origin: str = "") -> Verdict:
    """The verdict on a claim whose process ended under it."""
    described = _claim_fields(claim) | {"origin": origin}
    return Verdict(**described, holds=False, notes=error, error=error, seconds=seconds)


def _claim_fields(claim: Claim) -> dict[str, Any]:
    return {name: getattr(claim, name) for name in COPIED} | {"headline_key": claim.headline}


def _last_line(error: BaseException) -> str:
    """The last line of a traceback; a message of several lines as one."""
    return " ".join("".join(traceback.format_exception_only(error)).split())


def _short_traceback(error: BaseException) -> str:
    """A traceback below this file without folders: the same on every machine."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    lines = [
        f"{os.path.basename(f.filename)}:{f.lineno} in {f.name}: {f.line}" for f in frames
    ]
    return "\n".join([*lines, "".join(traceback.format_exception_only(error)).strip()])
