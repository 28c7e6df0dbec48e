"""The one form of an error sentence: what, of whom, must be, got, try.

`gamma of SingleLocation must be a finite number > 0, got -1.0; try gamma=0.5**0.5.`
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

__all__ = ["AttnscopeError", "bad", "is_traced", "listed", "masked", "shown", "traced"]


class AttnscopeError(ValueError):
    """A refusal in one sentence. Every bad input to a public function raises this.

    >>> import attnscope as at
    >>> try:
    ...     at.SingleLocation(dim=400, length=0)
    ... except at.AttnscopeError as error:
    ...     print(error)
    length of SingleLocation must be an integer >= 1, got 0.
    """


def bad(what: str, of: str, must: str, got: object, hint: str = "") -> AttnscopeError:
    """Build (not raise) the error that says `what` of `of` must be `must`, got `got`;
    try `hint`. A value that JAX traces has a sentence of its own.
    """
    if is_traced(got):
        return traced(what, of)
    tail = f"; try {hint}." if hint else "."
    return AttnscopeError(f"{what} of {of} must be {must}, got {shown(got)}{tail}")


def traced(what: str, of: str) -> AttnscopeError:
    """The error about a value that JAX traces and that would lose its derivative."""
    return AttnscopeError(
        f"{what} of {of} must be a plain number or array, not one that JAX traces (grad, jit, "
        "vmap); use risk_function(task, predictor)(overlaps, inverse_temperature), which JAX can trace."
    )


def masked(what: str, of: str, count: int) -> AttnscopeError:
    """The error about a numpy.ma array that would lose its mask."""
    entries = "entry" if count == 1 else "entries"
    return AttnscopeError(
        f"{what} of {of} has {count} masked {entries}; remove the rows or fill the values first."
    )


def is_traced(x: Any) -> bool:
    """Whether `x` is a value inside jax.grad, jit or vmap: a class of its type's `__mro__` is
    called a tracer. JAX is not imported for this.
    """
    kind: Any = type(x)
    return _is_tracer_type(kind)


@lru_cache(maxsize=1024)
def _is_tracer_type(kind: Any) -> bool:
    return any("Tracer" in parent.__name__ for parent in kind.__mro__)


def shown(got: object) -> str:
    """A value as it appears in a sentence: one short line, whatever the object's repr does."""
    if isinstance(got, str) and not got.isidentifier():
        return got  # already a description in words
    try:
        text = " ".join(repr(got).split())
    except Exception:
        text = f"an object of type {type(got).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def listed(names: Iterable[object]) -> str:
    """Names of somebody's columns or arrays in a sentence: the first few, each short, without the
    letters that a terminal would obey.
    """
    texts = [str(name) for name in names]
    short = ["".join(c if c.isprintable() else "?" for c in text[:LONG]) for text in texts]
    return (", ".join(short[:MANY]) or "(none)") + (", ..." if len(texts) > MANY else "")


LONG = 40  # letters of a name that still tell which one it is
MANY = 8  # names that fit a line or two
