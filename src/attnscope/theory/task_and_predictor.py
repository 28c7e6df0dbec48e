"""A task and a predictor from what a user types: two registered names and flat arguments
(registry.py), for the command line and for studies.

A user's own task or predictor is "module:name": the module, which registers it, is imported first.
A task in a file is "my_paper.py:MyTask" (task_files.py). The explorer's page accepts neither,
because its input may come from strangers. The names of installed plugins work like those of this
library (plugin_entries.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnscope.errors import bad
from attnscope.plugins import import_named
from attnscope.registry import LENGTH, PREDICTORS, TASKS, Entry, find
from attnscope.theory.plugin_entries import announced_word, module_of_word
from attnscope.theory.task_files import is_file, task_of_file

__all__ = ["Pair", "modules_of", "pair", "task_row"]


@dataclass(frozen=True)
class Pair:
    """A task and a predictor with their flat arguments.

    length: of the contexts, for a task that has no length of its own. of: the caller's name, for
    error messages.
    """

    task: Entry
    predictor: Entry
    task_values: dict[str, Any]
    predictor_values: dict[str, Any]
    length: int
    of: str

    def make_task(self) -> Any:
        return self.task.make(self.task_values, self.of)

    def family(self, inverse_temperature: float) -> Any:
        """The predictor at an inverse temperature; unchanged if it has none."""
        warm = (
            {"inverse_temperature": inverse_temperature}
            if "inverse_temperature" in self.predictor_values
            else {}
        )
        return self.predictor.make({**self.predictor_values, **warm}, self.of)


def pair(task: object, predictor: object, values: Mapping[str, object], of: str) -> Pair:
    """The registry entries of both, with the arguments of each: the task takes those that it has,
    the predictor the others.

    Every value is converted to its type before anything is built; an argument that neither has is
    refused in one sentence.
    """
    first = task_row(task, of)
    second = find(imported_word(predictor, of, "predictor"), PREDICTORS, of, "predictor")
    mine = {argument.name for argument in first.arguments}
    yours = {argument.name for argument in second.arguments} - mine
    contexts = not first.planted and "length" not in mine
    for name in values:
        if name not in mine | yours and not (contexts and name == "length"):
            names = [a.name for a in first.arguments] + ["length"] * contexts
            must = f"one of {', '.join(names)} ({', '.join(sorted(yours))} of {second.word})"
            raise bad("an argument", f"{of}, {first.word}", must, name)
    to_task = first.flat({name: x for name, x in values.items() if name in mine}, of)
    to_predictor = second.flat({name: x for name, x in values.items() if name in yours}, of)
    length = replace(LENGTH, low=0).parse(
        values.get("length", LENGTH.default) if contexts else LENGTH.default, of
    )
    return Pair(first, second, to_task, to_predictor, length, of)


def task_row(task: object, of: str) -> Entry:
    """The entry of a registered name, of "module:name", or of a task in a file."""
    named = task_of_file(task, of) if is_file(task) else imported_word(task, of, "task")
    return find(named, TASKS, of, "task")


def modules_of(*words: object) -> list[str]:
    """The modules that these names come from, each once, in order; for a file its stem."""
    found = []
    for word in map(str, words):
        if ":" in word or is_file(word):
            before = word.partition(":")[0]
            found.append(Path(before).stem if before.endswith(".py") else before)
        else:
            found += [module for module in (module_of_word(word),) if module]
    return list(dict.fromkeys(found))


def imported_word(word: object, of: str, what: str) -> str:
    """The registered name, after the import of its module or of the plugin that has it."""
    if ":" not in str(word):
        announced_word(str(word), what)
        return str(word)
    for module in modules_of(word):
        try:
            import_named(module)
        except ImportError as error:
            hint = "PYTHONPATH=. for a file of this folder"
            raise bad(
                what,
                of,
                "a word, or 'module:word' of a module that can be imported",
                str(error),
                hint,
            ) from None
    return str(word).rpartition(":")[2]
