"""Figures as pieces of a page: one inline SVG per panel, so that the page can put them side by side
or one below the other.

How an SVG becomes an element of a page: figures/inline_svg.py. A panel whose SVG is longer than
`SVG_LETTERS` is drawn as PNG instead (a PNG hardly grows with the number of points).

Pictures have no background and suit light and dark pages alike: what is black in a file is
`currentColor` here, so the page decides by `color` of whatever is around them (`.panel`), and by
`background`. Colours of the palette stay as they are: each has a contrast of 3 and more with white
and with a dark page (#14181d), but for the two lightest on white. Labels beside lines have shades
for words, which the style sheet may change (`--label-0`, ...). A PNG has grey ink instead.
"""

from __future__ import annotations

import base64
import io

from markupsafe import Markup

from attnscope.figures.figure import Figure, Panel
from attnscope.figures.inline_svg import inline, panel_words, single_panel

__all__ = ["draw", "fit"]

# characters: beyond this a PNG of the same panel (20 to 80 kB) is smaller and scrolls better
SVG_LETTERS = 120_000
# of a PNG: the palette with its blends at the edges of lines; half the bytes of the full range
PNG_COLOURS = 64
# of words and axes in a PNG: contrast 3.9 with white, 4.5 with #14181d
PNG_INK = "#808080"
LEFT_OUT_NOTE = Markup(
    '<p class="undrawn">Left out to keep this page small; its numbers are in the CSV file.</p>'
)


def draw(figure: Figure, name: str) -> list[Markup]:
    """Every panel as HTML; `name` keeps the ids of different figures apart."""
    return [_piece(figure, i, f"{name}-{i}") for i in range(len(figure.panels))]


def fit(drawn: dict[str, list[Markup]], figures: dict[str, Figure], limit: int) -> None:
    """Bring all pieces together to at most `limit` characters:
    the longest as PNG, and if that is not enough, left out.
    """
    for shorter in (_png, lambda *_: LEFT_OUT_NOTE):
        total = sum(len(piece) for pieces in drawn.values() for piece in pieces)
        longest_first = sorted(
            (-len(piece), name, i) for name in drawn for i, piece in enumerate(drawn[name])
        )
        for _, name, i in longest_first:
            if total <= limit:
                return
            other = shorter(figures[name].panels[i], panel_words(figures[name], i))
            if len(other) < len(drawn[name][i]):
                total += len(other) - len(drawn[name][i])
                drawn[name][i] = other


def _piece(figure: Figure, i: int, name: str) -> Markup:
    from attnscope.figures.render_matplotlib import svg

    try:
        text = Markup(
            inline(svg(single_panel(figure.panels[i])), name, panel_words(figure, i))
        )
        return (
            text
            if len(text) <= SVG_LETTERS
            else _png(figure.panels[i], panel_words(figure, i))
        )
    except Exception as error:  # a picture that cannot be drawn must not cost the report
        reason = f"This panel could not be drawn ({type(error).__name__}: {error})."
        return Markup('<p class="undrawn">{}</p>').format(reason)


def _png(panel: Panel, words: str) -> Markup:
    from PIL import Image  # comes with matplotlib

    from attnscope.figures.render_matplotlib import png

    with Image.open(io.BytesIO(png(single_panel(panel), PNG_INK))) as image:
        few = image.convert("RGBA").quantize(PNG_COLOURS, method=Image.Quantize.FASTOCTREE)
    out = io.BytesIO()
    few.save(out, "png", optimize=True)
    data = base64.b64encode(out.getvalue()).decode()
    return Markup('<img src="data:image/png;base64,{}" alt="{}">').format(data, words)
