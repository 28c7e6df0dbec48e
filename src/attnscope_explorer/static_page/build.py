"""Writes the plain files: `attnscope explore --static DIR`.

index.html          the page
assets/             scripts and styles: the live page's own (drawing, stage, heads, looks), those of
                    static_page/assets, and plotly.min.js as the package plotly has it
data/               tables, draws, knobs and tours as scripts that set one name each, and the
                    examples of a view, loaded when they are first wanted: a page that was opened
                    from a file may load scripts, but fetch nothing
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from attnscope import __version__
from attnscope.errors import bad
from attnscope.files import whole_file, writable_folder
from attnscope.optional import needs
from attnscope_explorer.state import State, default_state
from attnscope_explorer.static_page.examples import EXAMPLE_ADDRESSES, examples, state_of
from attnscope_explorer.static_page.knob_table import knob_table
from attnscope_explorer.static_page.stored_draws import stored_draws
from attnscope_explorer.static_page.tables import TABLE_AXES, Axis, make_tables
from attnscope_explorer.tours.registry import all_tours
from attnscope_explorer.tours.tour import Tour

__all__ = ["SITE", "SITE_BYTES", "WrittenSite", "write_static"]

SITE_BYTES = (
    7_000_000  # bytes of the whole: what a class downloads over a slow line in a minute
)
PAGE_FOLDER = Path(__file__).parent
SHARED_ASSETS = PAGE_FOLDER.parent / "assets"
STYLES = ("explorer.css", "stage.css", "tours.css", "static.css")
# in the order of loading; the last one starts the page
SCRIPTS = (
    "plotly.min.js",
    "drawing.js",
    "numbers.js",
    "stage.js",
    "stage_draw.js",
    "heads.js",
    "closed_forms.js",
    "points.js",
    "descent.js",
    "state.js",
    "tables.js",
    "figure.js",
    "controls.js",
    "view_landscape.js",
    "view_training.js",
    "view_risk.js",
    "view_posterior.js",
    "view_example.js",
    "tour_panel.js",
)
START_SCRIPT = "page.js"
DATA_NAMES = {
    "knobs": "attnscopeKnobs",
    "tables": "attnscopeTables",
    "drawn": "attnscopeDrawn",
    "tours": "attnscopeTourList",
    "has": "attnscopeHas",
}
COMMAND = "attnscope explore --static"
# text -> address, where docs and report lie beside the explorer
SITE = {"Docs": "../index.html", "Report": "../report/index.html"}


@dataclass(frozen=True)
class WrittenSite:
    """Where the page is, the bytes it takes, and a sentence for each example that was left out."""

    page: Path
    files: int
    size: int
    left_out: tuple[str, ...]


def write_static(
    folder: str | Path,
    nodes: dict[str, tuple[Axis, ...]] = TABLE_AXES,
    listed: Mapping[str, Mapping[str, str]] = EXAMPLE_ADDRESSES,
    links: Mapping[str, str] | None = None,
    tours: Sequence[Tour] | None = None,
) -> WrittenSite:
    """Write the page into `folder`, about two minutes' work; files of the same names are replaced.

    Args:
        nodes: of the tables. listed: addresses of examples beside those of the tours.
        links: text -> address, for the foot of the page. tours: all of them if None.
    """
    place = Path(folder)
    shown = all_tours() if tours is None else tuple(tours)
    states = list(
        _shown_states(listed, shown)
    )  # an address that is wrong says so before long work
    plotly = _plotly_script()
    for sub in (place, place / "assets", place / "data"):
        writable_folder(
            sub, lambda error: bad("DIR", COMMAND, "a folder one can write", f"{error}")
        )
    tables = make_tables(nodes)
    found, left_out = examples(states)
    data: dict[str, Any] = {
        "knobs": knob_table(),
        "tables": {name: table.record() for name, table in tables.items()},
        "drawn": stored_draws(state for state, _ in _shown_states({}, shown)),
        "tours": [tour.record() for tour in shown],
        "has": {"examples": list(found)},
    }
    texts = {
        f"data/{name}.js": f"window.{DATA_NAMES[name]} = {_json_text(x)};\n"
        for name, x in data.items()
    }
    for view, records in found.items():
        texts[f"data/examples_{view}.js"] = (
            f"(window.attnscopeExamples ||= {{}})[{view!r}] = {_json_text(records)};\n"
        )
    for name in (*STYLES, *SCRIPTS[1:], START_SCRIPT):
        own = PAGE_FOLDER / "assets" / name
        texts[f"assets/{name}"] = (own if own.exists() else SHARED_ASSETS / name).read_text(
            "utf-8"
        )
    texts[f"assets/{SCRIPTS[0]}"] = plotly
    texts["index.html"] = _index_html(links or {})
    for name, text in texts.items():
        with whole_file(place / name, COMMAND, "DIR", sync=False) as part:
            Path(part).write_text(text, encoding="utf-8")
    size = sum(len(text.encode()) for text in texts.values())
    return WrittenSite(place / "index.html", len(texts), size, tuple(left_out))


def _shown_states(
    listed: Mapping[str, Mapping[str, str]], tours: Sequence[Tour]
) -> Iterator[tuple[State, str]]:
    """(state, words) of first looks, of the steps of tours and of what their questions turn, and of
    what is listed.
    """
    for view, queries in listed.items():
        for query, words in queries.items():
            yield state_of(view, query), words
    for view in ("landscape", "training", "posterior"):
        yield default_state(view), "to begin with"
    for tour in tours:
        for k, step in enumerate(tour.steps, start=1):
            for query in dict.fromkeys((step.query, step.turned or step.query)):
                words = f"{tour.title}, step {k}" + (
                    ", turned" if query != step.query else ""
                )
                yield state_of(step.view, query), words


def _plotly_script() -> str:
    needs("plotly", COMMAND)
    import plotly

    return (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_text(
        "utf-8"
    )


def _index_html(links: Mapping[str, str]) -> str:
    styles = [f'<link rel="stylesheet" href="assets/{name}">' for name in STYLES]
    names = [f"assets/{name}" for name in SCRIPTS]
    names += [f"data/{name}.js" for name in DATA_NAMES]
    names.append(f"assets/{START_SCRIPT}")
    scripts = [f'<script src="{name}"></script>' for name in names]
    ways = " · ".join(f'<a href="{address}">{text}</a>' for text, address in links.items())
    template = Template((PAGE_FOLDER / "index.html").read_text("utf-8"))
    return template.substitute(
        styles="\n".join(styles), scripts="\n".join(scripts), version=__version__, links=ways
    )


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
