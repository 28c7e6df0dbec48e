"""One verdict in a notebook: what it says, its comparisons and its figure."""

from __future__ import annotations

from collections.abc import Sequence

from attnscope.claims.claim import Comparison
from attnscope.claims.numbers import number, prediction, used
from attnscope.figures.figure import Figure
from attnscope.figures.inline_svg import pictures
from attnscope.html_tables import card, paragraph, table

__all__ = ["verdict_card"]


def verdict_card(
    said: Sequence[str], comparisons: Sequence[Comparison], figure: Figure | None
) -> str:
    """The claim in words, every comparison, and the figure."""
    rows = [
        [c.what, number(c.measured, c.tolerance), prediction(c), used(c), _holds(c.holds)]
        for c in comparisons
    ]
    head = ["comparison", "measured", "predicted", "of the tolerance", ""]
    parts = [paragraph(text) for text in said]
    if rows:
        parts.append(table("by two routes", head, rows))
    if figure is not None:
        parts.append(pictures(figure, [panel.title for panel in figure.panels]))
    return card(*parts)


def _holds(holds: bool) -> str:
    return "holds" if holds else "does not hold"
