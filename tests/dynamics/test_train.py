"""`train`: the engines behind it, starts, schedules, bad input, the swap move's exchange."""

import math
import subprocess
import sys

import numpy as np
import pytest
from helpers.memory import PEAK
from helpers.tolerances import (
    FORMULA,
    LAST_DIGIT,
    LONG_SUM,
)

from attnscope.dynamics import loop
from attnscope.dynamics import train as train_module
from attnscope.dynamics.engines.population_erf import PopulationErf
from attnscope.dynamics.experiments import run_experiment
from attnscope.dynamics.schedule import inverse_temperatures
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
from attnscope.predictors.inverse_temperature import InverseTime
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps

PAPER = SingleLocation(400, 10)
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
    inverse_temperature = InverseTime(0.5, rate=1e-2)
    runs = [
        train(task, Erf(inverse_temperature), runs=3, steps=500, step_size=0.01, engine=e)
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


def test_inverse_temperature_zero_stands_still():
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


def test_population_engine_gets_each_step_its_inverse_temperature():
    """A schedule as a Python function, in pieces of any size: the same as the engine's own call."""
    schedule = lambda t: 0.3 / (1 + 0.01 * t)
    run = train(PAPER, Erf(schedule), runs=2, steps=300, log_every=100)
    engine = PopulationErf(PAPER, 4e-3)
    state = engine.init(run.log[:, :, 0])
    expected = engine.overlaps(
        engine.advance(state, np.array([schedule(t) for t in range(300)]))
    )
    np.testing.assert_array_equal(run.log[:, :, -1], expected)
    assert run.inverse_temperature == pytest.approx(
        [schedule(t) for t in (0, 100, 200, 300)], abs=0
    )


def test_inverse_time_in_blocks_is_the_function_step_by_step():
    schedule = InverseTime(1.7, rate=3e-4)
    np.testing.assert_array_equal(
        inverse_temperatures(schedule, 5, 5000), [schedule(t) for t in range(5, 5000)]
    )


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
        "inverse temperature at step 799 of the schedule must be a finite number > 0, got 0.0",
    ),
    "schedule nan": (
        {"predictor": Erf(lambda t: math.nan)},
        "inverse temperature at step 0 of the schedule must be a finite number > 0",
    ),
    "schedule text": (
        {"predictor": Erf(lambda t: "hot")},
        "inverse temperature at step 0 of the schedule must be a finite number",
    ),
    "schedule last": (
        {"predictor": Erf(lambda t: 1000 - t)},
        "inverse temperature at step 1000 of the schedule",
    ),
    "schedule negative": (
        {"predictor": Erf(lambda t: t - 5)},
        "inverse temperature at step 0 of the schedule must be a finite number > 0",
    ),
    "schedule raises": (
        {"predictor": Erf(lambda t: 1 / abs(t - 5))},
        "inverse temperature at step 5 of the schedule must be a number, got ZeroDivisionError",
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
