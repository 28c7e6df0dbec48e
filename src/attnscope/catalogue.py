"""The registry of tasks and predictors under the name it has in the guides of 0.2.0.

`from attnscope.catalogue import PREDICTORS, Entry, add` keeps working; everything here is defined
in attnscope/registry.py.
"""

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
