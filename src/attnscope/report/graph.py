"""What rests on what: the claims that fall if one of them does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["dependents"]


def dependents(rests_on: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """For each claim, those that rest on it, directly or through others, in the given order.

    >>> dependents({"a": (), "b": ("a",), "c": ("b",)})
    {'a': ['b', 'c'], 'b': ['c'], 'c': []}
    """
    below = {name: _foundations(name, rests_on) for name in rests_on}
    return {name: [other for other in rests_on if name in below[other]] for name in rests_on}


def _foundations(name: str, rests_on: Mapping[str, Iterable[str]]) -> set[str]:
    """Everything that `name` rests on."""
    found: set[str] = set()
    waiting = list(rests_on[name])
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += rests_on.get(other, ())
    return found
