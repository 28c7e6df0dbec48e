"""Kinds of knobs: a number, one of a few words, a short list of numbers.

Each reads a text, or says in one sentence why it cannot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnscope.errors import bad
from attnscope.registry import Argument

__all__ = ["Choice", "Field", "Number", "Numbers", "plain"]

PAGE_NAME = "this page"
MOST_LIST_NUMBERS = 12  # numbers in a list: each may cost a curve of its own


@dataclass(frozen=True)
class Number:
    """A number in [low, high].

    log: how its slider moves; whole: an integer; optional: it may be none, and `absent` is how the
    page writes that.
    """

    label: str
    low: float
    high: float
    log: bool = False
    whole: bool = False
    hint: str = ""
    optional: bool = False
    absent: str = "none"

    def parse(self, text: object, name: str, default: object = None) -> float | int | None:
        if self.optional and str(text).strip().lower() in ("none", self.absent):
            return None
        kind = "a whole number" if self.whole else "a number"
        must = f"{kind} from {plain(self.low)} to {plain(self.high)}"
        must += f", or {self.absent}" if self.optional else ""
        try:
            value = float(str(text).replace("_", ""))
        except ValueError:
            value = math.nan
        if not self.low <= value <= self.high or (self.whole and value != int(value)):
            hint = self.absent if default is None else plain(default)
            raise bad(name, PAGE_NAME, must, repr(str(text)[:40]), f"{name}={hint}")
        return int(value) if self.whole else value


@dataclass(frozen=True)
class Choice:
    """One of a few words, each with the text its button shows."""

    label: str
    options: Mapping[str, str]

    def parse(self, text: object, name: str, default: object = None) -> str:
        if str(text) not in self.options:
            raise bad(
                name, PAGE_NAME, "one of " + ", ".join(self.options), repr(str(text)[:40])
            )
        return str(text)


@dataclass(frozen=True)
class Numbers:
    """A few numbers with commas between them, each as the argument wants it."""

    label: str
    argument: Argument
    hint: str = "numbers with commas"

    def parse(self, text: object, name: str, default: object = None) -> tuple[Any, ...]:
        given = text if isinstance(text, str) else plain(text)
        if given.count(",") >= MOST_LIST_NUMBERS:
            raise bad(
                name,
                PAGE_NAME,
                f"at most {MOST_LIST_NUMBERS} numbers",
                f"{given.count(',') + 1} of them",
            )
        return tuple(self.argument.parse(given, PAGE_NAME))


Field = Number | Choice | Numbers


def plain(value: object) -> str:
    """A value as people type it; float(text) gives the same bits back."""
    if isinstance(value, (tuple, list)):
        return ",".join(plain(part) for part in value)
    if value is None:
        return "none"
    if isinstance(value, float):
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    return str(value)
