"""`train`: the papers' facts, the engines behind it, bad input, Ctrl-C, divergence,
the swap move.
"""

import _thread
import csv
import io
import math
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers.memory import PEAK
from helpers.paths import DATA
from helpers.tolerances import (
    FIVE_DIGITS,
    FORMULA,
    FOUR_DIGITS,
    INTEGRAL,
    LAST_DIGIT,
    LONG_SUM,
    SIX_DIGITS,
    THREE_DIGITS,
)

from attnscope.dynamics import loop
from attnscope.dynamics import train as train_module
from attnscope.dynamics import trajectory as trajectory_module
from attnscope.dynamics.engines.erf_engines import PopulationErf
from attnscope.dynamics.experiments import EXPERIMENTS, run_experiment
from attnscope.dynamics.schedule import temperatures
from attnscope.dynamics.starts import Moments
from attnscope.dynamics.train import train
from attnscope.errors import AttnscopeError
from attnscope.predictors.attention import (
    Componentwise,
    Erf,
    LinearAttention,
    Softmax,
    SoftmaxOne,
)
from attnscope.predictors.temperature import InverseTime
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.landscape import swapped_overlaps
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk

PAPER = SingleLocation(400, 10)


def counts(run):
    return dict(zip(*(x.tolist() for x in np.unique(run.outcome, return_counts=True))))


# -- the papers' facts -----------------------------------------------------------------------------


def test_from_the_manifold_all_runs_reach_the_oracle():
    run = run_experiment("init_manifold")
    assert counts(run) == {"oracle": 30}
    assert np.abs(run.overlaps.nu[:, -1]) == pytest.approx(1, abs=SIX_DIGITS)
    assert np.median(np.abs(run.overlaps.kappa[:, -1])) == pytest.approx(
        0.983, abs=THREE_DIGITS
    )
    assert np.median(run.excess[:, -1]) == pytest.approx(0.1137, abs=FOUR_DIGITS)
    assert run.distance.max() == 0  # the manifold is invariant, exactly


def test_small_temperature_from_the_sphere_splits_oracle_and_swapped():
    run = train(PAPER, Erf(0.1), runs=200)
    found = counts(run)
    assert set(found) == {"oracle", "swapped"}
    assert 70 <= found["oracle"] <= 130  # a fair coin leaves this with probability 2e-5
    swapped = run.outcome == "swapped"
    assert np.abs(run.overlaps.theta[swapped, -1]) == pytest.approx(0.6298, abs=2e-3)
    assert np.abs(run.overlaps.theta[swapped, -1]) == pytest.approx(
        swapped_overlaps(PAPER, 0.1).theta, abs=INTEGRAL
    )
    assert run.excess[swapped, -1] == pytest.approx(0.1155, abs=FOUR_DIGITS)


def test_large_temperature_from_the_sphere_never_aligns():
    run = run_experiment("init_sphere_large_lambda")
    assert counts(run) == {"undecided": 30}
    assert np.abs(run.overlaps.kappa[:, -1]).max() < 0.5
    assert run.excess[:, -1].min() > PAPER.gamma**2  # worse than predicting the mean


def test_schedule_from_the_sphere():
    """Runs that reach the oracle end at its exact risk at lam = 1/13; 3.6 % (72 of 2000) end
    swapped, so not all 30 always do.
    """
    run = train(
        PAPER, Erf(InverseTime(1.0, rate=1e-4)), runs=200, steps=120_000, log_every=20_000
    )
    found = counts(run)
    assert set(found) <= {"oracle", "swapped"}
    assert found["oracle"] >= 180  # at 3.6 % fewer has probability 1e-5
    oracle = run.excess[run.outcome == "oracle", -1]
    assert oracle == pytest.approx(0.0750, abs=FOUR_DIGITS)
    assert oracle == pytest.approx(
        risk(PAPER, Erf(1 / 13), Overlaps.oracle()).excess, abs=FIVE_DIGITS
    )
    swapped = run.excess[run.outcome == "swapped", -1]
    assert swapped == pytest.approx(
        risk(PAPER, Erf(1 / 13), swapped_overlaps(PAPER, 1 / 13)).excess, abs=THREE_DIGITS
    )


@pytest.mark.parametrize("temperature", [0.1, 0.02])
def test_moments_start_always_reaches_the_oracle(temperature):
    assert counts(train(PAPER, Erf(temperature), start="moments", runs=100)) == {
        "oracle": 100
    }


def test_swap_move_brings_every_run_to_the_oracle():
    plain, swapping = (
        train(PAPER, Erf(0.1), runs=200, swap_move=move) for move in (False, True)
    )
    assert counts(swapping) == {"oracle": 200}
    # exactly the runs that would have ended swapped were exchanged, once
    np.testing.assert_array_equal(swapping.swapped_at >= 0, plain.outcome == "swapped")
    i = int(np.flatnonzero(swapping.swapped_at >= 0)[0])
    before = np.flatnonzero(swapping.step <= swapping.swapped_at[i])[-1]
    np.testing.assert_array_equal(
        swapping.log[:, i, : before + 1], plain.log[:, i, : before + 1]
    )
    kappa, eta, theta, nu, rho = swapping.log[:, i, before]
    other = train(PAPER, Erf(0.1), Overlaps(theta, nu, kappa, eta, rho), runs=1, steps=200)
    np.testing.assert_array_equal(other.log[:, 0, -1], swapping.log[:, i, before + 1])


def test_sgd_experiment_reaches_the_oracle():
    run = run_experiment("sgd_init_sphere_schedule", runs=16)
    assert counts(run) == {"oracle": 16}
    oracle = risk(
        EXPERIMENTS["sgd_init_sphere_schedule"].task(), Erf(2 / 21), Overlaps.oracle()
    ).excess
    assert np.median(run.excess[:, -1]) == pytest.approx(oracle, rel=0.05)


def test_reference_trajectories():
    """The paper authors' implementation, from its step-0 overlaps; in the schedule experiment,
    unstable early on, up to step 500.
    """
    table = (DATA / "pgd_trajectories.csv").read_text()
    experiments = {}
    for row in csv.DictReader(io.StringIO(table)):
        if row["schedule"] == "0" or int(row["step"]) <= 500:
            experiments.setdefault(row["experiment"], {}).setdefault(row["run"], []).append(
                row
            )
    assert len(experiments) == 4
    for by_run in experiments.values():
        rows = list(by_run.values())  # (runs, logs) rows
        first = rows[0][0]
        at = [int(row["step"]) for row in rows[0]]
        numbers = lambda name, rows=rows: np.array(
            [[float(row[name]) for row in run] for run in rows]
        )
        lam = float(first["lambda0"])
        predictor = Erf(InverseTime(lam, rate=1e-4) if first["schedule"] == "1" else lam)
        task = SingleLocation(int(first["d"]), int(first["L"]), gamma=float(first["gamma"]))
        expected = np.array([numbers(name) for name in Overlaps._fields])
        options = {
            "runs": len(rows),
            "steps": at[-1],
            "step_size": float(first["alpha"]),
            "log_every": 1,
        }
        run = train(task, predictor, Overlaps(*expected[:, :, 0]), **options)
        np.testing.assert_allclose(run.log[:, :, at], expected, rtol=0, atol=INTEGRAL)
        np.testing.assert_allclose(
            run.excess[:, at], numbers("excess_risk"), rtol=0, atol=INTEGRAL
        )


# -- engines and logging ---------------------------------------------------------------------------


ENGINES = [
    (Erf(0.1), None, "reduced", 20, "PopulationErf"),
    (Erf(0.1), 5, "reduced", 20, "SgdErf"),
    (LinearAttention(0.1), None, "reduced", 20, "PopulationLinear"),
    (Componentwise(np.tanh, 0.2), 5, "reduced", 20, "GenericSgd"),
    (Softmax(1.0), 2, "reduced", 20, "CompiledSgd"),
    (SoftmaxOne(1.0), 2, "reduced", 20, "CompiledSgd"),
    (Erf(0.1), None, "full", 20, "FullPopulation"),
    (Erf(0.1), 5, "full", 3, "FullSgd"),
    (Erf(0.1), None, "reduced", 2, "PopulationErf"),
]


@pytest.mark.parametrize(("predictor", "batch", "engine", "dim", "name"), ENGINES)
def test_engine_table(predictor, batch, engine, dim, name):
    setup = train_module.Setup(
        SingleLocation(dim, 3), predictor, 0.01, 2, 0, batch, engine, False
    )
    assert type(train_module.engine_for(setup)).__name__ == name


@pytest.mark.slow  # half a minute of compilation
@pytest.mark.parametrize(("predictor", "batch", "engine", "dim", "name"), ENGINES)
def test_every_engine_runs(predictor, batch, engine, dim, name):
    task = SingleLocation(dim, 3)
    options = {"batch_size": batch, "engine": engine, "step_size": 0.01}
    run = train(task, predictor, runs=2, steps=5, log_every=2, **options)
    assert run.step.tolist() == [0, 2, 4, 5]
    assert np.isfinite(run.log).all() and np.isfinite(run.excess).all()
    assert not np.array_equal(run.log[:, :, 0], run.log[:, :, -1])
    whole = train(task, predictor, runs=2, steps=11, log_every=2, **options)
    np.testing.assert_array_equal(run.extend(6).log, whole.log)
    np.testing.assert_array_equal(
        train(task, predictor, runs=1, steps=5, log_every=2, **options).log, run.log[:, :1]
    )


@pytest.mark.parametrize(("batch", "name"), [(None, "PopulationExact"), (4, "CompiledSgd")])
def test_aligned_key_and_value_use_the_general_engines(batch, name):
    key, value = np.eye(6)[:2]
    task = SingleLocation(6, 3, key=key, value=0.6 * key + 0.8 * value)
    run = train(task, Erf(0.2), runs=2, steps=3, log_every=3, batch_size=batch)
    assert type(train_module.engine_for(run.setup)).__name__ == name
    assert run.outcome.shape == (2,) and len(run.diagnose()) > 0


def test_reduced_and_full_population_agree():
    task = SingleLocation(30, 5)
    temperature = InverseTime(0.5, rate=1e-2)
    runs = [
        train(task, Erf(temperature), runs=3, steps=500, step_size=0.01, engine=e)
        for e in ("reduced", "full")
    ]
    np.testing.assert_allclose(runs[0].log, runs[1].log, rtol=0, atol=LONG_SUM)


def test_a_vector_start_is_its_overlaps():
    task = SingleLocation(30, 5)
    k, v = Moments().estimate(task.sample(50, seed=1))
    runs = [
        train(task, Erf(0.3), start, runs=1, steps=100, log_every=50)
        for start in ((k, v), Overlaps.of(task, k, v))
    ]
    np.testing.assert_array_equal(runs[0].log, runs[1].log)


@pytest.mark.parametrize("batch", [None, 3])
def test_a_run_depends_on_seed_and_index_only(batch):
    task = SingleLocation(30, 5)
    options = {"steps": 60, "log_every": 20, "batch_size": batch}
    many, few = (train(task, Erf(0.3), runs=n, **options) for n in (40, 3))
    np.testing.assert_array_equal(many.log[:, :3], few.log)
    assert not np.array_equal(train(task, Erf(0.3), runs=3, seed=1, **options).log, few.log)


def test_temperature_zero_stands_still():
    run = train(PAPER, Erf(0.0), runs=2, steps=10, log_every=5)
    np.testing.assert_allclose(
        run.log, np.repeat(run.log[:, :, :1], 3, axis=2), rtol=0, atol=LAST_DIGIT
    )
    assert run.excess == pytest.approx(0.5)


def test_huge_dimension():
    run = train(
        SingleLocation(10**8, 10), Erf(2e-4), runs=2, steps=100, log_every=50, batch_size=2
    )
    assert np.isfinite(run.excess).all()


def test_population_engine_gets_each_step_its_temperature():
    """A schedule as a Python function, in pieces of any size: the same as the engine's own call."""
    schedule = lambda t: 0.3 / (1 + 0.01 * t)
    run = train(PAPER, Erf(schedule), runs=2, steps=300, log_every=100)
    engine = PopulationErf(PAPER, 4e-3)
    state = engine.init(run.log[:, :, 0])
    expected = engine.overlaps(
        engine.advance(state, np.array([schedule(t) for t in range(300)]))
    )
    np.testing.assert_array_equal(run.log[:, :, -1], expected)
    assert run.temperature == pytest.approx([schedule(t) for t in (0, 100, 200, 300)], abs=0)


def test_inverse_time_in_blocks_is_the_function_step_by_step():
    schedule = InverseTime(1.7, rate=3e-4)
    np.testing.assert_array_equal(
        temperatures(schedule, 5, 5000), [schedule(t) for t in range(5, 5000)]
    )


# -- bad input -------------------------------------------------------------------------------------


def late(t):
    return 0.1 if t < 700 else 0.1 - 0.001 * (t - 699)


BAD = {
    "step_size nan": (
        {"step_size": math.nan},
        "step_size of train must be a finite number > 0, got nan",
    ),
    "step_size 0": (
        {"step_size": 0.0},
        "step_size of train must be a finite number > 0, got 0.0",
    ),
    "step_size negative": (
        {"step_size": -1e-3},
        "step_size of train must be a finite number > 0",
    ),
    "step_size infinite": (
        {"step_size": math.inf},
        "step_size of train must be a finite number > 0",
    ),
    "log_every": (
        {"log_every": 2000},
        "log_every of train must be at most steps = 1000, got 2000; try log_every=10",
    ),
    "log_every 0": ({"log_every": 0}, "log_every of train must be an integer >= 1, got 0"),
    "runs": ({"runs": 0}, "runs of train must be an integer >= 1, got 0"),
    "runs float": ({"runs": 3.0}, "runs of train must be an integer"),
    "steps": ({"steps": 0}, "steps of train must be an integer >= 1"),
    "batch_size": ({"batch_size": 0}, "batch_size of train must be an integer >= 1, got 0"),
    "engine": ({"engine": "fast"}, "engine of train must be 'reduced' or 'full', got 'fast'"),
    "start": ({"start": "random"}, "start of train must be"),
    "seed": ({"seed": -1}, "seed of train must be an integer >= 0"),
    "swap_move": ({"swap_move": "yes"}, "swap_move of train must be True or False"),
    "overlaps": (
        {"start": Overlaps(1.0, 1.0, 0.0, 0.0, 0.0)},
        "must be those of unit vectors",
    ),
    "task": ({"task": "paper"}, "task of train must be a planted task"),
    "predictor": ({"predictor": 0.1}, "predictor of train must be a Predictor"),
    "small sgd": (
        {"task": SingleLocation(3, 5), "batch_size": 5},
        r'dim of train\(batch_size=...\) must be an integer >= 4 with engine="reduced", got .*try engine="full"',
    ),
    "schedule": (
        {"predictor": Erf(late)},
        "temperature at step 799 of the schedule must be a finite number > 0, got 0.0",
    ),
    "schedule nan": (
        {"predictor": Erf(lambda t: math.nan)},
        "temperature at step 0 of the schedule must be a finite number > 0",
    ),
    "schedule text": (
        {"predictor": Erf(lambda t: "hot")},
        "temperature at step 0 of the schedule must be a finite number",
    ),
    "schedule last": (
        {"predictor": Erf(lambda t: 1000 - t)},
        "temperature at step 1000 of the schedule",
    ),
    "schedule negative": (
        {"predictor": Erf(lambda t: t - 5)},
        "temperature at step 0 of the schedule must be a finite number > 0",
    ),
    "schedule raises": (
        {"predictor": Erf(lambda t: 1 / abs(t - 5))},
        "temperature at step 5 of the schedule must be a number, got ZeroDivisionError",
    ),
    "memory": ({"steps": 10**12, "log_every": 1}, "the log of train must fit in memory"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_before_any_work(name, monkeypatch):
    monkeypatch.setattr(train_module, "advance", lambda *a: pytest.fail("work has started"))
    options, message = BAD[name]
    options = {"task": PAPER, "predictor": Erf(0.1), "steps": 1000} | options
    with pytest.raises(AttnscopeError, match=message) as caught:
        train(options.pop("task"), options.pop("predictor"), **options)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_bad_names_elsewhere():
    with pytest.raises(
        AttnscopeError, match="name of run_experiment must be one of init_manifold"
    ):
        run_experiment("paper")
    with pytest.raises(AttnscopeError, match="steps of extend must be an integer >= 1"):
        train(PAPER, Erf(0.1), runs=1, steps=1, log_every=1).extend(0)


# -- interruption and divergence -------------------------------------------------------------------


def use_engine(monkeypatch, make):
    """Let `train` and `extend` find this engine."""
    for module in (train_module, trajectory_module):
        monkeypatch.setattr(module, "engine_for", make)


class Interrupted(PopulationErf):
    """Ctrl-C (the real signal, at the next bytecode) when update `at` is reached."""

    at = 0

    def init(self, overlaps, seed=0):
        return super().init(overlaps) | {"done": np.array(0)}

    def advance(self, state, temperatures):
        done = int(state["done"]) + len(temperatures)
        if int(state["done"]) <= self.at < done:
            type(self).at = -1  # once
            _thread.interrupt_main()
        return super().advance(state, temperatures) | {"done": np.array(done)}


@pytest.mark.parametrize("at", [0, 130, 999])
def test_ctrl_c_keeps_what_was_logged(at, monkeypatch, capsys):
    whole = train(PAPER, Erf(0.3), runs=3, steps=1000, log_every=100)
    monkeypatch.setattr(Interrupted, "at", at)
    use_engine(monkeypatch, lambda setup: Interrupted(setup.task, setup.step_size))
    run = train(PAPER, Erf(0.3), runs=3, steps=1000, log_every=100)
    kept = at // 100 * 100
    assert run.step.tolist() == list(range(0, kept + 1, 100))
    said = capsys.readouterr().err
    assert (
        said
        == f"Interrupted; {kept} of 1000 steps are kept: go on with run.extend({1000 - kept}).\n"
    )
    rest = run.extend(1000 - kept)
    np.testing.assert_array_equal(rest.log, whole.log)
    np.testing.assert_array_equal(rest.step, whole.step)


def test_ctrl_c_in_an_extension_keeps_the_run(monkeypatch, capsys):
    run = train(PAPER, Erf(0.3), runs=3, steps=250, log_every=100)
    use_engine(monkeypatch, lambda setup: Stop())

    class Stop:
        def advance(self, state, temperatures):
            raise KeyboardInterrupt

    again = run.extend(100)
    assert again.step.tolist() == [0, 100, 200, 250]
    assert "go on with run.extend(100)" in capsys.readouterr().err


class Exploding:
    """Run i is lost by update 10 (i + 1) - i; the others count their updates in kappa."""

    def init(self, overlaps, seed):
        return {"t": np.zeros(overlaps.shape[1])}

    def advance(self, state, temperatures):
        return {"t": state["t"] + len(temperatures)}

    def overlaps(self, state):
        t, i = state["t"], np.arange(len(state["t"]))
        kappa = np.where((t >= 10 * (i + 1) - i) & (i < 3), np.nan, t / 100)
        return np.array([kappa, *np.zeros((4, len(t)))])


def test_divergence_is_an_outcome_with_its_step(monkeypatch):
    use_engine(monkeypatch, lambda setup: Exploding())
    run = train(PAPER, Erf(0.1), runs=4, steps=40, log_every=8)
    assert run.diverged_at.tolist() == [10, 19, 28, -1]
    assert run.outcome.tolist() == ["diverged", "diverged", "diverged", "undecided"]
    held = (
        np.array(
            [
                [0, 8, 8, 8, 8, 8],
                [0, 8, 16, 16, 16, 16],
                [0, 8, 16, 24, 24, 24],
                [0, 8, 16, 24, 32, 40],
            ]
        )
        / 100
    )
    np.testing.assert_array_equal(run.overlaps.kappa, held)
    assert np.isfinite(run.excess).all() and np.isfinite(run.to_frame().to_numpy()).all()
    assert "3 of 4 runs end diverged, between steps 10 and 28" in " ".join(run.diagnose())
    longer = run.extend(8)
    assert (
        longer.diverged_at.tolist() == [10, 19, 28, -1]
        and longer.overlaps.kappa[0, -1] == 0.08
    )


def test_pieces_follow_the_clock(monkeypatch):
    """Slow engines get short pieces, fast ones long pieces, and the steps are all there."""
    clock = [0.0]
    monkeypatch.setattr(loop.time, "perf_counter", lambda: clock[0])
    seen = []

    class Timed:
        cost = 0.0

        def advance(self, state, temperatures):
            seen.append(len(temperatures))
            clock[0] += self.cost * len(temperatures)
            return state

    for cost, expected in ((0.0, lambda: max(seen) >= 2**12), (1.0, lambda: seen[-1] == 1)):
        seen.clear()
        Timed.cost = cost
        loop.Walker(Timed(), 0.1, loop.Bar()).walk({}, 0, 10_000)
        assert sum(seen) == 10_000 and expected()


@pytest.mark.parametrize("keys", ["overlaps", "gram", "vectors"])
def test_exchange_is_the_same_in_every_state(keys):
    task = SingleLocation(6, 3)
    run = train(task, Erf(0.3), runs=4, steps=1, log_every=1)
    options = {
        "overlaps": (Erf(0.3), None, "reduced"),
        "gram": (Softmax(0.3), 2, "reduced"),
        "vectors": (Erf(0.3), 2, "full"),
    }
    predictor, batch, engine = options[keys]
    setup = train_module.Setup(task, predictor, 0.1, 1, 0, batch, engine, True)
    machine = train_module.engine_for(setup)
    state = machine.init(run.log[:, :, 0], 0)
    which = np.array([True, False, True, False])
    swapped = machine.overlaps(loop.exchange(state, which))
    expected = np.where(which, run.log[[2, 3, 0, 1, 4], :, 0], run.log[:, :, 0])
    np.testing.assert_allclose(swapped, expected, rtol=0, atol=FORMULA)


def test_the_spinner_explains_a_long_first_call(monkeypatch, capfd):
    """On a terminal only; nothing is printed when the call is quick."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(loop, "PATIENCE", 0.05)
    with loop._spinner("compiling, once"):
        deadline = time.monotonic() + 60
        while (
            "compiling, once" not in (said := capfd.readouterr().err)
            and time.monotonic() < deadline
        ):
            pass
    assert "compiling, once" in said
    monkeypatch.setattr(loop, "PATIENCE", 3600.0)
    capfd.readouterr()
    with loop._spinner("compiling, once"):
        pass
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_ten_thousand_runs_in_little_memory():
    code = (
        "import attnscope.dynamics.train as t\n"
        "from attnscope.tasks.planted.single_location import SingleLocation\nfrom "
        "attnscope.predictors.attention import Erf\n"
        "run = t.train(SingleLocation(400, 10), Erf(0.1), runs=10_000, steps=100_000, "
        "log_every=10_000)\n"
        "run.excess\nprint(run.runs, run.step[-1], peak())"
    )
    out = subprocess.run(
        [sys.executable, "-c", PEAK + code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert out[:2] == ["10000", "100000"]
    assert int(out[2]) < 1e9
