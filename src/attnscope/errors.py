"""The one form of an error sentence: what, of whom, must be, got, try.

`gamma of SingleLocation must be a finite number > 0, got -1.0; try gamma=0.5**0.5.`
"""

from __future__ import annotations

__all__ = ["AttnscopeError", "bad"]


class AttnscopeError(ValueError):
    """A refusal in one sentence. Every bad input to a public function raises this."""


def bad(what: str, of: str, must: str, got: object, hint: str = "") -> AttnscopeError:
    """Build (not raise) the error that says `what` of `of` must be `must`, got `got`;
    try `hint`.
    """
    tail = f"; try {hint}." if hint else "."
    return AttnscopeError(f"{what} of {of} must be {must}, got {shown(got)}{tail}")


def shown(got: object) -> str:
    """A value as it appears in a sentence: one short line, whatever the object's repr does."""
    if isinstance(got, str) and not got.isidentifier():
        return got  # already a description in words
    try:
        text = " ".join(repr(got).split())
    except Exception:
        text = f"an object of type {type(got).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."
