"""Trajectory: outcomes, extension, files, frames and figures."""

import json

import numpy as np
import pytest
from helpers.tolerances import EXACT, FORMULA, SIX_DIGITS

from attnscope.dynamics.experiments import run_experiment
from attnscope.dynamics.overlap_runs import classify, swapped_theta
from attnscope.dynamics.train import train
from attnscope.dynamics.trajectory import Trajectory
from attnscope.errors import AttnscopeError
from attnscope.figures.figure import Band, Figure, Heat, Line, Panel, Points
from attnscope.figures.outcomes import OUTCOMES, by_outcome
from attnscope.figures.render_matplotlib import svg, write
from attnscope.predictors.attention import Componentwise, Erf, LinearAttention, Softmax
from attnscope.predictors.heads import MultiHead
from attnscope.predictors.inverse_temperature import InverseTime
from attnscope.tasks.planted.grid_location import GridLocation
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.landscape import swapped_overlaps
from attnscope.theory.optima.optimal_sigma import OptimalSigma
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk

PAPER = SingleLocation(400, 10)
OPTIONS = {"runs": 5, "log_every": 30}


@pytest.mark.parametrize(
    ("overlaps", "expected"),
    [
        ((1, 0, 0, 1, 0), "oracle"),
        ((-0.95, 0, 0, -0.9, 0), "oracle"),
        ((0.95, 0, 0, -0.95, 0), "undecided"),  # the anti-oracle
        ((0.89, 0, 0, 1, 0), "undecided"),
        ((1, 0, 0, 0.89, 0), "undecided"),
        ((0, 1, 0.6, 0, 0), "swapped"),
        ((0, -0.9, -0.55, 0, 0), "swapped"),
        ((0, 1, -0.6, 0, 0), "undecided"),
        ((0, 1, 0.53, 0, 0), "undecided"),  # below .9 of the predicted .6
        ((0, 0.89, 0.6, 0, 0), "undecided"),
        ((0, 0, 0, 0, 0), "undecided"),
    ],
)
def test_outcome_definitions(overlaps, expected):
    assert str(classify(Overlaps(*overlaps), theta=0.6)) == expected


def test_predicted_theta_of_the_swapped_point():
    assert swapped_theta(PAPER, Erf(0.1), 0.1) == swapped_overlaps(PAPER, 0.1).theta
    assert swapped_theta(PAPER, LinearAttention(0.01), 0.01) == pytest.approx(
        1, abs=SIX_DIGITS
    )  # exactly symmetric in k and v
    key, value = np.eye(5)[:2]
    aligned = SingleLocation(5, 3, key=key, value=0.6 * key + 0.8 * value)
    assert swapped_theta(aligned, Erf(0.1), 0.1) == 1
    assert swapped_theta(PAPER, Erf(0.0), 0.0) == 1


@pytest.fixture(scope="module")
def run():
    return train(PAPER, Erf(InverseTime(0.3, rate=1e-3)), steps=100, **OPTIONS)


def test_shapes_and_log_points(run):
    assert run.step.tolist() == [0, 30, 60, 90, 100]
    assert (
        run.overlaps.kappa.shape
        == run.risk.shape
        == run.excess.shape
        == run.distance.shape
        == (5, 5)
    )
    assert run.inverse_temperature == pytest.approx(
        [0.3 / (1 + 1e-3 * t) for t in run.step], abs=0
    )
    assert run.outcome.shape == run.diverged_at.shape == (5,)
    assert repr(run) == "Trajectory(5 runs, 100 steps: 5 undecided)"


def test_risk_is_exact_at_the_running_inverse_temperature():
    task = SingleLocation(40, 5, noise=0.3)
    for predictor in (Erf(InverseTime(0.3, rate=1e-3)), LinearAttention(0.05)):
        run = train(task, predictor, runs=2, steps=40, log_every=20)
        for i in range(2):
            for j, lam in enumerate(run.inverse_temperature):
                at = type(predictor)(float(lam))
                expected = risk(task, at, Overlaps(*run.log[:, i, j]))
                assert run.excess[i, j] == pytest.approx(expected.excess, rel=EXACT)
                assert run.risk[i, j] == pytest.approx(expected.value, rel=EXACT)


def test_risk_of_a_predictor_without_a_closed_form():
    task = SingleLocation(10, 3)
    predictor = Componentwise(np.tanh, 0.3)
    run = train(task, predictor, runs=2, steps=2, log_every=1)
    expected = [
        [risk(task, predictor, Overlaps(*run.log[:, i, j])).excess for j in range(3)]
        for i in range(2)
    ]
    np.testing.assert_allclose(run.excess, expected, rtol=FORMULA)


@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("move", [False, True])
def test_extension_is_bit_identical(batch, move, tmp_path):
    task = SingleLocation(50, 5)
    predictor = Erf(InverseTime(0.3, rate=1e-3))
    options = {
        "runs": 20,
        "log_every": 30,
        "batch_size": batch,
        "swap_move": move,
        "step_size": 0.1,
        "seed": 3,
    }
    whole = train(task, predictor, steps=2000, **options)
    first = train(task, predictor, steps=700, **options)  # ends between two multiples of 30
    first.save(tmp_path / "run")
    loaded = Trajectory.load(tmp_path / "run")
    for part in (first, loaded):
        rest = part.extend(500).extend(800)
        for name in ("step", "log", "inverse_temperature", "diverged_at", "swapped_at"):
            np.testing.assert_array_equal(
                getattr(rest, name), getattr(whole, name), err_msg=name
            )
    # the swaps are really among what is compared
    assert not move or batch is not None or (whole.swapped_at > 0).any()


def test_save_and_load_round_trip(run, tmp_path):
    run.excess
    run.save(tmp_path / "a.npz")
    again = Trajectory.load(tmp_path / "a.npz")
    for name in (
        "step",
        "log",
        "inverse_temperature",
        "diverged_at",
        "swapped_at",
        "excess",
        "outcome",
        "risk",
    ):
        np.testing.assert_array_equal(getattr(again, name), getattr(run, name))
    assert again.setup.predictor == run.setup.predictor
    assert repr(again.setup.task) == repr(run.setup.task)
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        assert json.loads(file["setup"].tobytes())["settings"]["seed"] == 0


@pytest.mark.parametrize(
    "predictor",
    [LinearAttention(0.1, offset=0.2), Erf(0.1), OptimalSigma(0.7, 1.5, 3), Softmax(0.5)],
)
def test_predictors_survive_a_file(predictor, tmp_path):
    key, value = np.eye(6)[:2]
    task = SingleLocation(
        6, 3, key=key, value=0.6 * key + 0.8 * value, location_probs=[0.2, 0.3, 0.5]
    )
    train(task, predictor, runs=1, steps=1, log_every=1).save(tmp_path / "b")
    again = Trajectory.load(tmp_path / "b").setup
    assert (
        repr(again.predictor) == repr(predictor)
        and again.predictor.inverse_temperature == predictor.inverse_temperature
    )
    assert again.task.alignment == task.alignment
    np.testing.assert_array_equal(again.task.location_probs, task.location_probs)


def test_a_users_function_must_be_given_again(tmp_path):
    schedule = lambda t: 0.1
    run = train(PAPER, Erf(schedule), runs=1, steps=1, log_every=1)
    run.save(tmp_path / "c")
    with pytest.raises(
        AttnscopeError, match=r"predictor of Trajectory\.load must be given again"
    ):
        Trajectory.load(tmp_path / "c")
    again = Trajectory.load(tmp_path / "c", predictor=Erf(schedule))
    np.testing.assert_array_equal(again.extend(3).log, run.extend(3).log)


def test_a_grid_comes_back_as_a_grid(tmp_path):
    task = GridLocation(2, 3, 12, seed=4)
    run = train(task, Erf(0.3), runs=2, steps=20, log_every=10)
    run.save(tmp_path / "grid")
    again = Trajectory.load(tmp_path / "grid")
    assert type(again.setup.task) is GridLocation and repr(again.setup.task) == repr(task)
    np.testing.assert_array_equal(again.extend(10).log, run.extend(10).log)


def test_bad_files(tmp_path, run):
    with pytest.raises(
        AttnscopeError, match=r"path of Trajectory\.load must be a file that exists"
    ):
        Trajectory.load(tmp_path / "none")
    (tmp_path / "text.npz").write_text("no zip")
    np.savez(tmp_path / "other.npz", step=np.zeros(3))
    run.save(tmp_path / "cut")
    whole = (tmp_path / "cut.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    for name in ("text", "other", "cut"):
        with pytest.raises(
            AttnscopeError, match=r"must be a file that Trajectory\.save wrote"
        ):
            Trajectory.load(tmp_path / name)
    with pytest.raises(AttnscopeError, match="path of save must be in a folder that exists"):
        run.save(tmp_path / "no" / "where")


def test_files_from_before_there_were_several_tasks(tmp_path, run):
    """They do not say which task they are of; a task nobody knows is refused."""
    run.save(tmp_path / "now")
    with np.load(tmp_path / "now.npz") as file:
        arrays = dict(file)
    about = json.loads(arrays["setup"].tobytes())
    for name, changed in (
        ("old", about | {"kind of task": None}),
        ("later", about | {"kind of task": "Unheard"}),
    ):
        told = {key: x for key, x in changed.items() if x is not None}
        np.savez(
            tmp_path / name,
            **arrays | {"setup": np.frombuffer(json.dumps(told).encode(), dtype=np.uint8)},
        )
    np.testing.assert_array_equal(
        Trajectory.load(tmp_path / "old").extend(30).log, run.extend(30).log
    )
    with pytest.raises(AttnscopeError, match=r"must be a file that Trajectory\.save wrote"):
        Trajectory.load(tmp_path / "later")


def test_a_predictor_given_again_has_one_head(tmp_path, run):
    run.save(tmp_path / "one")
    with pytest.raises(
        AttnscopeError,
        match=r"predictor of Trajectory\.load must be a predictor with one head, as in",
    ):
        Trajectory.load(tmp_path / "one", predictor=MultiHead(Erf(0.1), 1))


def test_frame(run):
    frame = run.to_frame()
    names = [
        "run",
        "step",
        "inverse_temperature",
        "kappa",
        "eta",
        "theta",
        "nu",
        "rho",
        "excess",
        "distance",
    ]
    assert list(frame.columns) == names and len(frame) == 25
    row = frame[(frame.run == 2) & (frame.step == 60)].iloc[0]
    assert (
        row.nu == run.overlaps.nu[2, 2]
        and row.excess == run.excess[2, 2]
        and row.inverse_temperature == run.inverse_temperature[2]
    )


# -- figures ---------------------------------------------------------------------------------------


def test_plot_has_risk_distance_overlaps_and_paths_in_fixed_bytes(run, tmp_path):
    figure = run.plot(tmp_path / "a.svg")
    names = ["|kappa|", "|nu|", "|eta|", "|theta|", "|rho|"]
    titles = ["excess risk", "off the manifold", *names, "paths"]
    assert [p.title for p in figure.panels] == titles
    # five runs are too few for a band: every run is there, in every panel
    for panel in figure.panels:
        assert len(panel.marks) == 5 and all(m.thin for m in panel.marks)
    sorted_rows = lambda rows: np.array(sorted(map(tuple, rows)))
    for panel, values in zip(
        figure.panels,
        (run.excess, run.distance, *(np.abs(getattr(run.overlaps, n[1:-1])) for n in names)),
    ):
        np.testing.assert_array_equal(
            sorted_rows([m.y for m in panel.marks]), sorted_rows(values)
        )
    run.plot(tmp_path / "b.svg")
    written = (tmp_path / "a.svg").read_bytes()
    assert written == (tmp_path / "b.svg").read_bytes() and b"<dc:date>" not in written


@pytest.mark.slow  # eight panels, twice
def test_a_pdf_has_fixed_bytes(run, tmp_path):
    for name in ("c.pdf", "d.pdf"):
        run.plot(tmp_path / name)
    assert (tmp_path / "c.pdf").read_bytes() == (tmp_path / "d.pdf").read_bytes()


def test_no_median_is_taken_over_two_outcomes():
    """The paper's third experiment: 14 runs at the oracle, 16 swapped. |kappa| of the one is near
    1, of the other near 0, and each curve is the median of its own group.
    """
    run = run_experiment("init_sphere_small_lambda", progress=False)
    figure = run.figure()
    labels = {"oracle": "oracle, 14 of 30", "swapped": "swapped, 16 of 30"}
    for panel in figure.panels[2:7]:
        values = np.abs(getattr(run.overlaps, panel.title[1:-1]))
        lines = {m.label: m for m in panel.marks if isinstance(m, Line)}
        bands = {m.color: m for m in panel.marks if isinstance(m, Band)}
        assert set(lines) == set(labels.values())
        for name, label in labels.items():
            group = values[run.outcome == name]
            assert lines[label].color == OUTCOMES[name]
            np.testing.assert_array_equal(lines[label].y, np.median(group, axis=0))
            low, high = np.quantile(group, (0.025, 0.975), axis=0)
            np.testing.assert_array_equal(bands[OUTCOMES[name]].low, low)
            np.testing.assert_array_equal(bands[OUTCOMES[name]].high, high)
    ends = {m.label: m.y[-1] for m in figure.panels[2].marks if isinstance(m, Line)}
    assert ends["oracle, 14 of 30"] > 0.9 and ends["swapped, 16 of 30"] < 0.1
    on_the_way = run.figure(ended=False)
    assert all(len(p.marks) == 30 and all(m.thin for m in p.marks) for p in on_the_way.panels)


@pytest.mark.parametrize("name", ["undecided", "diverged", "unspecialised"])
def test_runs_without_a_common_end_are_drawn_one_by_one(name):
    values = np.arange(80.0).reshape(40, 2)
    marks = by_outcome([0, 1], values, np.full(40, name))
    assert all(isinstance(m, Line) and m.thin for m in marks) and len(marks) == 30
    assert [m.label for m in marks if m.label] == [f"{name}, 40 of 40, 30 drawn"]


def test_every_outcome_has_a_colour():
    """Of one head and of several; the paper's solution and the swapped one are never alike."""
    assert {"oracle", "swapped", "undecided", "diverged"} <= set(OUTCOMES)
    assert {"specialised", "rotated", "unspecialised"} <= set(OUTCOMES)
    assert len({OUTCOMES[x] for x in ("oracle", "swapped", "undecided", "diverged")}) == 4


def test_a_manifold_run_is_drawn_without_a_logarithm_of_zero(tmp_path):
    figure = train(PAPER, Erf(0.1), "manifold", runs=1, steps=2, log_every=1).plot(
        tmp_path / "m.png"
    )
    assert not figure.panels[1].log_y and not any(
        isinstance(m, Band) for m in figure.panels[0].marks
    )


FIGURE = Figure(
    "all kinds",
    (
        Panel(
            "lines",
            "x",
            "y",
            (
                Line([1, 2, 3], [1.0, np.nan, 3.0], "gap"),
                Band([1, 2], [0, 1], [2, 3], color=1),
            ),
            log_x=True,
        ),
        Panel(
            "points",
            "x",
            "y",
            (Points([1, 2], [3, 4], "bars", error=[0.1, 0.2]), Points([1], [2])),
            x_range=(0, 3),
        ),
        Panel(
            "heat",
            "x",
            "$ per y",
            (Heat([1, 2], [1, 2, 3], np.arange(1.0, 7.0).reshape(3, 2), "z", log_z=True),),
        ),
    ),
    columns=3,
)


def test_figures_as_text():
    text = FIGURE.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(name))  # no NaN in JSON
    again = Figure.from_json(text)
    assert (
        again.to_json() == text
        and again.to_csv() == FIGURE.to_csv()
        and svg(again) == svg(FIGURE)
    )
    lines = FIGURE.to_csv().splitlines()
    assert (
        lines[0] == "panel,kind,label,color,x,y,low,high,z"
        and len(lines) == 1 + 3 + 2 + 2 + 1 + 6
    )
    assert "heat,heat,z,,2.0,3.0,,,6.0" in lines
    assert FIGURE._repr_svg_().startswith("<?xml")


def test_figures_refuse_what_they_cannot_hold(tmp_path):
    with pytest.raises(
        AttnscopeError, match="x and y of Line must be one-dimensional and of one length"
    ):
        Line([1, 2], [1])
    with pytest.raises(AttnscopeError, match=r"z of Heat must be of shape \(1, 2\)"):
        Heat([1, 2], [1], [[1.0]])
    with pytest.raises(
        AttnscopeError, match=r"a file name that ends in \.svg, \.png or \.pdf"
    ):
        write(FIGURE, tmp_path / "a.gif")
    with pytest.raises(AttnscopeError, match="in a folder that exists"):
        write(FIGURE, tmp_path / "none" / "a.svg")
    with pytest.raises(
        AttnscopeError, match=r"text of Figure\.from_json must be what Figure\.to_json wrote"
    ):
        Figure.from_json("{}")
