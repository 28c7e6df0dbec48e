"""Verdicts in a notebook: one with its comparisons and its figure, or many in a table."""

from __future__ import annotations

from attnscope.claims.numbers import number, prediction, used
from attnscope.claims.verdict import Verdict
from attnscope.figures.inline_svg import pictures
from attnscope.html_tables import Shown, card, paragraph, table

__all__ = ["Verdicts", "verdict_card"]


class Verdicts(Shown[Verdict]):
    """A list of verdicts, a table in a notebook."""

    def _repr_html_(self) -> str:
        rows = []
        for v in self:
            c = v.headline
            numbers = (
                ["", ""] if c is None else [number(c.measured, c.tolerance), prediction(c)]
            )
            reason = (v.skipped or v.notes) if c is None else ""
            rows.append([v.id, v.title, v.word, *numbers, f"{v.seconds:.1f}", reason])
        head = ["claim", "in words", "verdict", "measured", "predicted", "seconds", "why"]
        return card(table(counted(self), head, rows))


def counted(verdicts: Verdicts) -> str:
    """How many there are of each kind."""
    words = [v.word for v in verdicts]
    kinds = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    claims = "1 claim" if len(words) == 1 else f"{len(words)} claims"
    return f"{claims}: {kinds}" if words else "no claims"


def verdict_card(v: Verdict) -> str:
    """The claim in words, every comparison, and the figure."""
    rows = [
        [c.what, number(c.measured, c.tolerance), prediction(c), used(c), _holds(c.holds)]
        for c in v.comparisons
    ]
    head = ["comparison", "measured", "predicted", "of the tolerance", ""]
    parts = [paragraph(f"{v.id}: {v.title}. {v.word.capitalize()}.")]
    parts += [paragraph(text) for text in (v.condition, v.skipped, v.notes) if text]
    if rows:
        parts.append(table("by two routes", head, rows))
    if v.figure is not None:
        parts.append(pictures(v.figure, [panel.title for panel in v.figure.panels]))
    return card(*parts)


def _holds(holds: bool) -> str:
    return "holds" if holds else "does not hold"
