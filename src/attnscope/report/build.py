"""The report: verdicts and figures as one page that needs nothing else.

One HTML file with its style, script, mathematics and pictures inside: it opens offline and asks no
host for anything. Complete without its script, which filters and sorts. It formats and computes
nothing. The same verdicts give the same bytes apart from times (`data-seconds` elements) and the
environment (`data-environment`): `without_times` takes both out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from typing import Any
from urllib.parse import quote

from attnscope.claims.claim import Comparison
from attnscope.claims.numbers import MOST, allowance, caught, number, prediction, pretty, used
from attnscope.claims.paper import known_papers
from attnscope.claims.provenance import RELATIONS
from attnscope.claims.registry import all_claims, docs_page
from attnscope.claims.table import Cell
from attnscope.claims.verdict import Verdict
from attnscope.formulas.typeset import typeset
from attnscope.optional import needs
from attnscope.report import folder
from attnscope.report.archive import archive
from attnscope.report.coverage import coverage, known_claims, resting, unplaced
from attnscope.report.environment import environment
from attnscope.report.graph import dependents
from attnscope.report.states import SIGNS, counts, short_id
from attnscope.report.steps import Steps, in_site, marked
from attnscope.report.tables import shown_cell

__all__ = ["page", "verdicts_json", "without_times", "write_report"]

VERDICTS_FORMAT = 2  # of verdicts.json: 1 had one comparison a claim and no provenance
# characters of pictures: with all data and the mathematics (0.4 MB) this leaves a tenth of the
# 8 MB of a page for words and tables
PICTURE_LETTERS = 5_400_000
# characters of a figure's data inside the page, and of all figures' together
FIGURE_DATA_LETTERS = 40_000
PAGE_DATA_LETTERS = 1_400_000
ADDRESS_LETTERS = ",.;:()=+-*/@!$"  # characters that an address may hold as they are


def write_report(
    verdicts: Sequence[Verdict],
    out: str | os.PathLike[str],
    seed: int,
    version: str,
    command: str = "",
    drawn: Mapping[str, Any] | None = None,
    unchecked: int = 0,
    steps: Steps | None = None,
    site: bool = False,
) -> None:
    """Write OUT/index.html, OUT/verdicts.json, OUT/figures/ID.csv and all of it as OUT/report.zip.

    Args:
        command: the line that made it, shown at the top.
        drawn: pictures by claim id from `drawing.draw`, where they exist already; the others are
        drawn here. unchecked: how many further claims a stopped run did not come to.
        steps: of the explorer's tours, by claim id. site: the explorer's plain files lie beside
        the report's folder, and the steps are links to them.
    """
    html = page(verdicts, seed, version, command, drawn, unchecked, steps)
    place = folder.prepare(out)
    contents = {
        "verdicts.json": verdicts_json(verdicts, seed, version),
        "index.html": in_site(html) if site else html,
    }
    for verdict in verdicts:
        if verdict.figure is not None:
            contents[f"figures/{verdict.id}.csv"] = verdict.figure.to_csv()
    for name, text in contents.items():
        folder.replace(place / name, text)
    folder.replace(place / "report.zip", archive(contents))


def verdicts_json(verdicts: Sequence[Verdict], seed: int, version: str) -> str:
    """The text of verdicts.json."""
    content = {
        "format": VERDICTS_FORMAT,
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
    steps: Steps | None = None,
) -> str:
    """The text of index.html."""
    needs("jinja2", "the report")
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    from attnscope.report.mathematics import mathematics
    from attnscope.report.notation import TASK, key, outcome_key, symbols

    own = files("attnscope.report")
    read = lambda name: (own / name).read_text("utf-8")
    frame = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(read),
    )
    frame.filters.update(number=_number, paragraphs=_paragraphs, used=used, short_id=short_id)
    frame.filters.update(cell=_cell, formulas=typeset, shared=_rows_per_reason, marked=marked)
    frame.filters.update(
        allowance=_typeset_words(allowance), prediction=_typeset_words(prediction)
    )
    frame.filters.update(caught=_typeset_words(caught))
    known = known_claims(all_claims(), verdicts)
    return frame.get_template("template.html").render(
        verdicts=verdicts,
        known=known,
        ran={verdict.id for verdict in verdicts},
        papers=known_papers().papers,
        dependents=dependents({name: claim.rests_on for name, claim in known.items()}),
        sheets=coverage(known),
        unplaced=unplaced(known),
        resting=resting(known),
        seed=seed,
        version=version,
        command=command or f"attnscope reproduce --seed {seed} --out report",
        environment={name: fact for name, fact in environment().items() if fact},
        style=read("style.css"),
        script=read("script.js"),
        relations=RELATIONS,
        task=TASK,
        symbols=symbols(),
        outcome_key=outcome_key(),
        key=key,
        mathematics=mathematics(docs_page(verdict.id) for verdict in verdicts),
        data=_data(verdicts),
        drawn=_pictures(verdicts, drawn or {}),
        counts=counts(verdicts),
        signs=SIGNS,
        unchecked=unchecked,
        docs_page=docs_page,
        steps=steps or {},
        seconds=sum(verdict.seconds for verdict in verdicts),
    )


def without_times(html: str) -> str:
    """The page without times and environment: what two runs with one seed have in common."""
    return re.sub(r"(<(\w+) data-(?:seconds|environment)>)[^<]*(</\2>)", r"\1\3", html)


def _pictures(verdicts: Sequence[Verdict], drawn: Mapping[str, Any]) -> dict[str, Any]:
    from attnscope.report import drawing

    figures = {v.id: v.figure for v in verdicts if v.figure is not None}
    pictures = {
        name: list(drawn.get(name) or drawing.draw(figure, name))
        for name, figure in figures.items()
    }
    drawing.fit(pictures, figures, PICTURE_LETTERS)
    return pictures


def _data(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Addresses that hold the data of figures themselves, of those that are not too long."""
    kept: dict[str, str] = {}
    room = PAGE_DATA_LETTERS
    for verdict in verdicts:
        text = verdict.figure.to_csv() if verdict.figure is not None else ""
        address = "data:text/csv;charset=utf-8," + quote(text, safe=ADDRESS_LETTERS)
        if text and len(text) <= FIGURE_DATA_LETTERS and len(address) <= room:
            kept[verdict.id] = address
            room -= len(address)
    return kept


def _rows_per_reason(comparisons: Sequence[Comparison]) -> list[tuple[Comparison, int]]:
    """Each comparison with the number of rows that its reason stands for: neighbours of one reason
    and one outcome share a cell, of the first; 0 for the others.
    """
    out = []
    for _, group in groupby(comparisons, key=lambda c: (c.why, c.holds)):
        rows = list(group)
        out += [(comparison, 0 if i else len(rows)) for i, comparison in enumerate(rows)]
    return out


def _number(x: float | None, tolerance: float = 0.0, most: int = MOST) -> str:
    return _typeset_number(number(x, tolerance, most))


def _cell(cell: Cell, digits: int) -> str:
    return (
        typeset(cell) if isinstance(cell, str) else _typeset_number(shown_cell(cell, digits))
    )


def _typeset_words(words: Callable[[Comparison], str]) -> Callable[[Comparison], str]:
    return lambda comparison: _typeset_number(words(comparison))


def _typeset_number(text: str) -> str:
    return pretty(text).replace("-", "−")


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip())]
