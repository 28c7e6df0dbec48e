"""How the page steers itself, without a browser: step sizes, advice, places of marks, contrast."""

import json
import math
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from helpers.contrast import contrast

import attnscope as at

pytest.importorskip(
    "dash", reason="the explorer needs dash: pip install 'attnscope[explorer]'"
)

from attnscope.figures.render_plotly import SCREEN_PALETTE
from attnscope.theory.optima.stable_step import stable_step
from attnscope_explorer import compute
from attnscope_explorer.compute import answer, cached_view
from attnscope_explorer.stable_steps import PAPER_STEP_SIZE, limit_of
from attnscope_explorer.state import default_state, from_query, to_query
from attnscope_explorer.views.training import training

ASSETS = Path(compute.__file__).parent / "assets"


def state_of(view, **change):
    return default_state(view).changed(**change)


@pytest.mark.parametrize("dim", [2, 3, 400, 10**4, 10**6])
@pytest.mark.parametrize("predictor", ["erf", "linear"])
def test_the_step_follows_the_limit_in_every_dimension(dim, predictor):
    state = state_of("landscape", dim=dim, predictor=predictor, runs=3, steps=50)
    names = {}
    exec(cached_view(state).code, names)
    limit = stable_step(names["points"])
    assert limit_of(state) == limit
    assert names["step_size"] == (
        PAPER_STEP_SIZE if limit > PAPER_STEP_SIZE else float(f"{limit / 2:.2g}")
    )
    assert names["run"].setup.step_size == names["step_size"] < limit
    # and the risk of no run rises
    assert (np.diff(names["run"].excess) <= 1e-9 * names["run"].excess[:, :-1]).all()
    assert not [a for a in cached_view(state).advice if a.warn]
    trained = state_of("training", dim=dim, predictor=predictor, runs=2, steps=20)
    again = {}
    exec(training(trained).code, again)
    assert again["run"].setup.step_size == names["step_size"]


def test_a_chosen_step_is_used_as_it_is_and_warned_of():
    state = state_of("landscape", dim=10**4, step_size=4e-3, runs=3, steps=100)
    what = cached_view(state)
    assert "step_size = 0.004\n" in what.code
    (warning,) = [a for a in what.advice if a.warn]
    assert "unstable" in warning.sentence and warning.buttons[0][1] == {"step_size": "auto"}
    mended = answer("landscape", [("dim", "10000"), ("step_size", "auto"), ("runs", "3")])
    assert mended[0].step_size is None and not [a for a in mended[1].advice if a.warn]
    assert to_query(state) == "dim=10000&runs=3&steps=100&step_size=0.004"
    old = from_query("training", "step_size=0.01")  # addresses of 0.1.0
    assert old[0].step_size == 0.01 and not old[1]


def test_under_a_schedule_the_first_inverse_temperature_decides():
    hot, cooling = (
        state_of("training", inverse_temperature=0.5, decay=r) for r in (0.0, 1e-3)
    )
    assert (
        limit_of(hot)
        == limit_of(cooling)
        < limit_of(state_of("training", inverse_temperature=0.1))
    )
    names = {}
    exec(training(cooling.changed(runs=1, steps=10)).code, names)
    assert names["run"].setup.step_size < limit_of(hot)


def test_other_tasks_have_the_usual_step_and_no_advice_about_it():
    state = state_of("training", task="max-location", batch=5, runs=2, steps=20, dim=30)
    assert limit_of(state) is None
    assert "step_size = 0.004\n" in training(state).code


def test_swapped_runs_are_pointed_to_and_moments_and_swap_move_mend_them():
    what = cached_view(default_state("landscape"))
    (swap,) = [a for a in what.advice if "swapped" in a.sentence]
    asked = dict(pair for _, values in swap.buttons for pair in values.items())
    assert asked == {"x": "eta", "y": "theta", "start": "moments", "swap_move": "on"}
    for change in ({"start": "moments"}, {"swap_move": "on"}):
        mended = cached_view(state_of("landscape", **change))
        assert ("runs: oracle", "30 of 30") in [row[:2] for row in mended.rows]
        assert not mended.advice


def test_runs_that_are_on_their_way_get_a_button_for_more_steps():
    (more,) = [
        a
        for a in cached_view(state_of("landscape", dim=10**4, runs=5, steps=2000)).advice
        if "on their way" in a.sentence
    ]
    assert more.buttons == (("Train 20,000 steps", {"steps": "20000"}),)


def marks(state):
    return {
        t["name"].split(":")[0]: t
        for t in cached_view(state).plotly["data"]
        if t.get("mode") == "markers"
    }


@pytest.mark.parametrize("plane", [("kappa", "nu"), ("eta", "theta"), ("kappa", "rho")])
def test_no_stationary_point_hides_another_and_the_figure_keeps_their_places(plane):
    state = state_of("landscape", x=plane[0], y=plane[1], runs=2, steps=10)
    drawn = marks(state)
    places = [(t["x"][0], t["y"][0]) for t in drawn.values()]
    for i, a in enumerate(places):
        for b in places[:i]:
            assert abs(a[0] - b[0]) + abs(a[1] - b[1]) > 0.05
    task = at.SingleLocation(400, 10)
    points = {p.name: p for p in at.stationary_points(task, at.Erf(0.1))}
    for mark in cached_view(state).figure.panels[0].marks:
        name = getattr(mark, "label", "").split(":")[0]
        if name in points:
            o = points[name].overlaps
            true = [float(getattr(o, axis)) for axis in plane]
            np.testing.assert_array_equal([mark.x[0], mark.y[0]], true)


@pytest.mark.parametrize("dim", [2, 400])
def test_heads_on_stage_are_those_of_the_runs(dim):
    """What a path's point says of the overlaps that the plane does not show."""
    state = state_of("landscape", dim=dim, runs=4, steps=400)
    names = {}
    exec(cached_view(state).code, names)
    logged = names["run"].log.reshape(5, -1).T
    for trace in cached_view(state).plotly["data"]:
        rest = trace.get("meta", {}).get("rest")
        if rest is None:
            continue
        assert len(rest) == 3 * len(trace["x"])
        others = np.array(rest).reshape(-1, 3) / 1000
        for x, y, (eta, theta, rho) in zip(trace["x"], trace["y"], others):
            if x is not None:
                off = np.abs(logged - [x, eta, theta, y, rho]).max(axis=1)
                assert off.min() < 1.1e-3
    stage = cached_view(state).plotly["layout"]["meta"]["stage"]
    assert stage["setting"]["dim"] == dim and stage["plane"]["x"] == "kappa"
    json.dumps(cached_view(state).plotly, allow_nan=False)


def test_sentences_without_their_packages_are_an_explanation(monkeypatch):
    from attnscope.errors import AttnscopeError

    def absent(state):
        raise AttnscopeError("sentences need the extra attnscope[text]")

    monkeypatch.setitem(compute.VIEW_FUNCTIONS, "bags", absent)
    state, what, words = answer("bags", [("data", "text"), ("seed", "77")])
    assert state.data == "text" and what is None and "attnscope[text]" in words


# -- contrast: WCAG 2 AA, 4.5 to 1 for text and 3 to 1 for what one presses or reads off ----------


def themes():
    """The page's colours by name, light and dark."""
    text = (ASSETS / "explorer.css").read_text()
    text += (ASSETS / "stage.css").read_text()
    light, dark = {}, {}
    for scheme, block in re.findall(
        r"(@media \(prefers-color-scheme: dark\) \{\s*)?:root \{([^}]*)\}", text
    ):
        found = dict(re.findall(r"--([\w-]+): (#[0-9a-fA-F]{6})", block))
        (dark if scheme else light).update(found)
    return {"light": light, "dark": light | dark}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_and_marks_reach_aa(theme):
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    colours = themes()[theme]
    for words in ("ink", "soft", "accent", "decides-word", "truth-word"):
        for paper in ("card", "paper"):
            assert contrast(colours[words], colours[paper]) >= 4.5, (words, paper)
    assert contrast(colours["warn"], colours["warn-paper"]) >= 4.5
    assert contrast(colours["ink"], colours["warn-paper"]) >= 4.5
    for mark in ("accent", "other", "decides", "truth", "edge"):
        assert contrast(colours[mark], colours["card"]) >= 3, mark


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_curve_stands_out_and_no_two_are_alike(theme):
    """3 to 1 against the card that figures are drawn on; in the dark after drawing.js has lit them."""
    script = (ASSETS / "drawing.js").read_text()
    line = re.search(r"const lighter = \{([^}]*)\}", script).group(1)
    lighter = dict(re.findall(r'"(#\w{6})": "(#\w{6})"', line))
    assert set(lighter) <= set(SCREEN_PALETTE)  # what is lit is of the palette
    drawn = [lighter.get(c, c) if theme == "dark" else c for c in SCREEN_PALETTE]
    for colour in drawn:
        assert contrast(colour, themes()[theme]["card"]) >= 3, colour
    for one, other in combinations(drawn, 2):
        parts = [[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in (one, other)]
        # far more than two neighbouring screens differ by; the nearest pair is 58 apart
        assert math.dist(*parts) > 50, (one, other)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_are_read_on_the_darkest_shade_of_attention(theme):
    css = (ASSETS / "explorer.css").read_text()
    shade = float(re.findall(r"--shade: (\.\d+)", css)[theme == "dark"])
    colours = themes()[theme]
    card = [int(colours["card"][i : i + 2], 16) for i in (1, 3, 5)]
    mixed = [round(shade * a + (1 - shade) * b) for a, b in zip((230, 159, 0), card)]
    assert contrast(colours["ink"], "#{:02x}{:02x}{:02x}".format(*mixed)) >= 4.5
