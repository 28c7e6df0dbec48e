"""What a view hands to the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from attnscope.figures.figure import Figure
from attnscope.registry import PREDICTORS

__all__ = ["AXIS_LABELS", "Advice", "ViewResult", "colours", "number", "power"]

# what the risk of both views is drawn against
AXIS_LABELS = {
    "inverse_temperature": "inverse_temperature",
    "dim": "dimension d",
    "length": "tokens L",
}


@dataclass(frozen=True)
class Advice:
    """A sentence about the setting, with buttons: (text, knobs that it sets to these texts).

    warn: something is wrong, not only worth knowing.
    """

    sentence: str
    buttons: tuple[tuple[str, dict[str, str]], ...] = ()
    warn: bool = False


@dataclass(frozen=True)
class ViewResult:
    """A figure (plain data, and as Plotly draws it), a table, the lines that computed both,
    and sentences about them.
    """

    figure: Figure
    plotly: dict[str, Any]
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    code: str
    note: str
    # knobs that do nothing in this state
    hidden: frozenset[str] = field(default_factory=frozenset)
    frames: int = 0  # number of logged steps to play through; 0 for a still
    # steps done of `total`: what is shown while it is computed goes on as long as they differ
    done: int = 0
    total: int = 0
    advice: tuple[Advice, ...] = ()
    # a sentence: each word, its attention, and whether it was chosen
    words: tuple[tuple[str, float, bool], ...] = ()
    # the same of a bag of pictures: each as a data URI
    images: tuple[tuple[str, float, bool], ...] = ()


def number(x: float) -> str:
    """Five significant digits."""
    return f"{x:.5g}"


def colours(words: Iterable[str]) -> dict[str, int]:
    """The catalogue's colours of these predictors;
    one that is taken gives way to the next free one.
    """
    out: dict[str, int] = {}
    for word in words:
        wanted = PREDICTORS[word].colour
        free = (c for c in (wanted, *range(6, -1, -1)) if c not in out.values())  # 7 colours
        out[word] = next(free, wanted)
    return out


def power(log_x: float) -> str:
    """exp(log_x) to five digits, also where it underflows."""
    exponent = log_x / 2.302585092994046
    return (
        number(10**exponent)
        if exponent > -300
        else ("0" if exponent == -float("inf") else f"10^{exponent:.1f}")
    )
