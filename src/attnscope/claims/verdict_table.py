"""Many verdicts in a notebook: a table with a line for each."""

from __future__ import annotations

from attnscope.claims.numbers import number, prediction
from attnscope.claims.verdict import Verdict
from attnscope.html_tables import NotebookList, card, table

__all__ = ["Verdicts"]


class Verdicts(NotebookList[Verdict]):
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
