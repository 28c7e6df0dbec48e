"""Verdicts and claims as text: the table that grows while claims run, the last line, and the list
of claims.

On a terminal a row is printed as each claim lands, above the claims under way with their spinners
(rich, imported only then); elsewhere plain lines. Both fit 80 columns.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from attnscope.claims.claim import Claim
from attnscope.claims.numbers import number, prediction
from attnscope.claims.registry import OWN
from attnscope.claims.verdict import WORDS, Verdict
from attnscope.report.tables import row_lines

__all__ = ["Display", "claims_json", "claims_table", "display", "summary"]

COLUMNS = 80  # that every terminal has
# tables name a verdict by its kind, one word; the page and verdicts.json have it in full
STATE_COLUMNS = max(map(len, WORDS))
ID_COLUMNS = 44  # columns of ids in the list of claims; longer ones are broken
# what the words that are not the verdict's own stand for
LEGEND = {
    "condition": "condition: holds under a condition, which the report names",
    "declared": "declared: fails, as was declared beforehand",
}
STATE_COLOURS = {
    "holds": "green",
    "condition": "cyan",
    "declared": "yellow",
    "skipped": "dim",
    "unexpected": "bold red",
    "error": "bold red",
}


class Display:
    """Says nothing. `started` when a claim is handed out, `landed` with its verdict."""

    def started(self, claim: Claim) -> None:
        pass

    def landed(self, verdict: Verdict) -> None:
        pass

    def say(self, sentence: str) -> None:
        pass


class Plain(Display):
    """One line per verdict."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.say(_header(width))

    def landed(self, verdict: Verdict) -> None:
        print(_line(verdict, self.width), flush=True)

    def say(self, sentence: str) -> None:
        print(sentence, flush=True)


class Live(Display):
    """The same lines in colour, and below them what is running;
    `at_once` claims can run at a time.
    """

    def __init__(self, console: Any, width: int, total: int, at_once: int) -> None:
        self.console = console
        self.width = width
        self.total = total
        self.at_once = at_once
        self.begun: dict[str, float] = {}
        self.done = 0
        self.spinners: dict[str, Any] = {}
        self.start = time.monotonic()

    def started(self, claim: Claim) -> None:
        self.begun[claim.id] = time.monotonic()

    def landed(self, verdict: Verdict) -> None:
        from rich.text import Text

        self.begun.pop(verdict.id, None)
        self.done += 1
        line = Text(_line(verdict, self.width))
        line.stylize(
            STATE_COLOURS[verdict.kind], self.width + 2, self.width + 2 + STATE_COLUMNS
        )
        self.console.print(line, no_wrap=True, overflow="ellipsis")

    def say(self, sentence: str) -> None:
        self.console.print(sentence, markup=False, highlight=False)

    def __rich__(self) -> Any:
        """What rich draws below the landed rows,
        asked for several times a second from its own thread.
        """
        from rich.console import Group
        from rich.text import Text

        now = time.monotonic()
        rows = [
            self._running_row(name, now - begun)
            for name, begun in list(self.begun.items())[: self.at_once]
        ]
        count = Text(
            f"{self.done} of {self.total} claims, {now - self.start:.0f} s", style="dim"
        )
        return Group(*rows, count)

    def _running_row(self, name: str, seconds: float) -> Any:
        from rich.spinner import Spinner

        spinner = self.spinners.setdefault(name, Spinner("dots", style="cyan"))
        spinner.update(text=f"{name}  {seconds:.0f} s")
        return spinner


@contextmanager
def display(claims: Sequence[Claim], at_once: int, show: bool = True) -> Iterator[Display]:
    """The display that suits where the output goes."""
    width = max(len(claim.id) for claim in claims)
    if not show:
        yield Display()
    elif not _is_terminal():
        yield Plain(width)
    else:
        from rich.console import Console
        from rich.live import Live as Screen

        console = Console(highlight=False)
        live = Live(console, width, len(claims), at_once)
        console.print(_header(width), style="bold", no_wrap=True, overflow="ellipsis")
        with Screen(live, console=console, refresh_per_second=10, transient=True):
            yield live


def summary(verdicts: Sequence[Verdict], seconds: float) -> str:
    """The last lines: what abbreviated verdicts mean, and how many there are."""
    skipped = sum(v.holds is None for v in verdicts)
    against = sum(not v.as_expected for v in verdicts)
    claims = "1 claim" if len(verdicts) == 1 else f"{len(verdicts)} claims"
    fine = len(verdicts) - skipped - against
    kinds = {verdict.kind for verdict in verdicts}
    last = (
        f"{claims}: {fine} as expected, {against} not, {skipped} skipped, in {seconds:.1f} "
        "seconds"
    )
    return "\n".join([*(words for kind, words in LEGEND.items() if kind in kinds), last])


def claims_table(claims: Sequence[Claim], origins: Mapping[str, str] | None = None) -> str:
    """Id and title of each claim, its source below the title, within 80 columns; those of installed
    packages (`origins`, by id) last, under the name of theirs.
    """
    width = min(max((len(claim.id) for claim in claims), default=0), ID_COLUMNS)
    width = max(width, len("claim"))
    widths = (width, COLUMNS - width - 2)
    lines = row_lines(("claim", "title, and where it is from"), widths)
    last = ""
    for claim in claims:
        origin = (origins or {}).get(claim.id, "")
        if origin != last and not origin.startswith(OWN):
            lines += ["", f"from {origin}"]
        last = origin
        lines += row_lines((claim.id, claim.title), widths)
        told = textwrap.wrap(claim.source, widths[1] - 2, break_on_hyphens=False)
        lines += [" " * (width + 4) + line for line in told]
    return "\n".join(lines)


def claims_json(
    claims: Sequence[Claim], origins: Mapping[str, str] | None = None
) -> list[dict[str, str]]:
    """What `attnscope claims --json` prints; `origins`: the packages, with versions, by id."""
    return [
        {
            "id": claim.id,
            "title": claim.title,
            "source": claim.source,
            "origin": (origins or {}).get(claim.id, "attnscope"),
        }
        for claim in claims
    ]


def _header(width: int) -> str:
    return f"{'claim':<{width}}  {'verdict':<{STATE_COLUMNS}}  seconds  measured vs predicted"


def _line(verdict: Verdict, width: int) -> str:
    head = (
        f"{verdict.id:<{width}}  {verdict.kind:<{STATE_COLUMNS}}  {verdict.seconds:>7.1f}  "
    )
    return head + textwrap.shorten(
        _reason(verdict), max(COLUMNS - len(head), 20), placeholder=" ..."
    )


def _reason(verdict: Verdict) -> str:
    """The headline, or what broke, or why there is neither."""
    unexpected = verdict.broken if verdict.expected else ()
    c = unexpected[0] if unexpected else verdict.headline
    if c is None:
        return verdict.skipped or verdict.notes
    return f"{number(c.measured, c.tolerance)} vs {prediction(c)}"


def _is_terminal() -> bool:
    return bool(sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty())
