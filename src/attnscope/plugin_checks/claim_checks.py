"""What a claim of a plugin must satisfy.

loads       its file holds a Claim with the id of the file's name, which no other claim has
verdict     at seed 0 as declared; every comparison has a reason for its tolerance and breaks
            when one route is moved
sentences   every sentence names comparisons that exist, and so does the headline
figure      attnscope.figures.check finds nothing that could mislead a reader
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attnscope.claims.claim import Claim, Context
from attnscope.claims.registry import ListedClaim, listed_claims
from attnscope.claims.verdict import Verdict, run_claim
from attnscope.errors import AttnscopeError
from attnscope.optional import needs
from attnscope.plugin_checks.record import CheckFailed, CheckRecord, CheckSkipped, checks
from attnscope.plugins import EntryPoint

__all__ = ["broken_sentence", "claim_records", "claims_entry_records"]


def claims_entry_records(point: EntryPoint) -> Iterator[CheckRecord]:
    """The check of an entry point of claims, before any claim is loaded."""

    def listed() -> None:
        broken_sentence(point, listed_claims().broken)

    yield from checks(point.origin, "claims", point.name, [("loads, with new ids", listed)])


def broken_sentence(point: EntryPoint, sentences: list[str]) -> None:
    """Raise the sentence about this entry point, if there is one among those left out."""
    begin = f"{point.name} of {point.origin} ({point.group}, "
    for sentence in sentences:
        if sentence.startswith(begin):
            raise AttnscopeError(sentence)


def claim_records(name: str, row: ListedClaim) -> Iterator[CheckRecord]:
    """The checks of one claim, which runs once."""
    verdicts: list[Verdict] = []

    def run() -> float | None:
        verdicts.append(run_claim(row.load(), Context(seed=0)))
        return _check_verdict(verdicts[0])

    steps: list[tuple[str, Callable[[], float | None]]] = [
        ("loads, and its id is its file's name", lambda: _check_load(row)),
        ("verdict at seed 0 as declared", run),
        ("sentences name comparisons", lambda: _check_sentences(row.load(), verdicts[0])),
        ("figure cannot mislead", lambda: _check_figure(verdicts[0])),
    ]
    yield from checks(row.origin, "claim", name, steps)


def _check_load(row: ListedClaim) -> None:
    row.load()


def _check_verdict(verdict: Verdict) -> float:
    if verdict.error:
        raise CheckFailed(f"the check broke off: {verdict.notes}")
    if verdict.holds is None:
        raise CheckSkipped(verdict.skipped)
    worst = max(c.strain for c in verdict.comparisons)
    if verdict.holds != verdict.expected:
        broken = ", ".join(c.what for c in verdict.broken)
        said = f"fails ({broken})" if broken else "holds, though declared to fail"
        raise CheckFailed(f"at seed 0 the claim {said}.", worst)
    for c in verdict.comparisons:
        if not c.why.strip():
            raise CheckFailed(f"comparison {c.what!r} gives no reason for its tolerance.")
        if c.holds and c.perturbed().holds:
            raise CheckFailed(
                f"comparison {c.what!r} still holds when its measured value is moved by three "
                "tolerances and 5 %."
            )
    return worst


def _check_sentences(claim: Claim, verdict: Verdict) -> None:
    if verdict.holds is None:
        raise CheckSkipped(verdict.skipped)
    known = [c.key for c in verdict.comparisons if c.key]
    there = ", ".join(known) or "none"
    for sentence in claim.sentences:
        if not sentence.keys:
            raise CheckFailed(f"no comparison tests the sentence {sentence.text!r}.")
        for key in sentence.keys:
            if key not in known:
                raise CheckFailed(
                    f"a sentence names the comparison {key!r}, but the keys are: {there}."
                )
    if claim.headline not in known:
        raise CheckFailed(
            f"the headline is {claim.headline!r}, but the keys of comparisons are: {there}."
        )


def _check_figure(verdict: Verdict) -> None:
    if verdict.figure is None:
        raise CheckSkipped(verdict.skipped)
    needs("matplotlib", "the check of a figure")
    from attnscope.figures.check import problems

    found = problems(verdict.figure)
    if found:
        raise CheckFailed(found[0])
