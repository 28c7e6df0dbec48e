"""A figure that can mislead is caught, one of each kind; figures in order pass."""

import numpy as np
import pytest

from attnscope.figures.check import problems
from attnscope.figures.check_labels import Series, line_label_problems
from attnscope.figures.figure import Band, Figure, Heat, Line, Panel, Points
from attnscope.figures.layout_matplotlib import pixels
from attnscope.figures.render_matplotlib import canvas_of

X = np.linspace(0, 10, 50)
WAVE = np.sin(X)
LINE = Line(X, WAVE, "wave")


def found(*marks, **panel):
    return problems(Figure("t", (Panel("p", "x", "y", marks, **panel),)))


def across(first, second, **figure):
    panels = (Panel("p", "x", "y", first), Panel("q", "x", "y", second))
    return problems(Figure("t", panels, 2, **figure))


def grid(label="height"):
    return Heat(range(4), range(3), np.arange(12).reshape(3, 4), label)


OTHER = Points(X[::5], WAVE[::5] / 2, "half", color=1, error=np.full(10, 0.1))
GOOD = {
    "line and points": (LINE, OTHER),
    "a dashed line on a solid one": (LINE, Line(X, WAVE, "the same", color=1, dashed=True)),
    "the dashed one first": (Line(X, WAVE, "the same", color=1, dashed=True), LINE),
    "a lone series": (Line(X, WAVE),),
    "a lone series with its band": (Line(X, WAVE), Band(X, WAVE - 0.2, WAVE + 0.2)),
    "a band narrower than its line": (LINE, OTHER, Band(X, WAVE - 1e-4, WAVE + 1e-4)),
    "one of many": tuple(Line(X, WAVE + i, "runs", thin=True) for i in range(5)),
    "the first of many carries the label": tuple(
        Line(X, WAVE, "" if i else "runs", thin=True) for i in range(5)
    ),
    "one label for line and band": (LINE, Band(X, WAVE - 0.2, WAVE + 0.2, "wave"), OTHER),
    "look and colour named apart": (
        LINE,
        Line(X, 2 * WAVE, "twice", color=1),
        Points(X[::5], WAVE[::5]),
        Points(X[::5], 2 * WAVE[::5], color=1),
        Points([], [], "sampled", color=6),
    ),
    "a heat map with a line": (grid(), Line([0, 3], [0, 2], "path", color=1)),
    "full of data": tuple(
        Line(X, np.sin(X + i / 4) + 0.05 * i, f"curve {i}", color=i) for i in range(6)
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_figures_pass(name):
    assert found(*GOOD[name]) == []


def test_a_hidden_series_is_caught():
    (said,) = found(LINE, Line(X, WAVE, "copy", color=1))
    assert said == "panel 'p': 'wave' is hidden: 100 % of its pixels lie under other series."
    dense = Points(np.linspace(0, 10, 400), np.sin(np.linspace(0, 10, 400)), "dense", color=1)
    (said,) = found(LINE, dense)
    assert "'wave' is hidden" in said


def test_many_thin_lines_do_not_excuse_other_series():
    runs = tuple(Line(X, WAVE, "" if i else "runs", color=1, thin=True) for i in range(3))
    said = found(*runs, LINE)
    assert any("'runs' is hidden" in line for line in said)


def test_a_series_outside_of_the_range_is_caught():
    (said,) = found(LINE, Line(X, WAVE + 9, "far", color=1), y_range=(-1.1, 1.1))
    assert "'far' is hidden: nothing of it" in said


def test_the_bar_for_hidden_is_80_percent():
    """Straight lines: the share covered is the share of the length."""

    def covered(share):
        lines = Line([0, 1], [0, 0], "long"), Line([0, share], [0, 0], "short", color=1)
        return found(*lines, Line([0, 1], [-1, 1], "across", color=2))

    assert covered(0.76) == [] and len(covered(0.84)) == 1


def test_a_legend_on_data_is_caught(monkeypatch):
    """The renderer puts none there; one that does is caught."""
    from attnscope.figures import check

    def careless(figure):
        made = canvas_of(figure)
        canvas, (drawn,) = made.__enter__()
        drawn.axes.legend(loc="center")
        careless.kept.append(made)
        return _Open((canvas, (drawn,)))

    careless.kept = []
    monkeypatch.setattr(check, "canvas_of", careless)
    steep = Line([0, 1], [0, 1], "up"), Line([0, 1], [1, 0], "down", color=1)
    assert found(*steep) == ["panel 'p': the legend lies on data: 'up', 'down'."]
    for made in careless.kept:
        made.__exit__(None, None, None)


class _Open:
    def __init__(self, value):
        self.value = value

    def __enter__(self):
        return self.value

    def __exit__(self, *_):
        return None


@pytest.mark.parametrize("log", [False, True])
def test_the_bar_for_a_stretched_range_is_65_percent(log):
    """Data from 1 to 2 of a range whose ends leave them a given share of the axis."""

    def spanned(share):
        high = 2 ** (1 / share) if log else 1 + 1 / share
        return found(Line([0, 1], [1, 2]), y_range=(1, high), log_y=log)

    (said,) = spanned(0.6)
    assert "the y axis is stretched: the data span 60 % of 1 to" in said
    assert spanned(0.7) == []


def test_error_bars_and_bands_are_data():
    ends = {"y_range": (0.9, 4.1)}
    assert found(Points([0, 1], [2, 3], error=[1, 1]), **ends) == []
    assert found(Line([0, 1], [2, 3]), Band([0, 1], [1, 1], [4, 4]), **ends) == []
    assert "stretched" in found(Points([0, 1], [2, 3]), **ends)[0]


def test_a_zero_and_natural_bounds_are_references_but_narrowly():
    assert found(Line([0, 1], [8, 10]), y_range=(0, 11)) == []
    assert "stretched" in found(Line([0, 1], [8, 10]), y_range=(0, 20))[0]
    assert "stretched" in found(Line([0, 1], [8, 10]), y_range=(-10, 11))[0]
    share = Line([0, 1], [0.1, 0.4])
    assert found(share, y_range=(0, 1.05)) == [] and found(share, y_range=(-0.05, 1)) == []
    assert "stretched" in found(share, y_range=(0, 1.3))[0]
    assert "stretched" in found(Line([0, 1], [0.4, 0.45]), y_range=(0, 1))[0]


def test_the_x_axis_counts_and_names_have_their_room():
    assert "the x axis is stretched" in found(Line([0, 1], [0, 1]), x_range=(0, 9))[0]
    two = Points([0, 1], [1, 2])
    assert found(two, x_names=("a", "b")) == []
    assert "goes on beyond" in found(two, x_names=("a", "b"), x_range=(-2, 3))[0]


def test_panels_that_share_a_range_are_measured_together():
    def pair(label):
        low = Panel("low", "x", "y", (Line([0, 1], [1, 2]),), y_range=(1, 10))
        return problems(
            Figure(
                "t", (low, Panel("q", "x", label, (Line([0, 1], [1, 9]),), y_range=(1, 10)))
            )
        )

    assert pair("y") == []
    shares = [Line([0, 1], [0, top]) for top in (0.1, 0.9)]
    both = tuple(
        Panel("p", "x", f"y{i}", (s,), y_range=(-0.03, 1.05)) for i, s in enumerate(shares)
    )
    assert problems(Figure("t", both)) == []
    assert "stretched" in problems(Figure("t", both[:1]))[0]
    (said,) = pair("another quantity")
    assert "panel 'low': the y axis is stretched" in said


def test_a_label_twice_is_caught():
    said = found(LINE, Line(X, WAVE / 2, "wave", color=1))
    assert "panel 'p': the legend says 'wave' 2 times." in said


def test_an_axis_with_one_tick_is_caught():
    (said,) = found(Line([0, 0.2], [0, 1]), x_names=("only",))
    assert said == "panel 'p': the x axis has fewer than two ticks."


@pytest.mark.parametrize(
    ("low", "high"), [(3.8, 4.05), (0.7, 6), (0.9, 11), (2, 30), (1e-30, 1)]
)
def test_log_axes_have_two_ticks(low, high):
    assert found(Line([0, 1], [low, high]), log_y=True) == []


@pytest.mark.parametrize(
    "mark",
    [Line(X, WAVE / 2, color=1), Points(X, -WAVE), Line(X, WAVE / 3, thin=True), grid("")],
)
def test_a_series_without_a_label_is_caught(mark):
    assert any("has no label" in said for said in found(LINE, mark))


def test_colours_mean_one_thing():
    zero = Line([0, 1], [1, 0], "zero", color=1)
    assert across((LINE, zero), (LINE, zero)) == []
    (said,) = across((LINE,), (Line(X, WAVE, "wave", color=1),))
    assert said == "the label 'wave' has 2 colours: #0072B2, #D55E00."
    (said,) = across((LINE, zero), (Line(X, X, "slope"), zero))
    assert "the colour #0072B2 is 'wave' in panel 1 and 'slope' in panel 2" in said
    kinds = across((LINE, zero), (Line(X, X, "slope"), zero), meanings=("theory",))
    assert kinds == []
    (said,) = found(LINE, Line(X, WAVE + 1, "other"))
    assert said == "panel 'p': 'wave' and 'other' look the same."


def test_meanings_survive_json():
    figure = Figure("t", (Panel("p", "x", "y", (LINE,)),), meanings=("theory", ""))
    assert Figure.from_json(figure.to_json()).meanings == ("theory", "")


FALLING = (Line(X, 10 - X, "falling"), Line(X, np.full(50, 3.0), "level", color=1))


def planted(x, y, label=0):
    """What `check` says of two labelled lines when one label is moved to (x, y) of the axes."""
    with canvas_of(Figure("", (Panel("p", "x", "y", FALLING),))) as (canvas, (drawn,)):
        assert len(drawn.labels) == 2 and drawn.axes.get_legend() is None
        drawn.labels[label][1].set_position((x, y))
        series = [
            Series(mark.label, mark, (0.0, i), pixels(canvas, artists))
            for i, (mark, artists) in enumerate(zip(FALLING, drawn.artists))
        ]
        return line_label_problems(canvas, drawn, series)


def test_lines_with_room_are_named_beside_them():
    with canvas_of(Figure("", (Panel("p", "x", "y", FALLING),))) as (_, (drawn,)):
        assert [text.get_text() for _, text in drawn.labels] == ["falling", "level"]
    assert found(*FALLING) == []


@pytest.mark.parametrize(
    ("place", "words"),
    {
        (0.45, 0.5): "the label 'falling' lies on data: falling.",
        (0.15, 0.985): "the label 'falling' leaves the axes.",
        (0.7, 0.4): "the label 'falling' is nearer to level than to its own line.",
    }.items(),
)
def test_a_label_that_misleads_is_caught(place, words):
    assert planted(*place) == [words]


def test_labels_on_each_other_are_caught():
    with canvas_of(Figure("", (Panel("p", "x", "y", FALLING),))) as (_, (drawn,)):
        place = drawn.labels[0][1].get_position()
    assert "the label 'level' lies on another: 'falling'." in planted(*place, label=1)


CROWDED = {
    "five lines": tuple(Line(X, X + 3 * i, f"line {i}", color=i) for i in range(5)),
    "points alone": (LINE, OTHER),
    "no room between": tuple(
        Line(X, WAVE + 0.02 * i, f"line {i}", color=i) for i in range(3)
    ),
    "a cell": (grid(),),
}


@pytest.mark.parametrize("name", CROWDED)
def test_without_room_the_legend_stays(name):
    with canvas_of(Figure("", (Panel("p", "x", "y", CROWDED[name]),))) as (_, (drawn,)):
        assert drawn.labels == []
        assert (drawn.axes.get_legend() is None) == (name == "a cell")
