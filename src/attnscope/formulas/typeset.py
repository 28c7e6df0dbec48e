"""Formulas in sentences: "risk gamma^2/(L-1+gamma^2)" with its formula as MathML.

Claims are written as one types them, so that terminal, JSON and page show the same words. Here the
parts that are formulas are found by a small grammar (grammar.py) and set as mathematics; whatever
the grammar does not know stays text, so a new claim is at worst set in plain letters.

`\\key{kappa}` sets kappa in the colour named key: an element of the class ink-key, to which the
page gives its colour; where nothing is set (`plain`), the braces and the name go away.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from attnscope.formulas.grammar import Reader

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["INK", "formulas", "inks", "plain", "typeset"]

# a part in a colour: its name, and what is coloured (which has no braces of its own but of indices)
INK = re.compile(r"\\([a-z]+)\{((?:[^{}]|\{[^{}]*\})*)\}")


def typeset(sentence: str) -> Markup:
    """The sentence as HTML, with its formulas as MathML.

    >>> print(typeset("the risk is L/nu"))
    the risk is <math alttext="L/nu"><mrow><mi>L</mi><mo>/</mo><mi>ν</mi></mrow></math>
    >>> print(typeset("a token & 100 others"))
    a token &amp; 100 others
    """
    from markupsafe import Markup

    for ink in INK.finditer(sentence):
        if not _is_formula(ink[2]):
            words = Markup('<span class="ink-{}">{}</span>').format(ink[1], typeset(ink[2]))
            return typeset(sentence[: ink.start()]) + words + typeset(sentence[ink.end() :])
    out = []
    done = 0
    for begin, end, markup in _formula_spans(sentence):
        # what a browser without MathML may show
        typed = escape(plain(sentence[begin:end]))
        formula = f'<math alttext="{typed}"><mrow>{markup}</mrow></math>'
        out += [_plain_text(sentence[done:begin]), formula]
        done = end
    return Markup("".join([*out, _plain_text(sentence[done:])]))


def formulas(sentence: str) -> list[str]:
    """The parts of a sentence that are set as formulas.

    >>> formulas("With lam = d^-a the risk at (k*, v*) tends to a limit as d grows.")
    ['lam = d^-a', '(k*, v*)', 'd']
    """
    return [sentence[begin:end] for begin, end, _ in _formula_spans(sentence)]


def plain(sentence: str) -> str:
    """The sentence without its colours, as a terminal shows it.

    >>> plain(r"the score \\key{k.x_l} and \\value{v}")
    'the score k.x_l and v'
    """
    return INK.sub(r"\2", sentence)


def inks(sentence: str) -> list[str]:
    """The names of the colours in a sentence."""
    return [match[1] for match in INK.finditer(sentence)]


def _plain_text(text: str) -> str:
    for typed, sign in (("->", "→"), (">=", "≥"), ("<=", "≤"), ("+-", "±")):
        text = text.replace(typed, sign)
    return escape(text)


def _is_formula(text: str) -> bool:
    """Whether all of it is one formula."""
    return [(begin, end) for begin, end, _ in _formula_spans(text)] == [(0, len(text))]


def _formula_spans(sentence: str) -> list[tuple[int, int, str]]:
    """(begin, end, MathML) of each formula, in order."""
    reader = Reader(sentence)
    found = []
    i = 0
    while i < len(reader.tokens):
        part = reader.relation(i) if reader.may_begin(i) else None
        if part is not None and part.formula:
            found.append(
                (reader.tokens[i].begin, reader.tokens[part.next - 1].end, part.markup)
            )
        i = part.next if part is not None else i + 1
    return found
