"""The explorer's views as pure functions: the lines they show make the shown numbers, landscape,
training that goes on, convergence.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.tolerances import EXACT, FORMULA, INTEGRAL, SEVEN_DIGITS

import attnscope as at

pytest.importorskip(
    "dash", reason="the explorer needs dash: pip install 'attnscope[explorer]'"
)

from attnscope.figures.figure import Band, Line, Points
from attnscope_explorer import live
from attnscope_explorer.callbacks import _parts
from attnscope_explorer.compute import answer, cached_view
from attnscope_explorer.flow import descent
from attnscope_explorer.python_lines import training_limits
from attnscope_explorer.state import (
    VIEWS,
    default_state,
    from_query,
)
from attnscope_explorer.views.training import presets, training

QUICK = {
    "landscape": [
        {},
        {"predictor": "linear", "x": "eta", "y": "theta", "rho": 0.3},
        {"x": "kappa", "y": "rho"},
    ],
    "risk": [
        {},
        {"against": "dim", "tuning": "fixed"},
        {"against": "length", "tuning": "fixed", "inverse_temperature": 1.0},
    ],
    "training": [
        {},
        {"start": "manifold"},
        {"batch": 5, "dim": 80, "noise": 0.1, "steps": 2000},
        {"decay": 1e-4},
    ],
    "posterior": [{}, {"tuning": "fixed", "dim": 8, "length": 30, "noise": 0.5}],
    "convergence": [{}, {"rule": "shrinking", "keys": 2, "seed": 3, "noise": 0.2}],
    "samples": [{}],
    "bags": [{}, {"data": "drawn", "bag": 200, "loss": "mixture"}],
}
QUICK["training"].append(
    {"task": "max-location", "strength": 3.0, "batch": 5, "runs": 2, "steps": 20, "dim": 30}
)
CASES = [(view, change) for view, changes in QUICK.items() for change in changes]
SLOW = [
    ("risk", {"compared": "all", "dim": 30, "length": 4}),
    ("samples", {"length": 5, "spike": 1.0, "noise": 0.01}),
]
CASES += [pytest.param(*case, marks=pytest.mark.slow) for case in SLOW]


def state_of(view, change):
    return default_state(view).changed(**change)


def pieces(trace):
    """Thin lines of one look are one trace with a gap after each; a band goes there on its lower
    edge and back on its upper one.
    """
    meta = trace.get("meta", {})
    if "band" in meta:
        return [trace["y"][: meta["band"]], trace["y"][meta["band"] :][::-1]]
    each = meta.get("each", len(trace["y"]))
    return [trace["y"][i : i + each] for i in range(0, len(trace["y"]), each + 1)]


@pytest.mark.parametrize(("view", "change"), CASES)
def test_the_copied_lines_make_the_shown_numbers(view, change):
    """In an interpreter's namespace of their own; the figure's arrays must be theirs to the last
    bit, after a trip through JSON.
    """
    what = cached_view(state_of(view, change))
    names = {}
    exec(what.code, names)
    data = json.loads(json.dumps(what.plotly, allow_nan=False))["data"]
    array = lambda values: np.array(
        [np.nan if x is None else x for x in np.ravel(values)], dtype=float
    )
    if view == "landscape":
        np.testing.assert_array_equal(
            array(data[0].get("customdata", data[0]["z"])), names["risk"].ravel()
        )
        assert np.isfinite(names["risk"]).any()
    elif view == "risk":
        for trace in data[: len(names["curves"])]:
            np.testing.assert_array_equal(
                array(trace["y"]), np.exp(names["curves"][trace["name"]])
            )
    elif view == "training":
        drawn = names["figure"]
        curves = [
            m.y if hasattr(m, "y") else v
            for p in drawn.panels
            for m in p.marks
            for v in ([m.low, m.high] if isinstance(m, Band) else [0])
        ]
        shown_curves = [curve for trace in data for curve in pieces(trace)]
        assert len(curves) == len(shown_curves)
        for values, y in zip(shown_curves, curves):
            np.testing.assert_array_equal(array(values), y)
    elif view == "samples":
        shown_excess = next(t for t in data if t.get("name", "").endswith("reached"))
        drawn = array(shown_excess["y"])  # with a gap at a jump
        np.testing.assert_array_equal(
            drawn[np.isfinite(drawn)], names["curves"][0].values["excess"]
        )
    elif view == "convergence":
        for trace in data[:2]:
            np.testing.assert_array_equal(
                array(trace["y"]), names["curves"][trace["name"].split(",")[0]]
            )
        assert [t["y"] for t in data if t["name"] == "CME"] == [names["read"]["CME"].tolist()]
    elif view == "bags":
        np.testing.assert_array_equal(array(data[0]["y"]), names["prediction"])
        heat = next(t for t in data if t["type"] == "heatmap")
        np.testing.assert_array_equal(array(heat["z"]), np.ravel(names["attention"][:30]))
    else:
        stems = [t for t in data if t["name"] == "informative token"]
        expected = [
            names["scores"],
            names["values"],
            names["posterior"],
            *names["weights"].values(),
        ]
        assert [t["y"][0] for t in stems] == [float(x[names["location"]]) for x in expected]


def test_the_landscape_shows_the_risk_that_the_library_gives_point_by_point():
    what = cached_view(default_state("landscape"))
    heat = what.figure.panels[0].marks[0]
    task = at.SingleLocation(400, 10)
    for i, j in ((0, 0), (30, 30), (45, 12), (60, 60)):
        o = at.Overlaps(heat.x[j], 0.0, 0.0, heat.y[i], 0.0)
        assert heat.z[i, j] == pytest.approx(at.risk(task, at.Erf(0.1), o).value, rel=FORMULA)
    assert ("runs: oracle", "14 of 30") in [row[:2] for row in what.rows]


def test_arrows_point_where_descent_goes():
    """Each arrow is six points, tail, tip, barb, tip, barb, gap:
    along the flow, with barbs behind the tip on either side.
    """
    what = cached_view(default_state("landscape"))
    names = {}
    exec(what.code, names)
    arrows = what.figure.panels[0].marks[1]
    x, y = arrows.x.reshape(-1, 6), arrows.y.reshape(-1, 6)
    along = np.stack([x[:, 1] - x[:, 0], y[:, 1] - y[:, 0]])
    flow = np.stack([names["flow"].kappa, names["flow"].nu])
    moving = np.hypot(*flow) > 1e-9
    cosine = (
        np.sum(along * flow, axis=0)[moving] / (np.hypot(*along) * np.hypot(*flow))[moving]
    )
    np.testing.assert_allclose(cosine, 1.0, atol=EXACT)
    for barb in (2, 4):
        back = np.stack([x[:, barb] - x[:, 1], y[:, barb] - y[:, 1]])[:, moving]
        assert (np.sum(back * along[:, moving], axis=0) < 0).all()
    turn = lambda a, b: a[0] * b[1] - a[1] * b[0]
    ends = [np.stack([x[:, b] - x[:, 1], y[:, b] - y[:, 1]])[:, moving] for b in (2, 4)]
    sides = [turn(along[:, moving], end) for end in ends]
    assert (sides[0] * sides[1] < 0).all()


def test_drawn_paths_leave_out_only_what_no_eye_sees():
    what = cached_view(default_state("landscape"))
    full = next(
        m for m in what.figure.panels[0].marks if isinstance(m, Line) and "oracle" in m.label
    )
    drawn = next(t for t in what.plotly["data"] if t.get("name") == full.label)
    assert len(drawn["x"]) < len(full.x) and drawn["x"].count(None) == int(
        np.isnan(full.x).sum()
    )
    points = np.array([(a, b) for a, b in zip(drawn["x"], drawn["y"]) if a is not None])
    gaps = [
        np.min(np.abs(points - (a, b)).sum(axis=1))
        for a, b in zip(full.x, full.y)
        if np.isfinite(a)
    ]
    assert max(gaps) < 2.3e-3  # a step of 2e-3, and rounding to 1e-4


@pytest.mark.parametrize(
    "predictor", ["erf", "linear", pytest.param("sigma", marks=pytest.mark.slow)]
)
def test_what_is_marked_as_stationary_is(predictor):
    """The mirror image (-k, -v) is marked only where it has the same risk:
    not for an activation that is not odd.
    """
    state = state_of("landscape", {"predictor": predictor, "runs": 1, "steps": 10})
    code = cached_view(state).code
    figure = cached_view(state).figure
    names = {}
    exec(code, names)
    marked = [m for m in figure.panels[0].marks if isinstance(m, Points)]
    assert len(marked) == len(names["points"])
    for mark, point in zip(marked, names["points"]):
        for sign, _ in zip((1, -1), mark.x):
            o = at.Overlaps(
                *(sign * float(x) for x in point.overlaps[:4]), float(point.overlaps.rho)
            )
            assert at.risk(names["task"], names["predictor"], o).value == pytest.approx(
                point.risk.value, rel=INTEGRAL
            )
            flow = np.array(descent(names["task"], names["predictor"], o))
            assert np.abs(flow).max() < 1e-6 * (1 + names["task"].signal ** 2)
    oracle = next(m for m in marked if m.label.startswith("oracle"))
    assert len(oracle.x) == (1 if predictor == "sigma" else 2)


def test_points_that_no_unit_vectors_have_are_masked():
    z = (
        cached_view(state_of("landscape", {"x": "kappa", "y": "eta"}))
        .figure.panels[0]
        .marks[0]
    )
    inside = z.x[None, :] ** 2 + z.y[:, None] ** 2 <= 1 + 1e-12
    np.testing.assert_array_equal(np.isfinite(z.z), inside)


@pytest.mark.parametrize(
    "predictor", [at.Erf(0.3), at.Softmax(1.5), at.LinearAttention(0.2), "sigma"]
)
def test_the_flow_is_the_limit_of_training_steps(predictor):
    task = at.SingleLocation(dim=50, length=6)
    predictor = at.optimal_sigma(task) if predictor == "sigma" else predictor
    o = at.Overlaps(0.4, -0.2, 0.1, 0.5, 0.3)
    flow = np.array(descent(task, predictor, o))

    def slope(step_size):
        run = at.train(
            task,
            predictor,
            start=o,
            runs=1,
            steps=1,
            step_size=step_size,
            log_every=1,
            progress=False,
        )
        return (run.log[:, 0, 1] - run.log[:, 0, 0]) / step_size

    h = 1e-5  # extrapolated to h = 0: what is left is O(h^2) and roundoff 1e-16/h
    np.testing.assert_allclose(
        2 * slope(h) - slope(2 * h),
        flow,
        rtol=0,
        atol=SEVEN_DIGITS * (1 + np.abs(flow).max()),
    )


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
    assert cached_view(state).rows[0][:2] == ("oracle", "30")
    run = at.run_experiment("init_manifold", progress=False)
    np.testing.assert_allclose(
        cached_view(state).figure.panels[0].marks[1].y,
        run.figure().panels[0].marks[1].y,
        rtol=EXACT,
    )


def test_slow_predictors_say_that_they_are_trained_less():
    state = state_of("landscape", {"predictor": "softplus", "steps": 30, "runs": 50})
    assert training_limits(state) == (
        6,
        30,
        "Exact steps of this predictor are slow: 6 runs of 30 steps instead. ",
    )
    # softmax has its gradient prepared, unless the dimension is too large for it
    quick = state_of("landscape", {"predictor": "softmax", "runs": 50})
    assert training_limits(quick)[:2] == (50, 400)
    assert training_limits(quick.changed(dim=10**6))[:2] == (6, 100)
    run = at.train(
        at.SingleLocation(20, 3),
        at.SoftplusAttention(2.0),
        runs=1,
        steps=4,
        log_every=4,
        progress=False,
    )
    slow = training(
        state_of(
            "training",
            {
                "predictor": "softplus",
                "inverse_temperature": 2.0,
                "runs": 1,
                "dim": 20,
                "length": 3,
            },
        ),
        run,
    )
    assert "2000 of them at most" in slow.note and (slow.done, slow.total) == (4, 2000)


# -------------------------------------------------------------------------------------------------
# training that goes on


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 1999, "runs": 7},
        {"batch": 3, "dim": 60, "steps": 777, "noise": 0.2, "runs": 4},
        {"predictor": "softmax", "inverse_temperature": 2.0, "steps": 20, "runs": 2},
    ],
)
# seconds; less than none, as on a machine that stalls
@pytest.mark.parametrize("piece", [pytest.param(0.002, marks=pytest.mark.slow), -1.0])
def test_what_is_shown_on_the_way_is_what_its_lines_compute(monkeypatch, change, piece):
    """Piece by piece: after every piece the copied lines give the shown figure to the last bit,
    and the last is all of it.
    """
    monkeypatch.setattr(live, "PIECE_SECONDS", piece)
    fewer = {"steps": min(change["steps"], 60)} if piece < 0 else {}  # one step a call
    state = state_of("training", {"seed": 11, **change, **fewer})
    seen = []
    while not seen or seen[-1].done < seen[-1].total:
        seen.append(
            answer("training", [(name, getattr(state, name)) for name in VIEWS["training"]])[
                1
            ]
        )
        assert len(seen) == 1 or seen[-1].done > seen[-2].done
    whole = training(state)
    assert (
        seen[-1].plotly == whole.plotly
        and seen[-1].code == whole.code
        and seen[-1].rows == whole.rows
    )
    for what in (seen[0],) if "predictor" in change else (seen[0], seen[len(seen) // 2]):
        names = {}
        exec(what.code, names)
        assert names["run"].step[-1] == what.done
        for panel, drawn in zip(what.figure.panels, names["figure"].panels, strict=True):
            for a, b in zip(panel.marks, drawn.marks, strict=True):
                np.testing.assert_array_equal(a.y, b.y)
                assert a.label == b.label
                assert a.label == "" or ("on the way" in a.label) == (what.done < what.total)
    assert live.current_run(state) is not None and len(live._runs) <= live.KEPT_RUNS


def test_a_stopped_run_stays_where_it_is(monkeypatch):
    monkeypatch.setattr(live, "PIECE_SECONDS", 0.0)
    values = [("steps", 5000), ("seed", 77)]
    state, first, _ = answer("training", values)
    assert first.done < first.total == 5000
    assert answer("training", values, go_on=False)[1].done == first.done
    assert _parts(state, first, fresh=True)[-1] == {
        "done": first.done,
        "total": 5000,
        "fresh": True,
    }
    monkeypatch.setattr(live, "PIECE_SECONDS", 3600.0)  # until it is finished
    assert answer("training", values)[1].done == 5000


HEAVY = {"batch": 1000, "length": 100, "runs": 50, "steps": 200_000, "dim": 10**6}


@pytest.mark.parametrize("cost", [1e-7, 1e-4, 3e-3, 0.1, 0.39, 0.41, 5.0])
def test_a_call_trains_as_many_steps_as_fit_at_the_measured_pace(monkeypatch, cost):
    """With a clock that only steps move: whatever a step costs,
    no call takes longer than PIECE and one step.
    """
    clock = [0.0]
    calls = []
    tiny = live.computed(live.run_lines(state_of("training", {"runs": 1, "steps": 2}), 1))[
        "run"
    ]

    def costing(steps):
        clock[0] += cost * steps
        calls[-1] += steps

    def begun(lines):
        costing(1)
        return {"run": tiny}

    def extended(run, engine, steps):
        costing(steps)
        return replace(run, step=np.array([0, int(run.step[-1]) + steps]))

    monkeypatch.setattr(live.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(live, "computed", begun)
    monkeypatch.setattr(live, "_extended_run", extended)
    state = state_of("training", {**HEAVY, "seed": int(1e7 * cost)})
    for _ in range(8):
        before = clock[0]
        calls.append(0)
        done = int(live.advanced_run(state).step[-1])
        assert done == sum(calls) and calls[-1] >= (done < 200_000)
        assert clock[0] - before <= live.PIECE_SECONDS + cost + 1e-9
    fitting = live.PIECE_SECONDS / cost
    assert calls[-2] >= min(fitting / 2, 1) or done == 200_000  # and no call is wasted
    live._runs.pop(state)


def test_a_step_that_is_too_much_for_any_slice_is_one_sentence():
    values = list(HEAVY.items())
    sentence = answer("training", [*values, ("predictor", "softmax")])[2]
    assert "at most 100,000 tokens in one step" in sentence and "5,000,000" in sentence


def test_the_heavy_request_that_blocked_the_page_is_a_step_at_a_time(monkeypatch):
    monkeypatch.setattr(live, "PIECE_SECONDS", 0.0)
    # the same way through, a 250th of the work
    values = [*HEAVY.items(), ("runs", 1), ("length", 200)]
    first, second = (answer("training", values)[1] for _ in range(2))
    assert (first.done, second.done, second.total) == (1, 2, 200_000)
    assert "Step 2 of 200000: it goes on" in second.note


# ----------------------------------------------------------------------------------------------------------- convergence


def test_convergence_ends_at_the_plateau_and_beats_nobody_below_bayes():
    what = cached_view(state_of("convergence", {}))
    curves = {m.label: m.y for m in what.figure.panels[0].marks if isinstance(m, Line)}
    plateau = curves["plateau of this bandwidth"][0]
    assert plateau < curves["softmax, theory"][-1] < 1.05 * plateau
    assert (curves["Bayes"] < curves["CME, theory"]).all() and (
        curves["Bayes"] < curves["softmax, theory"]
    ).all()
    shrinking = (
        cached_view(state_of("convergence", {"rule": "shrinking"}))
        .figure.panels[0]
        .marks[0]
        .y
    )
    assert shrinking[-1] < 0.5 * plateau
    assert "must be" in answer("convergence", [("noise", "0")])[2]


@pytest.mark.slow
def test_samples_shade_the_hard_phase_where_there_is_one():
    hard = cached_view(state_of("samples", {"length": 5, "spike": 1.0, "noise": 0.01}))
    assert "hard phase" in hard.note
    bands = [m for m in hard.figure.panels[0].marks if m.label == "hard phase"]
    np.testing.assert_allclose(bands[0].x, [1.421, 1.957], atol=5e-4)
    easy = cached_view(state_of("samples", {}))
    assert "without a jump" in easy.note
    assert not [m for m in easy.figure.panels[0].marks if m.label == "hard phase"]
