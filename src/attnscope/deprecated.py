"""The old name `temperature` of the inverse temperature lambda, until 0.5.

What 0.2 called `temperature` is called `inverse_temperature`: a larger value is sharper. Keywords,
attributes, functions, command options, study keys and links with the old name still mean the same,
with one DeprecationWarning; files of 0.1 and 0.2 are read without one. Whoever gives both names is
refused. In 0.5 this module goes, with the lines that use it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from attnscope.errors import AttnscopeError

__all__ = [
    "OLD_NAME",
    "OldNames",
    "accept_old_keyword",
    "accept_old_keyword_of",
    "module_attribute",
    "new_arguments",
    "new_entry",
    "new_link",
    "new_name",
    "new_names",
    "new_options",
    "new_study",
    "old_names",
    "show_warnings",
    "warn_of",
]

OLD_NAME = "temperature"
NEW_NAME = "inverse_temperature"
LAST_WORDS = "the old name works until 0.5."
# the commands with the option
COMMANDS = ("risk", "train")
# modules between a caller and this one: the warning is about the line of the caller
OWN_MODULES = ("attnscope", "dataclasses", "functools")

Kind = TypeVar("Kind", bound=type)
Made = TypeVar("Made", bound=Callable[..., Any])


def new_name(name: str) -> str:
    """`optimal_temperature` -> `optimal_inverse_temperature`; other names as they are."""
    if "inverse" in name.lower():
        return name
    if name.startswith("--"):
        return name.replace(OLD_NAME, NEW_NAME.replace("_", "-"))
    return name.replace(OLD_NAME, NEW_NAME).replace(OLD_NAME.upper(), NEW_NAME.upper())


def sentence(old: str) -> str:
    """What the warning says."""
    return f"{old} is now {new_name(old)}; {LAST_WORDS}"


def warn_of(old: str) -> None:
    """Warn about an old name, at the line that is not ours."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and str(frame.f_globals.get("__name__")).startswith(OWN_MODULES):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence(old), DeprecationWarning, stacklevel=level)


def new_names(values: Mapping[str, Any], of: str = "") -> dict[str, Any]:
    """The same values with the argument under its new name; with `of`, the caller's name for error
    messages, both names are refused and the old one gives a warning.
    """
    if OLD_NAME not in values:
        return dict(values)
    if of:
        if NEW_NAME in values:
            raise _given_twice(NEW_NAME, of, OLD_NAME)
        warn_of(OLD_NAME)
    return {new_name(name) if name == OLD_NAME else name: x for name, x in values.items()}


def _given_twice(new: str, of: str, old: str) -> AttnscopeError:
    return AttnscopeError(
        f"{new} of {of} must be given once, got {old} too; try {new} alone."
    )


# -- functions and classes -------------------------------------------------------------------------


def accept_old_keyword(function: Made) -> Made:
    """The function, whose argument may be given by its old name as well."""
    of = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        for old in (OLD_NAME, f"{OLD_NAME}s"):
            if old in named:
                if new_name(old) in named and not _is_replaced():
                    raise _given_twice(new_name(old), of, old)
                warn_of(old)
                named[new_name(old)] = named.pop(old)
        return function(*given, **named)

    return called  # type: ignore[return-value]


def _is_replaced() -> bool:
    """Whether dataclasses.replace calls: it gives every field, the one to be replaced too."""
    return sys._getframe(2).f_globals.get("__name__") == "dataclasses"


def accept_old_keyword_of(kind: type) -> None:
    """Let the constructor of a predictor take the old keyword, if it does not yet."""
    if NEW_NAME in signature(kind.__init__).parameters:  # type: ignore[misc]
        for base in kind.__mro__:
            own = vars(base).get("__init__")
            if own is None or getattr(own, "takes_both", False) or base is object:
                continue
            if NEW_NAME in signature(own).parameters:
                called = accept_old_keyword(own)
                called.takes_both = True
                base.__init__ = called  # type: ignore[misc]


def _read_old_name(thing: Any) -> Any:
    warn_of(OLD_NAME)
    return getattr(thing, NEW_NAME)


def _set_by_old_name(thing: Any, value: Any) -> None:
    object.__setattr__(thing, NEW_NAME, value)


def old_names(kind: Kind) -> Kind:
    """Class decorator: the attribute may be read, and the constructor called, by the old name."""
    setattr(kind, OLD_NAME, property(_read_old_name))
    if "__init__" in vars(kind) and NEW_NAME in signature(kind).parameters:
        kind.__init__ = accept_old_keyword(kind.__init__)  # type: ignore[misc]
    return kind


class OldNames:
    """Base of predictors: those that were written for 0.2, with a field, a property or an argument
    of the old name, have the new one too.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = vars(cls)
        fields = own.get("__annotations__", {})
        if OLD_NAME in fields:
            warn_of(OLD_NAME)
            cls.__annotations__ = new_names(fields)
            if OLD_NAME in own:
                setattr(cls, NEW_NAME, own[OLD_NAME])
                delattr(cls, OLD_NAME)
        elif OLD_NAME in own:
            setattr(cls, NEW_NAME, own[OLD_NAME])
        constructor = own.get("__init__")
        if constructor and OLD_NAME in signature(constructor).parameters:
            cls.__init__ = _accept_new_keyword(constructor)  # type: ignore[method-assign]
            for base in cls.__mro__[1:-1]:
                accept_old_keyword_of(base)


setattr(OldNames, OLD_NAME, property(_read_old_name, _set_by_old_name))


def _accept_new_keyword(function: Any) -> Any:
    """The constructor of a predictor of 0.2, whose argument the registry gives by its new name."""

    @wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        if NEW_NAME in named:
            named[OLD_NAME] = named.pop(NEW_NAME)
        return function(*given, **named)

    return called


def module_attribute(module: str, name: str) -> Any:
    """The attribute of a module (or package) whose old name was asked for."""
    new = new_name(name)
    if new == name or not hasattr(sys.modules[module], new):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn_of(name)
    return getattr(sys.modules[module], new)


# -- what people type ------------------------------------------------------------------------------


def new_arguments(given: Mapping[str, Any], known: Iterable[str], of: str) -> dict[str, Any]:
    """Flat arguments of a registry entry that has the argument under its new name."""
    names = set(known)
    return new_names(given, of) if NEW_NAME in names - {OLD_NAME} else dict(given)


def new_entry(names: Iterable[str]) -> bool:
    """Whether a predictor of these arguments was registered for 0.2; then with a warning."""
    if OLD_NAME not in names:
        return False
    warn_of(OLD_NAME)
    return True


def new_options(typed: list[str]) -> list[str]:
    """The words of a command line with the option under its new name."""
    old, new = f"--{OLD_NAME}", new_name(f"--{OLD_NAME}")
    if not typed or typed[0] not in COMMANDS:
        return typed
    begins = [word.partition("=")[0] for word in typed]
    if old not in begins:
        return typed
    if new in begins:
        raise _given_twice(new, f"attnscope {typed[0]}", old)
    warn_of(old)
    return [
        word.replace(old, new, 1) if begin == old else word
        for word, begin in zip(typed, begins)
    ]


def show_warnings() -> None:
    """Print these warnings, which Python hides, as sentences on stderr: for the command line."""
    shown = warnings.showwarning

    def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
        if str(message).endswith(LAST_WORDS):
            print(message, file=sys.stderr)
        else:
            shown(message, category, *where, **more)

    warnings.filterwarnings("once", f".*{LAST_WORDS}", DeprecationWarning)
    warnings.showwarning = show


def new_study(data: Mapping[str, Any], functions: Iterable[str], of: str) -> dict[str, Any]:
    """The tables of a study file of one of these functions with the new names, with one warning."""
    found = dict(data)
    name = found.get("function")
    if not isinstance(name, str) or new_name(name) not in functions:
        return found
    grid, fixed, figure = (
        part if isinstance(part := found.get(key, {}), dict) else {}
        for key in ("grid", "fixed", "figure")
    )
    arguments = {**grid, **fixed}
    if OLD_NAME in arguments and NEW_NAME in arguments:
        raise _given_twice(NEW_NAME, of, OLD_NAME)
    columns = {key: new_name(x) for key, x in figure.items() if isinstance(x, str)}
    columns = {key: x for key, x in columns.items() if x != figure[key] and key != "kind"}
    if OLD_NAME not in arguments and new_name(name) == name and not columns:
        return found
    warn_of(OLD_NAME if OLD_NAME in arguments or columns else name)
    found["function"] = new_name(name)
    for key, part in (("grid", grid), ("fixed", fixed), ("figure", figure | columns)):
        if key in found:
            found[key] = new_names(part)
    return found


def new_link(values: Iterable[tuple[str, Any]]) -> tuple[list[tuple[str, Any]], list[str]]:
    """The parameters of a link to the explorer with the new name, and the sentence about the old
    one.
    """
    given = list(values)
    new = [
        (new_name(k) if k == OLD_NAME else k, NEW_NAME if x == OLD_NAME else x)
        for k, x in given
    ]
    return new, [] if new == given else [sentence(OLD_NAME)]
