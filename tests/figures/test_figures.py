"""Names on an axis: in the data, in JSON, and in both renderers."""

import json

import pytest

from attnscope.figures.figure import Figure, Heat, Line, Panel
from attnscope.figures.render_matplotlib import svg
from attnscope.figures.render_plotly import plotly_dict

WORDS = ("the", "cat", "is", "$happy$ & <b>")
HEAT = Heat(range(4), range(2), [[0, 1, 2, 3], [4, 5, 6, 7]], "weight")


@pytest.fixture
def figure():
    named = Panel(
        "words", "token", "layer", (HEAT,), x_names=WORDS, y_names=("static", "last")
    )
    return Figure(
        "names", (named, Panel("numbers", "x", "y", (Line([0, 1], [0, 1]),))), columns=2
    )


def test_names_survive_json(figure):
    back = Figure.from_json(figure.to_json())
    assert back.to_json() == figure.to_json()
    assert back.panels[0].x_names == WORDS and back.panels[1].x_names == ()


def test_json_without_names_is_still_read(figure):
    old = json.loads(figure.to_json())
    for panel in old["panels"]:
        del panel["x_names"], panel["y_names"]
    assert Figure.from_json(json.dumps(old)).panels[0].x_names == ()


def test_names_are_drawn_as_text(figure):
    drawn = svg(figure)
    for text in ("the", "cat", "$happy$ &amp; &lt;b&gt;", "static", "last"):
        assert f">{text}</text>" in drawn
    assert drawn == svg(figure)


def test_many_letters_are_written_steeply():
    def panel(names):
        return svg(
            Figure("t", (Panel("p", "x", "y", (Line([0, 3], [0, 1]),), x_names=names),))
        )

    assert "rotate(-60)" in panel(("extraordinarily",) * 4) and "rotate(-60)" not in panel(
        ("short",) * 4
    )


def test_names_reach_plotly(figure):
    layout = plotly_dict(figure)["layout"]
    assert layout["xaxis"]["ticktext"] == list(WORDS) and layout["xaxis"]["tickvals"] == [
        0,
        1,
        2,
        3,
    ]
    assert (
        layout["yaxis"]["ticktext"] == ["static", "last"]
        and "ticktext" not in layout["xaxis2"]
    )
