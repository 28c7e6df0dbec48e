"""Figures as pieces of a page: one inline SVG per panel, so that the page can put them side by side
or one below the other.

An SVG from matplotlib is a document of its own. Inside a page it must carry no prolog, metadata or
style sheet, its ids must not meet those of its neighbours, and coordinates need no more than a
hundredth of a point. A panel whose SVG is longer than `LONGEST` is drawn as PNG instead (a PNG
hardly grows with the number of points).

Pictures have no background and suit light and dark pages alike: what is black in a file is
`currentColor` here, so the page decides by `color` of whatever is around them (`.panel`), and by
`background`. Colours of the palette stay as they are: each has a contrast of 3 and more with white
and with a dark page (#14181d), but for the two lightest on white. Labels beside lines have shades
for words, which the style sheet may change (`--label-0`, ...). A PNG has grey ink instead.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re

from markupsafe import Markup

from attnscope.figures.figure import Figure, Panel

__all__ = ["draw", "fit"]

# characters: beyond this a PNG of the same panel (20 to 80 kB) is smaller and scrolls better
LONGEST = 120_000
# of a PNG: the palette with its blends at the edges of lines; half the bytes of the full range
COLORS = 64
# of words and axes in a PNG: contrast 3.9 with white, 4.5 with #14181d
GREY = "#808080"
LEFT_OUT = Markup(
    '<p class="undrawn">Left out to keep this page small; its numbers are in the CSV file.</p>'
)
_COLOR = re.compile(r"(fill|stroke): (#000000|#ffffff)")
_COORDINATES = re.compile(r'\b(d|x|y|width|height|transform|points)="([^"]*)"')


def draw(figure: Figure, name: str) -> list[Markup]:
    """Every panel as HTML; `name` keeps the ids of different figures apart."""
    return [_piece(figure, i, f"{name}-{i}") for i in range(len(figure.panels))]


def fit(drawn: dict[str, list[Markup]], figures: dict[str, Figure], limit: int) -> None:
    """Bring all pieces together to at most `limit` characters:
    the longest as PNG, and if that is not enough, left out.
    """
    for shorter in (_png, lambda *_: LEFT_OUT):
        total = sum(len(piece) for pieces in drawn.values() for piece in pieces)
        longest_first = sorted(
            (-len(piece), name, i) for name in drawn for i, piece in enumerate(drawn[name])
        )
        for _, name, i in longest_first:
            if total <= limit:
                return
            other = shorter(figures[name].panels[i], _words(figures[name], i))
            if len(other) < len(drawn[name][i]):
                total += len(other) - len(drawn[name][i])
                drawn[name][i] = other


def _piece(figure: Figure, i: int, name: str) -> Markup:
    from attnscope.figures.render_matplotlib import svg

    try:
        text = inline(svg(_alone(figure.panels[i])), name, _words(figure, i))
        return text if len(text) <= LONGEST else _png(figure.panels[i], _words(figure, i))
    except Exception as error:  # a picture that cannot be drawn must not cost the report
        reason = f"This panel could not be drawn ({type(error).__name__}: {error})."
        return Markup('<p class="undrawn">{}</p>').format(reason)


def _alone(panel: Panel) -> Figure:
    return Figure("", (panel,))


def _words(figure: Figure, i: int) -> str:
    """What a screen reader says: the figure's title, then the panel's."""
    return ": ".join(filter(None, dict.fromkeys((figure.title, figure.panels[i].title))))


def _png(panel: Panel, words: str) -> Markup:
    from PIL import Image  # comes with matplotlib

    from attnscope.figures.render_matplotlib import png

    with Image.open(io.BytesIO(png(_alone(panel), GREY))) as image:
        few = image.convert("RGBA").quantize(COLORS, method=Image.Quantize.FASTOCTREE)
    out = io.BytesIO()
    few.save(out, "png", optimize=True)
    data = base64.b64encode(out.getvalue()).decode()
    return Markup('<img src="data:image/png;base64,{}" alt="{}">').format(data, words)


def inline(text: str, name: str, words: str) -> Markup:
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
    body = _COORDINATES.sub(lambda m: f'{m[1]}="{_rounded(m[2])}"', body)
    body = _share_style(re.sub(r">\s+<", "><", _own_ids(body, name)).strip())
    # words have no colour of their own: that of the root
    opening = Markup(
        '<svg viewBox="{}" fill="currentColor" role="img" aria-label="{}">'
    ).format(box[1] if box else "", words)
    return opening + Markup(body)


def _page_color(style: re.Match[str]) -> str:
    """The page's ink for black, nothing for the white behind a picture."""
    return f"{style[1]}: " + ("currentColor" if style[2] == "#000000" else "none")


def _rounded(coordinates: str) -> str:
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
