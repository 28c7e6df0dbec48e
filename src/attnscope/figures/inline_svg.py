"""A figure as elements of a page: one inline SVG per panel, for the report and for notebooks.

An SVG from matplotlib is a document of its own. Inside a page it must carry no prolog, metadata or
style sheet, its ids must not meet those of its neighbours, and coordinates need no more than a
hundredth of a point. What is black in a file is `currentColor` here and nothing is white, so the
page decides by its own ink and paper; labels beside lines take theirs from `--label-0`, ...
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from html import escape

from attnscope.figures.figure import Figure, Panel
from attnscope.optional import installed

__all__ = ["inline", "panel_words", "pictures", "single_panel"]

_COLOR = re.compile(r"(fill|stroke): (#000000|#ffffff)")
_COORDINATES = re.compile(r'\b(d|x|y|width|height|transform|points)="([^"]*)"')


def pictures(figure: Figure, titles: Sequence[str]) -> str:
    """The panels of these titles, side by side where there is room, for a card of html_tables.

    Labels beside lines are drawn towards the ink of the page: darker on white, lighter on black.
    Without Matplotlib there are no pictures, and the card has its tables alone.
    """
    if not installed("matplotlib"):
        return ""
    from attnscope.figures.labels_matplotlib import LABEL_COLORS
    from attnscope.figures.render_matplotlib import svg

    drawn = ""
    for i, panel in enumerate(figure.panels):
        if panel.title in titles:
            text = svg(single_panel(panel))
            drawn += f"<figure>{inline(text, text, panel_words(figure, i))}</figure>"
    labels = "".join(
        f"--label-{i}:color-mix(in srgb,{color} 60%,currentColor);"
        for i, color in enumerate(LABEL_COLORS[:-1])  # the last is the ink
    )
    return f'<div class="pictures" style="{labels}">{drawn}</div>'


def single_panel(panel: Panel) -> Figure:
    """A panel as a figure of its own."""
    return Figure("", (panel,))


def panel_words(figure: Figure, i: int) -> str:
    """What a screen reader says of panel i: the figure's title, then the panel's."""
    return ": ".join(filter(None, dict.fromkeys((figure.title, figure.panels[i].title))))


def inline(text: str, name: str, words: str) -> str:
    """An SVG document as an element of a page."""
    from attnscope.figures.labels_matplotlib import LABEL_COLORS

    box = re.search(r'viewBox="([^"]*)"', text)
    body = text[text.index(">", text.index("<svg")) + 1 :]
    body = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL
    )
    body = body.replace("xlink:href", "href")
    # matplotlib turns every text, most by nothing
    body = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", body)
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body)  # the page names the font once
    body = _COLOR.sub(_page_color, body)
    for i, color in enumerate(LABEL_COLORS[:-1]):  # the last is the ink
        body = body.replace(f"fill: {color.lower()}", f"fill: var(--label-{i})")
    body = _COORDINATES.sub(lambda m: f'{m[1]}="{_rounded_coordinates(m[2])}"', body)
    body = _share_style(re.sub(r">\s+<", "><", _own_ids(body, name)).strip())
    # words have no colour of their own: that of the root
    about = f'role="img" aria-label="{escape(words)}"'
    return f'<svg viewBox="{box[1] if box else ""}" fill="currentColor" {about}>{body}'


def _page_color(style: re.Match[str]) -> str:
    """The page's ink for black, nothing for the white behind a picture."""
    return f"{style[1]}: " + ("currentColor" if style[2] == "#000000" else "none")


def _rounded_coordinates(coordinates: str) -> str:
    """Two decimals (points, of which 72 make an inch), no line breaks,
    and no letter L where it goes without saying.
    """
    short = re.sub(
        r"-?\d+\.\d+", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), coordinates
    )
    short = " ".join(short.split())
    return short.replace(" L ", " ") if re.fullmatch(r"[MLz\d. -]*", short) else short


def _own_ids(body: str, name: str) -> str:
    """Drop ids that nothing refers to, and rename the others by the figure's name and their order,
    shortly.
    """
    used = list(dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', body)))
    mine = hashlib.sha256(name.encode()).hexdigest()[:8]
    new = {old: f"f{mine}-{i}" for i, old in enumerate(used)}
    body = re.sub(
        r' id="([^"]*)"', lambda m: f' id="{new[m[1]]}"' if m[1] in new else "", body
    )
    return re.sub(r'(href="#|url\(#)([^")]+)', lambda m: m[1] + new[m[2]], body)


def _share_style(body: str) -> str:
    """Markers in a row have one style: say it once."""

    def grouped(run: re.Match[str]) -> str:
        return f'<g style="{run[2]}">' + run[0].replace(f' style="{run[2]}"', "") + "</g>"

    return re.sub(r'(<use [^>]*style="([^"]*)"/>)(?:<use [^>]*style="\2"/>)+', grouped, body)
