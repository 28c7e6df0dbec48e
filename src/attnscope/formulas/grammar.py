"""The grammar of formulas as one types them, over the tokens of one sentence.

    relation   sum (= < > <= >= ~ -> perp ..) sum ...
    sum        product (+ -) product ...
    product    factor (/ * .) factor ..., or factors side by side
    factor     atom with ^ _ * '
    atom       number, letter, Greek name, function, a relation in brackets or bars, or \\ink{relation}

Each rule reads from a token and returns the MathML of what it read, or nothing. A lone number is no
formula, and "a" and "A" are articles unless what follows says otherwise.
"""

from __future__ import annotations

import re
from html import escape
from typing import NamedTuple

from attnscope.formulas.words import (
    CLOSING,
    FUNCTION_NAMES,
    FUNCTIONS_WITHOUT_BRACKETS,
    GREEK,
    INVISIBLE_TIMES,
    RELATIONS,
    SIGNS,
    THIN_SPACE,
    TOKEN,
    WORD_SIGNS,
    WORDS_AFTER_LETTER,
)

__all__ = ["Part", "Reader", "Token"]


class Token(NamedTuple):
    """A piece of a sentence: its kind, its text, and where it begins and ends."""

    kind: str
    text: str
    begin: int
    end: int


class Part(NamedTuple):
    """What was read: MathML, the token after it, whether it is more than a number,
    and whether it is a relation.
    """

    markup: str
    next: int
    formula: bool
    relation: bool = False


class Reader:
    """The grammar, over the tokens of one sentence. Each rule reads from token i,
    or returns None.
    """

    def __init__(self, sentence: str) -> None:
        self.tokens = [
            Token(m.lastgroup or "", m[0], m.start(), m.end())
            for m in TOKEN.finditer(sentence)
        ]
        self.inside = 0  # bars that are open

    def text(self, i: int) -> str:
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def kind(self, i: int) -> str:
        return self.tokens[i].kind if i < len(self.tokens) else ""

    def tight(self, i: int) -> bool:
        """No space before token i."""
        return 0 < i < len(self.tokens) and self.tokens[i].begin == self.tokens[i - 1].end

    def balanced(self, i: int) -> bool:
        """As much space before token i as behind it."""
        return self.tight(i) == self.tight(i + 1)

    def may_begin(self, i: int) -> bool:
        """Not in the middle of a word, nor behind a stroke or a dash of the text."""
        if not self.tight(i):
            return True
        if self.text(i) in CLOSING:
            return self.kind(i - 1) == "sign"
        return self.text(i - 1) not in ("/", "-", "_", "^", "*", "&", ".")

    def relation(self, i: int) -> Part | None:
        part = self.sum(i)
        while part is not None:
            sign = self.text(part.next)
            if sign not in RELATIONS or not self.balanced(part.next):
                return part
            right = self.sum(part.next + 1)
            if right is None:
                return part
            markup = f"{part.markup}<mo>{RELATIONS[sign]}</mo>{right.markup}"
            part = Part(markup, right.next, True, True)
        return None

    def sum(self, i: int) -> Part | None:
        minus = self.text(i) in ("-", "+-") and self.tight(i + 1)
        part = self.product(i + minus)
        if part is None:
            return None
        if minus:
            sign = "−" if self.text(i) == "-" else "±"
            part = part._replace(markup=f"<mo>{sign}</mo>{part.markup}")
        while self.text(part.next) in ("+", "-") and self.balanced(part.next):
            right = self.product(part.next + 1)
            if right is None:
                break
            sign = self.text(part.next).replace("-", "−")
            markup = f"{part.markup}<mo>{sign}</mo>{right.markup}"
            part = Part(markup, right.next, part.formula or right.formula)
        return part

    def product(self, i: int) -> Part | None:
        part = self.factor(i)
        while part is not None:
            sign = self.text(part.next)
            stroke = sign == "/" and self.balanced(part.next)
            times = sign == "*" and not self.tight(part.next)
            dot = sign == "." and self.tight(part.next) and self.tight(part.next + 1)
            named = self.kind(part.next + 1) == "word" or self.text(part.next + 1) == "\\"
            if stroke or times or (dot and named):
                right = self.factor(part.next + 1)
                between = f"<mo>{ {'/': '/', '*': '⋅', '.': '⋅'}[sign] }</mo>"
            else:
                right = self.beside(part)
                between = (
                    THIN_SPACE
                    if sign in FUNCTION_NAMES or sign in FUNCTIONS_WITHOUT_BRACKETS
                    else INVISIBLE_TIMES
                )
            if right is None:
                return part
            part = Part(part.markup + between + right.markup, right.next, True)
        return None

    def beside(self, left: Part) -> Part | None:
        """A factor that stands beside another one: no number, no relation in brackets."""
        i = left.next
        if self.kind(i) == "number" or (self.text(i) == "|" and self.inside):
            return None
        if not self.tight(i) and self.text(i) in ("a", "A") and not self._letter_after(i):
            return None
        # "20 d" in a formula is a product, "10 k" in a sentence need not be
        joined = self.text(i - 2) in RELATIONS or self.text(i - 2) in ("+", "-", "(")
        if self.kind(i) == "word" and not self.tight(i) and not left.formula and not joined:
            return None
        right = self.factor(i)
        if right is None or right.relation:
            return None
        # "2 (L-1)" is a product, "111 (0)" and "0.36 (d = 5)" are not
        number = self.kind(i - 1) == "number" and not left.formula
        aside = number and not self.tight(i) and self.text(i) in CLOSING
        return None if aside and not (right.formula and self.text(i - 1).isdigit()) else right

    def factor(self, i: int) -> Part | None:
        part = self.atom(i)
        if part is None:
            return None
        low, high = "", ""
        formula = part.formula
        while self.tight(part.next):
            sign = self.text(part.next)
            following = self.tight(part.next + 1)
            if sign in ("^", "_") and following:
                index = self.index(part.next + 1)
                if index is None:
                    break
                low, high = (
                    (index.markup, high) if sign == "_" else (low, high + index.markup)
                )
                part = part._replace(next=index.next)
            elif sign == "*" and not (following and self.kind(part.next + 1) != "sign"):
                high += "<mo>*</mo>"
                part = part._replace(next=part.next + 1)
            elif sign == "'" and not (following and self.kind(part.next + 1) == "word"):
                high += "<mo>′</mo>"
                part = part._replace(next=part.next + 1)
            elif sign == "(" and (low or self.kind(part.next - 1) == "word"):
                inner = self.brackets(part.next, words=True)
                if inner is None:
                    break
                markup = f"<mrow>{_scripts(part.markup, low, high)}{inner.markup}</mrow>"
                part = Part(markup, inner.next, True)
                low, high = "", ""
            else:
                break
            formula = True
        return part._replace(markup=_scripts(part.markup, low, high), formula=formula)

    def index(self, i: int) -> Part | None:
        """What stands raised or lowered."""
        if self.text(i) in ("{", "("):
            inner = self.relation(i + 1)
            if inner is None or self.text(inner.next) != CLOSING[self.text(i)]:
                return None
            return inner._replace(markup=f"<mrow>{inner.markup}</mrow>", next=inner.next + 1)
        minus = self.text(i) == "-"
        if self.kind(i + minus) == "word" and self.text(i + minus) not in GREEK:
            part: Part | None = Part(_name(self.text(i + minus)), i + minus + 1, True)
        else:
            part = self.atom(i + minus)
        if part is not None and minus:
            part = part._replace(markup=f"<mrow><mo>−</mo>{part.markup}</mrow>")
        return part

    def atom(self, i: int) -> Part | None:
        text = self.text(i)
        if self.kind(i) == "number":
            return Part(_number(text), i + 1, "e" in text)
        if self.kind(i) == "word":
            return self.word(i)
        if text == "\\":
            return self.coloured(i)
        if text in CLOSING:
            return self.brackets(i, words=False)
        if text in ("|", "<") and self.tight(i + 1):
            return self.bars(i)
        return None

    def coloured(self, i: int) -> Part | None:
        """\\name{relation}."""
        if self.kind(i + 1) != "word" or self.text(i + 2) != "{":
            return None
        inner = self.relation(i + 3)
        if inner is None or self.text(inner.next) != "}":
            return None
        markup = f'<mrow class="ink-{self.text(i + 1)}">{inner.markup}</mrow>'
        return inner._replace(markup=markup, next=inner.next + 1)

    def word(self, i: int) -> Part | None:
        text = self.text(i)
        if text == "sqrt" or text in FUNCTIONS_WITHOUT_BRACKETS or text in FUNCTION_NAMES:
            return self.function(i)
        if text == "sum" and self.text(i + 1) == "_":
            return Part("<mo>∑</mo>", i + 1, True)
        letter = re.fullmatch(r"([A-Za-z]|" + "|".join(GREEK) + r")(\d*)", text)
        if letter is not None:
            article = text in ("a", "A") and not self._letter_after(i)
            base = f"<mi>{GREEK.get(letter[1], letter[1])}</mi>"
            if letter[1] == "R" and self.text(i + 1) == "^":
                base = "<mi>ℝ</mi>"
            below = f"<mn>{letter[2]}</mn>" if letter[2] else ""
            return None if article else Part(_scripts(base, below, ""), i + 1, True)
        if text in WORD_SIGNS:
            return Part(f"<mi>{WORD_SIGNS[text]}</mi>", i + 1, False)
        raised = self.text(i + 1) == "^" or (
            self.text(i + 1) == "_" and len(self.text(i + 2)) < 3
        )
        if text.isalpha() and raised and self.tight(i + 1) and self.tight(i + 2):
            return Part(_name(text), i + 1, True)
        return None

    def _letter_after(self, i: int) -> bool:
        """Whether the "a" at i is a letter: before a sign, or a word that no article precedes."""
        return self.kind(i + 1) != "number" and (
            self.kind(i + 1) != "word" or self.text(i + 1) in WORDS_AFTER_LETTER
        )

    def function(self, i: int) -> Part | None:
        name = self.text(i)
        if self.text(i + 1) == "(" and self.tight(i + 1):
            inner = self.brackets(i + 1, words=True, root=name == "sqrt")
        elif self.text(i + 1) == "|" and self.tight(i + 1):
            inner = self.bars(i + 1)
        elif name in FUNCTIONS_WITHOUT_BRACKETS and self.kind(i + 1) in ("word", "number"):
            inner = self.factor(i + 1)
        else:
            return None
        if inner is None:
            return None
        if name == "sqrt":
            return Part(f"<msqrt><mrow>{inner.markup}</mrow></msqrt>", inner.next, True)
        sign = f"<mo>{SIGNS[name]}</mo>" if name in SIGNS else f"<mi>{name}</mi>"
        gap = "" if self.tight(i + 1) or name in SIGNS else THIN_SPACE
        return Part(f"<mrow>{sign}{gap}{inner.markup}</mrow>", inner.next, True)

    def brackets(self, i: int, words: bool, root: bool = False) -> Part | None:
        """Relations, with commas between them; `words` among them only behind a function."""
        closing = CLOSING[self.text(i)]
        inner = self.list(i + 1, closing, words)
        if inner is None:
            return None
        bare = root or self.text(i) == "{"
        markup = (
            inner.markup
            if bare
            else f"<mo>{self.text(i)}</mo>{inner.markup}<mo>{closing}</mo>"
        )
        return inner._replace(markup=f"<mrow>{markup}</mrow>", next=inner.next + 1)

    def list(self, i: int, closing: str, words: bool) -> Part | None:
        out = ""
        formula, relation = False, False
        while self.text(i) != closing:
            part = self.relation(i)
            if part is None and words and self.kind(i) == "word":
                part = Part(
                    f"{THIN_SPACE}<mtext>{escape(self.text(i))}</mtext>{THIN_SPACE}",
                    i + 1,
                    False,
                )
            if part is None and words and self.text(i) == "/":
                part = Part("<mo>/</mo>", i + 1, True)
            if part is None:
                return None
            out += part.markup
            formula = formula or part.formula
            relation = relation or part.relation
            i = part.next
            if self.text(i) == ",":
                out += "<mo>,</mo>"
                i += 1
            elif self.text(i) != closing and not words:
                return None
        return Part(out, i, formula, relation) if out else None

    def bars(self, i: int) -> Part | None:
        """|x|, <x, y>."""
        closing = {"|": "|", "<": ">"}[self.text(i)]
        self.inside += 1
        inner = self.list(i + 1, closing, words=False)
        self.inside -= 1
        if inner is None:
            return None
        left, right = ("|", "|") if closing == "|" else ("⟨", "⟩")
        markup = f"<mrow><mo>{left}</mo>{inner.markup}<mo>{right}</mo></mrow>"
        return Part(markup, inner.next + 1, True)


def _scripts(base: str, low: str, high: str) -> str:
    high = (
        f"<mrow>{high}</mrow>"
        if high.count("<m") > 1 and not high.startswith("<mrow")
        else high
    )
    if low and high:
        return f"<msubsup>{base}{low}{high}</msubsup>"
    if low:
        return f"<msub>{base}{low}</msub>"
    return f"<msup>{base}{high}</msup>" if high else base


def _name(word: str) -> str:
    """A letter slanted, a longer name upright (as MathML does by itself)."""
    return f"<mi>{escape(word)}</mi>"


def _number(text: str) -> str:
    head, e, power = text.partition("e")
    if not e:
        return f"<mn>{text}</mn>"
    sign = "<mo>−</mo>" if power.startswith("-") else ""
    ten = f"<msup><mn>10</mn><mrow>{sign}<mn>{abs(int(power))}</mn></mrow></msup>"
    return ten if head == "1" else f"<mn>{head}</mn><mo>×</mo>{ten}"
