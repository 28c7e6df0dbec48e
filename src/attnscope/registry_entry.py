"""What a row of the catalogue is: a word, its class by address, a label, and arguments as people
type them.

Flat arguments are numbers, words and short lists, each with its range; `parse` gives one sentence
where a value is none of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from attnscope.deprecated import new_arguments
from attnscope.errors import bad

__all__ = ["Argument", "Entry"]


@dataclass(frozen=True)
class Argument:
    """One flat argument: a number in [low, high] (`whole`: an integer), one of `options`, or a
    short list (`many`) of numbers.

    `default` None stands for "left out". `log` says how a slider moves.
    """

    name: str
    label: str
    default: Any = None
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    log: bool = False
    options: tuple[str, ...] = ()
    many: bool = False

    def parse(self, value: object, of: str) -> Any:
        """The value in its own type, from a text or a number; one sentence if it cannot be."""
        if value is None or (
            isinstance(value, str) and value.lower() == "none" and self.default is None
        ):
            return None
        if self.options:
            if str(value) not in self.options:
                raise bad(self.name, of, "one of " + ", ".join(self.options), str(value))
            return str(value)
        if self.many:
            parts = value.split(",") if isinstance(value, str) else value
            several = parts if isinstance(parts, list | tuple) else [parts]
            return [self._number(part, of) for part in several]
        return self._number(value, of)

    def _number(self, value: object, of: str) -> int | float:
        must = f"{'a whole number' if self.whole else 'a number'}{self._range()}"
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        except OverflowError:
            number = math.inf
        if (
            isinstance(value, bool)
            or not self.low <= number <= self.high
            or (self.whole and not number.is_integer())
        ):
            raise bad(
                self.name,
                of,
                must,
                f"{number}" if math.isinf(number) else str(value),
                f"{self.name}={self.default}" if self.default is not None else "",
            )
        return int(number) if self.whole else number

    def _range(self) -> str:
        if math.isinf(self.high):
            return "" if math.isinf(self.low) else f" >= {self.low:g}"
        return f" from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Entry:
    """A task or a predictor.

    word: as people type it; home: its class, or "module:Class"; label: as figures name it; colour:
    place in the palette. cost: of one exact risk, "closed" (microseconds), "quadrature"
    (milliseconds) or "sampled". build: flat arguments -> object, or "module:function"; the class
                   itself where None.
    planted: has projections, so that risk, train and the explorer serve it. origin: the installed
    package that announced it (plugins.py), "" for attnscope's own and for rows of your files.
    """

    word: str
    home: Any
    label: str
    arguments: tuple[Argument, ...]
    cost: str = "quadrature"
    colour: int = 0
    build: Any = None
    planted: bool = True
    origin: str = ""

    @property
    def kind(self) -> type:
        """The class."""
        return _load(self.home)

    def flat(
        self, values: Mapping[str, object] | None = None, of: str = "the catalogue"
    ) -> dict[str, Any]:
        """Every argument in its own type; those left out have their defaults,
        unknown ones get a sentence.
        """
        known = {argument.name: argument for argument in self.arguments}
        given = new_arguments(values or {}, known, f"{of}, {self.word}")
        for name in given:
            if name not in known:
                raise bad(
                    "an argument", f"{of}, {self.word}", "one of " + ", ".join(known), name
                )
        return {
            name: a.parse(given.get(name, a.default), f"{of}, {self.word}")
            for name, a in known.items()
        }

    def make(
        self, values: Mapping[str, object] | None = None, of: str = "the catalogue"
    ) -> Any:
        """The object from flat arguments."""
        function = self.kind if self.build is None else _load(self.build)
        return function(
            **{name: x for name, x in self.flat(values, of).items() if x is not None}
        )


def _load(home: Any) -> Any:
    if not isinstance(home, str):
        return home
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)
