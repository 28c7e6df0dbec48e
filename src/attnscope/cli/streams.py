"""Terminals that know fewer letters than we print: "+/-" for a plus-minus sign, and no traceback.

A terminal's encoding is the user's (`LC_ALL=C`, an old console, a pipe): what it lacks is written
in ASCII, from the table or by taking accents off; what has no such form is "?".
"""

from __future__ import annotations

import codecs
import io
import sys
import unicodedata

__all__ = ["flush_streams", "plain_streams"]

ERROR_HANDLER = "attnscope-plain"
# what we print, and the frames of the help pages
ASCII_FORMS = {
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
FRAME_NAMES = ("BOX DRAWINGS", "BLOCK", "BRAILLE")  # by Unicode name: frames, bars, spinners


def plain_streams() -> None:
    """Let stdout and stderr write what their encoding lacks in ASCII."""
    codecs.register_error(ERROR_HANDLER, _ascii_form)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERROR_HANDLER)


def flush_streams() -> None:
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


def _ascii_form(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(map(_ascii_letter, lacking)), error.end


def _ascii_letter(letter: str) -> str:
    if letter in ASCII_FORMS:
        return ASCII_FORMS[letter]
    if unicodedata.name(letter, "").startswith(FRAME_NAMES):
        return "+"
    bare = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return bare or "?"
