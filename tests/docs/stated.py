"""What an entry of the table of stated numbers is (stated_numbers.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple


class Stated(NamedTuple):
    """`words` stand in `page`; `numbers` maps what is written to its computation. Slow: where the
    computation takes more than a few seconds.
    """

    page: str
    words: str
    numbers: dict[str, Callable[[], float]]
    slow: bool = False


def row(
    page: str,
    words: str,
    compute: Callable[[], Sequence[float]],
    *texts: str,
    slow: bool = False,
) -> Stated:
    """The numbers as they are written, in the order in which `compute` returns them."""
    values = cache(lambda: tuple(map(float, compute())))
    numbers = {text: (lambda i=i: values()[i]) for i, text in enumerate(texts)}
    return Stated(page, words, numbers, slow)
