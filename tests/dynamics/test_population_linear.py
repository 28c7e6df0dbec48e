"""The compiled steps of linear attention against those of the general engine, to the last bit."""

import numpy as np
import pytest

import attnscope as at
from attnscope.dynamics.engines.engine_table import engine_for
from attnscope.dynamics.engines.population_exact import PopulationExact
from attnscope.dynamics.engines.population_linear import PopulationLinear
from attnscope.dynamics.starts import starting_overlaps


@pytest.mark.parametrize(
    ("dim", "offset", "step_size", "gamma"),
    [
        (2, 0.0, 4e-3, 0.7),
        (400, 0.3, 4e-3, 1.3),
        (400, 0.0, 0.1, 0.7),
        (10**6, 0.0, 1e-6, 0.1),
    ],
)
def test_the_compiled_steps_are_those_of_the_general_engine(dim, offset, step_size, gamma):
    task = at.SingleLocation(dim, 10, gamma=gamma)
    predictor = at.LinearAttention(0.1, offset=offset)
    o = starting_overlaps(task, "sphere", 7, 3)
    lam = 0.1 / (1 + 1e-3 * np.arange(300))
    one, other = (
        kind(task, predictor, step_size) for kind in (PopulationExact, PopulationLinear)
    )
    a, b = (e.advance(e.init(o), lam)["overlaps"] for e in (one, other))
    np.testing.assert_array_equal(a, b)
    # in pieces, and a run without its company
    half = other.advance(other.advance(other.init(o), lam[:111]), lam[111:])["overlaps"]
    np.testing.assert_array_equal(half, b)
    alone = other.advance(other.init(o[:, 2:3]), lam)["overlaps"]
    np.testing.assert_array_equal(alone[:, 0], b[:, 2])


def test_training_uses_them_and_leaves_its_start_alone():
    task = at.SingleLocation(50, 5)
    run = at.train(
        task, at.LinearAttention(0.1), runs=2, steps=10, log_every=5, progress=False
    )
    engine = engine_for(run.setup)
    assert isinstance(engine, PopulationLinear)
    begin = engine.init(run.log[:, :, 0])
    before = begin["overlaps"].copy()
    engine.advance(begin, np.full(3, 0.1))
    np.testing.assert_array_equal(begin["overlaps"], before)
