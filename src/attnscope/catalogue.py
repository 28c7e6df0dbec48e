"""The registry of tasks and predictors under the name it has in the guides of 0.2.0.

`from attnscope.catalogue import PREDICTORS, Entry, add` keeps working; everything here is defined
in attnscope/registry.py.
"""

from typing import Any

from attnscope.deprecated import module_attribute
from attnscope.registry import (
    INVERSE_TEMPERATURE,
    PREDICTORS,
    TASKS,
    Argument,
    Entry,
    add,
    find,
    make,
    named,
    remove,
    word_of,
)

__all__ = [
    "INVERSE_TEMPERATURE",
    "PREDICTORS",
    "TASKS",
    "Argument",
    "Entry",
    "add",
    "find",
    "make",
    "named",
    "remove",
    "word_of",
]


def __getattr__(name: str) -> Any:
    return module_attribute(__name__, name)
