"""Words that installed packages announce (packs.py), as rows of the catalogue.

An announced object is a class (its row is made from its constructor, as for a task in a file) or an
`Entry` of its own. The row has the announced name and its origin.
"""

from __future__ import annotations

from dataclasses import replace
from inspect import isclass
from typing import Any

from attnscope import plugins as packs
from attnscope.registry import PREDICTORS, TASKS, Entry, add
from attnscope.errors import AttnscopeError
from attnscope.theory.task_files import arguments_of_class, first_line

__all__ = ["add_announced", "announced_word", "module_of_word"]

TABLES = {
    "task": (packs.TASKS, TASKS, "projections"),
    "predictor": (packs.PREDICTORS, PREDICTORS, "weights"),
}


def add_announced() -> list[str]:
    """Put every announced task and predictor into the catalogue; a sentence for each that fails."""
    broken = []
    for what, (group, _, _) in TABLES.items():
        for point in packs.announced(group):
            try:
                _add(point, what)
            except AttnscopeError as error:
                broken.append(str(error))
    return broken


def announced_word(word: str, what: str) -> None:
    """Put the row of this word into the catalogue, where a package announces it."""
    group, table, _ = TABLES[what]
    if _spelled(word) in table:
        return
    for point in packs.announced(group):
        if _spelled(point.name) == _spelled(word):
            _add(point, what)
            return


def module_of_word(word: str) -> str | None:
    """The module of an announced word: its source says when stored cells are out of date."""
    rows = [table.get(_spelled(word)) for _, table, _ in TABLES.values()]
    if not word or any(row is not None and not row.origin for row in rows):
        return None
    points = [point for group, _, _ in TABLES.values() for point in packs.announced(group)]
    spelled = {_spelled(point.name): point.module for point in points}
    return spelled.get(_spelled(word))


def _spelled(word: str) -> str:
    return word.replace("_", "-")


def _add(point: packs.Announced, what: str) -> None:
    _, table, method = TABLES[what]
    word = _spelled(point.name)
    there = table.get(word)
    if there is not None and there.origin == point.origin:
        return
    if there is not None:
        owner = there.origin or "attnscope"
        raise point.refusal(f"{word!r}, which {owner} has", "a word of its own")
    add(_row(point, point.load(), what, method), table)


def _row(point: packs.Announced, found: Any, what: str, method: str) -> Entry:
    if isinstance(found, Entry):
        return replace(found, word=_spelled(point.name), origin=point.origin)
    if not (isclass(found) and callable(getattr(found, method, None))):
        must = f"a class with a method {method}, or an Entry of attnscope.registry"
        raise point.refusal(type(found).__name__, must)
    try:
        arguments = arguments_of_class(found, f"{point.origin}, {point.name}")
    except (AttnscopeError, ValueError, TypeError) as error:
        raise point.refusal(
            str(error), f"a {what} that can be made from flat arguments"
        ) from None
    return Entry(
        _spelled(point.name),
        found,
        first_line(found),
        arguments,
        "sampled",
        origin=point.origin,
    )
