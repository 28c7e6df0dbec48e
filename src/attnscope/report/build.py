"""The report: verdicts and figures as one page that needs nothing else.

One HTML file with its style and pictures inside: it opens offline, asks no host for anything and
runs no script. It formats and computes nothing. The same verdicts give the same bytes; times stand
in `data-seconds` elements, and `without_times` takes them out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from attnscope.claims.claim import Comparison
from attnscope.claims.pages import docs_page
from attnscope.claims.verdict import WORDS, Verdict
from attnscope.report import drawing, folder
from attnscope.report.environment import environment
from attnscope.report.numbers import MOST, allowance, number, prediction, pretty, used

__all__ = ["page", "verdicts_json", "without_times", "write_report"]

# characters of pictures: leaves a tenth of the 6 MB of a page for words and tables
FORMAT = 2  # of verdicts.json: 1 had one comparison a claim and no provenance
LIMIT = 5_400_000


def write_report(
    verdicts: Sequence[Verdict],
    out: str | os.PathLike[str],
    seed: int,
    version: str,
    command: str = "",
    drawn: Mapping[str, Any] | None = None,
    unchecked: int = 0,
) -> None:
    """Write OUT/index.html, OUT/verdicts.json and OUT/figures/ID.csv.

    Args:
        command: the line that made it, shown at the top.
        drawn: pictures by claim id from `drawing.draw`, where they exist already; the others are
        drawn here. unchecked: how many further claims a stopped run did not come to.
    """
    place = folder.prepare(out)
    folder.replace(place / "verdicts.json", verdicts_json(verdicts, seed, version))
    # in a clone, not elsewhere
    docs = "../docs" if (place.resolve().parent / "docs" / "index.md").exists() else ""
    folder.replace(
        place / "index.html", page(verdicts, seed, version, command, drawn, unchecked, docs)
    )
    for verdict in verdicts:
        if verdict.figure is not None:
            folder.replace(place / "figures" / f"{verdict.id}.csv", verdict.figure.to_csv())


def verdicts_json(verdicts: Sequence[Verdict], seed: int, version: str) -> str:
    """The text of verdicts.json."""
    content = {
        "format": FORMAT,
        "seed": seed,
        "version": version,
        "environment": environment(),
        "verdicts": [verdict.record() for verdict in verdicts],
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def page(
    verdicts: Sequence[Verdict],
    seed: int,
    version: str,
    command: str = "",
    drawn: Mapping[str, Any] | None = None,
    unchecked: int = 0,
    docs: str = "",
) -> str:
    """The text of index.html; `docs` is where the documentation's pages are, seen from it,
    if anywhere.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number=_number, paragraphs=_paragraphs, used=used)
    environment.filters.update(allowance=_printed(allowance), prediction=_printed(prediction))
    own = files("attnscope.report")
    return environment.from_string((own / "template.html").read_text("utf-8")).render(
        verdicts=verdicts,
        seed=seed,
        version=version,
        command=command or f"attnscope reproduce --seed {seed} --out report",
        style=(own / "style.css").read_text("utf-8"),
        drawn=_pictures(verdicts, drawn or {}),
        counts=_counts(verdicts),
        unchecked=unchecked,
        docs=docs,
        docs_page=docs_page,
        seconds=sum(verdict.seconds for verdict in verdicts),
    )


def without_times(html: str) -> str:
    """The page with every time blanked: what two runs with one seed have in common."""
    return re.sub(r"(<(\w+) data-seconds>)[^<]*(</\2>)", r"\1\3", html)


def _pictures(verdicts: Sequence[Verdict], drawn: Mapping[str, Any]) -> dict[str, Any]:
    figures = {v.id: v.figure for v in verdicts if v.figure is not None}
    pictures = {
        name: list(drawn.get(name) or drawing.draw(figure, name))
        for name, figure in figures.items()
    }
    drawing.fit(pictures, figures, LIMIT)
    return pictures


def _counts(verdicts: Sequence[Verdict]) -> list[tuple[str, str, int]]:
    """(kind, word, how many) of each kind of verdict that occurs, in the order of WORDS."""
    kinds = [verdict.kind for verdict in verdicts]
    return [(kind, word, kinds.count(kind)) for kind, word in WORDS.items() if kind in kinds]


def _number(x: float | None, tolerance: float = 0.0, most: int = MOST) -> str:
    return _typeset(number(x, tolerance, most))


def _printed(words: Callable[[Comparison], str]) -> Callable[[Comparison], str]:
    return lambda comparison: _typeset(words(comparison))


def _typeset(text: str) -> str:
    return pretty(text).replace("-", "−")


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip())]
