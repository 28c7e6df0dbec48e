"""One claim, and what moved between two reports, as text of 80 columns for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from attnscope.claims.claim import Claim, Comparison
from attnscope.claims.numbers import caught, number, prediction, used
from attnscope.claims.paper import known_papers
from attnscope.claims.registry import OWN
from attnscope.report.difference import Change, Difference, Moved
from attnscope.report.steps import TourStep
from attnscope.report.tables import table_lines
from attnscope.report.terminal import COLUMNS

__all__ = ["claim_card", "claim_record", "difference_text"]

LABEL_COLUMNS = 12  # columns of the words on the left, "hypotheses" and two spaces
# comparisons printed per claim in a difference; --json has all of them
SHOWN_COMPARISONS = 3


def claim_record(
    claim: Claim,
    verdict: dict[str, Any] | None,
    steps: Sequence[TourStep] = (),
    origin: str = "",
) -> dict[str, Any]:
    """The claim as plain data, with its entry of verdicts.json where there is one, the steps of
    tours that show it, and the package and version that brings it (`origin`).
    """
    return {
        "id": claim.id,
        "title": claim.title,
        "origin": origin,
        "statement": claim.words,
        "sentences": [
            {"text": sentence.text, "tested_by": list(sentence.keys)}
            for sentence in claim.sentences
        ],
        "headline": claim.headline,
        "hypotheses": claim.hypotheses,
        "expected": claim.expected,
        "condition": claim.condition,
        "provenance": claim.provenance.record(),
        "routes": list(claim.routes),
        "snippet": claim.snippet,
        "tours": [f"{seen.tour}/{seen.step}" for seen in steps],
        "verdict": verdict,
    }


def claim_card(
    claim: Claim,
    verdict: dict[str, Any] | None,
    seen: str,
    steps: Sequence[TourStep] = (),
    no_step: str = "",
    origin: str = "",
) -> str:
    """The claim in words; `verdict` is its entry of verdicts.json, `seen` says where that is from.
    `steps` of tours show the claim, or `no_step` says why none does; `origin` is the package and
    version that brings it, named where it is not attnscope itself.
    """
    parts = [_wrapped_text(claim.title), claim.id, ""]
    if verdict is None:
        declared = "to hold" if claim.expected else "to fail as stated"
        parts += _lines_with_label("state", f"not run here; declared {declared}. {seen}")
    else:
        parts += _lines_with_label("state", f"{verdict['state']} ({seen})")
        parts += _lines_with_label("reason", verdict.get("reason", ""))
    condition = (verdict or {}).get("condition") or claim.condition
    parts += _lines_with_label("condition", condition)
    if not origin.startswith(OWN):
        parts += _lines_with_label("package", origin)
    parts += _provenance_lines(claim)
    for sentence in claim.sentences:
        by = ", ".join(sentence.keys)
        tied = f"tested by {by}" if by else "not tied to a comparison"
        parts += ["", *_lines_with_label("statement", f"{sentence.text} [{tied}]")]
    parts += _lines_with_label("hypotheses", claim.hypotheses)
    parts += _lines_with_label("predicted", f"by {claim.routes[0]}")
    parts += _lines_with_label("measured", f"by {claim.routes[1]}")
    told = "; ".join(f"{step.words} ({step.address})" for step in steps)
    parts += _lines_with_label(
        "see it", f"attnscope explore, then {told}" if told else no_step
    )
    if verdict is not None:
        parts += _comparison_lines(verdict["comparisons"], claim.routes)
        if verdict.get("notes"):  # format 1 of verdicts.json had none
            parts += ["", *_lines_with_label("seen", verdict["notes"])]
        for table in verdict.get("tables", ()):
            parts += ["", *table_lines(table, COLUMNS)]
    return "\n".join(parts)


def _provenance_lines(claim: Claim) -> list[str]:
    """Where the claim comes from."""
    own = claim.provenance
    parts = _lines_with_label("relation", own.relation)
    for statement in own.statements:
        paper = known_papers().papers[statement.paper]
        where = f"{paper.name}, {statement.place} ({statement.known})"
        parts += _lines_with_label("from", f"{where}: {statement.says}")
    return parts + _lines_with_label("new here", own.ours)


def _comparison_lines(
    comparisons: Sequence[dict[str, Any]], routes: Sequence[str]
) -> list[str]:
    """The comparisons, each with its numbers and the reason of its tolerance."""
    parts = []
    for entry in comparisons:
        sign = "holds" if entry["holds"] else "fails"
        key = f"[{entry['key']}] " if entry.get("key") else ""
        parts += ["", _wrapped_text(f"{key}{entry['what']}: {sign}", "  ", "  ")]
        parts.append(_wrapped_text(_comparison_text(entry), "  ", "  "))
        if entry.get("why"):
            parts.append(_wrapped_text(f"tolerance: {entry['why']}", "  ", "  "))
        if entry.get("routes") and list(entry["routes"]) != list(routes):
            by = "predicted by {}, measured by {}".format(*entry["routes"])
            parts.append(_wrapped_text(by, "  ", "  "))
    return parts


def _comparison_text(entry: dict[str, Any]) -> str:
    """The numbers of a comparison; format 1 of verdicts.json did not keep its rule."""
    if not entry["rule"]:
        told = "measured {measured:.6g}, predicted {predicted:.6g}, tolerance {tolerance:.2g}"
        return told.format(**entry)
    names = ("what", "predicted", "measured", "tolerance", "rule")
    c = Comparison(**{name: entry[name] for name in names}, scale=_scale(entry))
    measured = number(c.measured, c.tolerance)
    would = caught(c)
    catch = "" if would == "–" else f"; a deviation of {would} would break it"
    return (
        f"measured {measured}, predicted {prediction(c)}; {used(c)} of the tolerance{catch}"
    )


def _scale(entry: dict[str, Any]) -> float | None:
    """The size behind `detectable`; reports before 0.3.0 have none."""
    detectable = entry.get("detectable")
    return entry["tolerance"] / detectable if detectable and entry["tolerance"] else None


def difference_text(found: Difference) -> str:
    """What moved: states, claims that are new or gone, numbers, and what the reports were made
    with.
    """
    parts = [_wrapped_text(f"from {found.places[0]} to {found.places[1]}")]
    parts += [_wrapped_text(f"note: {sentence}", "", "  ") for sentence in found.notes]
    if found.states:
        parts += ["", "states"]
        parts += [f"  {c.id}\n    {c.state[0]} -> {c.state[1]}" for c in found.states]
    for word, ids in (("new", found.new), ("gone", found.gone)):
        if ids:
            parts += ["", f"{word} claims", *(f"  {name}" for name in ids)]
    numbers = sorted((c for c in found.changes if c.moved), key=lambda c: -c.shift)
    if numbers:
        parts += ["", "numbers, the largest shift first (in tolerances)"]
        parts += [line for change in numbers for line in _moves(change)]
    if found.made_with:
        parts += ["", "made with"]
        for name, pair in found.made_with.items():
            before, after = (x or "not known" for x in pair)
            parts.append(_wrapped_text(f"  {name}: {before} -> {after}", "", "    "))
    return "\n".join([*parts, "", _count(found)])


def _count(found: Difference) -> str:
    """The last line."""
    moved = sum(bool(change.moved) for change in found.changes)
    return (
        f"{len(found.states)} states changed, {moved} claims with other numbers, "
        f"{found.same} the same, {len(found.new)} new, {len(found.gone)} gone"
    )


def _moves(change: Change) -> list[str]:
    ordered = sorted(change.moved, key=lambda m: (m.shift is not None, -(m.shift or 0.0)))
    lines = [f"  {change.id}"]
    for moved in ordered[:SHOWN_COMPARISONS]:
        lines.append(_wrapped_text(f"{moved.what}: {_numbers(moved)}", "    ", "  "))
    if len(ordered) > SHOWN_COMPARISONS:
        lines.append(
            f"    and {len(ordered) - SHOWN_COMPARISONS} more; --json for all of them"
        )
    return lines


def _numbers(moved: Moved) -> str:
    """The shift and the numbers that make it."""
    if moved.measured[0] is None:
        return "new comparison"
    if moved.measured[1] is None:
        return "comparison gone"
    allowed = min(t for t in moved.tolerance if t is not None)
    told = []
    for name, pair in (("measured", moved.measured), ("predicted", moved.predicted)):
        if pair[0] != pair[1]:
            told.append(f"{name} {_pair(pair, allowed)}")
    if moved.tolerance[0] != moved.tolerance[1]:
        told.append("tolerance {:.2g} -> {:.2g}".format(*moved.tolerance))
    else:
        told.append(f"tolerance {allowed:.2g}")
    shift = "" if moved.shift is None else f"{moved.shift:.2g}, "
    broke = {True: "holds", False: "fails"}
    if moved.holds[0] is not None and moved.holds[1] not in (None, moved.holds[0]):
        told.append(f"{broke[moved.holds[0]]} -> {broke[bool(moved.holds[1])]}")
    return shift + ", ".join(told)


def _pair(pair: tuple[float | None, float | None], tolerance: float) -> str:
    """Both numbers, with as many digits as show that they differ."""
    shown = [number(x, tolerance) for x in pair]
    if shown[0] == shown[1]:
        shown = [f"{x:.17g}" for x in pair]
    return f"{shown[0]} -> {shown[1]}"


def _lines_with_label(label: str, text: str) -> list[str]:
    """A word on the left and the text beside it; nothing without a text."""
    if not text:
        return []
    indent = " " * LABEL_COLUMNS
    filled = textwrap.fill(
        text,
        COLUMNS,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    return [label.ljust(LABEL_COLUMNS) + filled[LABEL_COLUMNS:]]


def _wrapped_text(text: str, indent: str = "", hanging: str = "") -> str:
    lead = len(text) - len(text.lstrip())
    first = indent + " " * lead
    return textwrap.fill(
        text.strip(),
        COLUMNS,
        initial_indent=first,
        subsequent_indent=indent + hanging,
        break_on_hyphens=False,
    )
