"""Tasks and predictors of installed plugins (plugins.py) as entries of the registry.

A plugin's entry point names a class, whose registry entry is made from its constructor (as for a
task in a file), or an `Entry`. The entry has the name of the entry point and the plugin as its
origin.
"""

from __future__ import annotations

from dataclasses import replace
from inspect import isclass
from typing import Any

from attnscope import plugins
from attnscope.errors import AttnscopeError
from attnscope.registry import PREDICTORS, TASKS, Entry, add
from attnscope.theory.task_files import arguments_of_class, first_line

__all__ = ["add_announced", "announced_word", "module_of_word"]

REGISTRIES = {
    "task": (plugins.TASKS, TASKS, "projections"),
    "predictor": (plugins.PREDICTORS, PREDICTORS, "weights"),
}


def add_announced() -> list[str]:
    """Register every task and predictor of every plugin; one sentence for each that fails."""
    broken = []
    for what, (group, _, _) in REGISTRIES.items():
        for point in plugins.announced(group):
            try:
                add_plugin(point, what)
            except AttnscopeError as error:
                broken.append(str(error))
    return broken


def announced_word(word: str, what: str) -> None:
    """Register the entry of this name, if a plugin has one."""
    group, table, _ = REGISTRIES[what]
    if hyphenated(word) in table:
        return
    for point in plugins.announced(group):
        if hyphenated(point.name) == hyphenated(word):
            add_plugin(point, what)
            return


def module_of_word(word: str) -> str | None:
    """The module of a plugin's task or predictor: stored cells are out of date when its source
    changes.
    """
    rows = [table.get(hyphenated(word)) for _, table, _ in REGISTRIES.values()]
    if not word or any(row is not None and not row.origin for row in rows):
        return None
    points = [
        point for group, _, _ in REGISTRIES.values() for point in plugins.announced(group)
    ]
    spelled = {hyphenated(point.name): point.module for point in points}
    return spelled.get(hyphenated(word))


def hyphenated(word: str) -> str:
    return word.replace("_", "-")


def add_plugin(point: plugins.EntryPoint, what: str) -> None:
    _, table, method = REGISTRIES[what]
    word = hyphenated(point.name)
    there = table.get(word)
    if there is not None and there.origin == point.origin:
        return
    if there is not None:
        owner = there.origin or "attnscope"
        raise point.refusal(f"{word!r}, which {owner} has", "a word of its own")
    found = point.load()
    with point.guarded("a class of a task or predictor"):
        entry = plugin_entry(point, found, what, method)
    add(entry, table)


def plugin_entry(point: plugins.EntryPoint, found: Any, what: str, method: str) -> Entry:
    if isinstance(found, Entry):
        return replace(found, word=hyphenated(point.name), origin=point.origin)
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
        hyphenated(point.name),
        found,
        first_line(found),
        arguments,
        "sampled",
        origin=point.origin,
    )
