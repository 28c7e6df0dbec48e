r"""A tour is a list of steps; a step is a sentence, a formula, a view with its knobs, and a question.

    step.view, step.query     what is shown: /landscape?inverse_temperature=0.05, as in the address
    bar step.turned               the query after the one knob that the question asks to turn, or ""
    step.numbers              text -> a function that computes it: every number that the sentence, the
                              question or the answer states is here, or is the value of a knob. A
                              test computes them all and compares to the last digit written

Sentences and formulas are typed in attnscope's notation and set as MathML (attnscope.formulas);
`\oracle{kappa}` sets kappa in the colour of the oracle's curves (class ink-oracle, assets/tours.css).
`record()` is plain data: each text as typed, without colours, and under `html` as MathML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from attnscope.formulas.typeset import plain, typeset

__all__ = ["Step", "Tour"]

FORMULA_SEPARATOR = (
    "; "  # between the formulas of a step, each of which has a line of its own
)
TEXT_FIELDS = ("sentence", "question", "answer")
# a line must not end between a formula and its comma
FORMULA_AND_STOP = re.compile(r"<math(?:(?!</math>).)*</math>[,.;:?!)]+")


@dataclass(frozen=True)
class Step:
    """One step: what is said, what is shown, what is asked.

    claims: ids, or their beginnings (slr-13), of the claims that it shows.
    """

    title: str
    sentence: str
    formula: str
    view: str
    query: str
    question: str
    answer: str
    claims: tuple[str, ...]
    turned: str = ""
    numbers: Mapping[str, Callable[[], float]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The view and its knobs, as the live page's address has them."""
        return f"/{self.view}" + (f"?{self.query}" if self.query else "")

    def html(self) -> dict[str, str]:
        """Every text with MathML; `formula` has one math element per formula."""
        set_texts = {
            name: FORMULA_AND_STOP.sub(
                r'<span class="tight">\g<0></span>', str(typeset(getattr(self, name)))
            )
            for name in TEXT_FIELDS
        }
        parts = self.formula.split(FORMULA_SEPARATOR)
        set_texts["formula"] = "".join(f"<div>{typeset(part)}</div>" for part in parts)
        return set_texts

    def record(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "title": self.title,
            "sentence": plain(self.sentence),
            "formula": plain(self.formula),
            "view": self.view,
            "query": self.query,
            "turned": self.turned,
            "question": plain(self.question),
            "answer": plain(self.answer),
            "claims": list(self.claims),
            "html": self.html(),
        }


@dataclass(frozen=True)
class Tour:
    """A name (of addresses), a title, what one will have seen at its end, and the steps."""

    name: str
    title: str
    summary: str
    steps: tuple[Step, ...]

    def record(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name,
            "title": self.title,
            "summary": self.summary,
            "steps": [step.record() for step in self.steps],
        }

    def to_json(self) -> str:
        """The record as JSON, in plain letters.

        >>> from attnscope_explorer.tours.registry import one_tour
        >>> one_tour("swapped-runs").to_json()[:24]
        '{"name": "swapped-runs",'
        """
        return json.dumps(self.record())
