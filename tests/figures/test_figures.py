"""Names on an axis: in the data, in JSON, and in both renderers."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attnscope.errors import AttnscopeError
from attnscope.figures.figure import Band, Figure, Heat, Line, Panel, Points
from attnscope.figures.render_matplotlib import svg
from attnscope.figures.render_plotly import SCREEN_PALETTE, plotly_dict

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


def test_bars_that_are_not_symmetric():
    """From y - below to y + error, in data, JSON, CSV and both renderers."""
    mark = Points([0, 1], [0.9, 0.5], "share", error=[0.1, 0.2], below=[0.3, 0.2])
    figure = Figure("t", (Panel("p", "x", "y", (mark,)),))
    back = Figure.from_json(figure.to_json())
    assert back.to_json() == figure.to_json()
    low, high = back.panels[0].marks[0].ends
    assert low.tolist() == pytest.approx([0.6, 0.3]) and high.tolist() == [1.0, 0.7]
    assert figure.to_csv().splitlines()[1] == f"p,points,share,0,0.0,0.9,{low[0]},1.0,"
    bars = plotly_dict(figure)["data"][0]["error_y"]
    assert bars["arrayminus"] == [0.3, 0.2] and bars["symmetric"] is False
    assert svg(figure) != svg(
        Figure("t", (Panel("p", "x", "y", (replace(mark, below=None),)),))
    )
    with pytest.raises(AttnscopeError, match="given together with error"):
        Points([0], [1], below=[0.1])


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


def test_thin_lines_of_one_look_are_one_trace_with_gaps():
    thin = [Line([0, 1], [i, i + 1], "runs" if i == 0 else "", thin=True) for i in range(3)]
    other = Line([0, 1], [5, 6], "", color=1, thin=True)
    wide = Line([0, 1], [7, 8], "median")
    data = plotly_dict(Figure("t", (Panel("p", "x", "y", (*thin, other, wide)),)))["data"]
    assert [trace["y"] for trace in data] == [[0, 1, None, 1, 2, None, 2, 3], [5, 6], [7, 8]]
    assert [trace.get("meta") for trace in data] == [{"each": 2}, {"each": 2}, None]
    assert [trace["showlegend"] for trace in data] == [True, False, True]


def test_a_band_is_one_polygon_unless_an_edge_has_gaps():
    whole = Band([0, 1, 2], [1, 2, 3], [4, 5, 6], "whole")
    gap = Band([0, 1, 2], [1, np.nan, 3], [4, 5, 6], "gap")
    zero = Band([0, 1, 2], [0, 2, 3], [4, 5, 6], "zero")
    panels = (
        Panel("p", "x", "y", (whole, gap, zero)),
        Panel("q", "x", "y", (zero,), log_y=True),
    )
    data = plotly_dict(Figure("t", panels))["data"]
    kinds = [(trace["name"], trace.get("fill"), len(trace["x"])) for trace in data]
    edges = lambda name: [(name, None, 3), (name, "tonexty", 3)]
    closed = lambda name: [(name, "toself", 6)]
    assert kinds == [*closed("whole"), *edges("gap"), *closed("zero"), *edges("zero")]
    assert data[0]["x"] == [0, 1, 2, 2, 1, 0] and data[0]["y"] == [1, 2, 3, 6, 5, 4]
    assert data[0]["meta"] == {"band": 3}


def test_panels_above_one_another_share_the_labels_of_a_fixed_axis():
    def panel(x_range):
        return Panel("p", "step", "y", (Line([0, 3], [0, 1], "a"),), x_range=x_range)

    shared = Figure("t", (panel((0, 3)), panel((0, 3)), panel((0, 2))), columns=1)
    layout = plotly_dict(shared)["layout"]
    assert layout["xaxis"]["showticklabels"] is False
    assert all("showticklabels" not in layout[name] for name in ("xaxis2", "xaxis3"))
    free = plotly_dict(Figure("t", (panel(None), panel(None)), columns=1))["layout"]
    assert "showticklabels" not in free["xaxis"]


def test_a_band_has_an_entry_where_no_line_has_its_name():
    band = {name: Band([0, 1], [0, 0], [1, 1], name) for name in ("phase", "median")}
    marks = (band["phase"], band["median"], Line([0, 1], [0, 1], "median"))
    data = plotly_dict(Figure("t", (Panel("p", "x", "y", marks),)))["data"]
    assert [t["name"] for t in data if t["showlegend"]] == ["phase", "median"]
    assert [t["mode"] for t in data if t["showlegend"]] == ["lines", "lines"]
    assert "fill" in data[0] and data[0]["showlegend"]


def test_kinds_have_names_and_colours_of_the_palette():
    """Not a scale: in SVG words at the bar, in Plotly steps of the palette and words on pointing."""
    kinds = Heat(
        range(3), range(2), [[0, 1, 1], [2, 0, 2]], "phase", names=("one", "two", "it")
    )
    figure = Figure("kinds", (Panel("map", "x", "y", (kinds,)),))
    text = figure.to_json()
    assert Figure.from_json(text).to_json() == text
    assert Figure.from_json(text).panels[0].marks[0].names == ("one", "two", "it")
    assert all(f">{word}<" in svg(figure) for word in ("one", "two", "it"))
    trace = plotly_dict(figure)["data"][0]
    assert [color for _, color in trace["colorscale"][::2]] == list(SCREEN_PALETTE[:3])
    assert trace["customdata"][1] == ["it", "one", "it"]


def test_a_map_of_numbers_writes_no_names():
    assert '"names"' not in Figure("t", (Panel("p", "x", "y", (HEAT,)),)).to_json()


def test_a_kind_without_a_name_is_refused():
    with pytest.raises(AttnscopeError, match="z of Heat must be places of its 2 names"):
        Heat(range(2), range(1), [[0, 2]], "phase", names=("one", "two"))
