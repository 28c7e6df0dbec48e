"""What a notebook shows of a value: a small card of HTML with tables, sentences and pictures.

A card has no colour of its own: words are `currentColor`, rules a share of it, and there is no
paper, so that it suits light and dark notebooks alike. Everything that is not markup made here is
escaped. Tables have a caption, headers with a scope, and scroll inside themselves where they are
wider than the page. The numbers are those of `repr` and `str`; a card rounds nothing on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Generic, SupportsIndex, TypeVar, cast, overload

__all__ = ["NotebookList", "Sentences", "card", "paragraph", "sentences", "table"]

T = TypeVar("T")

RULE_STYLE = "1px solid color-mix(in srgb, currentColor 22%, transparent)"
STYLE = (
    ".attnscope-card{color:inherit;max-width:60em;line-height:1.45}"
    ".attnscope-card .part{overflow-x:auto;max-width:100%}"
    ".attnscope-card table{border-collapse:collapse;margin:.3em 0 .6em;background:none;display:table}"
    ".attnscope-card caption{caption-side:top;text-align:left;font-weight:600;padding:.2em 0;"
    "color:inherit}"
    ".attnscope-card th,.attnscope-card td{padding:.15em .9em .15em 0;text-align:left;"
    f"vertical-align:top;background:none;color:inherit;border:0;border-bottom:{RULE_STYLE}}}"
    ".attnscope-card th{font-weight:600}.attnscope-card tbody th{font-weight:400}"
    ".attnscope-card .number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    ".attnscope-card p,.attnscope-card ul{margin:.3em 0}"
    ".attnscope-card .pictures{display:flex;flex-wrap:wrap;gap:1em}"
    ".attnscope-card figure{margin:0;flex:1 1 18em;max-width:26em}"
    ".attnscope-card svg{width:100%;height:auto}"
)


def card(*parts: str) -> str:
    """The parts, HTML made by this module (or by figures/inline_svg.py), as one card."""
    return f'<div class="attnscope-card"><style>{STYLE}</style>{"".join(parts)}</div>'


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows under a head; a column whose cells are all numbers stands to the right.

    The first cell of a row names it. A column without an entry is left out, as on the terminal.

    >>> text = table("a < b", ["name", "risk"], [["erf", "0.1135"], ["linear", "0.4737"]])
    >>> "a &lt; b" in text, text.count('<td class="number">'), text.count('<th scope="row"')
    (True, 2, 2)
    """
    lines = [[str(cell) for cell in row] for row in rows]
    kept = [i for i in range(len(head)) if any(line[i] for line in lines)]
    numbers = {i for i in kept if all(_is_number(line[i]) for line in lines if line[i])}
    top = "".join(_cell("th", head[i], i in numbers, ' scope="col"') for i in kept)
    body = "".join(
        f"<tr>{''.join(_body_cell(line, i, kept, numbers) for i in kept)}</tr>"
        for line in lines
    )
    name = escape(caption)
    said = f"<caption>{name}</caption>" if caption else ""
    top = f"<thead><tr>{top}</tr></thead>" if any(head) else ""
    inside = f"<table>{said}{top}<tbody>{body}</tbody></table>"
    return f'<div class="part" role="region" tabindex="0" aria-label="{name}">{inside}</div>'


def _body_cell(line: Sequence[str], i: int, kept: Sequence[int], numbers: set[int]) -> str:
    if i == kept[0]:
        return _cell("th", line[i], i in numbers, ' scope="row"')
    return _cell("td", line[i], i in numbers)


def _cell(tag: str, text: str, number: bool, more: str = "") -> str:
    kind = ' class="number"' if number else ""
    return f"<{tag}{more}{kind}>{escape(text)}</{tag}>"


def _is_number(text: str) -> bool:
    try:
        float(text.removeprefix("10^"))
    except ValueError:
        return False
    return True


def paragraph(text: str) -> str:
    """One paragraph of words."""
    return f"<p>{escape(text)}</p>"


def sentences(texts: Iterable[str]) -> str:
    """A list with an item for each; nothing where there is none."""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""


class NotebookList(list[T], Generic[T]):
    """A list in every respect, whose slices show themselves in a notebook as it does."""

    @overload
    def __getitem__(self, i: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, i: slice) -> NotebookList[T]: ...
    def __getitem__(self, i: SupportsIndex | slice) -> T | NotebookList[T]:
        found = super().__getitem__(i)
        return type(self)(cast(Any, found)) if isinstance(i, slice) else cast(T, found)

    def _repr_html_(self) -> str:
        raise NotImplementedError


class Sentences(NotebookList[str]):
    """Sentences: a list of text, an item each in a notebook.

    >>> Sentences(["One.", "Two & three."])._repr_html_().count("<li>")
    2
    """

    def _repr_html_(self) -> str:
        return card(sentences(self))
