"""The explorer without a browser: states and addresses, views as pure functions, the lines they show, the server's manners."""

import base64
import gc
import io
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
import weakref
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnscope as at

pytest.importorskip("dash", reason="the explorer needs dash: pip install 'attnscope[explorer]'")

from attnscope.explorer import live, uploads
from attnscope.explorer.answers import answer, shown
from attnscope.explorer.app import create_app, serve
from attnscope.explorer.callbacks import _parts
from attnscope.explorer.code import computed, training_limits
from attnscope.explorer.controls import position, ticks
from attnscope.explorer.flow import descent
from attnscope.explorer.page import page, sentence
from attnscope.explorer.state import (
    FIELDS,
    VIEWS,
    Choice,
    State,
    carried,
    default_state,
    from_query,
    from_values,
    to_query,
)
from attnscope.explorer.views.bags import _fitted
from attnscope.explorer.views.training import presets, training
from attnscope.figures.figure import Band, Figure, Heat, Line, Panel, Points
from attnscope.figures.render_plotly import plotly_dict

QUICK = {
    "landscape": [{}, {"predictor": "linear", "x": "eta", "y": "theta", "rho": 0.3}, {"x": "kappa", "y": "rho"}],
    "risk": [{}, {"against": "dim", "tuning": "fixed"}, {"against": "length", "tuning": "fixed", "temperature": 1.0}],
    "training": [{}, {"start": "manifold"}, {"batch": 5, "dim": 80, "noise": 0.1, "steps": 2000}, {"decay": 1e-4}],
    "posterior": [{}, {"tuning": "fixed", "dim": 8, "length": 30, "noise": 0.5}],
    "convergence": [{}, {"rule": "shrinking", "keys": 2, "seed": 3, "noise": 0.2}],
    "bags": [{}, {"data": "drawn", "bag": 200, "loss": "mixture"}],
}
CASES = [(view, change) for view, changes in QUICK.items() for change in changes]


def state_of(view, change):
    return replace(default_state(view), **change)


def values_of(field):
    if isinstance(field, Choice):
        return st.sampled_from(list(field.options))
    if field.whole:
        return st.integers(int(field.low), int(field.high))
    return st.floats(field.low, field.high)


@pytest.mark.parametrize("view", VIEWS)
@given(data=st.data())
def test_a_link_reopens_the_state(view, data):
    chosen = {name: data.draw(values_of(FIELDS[name])) for name in VIEWS[view]}
    state = state_of(view, chosen)
    assert from_query(view, to_query(state)) == (state, [])
    assert from_query(view, "?" + to_query(state)) == (state, [])


@given(view=st.sampled_from(list(VIEWS)), query=st.text(max_size=60))
def test_any_text_in_the_address_gives_a_state_and_sentences(view, query):
    state, sentences = from_query(view, query)
    assert isinstance(state, State) and state.view == view
    assert all(s.endswith(".") and "\n" not in s for s in sentences)


BAD = "dim=3 dim=4.5 dim=many dim= dim=None length=1e99 temperature=nan noise=inf gamma2=-1 predictor=tanh colour=red"


@pytest.mark.parametrize("pair", BAD.split())
def test_a_bad_value_is_one_sentence_and_the_default_stands(pair):
    name, text = pair.split("=")
    state, sentences = from_values("landscape", [(name, text)])
    assert state == default_state("landscape")
    assert len(sentences) == 1 and name in sentences[0] and "must be" in sentences[0]
    assert answer("landscape", [(name, text)]) == (None, None, sentences[0])


def test_what_cannot_be_computed_is_one_sentence():
    assert "another overlap" in answer("landscape", [("x", "nu"), ("y", "nu")])[2]
    assert "at most 10000000" in answer("posterior", [("dim", "1000000"), ("length", "1000")])[2]
    assert "one of /landscape" in str(page("/nothing", "")[0])
    assert "must be a whole number" in json.dumps(
        page("/risk", "?dim=x")[-1].to_plotly_json(), default=lambda c: c.to_plotly_json()
    )


def test_a_task_travels_between_views_but_a_default_does_not():
    state = state_of("landscape", {"dim": 80, "gamma2": 0.25, "runs": 7})
    assert carried(state, "risk") == "dim=80&gamma2=0.25"
    assert carried(default_state("posterior"), "risk") == ""


@pytest.mark.parametrize("view", VIEWS)
def test_every_knob_has_a_labelled_control(view):
    found, labels = [], 0

    def walk(node):
        nonlocal labels
        if isinstance(node, (list, tuple)):
            for child in node:
                walk(child)
        elif hasattr(node, "to_plotly_json"):
            identity = getattr(node, "id", None)
            if isinstance(identity, dict) and identity["type"] == "knob":
                found.append(identity["name"])
            labels += node.__class__.__name__ in ("Label", "Legend")
            walk(getattr(node, "children", None))

    walk(page(f"/{view}", ""))
    assert sorted(found) == sorted(VIEWS[view])
    assert labels > len(found)
    assert {f.name for f in fields(State)} == {"view", *FIELDS}


def test_sliders_cover_their_range():
    for field in (f for f in FIELDS.values() if not isinstance(f, Choice)):
        assert (position(field.low, field), position(field.high, field)) == (0, ticks(field))
        assert ticks(field) >= 6


@pytest.mark.parametrize(("view", "change"), CASES)
def test_the_copied_lines_make_the_shown_numbers(view, change):
    """In an interpreter's namespace of their own; the figure's arrays must be theirs to the last bit, after a trip through JSON."""
    what = shown(state_of(view, change))
    names = {}
    exec(what.code, names)
    data = json.loads(json.dumps(what.plotly, allow_nan=False))["data"]
    array = lambda values: np.array([np.nan if x is None else x for x in np.ravel(values)], dtype=float)
    if view == "landscape":
        np.testing.assert_array_equal(array(data[0].get("customdata", data[0]["z"])), names["risk"].ravel())
        assert np.isfinite(names["risk"]).any()
    elif view == "risk":
        for trace in data[: len(names["curves"])]:
            np.testing.assert_array_equal(array(trace["y"]), np.exp(names["curves"][trace["name"]]))
    elif view == "training":
        drawn = names["figure"]
        curves = [
            m.y if hasattr(m, "y") else v
            for p in drawn.panels
            for m in p.marks
            for v in ([m.low, m.high] if isinstance(m, Band) else [0])
        ]
        assert len(curves) == len(data)
        for trace, y in zip(data, curves):
            np.testing.assert_array_equal(array(trace["y"]), y)
    elif view == "convergence":
        for trace in data[:2]:
            np.testing.assert_array_equal(array(trace["y"]), names["curves"][trace["name"].split(",")[0]])
        assert [t["y"] for t in data if t["name"] == "CME"] == [names["read"]["CME"].tolist()]
    elif view == "bags":
        np.testing.assert_array_equal(array(data[0]["y"]), names["prediction"])
        heat = next(t for t in data if t["type"] == "heatmap")
        np.testing.assert_array_equal(array(heat["z"]), np.ravel(names["attention"][:30]))
    else:
        stems = [t for t in data if t["name"] == "informative token"]
        expected = [names["scores"], names["values"], names["posterior"], *names["weights"].values()]
        assert [t["y"][0] for t in stems] == [float(x[names["location"]]) for x in expected]


def test_the_landscape_shows_the_risk_that_the_library_gives_point_by_point():
    what = shown(default_state("landscape"))
    heat = what.figure.panels[0].marks[0]
    task = at.SingleLocation(400, 10)
    for i, j in ((0, 0), (30, 30), (45, 12), (60, 60)):
        o = at.Overlaps(heat.x[j], 0.0, 0.0, heat.y[i], 0.0)
        assert heat.z[i, j] == pytest.approx(at.risk(task, at.Erf(0.1), o).value, rel=1e-13)
    assert ("runs: oracle", "14 of 30") in [row[:2] for row in what.rows]


def test_arrows_point_where_descent_goes():
    """Each arrow is six points, tail, tip, barb, tip, barb, gap: along the flow, with barbs behind the tip on either side."""
    what = shown(default_state("landscape"))
    names = {}
    exec(what.code, names)
    arrows = what.figure.panels[0].marks[1]
    x, y = arrows.x.reshape(-1, 6), arrows.y.reshape(-1, 6)
    along = np.stack([x[:, 1] - x[:, 0], y[:, 1] - y[:, 0]])
    flow = np.stack([names["flow"].kappa, names["flow"].nu])
    moving = np.hypot(*flow) > 1e-9
    cosine = np.sum(along * flow, axis=0)[moving] / (np.hypot(*along) * np.hypot(*flow))[moving]
    np.testing.assert_allclose(cosine, 1.0, atol=1e-12)
    for barb in (2, 4):
        back = np.stack([x[:, barb] - x[:, 1], y[:, barb] - y[:, 1]])[:, moving]
        assert (np.sum(back * along[:, moving], axis=0) < 0).all()
    turn = lambda a, b: a[0] * b[1] - a[1] * b[0]
    ends = [np.stack([x[:, b] - x[:, 1], y[:, b] - y[:, 1]])[:, moving] for b in (2, 4)]
    sides = [turn(along[:, moving], end) for end in ends]
    assert (sides[0] * sides[1] < 0).all()


def test_drawn_paths_leave_out_only_what_no_eye_sees():
    what = shown(default_state("landscape"))
    full = next(m for m in what.figure.panels[0].marks if isinstance(m, Line) and "oracle" in m.label)
    drawn = next(t for t in what.plotly["data"] if t.get("name") == full.label)
    assert len(drawn["x"]) < len(full.x) and drawn["x"].count(None) == int(np.isnan(full.x).sum())
    points = np.array([(a, b) for a, b in zip(drawn["x"], drawn["y"]) if a is not None])
    gaps = [np.min(np.abs(points - (a, b)).sum(axis=1)) for a, b in zip(full.x, full.y) if np.isfinite(a)]
    assert max(gaps) < 2.3e-3  # a step of 2e-3, and rounding to 1e-4


@pytest.mark.parametrize("predictor", ["erf", "linear", "sigma"])
def test_what_is_marked_as_stationary_is(predictor):
    """The mirror image (-k, -v) is marked only where it has the same risk: not for an activation that is not odd."""
    state = state_of("landscape", {"predictor": predictor, "runs": 1, "steps": 10})
    code, figure = shown(state).code, shown(state).figure
    names = {}
    exec(code, names)
    marked = [m for m in figure.panels[0].marks if isinstance(m, Points)]
    assert len(marked) == len(names["points"])
    for mark, point in zip(marked, names["points"]):
        for sign, _ in zip((1, -1), mark.x):
            o = at.Overlaps(*(sign * float(x) for x in point.overlaps[:4]), float(point.overlaps.rho))
            assert at.risk(names["task"], names["predictor"], o).value == pytest.approx(point.risk.value, rel=1e-9)
            flow = np.array(descent(names["task"], names["predictor"], o))
            assert np.abs(flow).max() < 1e-6 * (1 + names["task"].signal ** 2)
    oracle = next(m for m in marked if m.label.startswith("oracle"))
    assert len(oracle.x) == (1 if predictor == "sigma" else 2)


def test_points_that_no_unit_vectors_have_are_masked():
    z = shown(state_of("landscape", {"x": "kappa", "y": "eta"})).figure.panels[0].marks[0]
    inside = z.x[None, :] ** 2 + z.y[:, None] ** 2 <= 1 + 1e-12
    np.testing.assert_array_equal(np.isfinite(z.z), inside)


@pytest.mark.parametrize("predictor", [at.Erf(0.3), at.Softmax(1.5), at.LinearAttention(0.2), "sigma"])
def test_the_flow_is_the_limit_of_training_steps(predictor):
    task = at.SingleLocation(dim=50, length=6)
    predictor = at.optimal_sigma(task) if predictor == "sigma" else predictor
    o = at.Overlaps(0.4, -0.2, 0.1, 0.5, 0.3)
    flow = np.array(descent(task, predictor, o))

    def slope(step_size):
        run = at.train(task, predictor, start=o, runs=1, steps=1, step_size=step_size, log_every=1, progress=False)
        return (run.log[:, 0, 1] - run.log[:, 0, 0]) / step_size

    h = 1e-5  # extrapolated to h = 0: what is left is O(h^2) and roundoff 1e-16/h
    np.testing.assert_allclose(2 * slope(h) - slope(2 * h), flow, rtol=0, atol=1e-7 * (1 + np.abs(flow).max()))


def test_the_presets_are_the_papers_experiments():
    assert len(presets()) == len(at.EXPERIMENTS)
    for query, experiment in zip(presets().values(), at.EXPERIMENTS.values()):
        state, sentences = from_query("training", query)
        assert not sentences and (state.dim, state.steps, state.start) == (
            experiment.dim,
            experiment.steps,
            experiment.start,
        )
    state, _ = from_query("training", presets()["init manifold"])
    assert shown(state).rows[0][:2] == ("oracle", "30")
    run = at.run_experiment("init_manifold", progress=False)
    np.testing.assert_allclose(shown(state).figure.panels[0].marks[1].y, run.figure().panels[0].marks[1].y, rtol=1e-12)


def test_slow_predictors_say_that_they_are_trained_less():
    state = state_of("landscape", {"predictor": "softmax", "steps": 30, "runs": 50})
    assert training_limits(state) == (6, 30, "Exact steps of this predictor are slow: 6 runs of 30 steps instead. ")
    run = at.train(at.SingleLocation(400, 10), at.Softmax(2.0), runs=1, steps=20, log_every=20, progress=False)
    slow = training(state_of("training", {"predictor": "softmax", "temperature": 2.0, "runs": 1}), run)
    assert "2000 of them at most" in slow.note and (slow.done, slow.total) == (20, 2000)


# ------------------------------------------------------------------------------------------------- training that goes on


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 1999, "runs": 7},
        {"batch": 3, "dim": 60, "steps": 777, "noise": 0.2, "runs": 4},
        {"predictor": "softmax", "temperature": 2.0, "steps": 20, "runs": 2},
    ],
)
def test_what_is_shown_on_the_way_is_what_its_lines_compute(monkeypatch, change):
    """Piece by piece: after every piece the copied lines give the shown figure to the last bit, and the last is all of it."""
    monkeypatch.setattr(live, "PIECE", 0.002)
    state, seen = state_of("training", {"seed": 11, **change}), []
    while not seen or seen[-1].done < seen[-1].total:
        seen.append(answer("training", [(name, getattr(state, name)) for name in VIEWS["training"]])[1])
        assert len(seen) == 1 or seen[-1].done > seen[-2].done
    whole = training(state)
    assert seen[-1].plotly == whole.plotly and seen[-1].code == whole.code and seen[-1].rows == whole.rows
    for what in (seen[0],) if "predictor" in change else (seen[0], seen[len(seen) // 2]):
        names = {}
        exec(what.code, names)
        assert names["run"].step[-1] == what.done
        np.testing.assert_array_equal(what.figure.panels[0].marks[1].y, names["figure"].panels[0].marks[1].y)
    assert live.current(state) is not None and len(live._runs) <= live.KEPT


def test_a_stopped_run_stays_where_it_is(monkeypatch):
    monkeypatch.setattr(live, "PIECE", 0.0)
    values = [("steps", 5000), ("seed", 77)]
    first = answer("training", values)[1]
    assert first.done < first.total == 5000
    assert answer("training", values, go_on=False)[1].done == first.done
    assert _parts(first, fresh=True)[-1] == {"done": first.done, "total": 5000, "fresh": True}
    monkeypatch.setattr(live, "PIECE", 5.0)
    assert answer("training", values)[1].done == 5000


# ------------------------------------------------------------------------------------------------------------- your bags


def as_sent(content):
    return "data:application/octet-stream;base64," + base64.b64encode(content).decode()


def npz(**arrays):
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


BATCH = at.SingleLocation(dim=5, length=4, signal=5.0, noise=0.1).sample(90, seed=1)


def csv_of(batch, words=False):
    y = np.where(batch.target > 0, "up", "down") if words else batch.target
    rows = [f"{i},{y[i]}," + ",".join(map(repr, t.tolist())) for i, bag in enumerate(batch.tokens) for t in bag]
    return "\n".join(["bag,y,a,b,c,d,e", *rows]).encode()


@pytest.mark.parametrize(
    ("name", "content", "classes"),
    [
        ("x.npz", npz(bags=BATCH.tokens, y=BATCH.target), False),
        ("../../etc/x.csv", csv_of(BATCH), False),
        ("C:\\words.csv", csv_of(BATCH, words=True), True),
    ],
)
def test_an_upload_is_fitted_and_shown(name, content, classes, tmp_path, monkeypatch):
    number = uploads.keep(name, as_sent(content))
    assert uploads.keep(name, as_sent(content)) == number  # the same file has the same address
    path = uploads.path_of(number)
    assert path.parent == Path(uploads._home()) and path.stem == str(number)
    state, what, words = answer("bags", [("data", "upload"), ("upload", str(number)), ("loss", "mixture")])
    assert words == "" and to_query(state) == f"data=upload&upload={number}&loss=mixture"
    assert what.header[2] == ("right" if classes else "explained") and str(path) not in what.code
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"bags{path.suffix}").write_bytes(content)  # where the copied lines look for the user's own file
    names = {}
    exec(what.code, names)
    assert names["classes"] is classes
    heat = next(m for panel in what.figure.panels for m in panel.marks if isinstance(m, Heat))
    np.testing.assert_array_equal(heat.z, np.array(names["attention"]))
    assert json.dumps(what.plotly, allow_nan=False)


def bomb():
    """100 MB of zeros in 100 kB."""
    return npz(bags=np.zeros((50, 50, 5000)), y=np.zeros(50))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.txt", b"", "must be an .npz or a .csv"),
        ("x.npz", b"no zip", "x.npz must be an .npz file of plain arrays"),
        ("x.npz", npz(bags=np.array([{}], dtype=object), y=np.zeros(1)), "Python objects"),
        ("x.npz", npz(bags=BATCH.tokens), "x.npz must hold an array y"),
        ("x.npz", npz(bags=BATCH.tokens[:3], y=BATCH.target[:3]), "at least 12 bags"),
        ("x.npz", npz(bags=np.where(BATCH.tokens > 2, np.nan, BATCH.tokens), y=BATCH.target), "finite"),
        ("x.csv", b"bag,y,a\n1,2\n", "x.csv"),
        ("x.csv", b"\xff\xfe\x00", "x.csv must be a table"),
        ("x.csv", b"sack,y,a\n1,2,3\n", "x.csv must have a column bag"),
        ("x.npz", bomb(), "numbers, got 100 MB unpacked"),
    ],
)  # fmt: skip
def test_a_bad_upload_is_one_sentence_and_is_not_kept(name, content, words):
    before = set(Path(uploads._home()).iterdir())
    with pytest.raises(at.AttnscopeError, match=re.escape(words)) as refused:
        uploads.keep(name, as_sent(content))
    assert "\n" not in str(refused.value) and uploads._home() not in str(refused.value)
    assert set(Path(uploads._home()).iterdir()) == before


def test_uploads_are_limited_in_size_and_number():
    with pytest.raises(at.AttnscopeError, match="at most 16 MB"):
        uploads.keep("x.npz", "data:," + "A" * (uploads.LARGEST * 4 // 3 + 300))
    with pytest.raises(at.AttnscopeError, match="did not arrive whole"):
        uploads.keep("x.npz", "data:,?")
    for i in range(uploads.KEPT + 2):
        last = uploads.keep(f"{i}.npz", as_sent(npz(bags=BATCH.tokens, y=BATCH.target)))
    assert len(list(Path(uploads._home()).iterdir())) == uploads.KEPT and uploads.path_of(last).is_file()
    assert "no longer kept" in answer("bags", [("data", "upload"), ("upload", "123")])[2]
    assert "Choose an .npz or .csv" in answer("bags", [("data", "upload")])[2]
    client = create_app().server.test_client()
    big = client.post("/_dash-update-component", data=b"x" * (2 * uploads.LARGEST + 1), content_type="application/json")
    assert big.status_code == 413


def test_the_digits_view_finds_the_zero():
    """The chosen token of every bag held out is the image of the only 0; looking at another bag does not fit again."""
    what = shown(state_of("bags", {}))
    assert what.rows[0][0] == "this model" and what.rows[0][3] == "100%"
    assert [p.title for p in what.figure.panels][-1] == "the images of bag 1"
    shown(state_of("bags", {"bag": 3}))
    fits = _fitted.cache_info().misses
    other = shown(state_of("bags", {"bag": 7}))
    assert _fitted.cache_info().misses == fits and other.code == what.code and other.note.startswith("Bag 7:")


def test_sentences_are_shown_with_their_words_shaded():
    try:
        what = shown(state_of("bags", {"data": "text"}))
    except at.AttnscopeError as error:
        pytest.skip(str(error))
    words, weights, chosen = zip(*what.words)
    assert sum(chosen) == 1 and weights[chosen.index(True)] > 0.9
    marked = [part for part in sentence(what) if type(part).__name__ == "Mark"]
    assert [m.children for m in marked] == [words[chosen.index(True)]] and float(what.rows[0][2].rstrip("%")) > 90


# ----------------------------------------------------------------------------------------------------------- convergence


def test_convergence_ends_at_the_plateau_and_beats_nobody_below_bayes():
    what = shown(state_of("convergence", {}))
    curves = {m.label: m.y for m in what.figure.panels[0].marks if isinstance(m, Line)}
    plateau = curves["plateau of this bandwidth"][0]
    assert plateau < curves["softmax, theory"][-1] < 1.05 * plateau
    assert (curves["Bayes"] < curves["CME, theory"]).all() and (curves["Bayes"] < curves["softmax, theory"]).all()
    shrinking = shown(state_of("convergence", {"rule": "shrinking"})).figure.panels[0].marks[0].y
    assert shrinking[-1] < 0.5 * plateau
    assert "must be" in answer("convergence", [("noise", "0")])[2]


def test_a_computation_leaves_no_circle_of_arrays_behind():
    """What the lines made is freed when it is dropped, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        names = computed("import numpy as np\nbig = np.zeros(1000)\ndef use():\n    return big\n")
        gone = weakref.ref(names["big"])
        del names
        assert gone() is None
    finally:
        gc.enable()


def test_plotly_dict_draws_every_kind_of_mark():
    z = np.array([[1.0, 10.0], [np.nan, 1000.0]])
    marks = (
        Line([0, 1, 2], [1, np.nan, 3], "line"),
        Band([0, 1], [0, 0], [1, 2], "band"),
        Points([0], [1], "p", error=[0.1]),
    )
    figure = Figure(
        "t",
        (
            Panel("a", "x", "y", marks, log_y=True, y_range=(1, 100)),
            Panel("b", "x", "y", (Heat([0, 1], [0, 1], z, "z", log_z=True),)),
        ),
    )
    out = json.loads(json.dumps(plotly_dict(figure), allow_nan=False))
    assert [t["type"] for t in out["data"]] == ["scatter"] * 4 + ["heatmap"]
    assert out["data"][0]["y"] == [1, None, 3] and out["data"][-1]["z"] == [[0, 1], [None, 3]]
    assert out["layout"]["yaxis"]["range"] == [0, 2] and out["data"][3]["error_y"]["array"] == [0.1]
    assert out["data"][2]["fill"] == "tonexty" and out["data"][-1]["yaxis"] == "y2"


def test_views_do_not_import_dash_and_nothing_imports_plotly():
    code = "import attnscope.explorer.views.landscape, attnscope.explorer.views.risk, sys; print([m for m in ('dash', 'plotly') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_the_page_forbids_the_browser_every_other_host():
    client = create_app().server.test_client()
    answer = client.get("/risk?dim=80")
    assert answer.status_code == 200 and "default-src 'self'" in answer.headers["Content-Security-Policy"]
    text = answer.get_data(as_text=True)
    sources = [part.split('"')[0] for key in ('src="', 'href="') for part in text.split(key)[1:]]
    assert sources and all(s.startswith("/") and not s.startswith("//") for s in sources)
    for name in ("explorer.js", "explorer.css"):
        with client.get(f"/assets/{name}") as asset:
            assert asset.status_code == 200


def test_a_port_that_cannot_be_used_is_one_sentence():
    with pytest.raises(at.AttnscopeError, match="port of explore must be a whole number"):
        serve(port=70_000)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(at.AttnscopeError, match="host and port of explore must be free"):
            serve(port=taken.getsockname()[1], open_browser=False)


@pytest.mark.parametrize(("host", "warns"), [("127.0.0.1", False), ("127.0.0.2", True)])
def test_serve_answers_warns_and_ends_quietly(host, warns):
    """127.0.0.2 is this machine too, but not the address that a user means by it: it stands for any other --host."""
    code = f"from attnscope.explorer.app import serve; serve(host={host!r}, port=0, open_browser=False)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("Warning") == warns
        line = process.stdout.readline() if warns else line
        port = int(line.split(f"{host}:")[1].split("/")[0])
        assert urllib.request.urlopen(f"http://{host}:{port}/", timeout=20).status == 200
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0 and "Traceback" not in errors
