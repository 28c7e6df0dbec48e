"""Pictures of the report suit light and dark pages: no white behind them, no black of their own."""

import base64
import io
import re
from importlib.resources import files

import numpy as np
import pytest
from PIL import Image

from attnscope.figures.figure import Figure, Heat, Line, Panel, Points
from attnscope.figures.labels_matplotlib import LABEL_COLORS
from attnscope.figures.render_matplotlib import PALETTE
from attnscope.report import drawing

DARK, WHITE = "#14181d", "#ffffff"  # the page's
MARKS = (
    Line([0, 1], [0, 1], "black", color=6),
    Points([0, 1], [1, 0], "blue", error=[0.1, 0.1]),
)
FIGURE = Figure("t", (Panel("p", "x", "y", MARKS),))


def luminance(color):
    parts = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ (0.2126, 0.7152, 0.0722)


def contrast(a, b):
    """As the Web Content Accessibility Guidelines define it."""
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_an_svg_takes_ink_and_paper_from_the_page():
    (drawn,) = drawing.draw(FIGURE, "name")
    assert drawn.startswith("<svg ") and 'fill="currentColor"' in drawn[: drawn.index(">")]
    assert not re.search(r"#000000|#fff(fff)?\b|black|white", drawn.replace(">black<", ""))
    assert "stroke: currentColor" in drawn and f"stroke: {PALETTE[0].lower()}" in drawn


def test_heat_maps_keep_their_picture():
    heat = Heat(range(3), range(2), [[0, 1, 2], [3, 4, 5]], "height")
    (drawn,) = drawing.draw(Figure("t", (Panel("p", "x", "y", (heat,)),)), "name")
    assert "data:image/png;base64," in drawn and "#ffffff" not in drawn


def test_a_png_has_no_background_and_ink_for_both():
    piece = drawing._png(FIGURE.panels[0], "words")
    data = base64.b64decode(re.search(r"base64,([^\"]*)", piece)[1])
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))
    assert (pixels[:5, :5, 3] == 0).all()
    solid = pixels[pixels[:, :, 3] > 200][:, :3]
    assert solid.max(axis=1).min() > 100  # nothing near black
    assert min(contrast(drawing.PNG_INK, paper) for paper in (DARK, WHITE)) > 3.9


@pytest.mark.parametrize("color", PALETTE[:6])
def test_colours_show_on_dark_pages(color):
    assert contrast(color, DARK) > 3


def test_labels_beside_lines_take_a_shade_for_words_from_the_page():
    """Contrast 4.5, on white, on dark paper, and in print."""
    panel = Panel("p", "x", "y", (Line([0, 1], [0, 1], "rising", color=5),))
    (drawn,) = drawing.draw(Figure("t", (panel,)), "name")
    assert re.search(r"fill: var\(--label-5\)[^>]*>rising<", drawn)
    style = (files("attnscope.report") / "style.css").read_text("utf-8")
    shades = [re.findall(r"--label-\d: (#\w+)", part) for part in style.split(":root")[1:]]
    assert [len(part) for part in shades] == [6, 6, 6]
    for part, paper in zip(shades, (WHITE, DARK, WHITE)):
        assert min(contrast(shade, paper) for shade in part) > 4.5
    assert [shade.lower() for shade in LABEL_COLORS[:6]] == shades[0] == shades[2]
    # a line never has a label's shade: the page could not tell them apart
    assert not {c.lower() for c in PALETTE[:6]} & set(shades[0])
