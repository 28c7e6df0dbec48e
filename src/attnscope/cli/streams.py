"""Terminals that know fewer letters than we print: "+/-" for a plus-minus sign, and no traceback.

A terminal's encoding is the user's (`LC_ALL=C`, an old console, a pipe): what it lacks is written
in ASCII, from the table or by taking accents off; what has no such form is "?".
"""

from __future__ import annotations

import codecs
import io
import sys
import unicodedata

__all__ = ["plain_streams", "written_out"]

NAME = "attnscope-plain"
# what we print, and the frames of the help pages
WRITTEN = {
    "\u00b1": "+/-",
    "\u00d7": "x",
    "\u00b7": ".",
    "\u2192": "->",
    "\u2013": "-",
    "\u2014": "-",
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u2026": "...",
    "\u2264": "<=",
    "\u2265": ">=",
    "\u2500": "-",
    "\u2502": "|",
}
CORNERS = ("BOX DRAWINGS", "BLOCK", "BRAILLE")  # by Unicode name: frames, bars, spinners


def plain_streams() -> None:
    """Let stdout and stderr write what their encoding lacks in ASCII."""
    codecs.register_error(NAME, _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=NAME)


def written_out() -> None:
    """Write what is still held back, while its refusal can be told: a stream that cannot be written
    is let go of, or Python would complain of it once more at its end.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            setattr(sys, name, None)
            raise


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(map(_letter, lacking)), error.end


def _letter(letter: str) -> str:
    if letter in WRITTEN:
        return WRITTEN[letter]
    if unicodedata.name(letter, "").startswith(CORNERS):
        return "+"
    bare = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return bare or "?"
