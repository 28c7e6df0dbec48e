"""The softmax risk from functions of kappa against the integral of each point, over random settings
(fixed seeds, so no false alarm), and what is built on it.
"""

import numpy as np
import pytest

import attnscope as at
from attnscope.dynamics.engines.population_exact import PopulationExact
from attnscope.dynamics.gradient_flow import velocity
from attnscope.dynamics.starts import starting_overlaps
from attnscope.theory.law import Law
from attnscope.theory.risks import softmax_profile
from attnscope.theory.risks.softmax_profile import (
    ERROR_PER_TERM,
    evaluate,
    many_excesses,
    profile,
)
from attnscope.theory.risks.softmax_risk import softmax_excess, softmax_excess_gradient


def heads(count, rng, c=0.0, dim=6):
    """Overlaps (count, 5) of random unit vectors, with key.value = c."""
    x = rng.standard_normal((count, 2, dim))
    k, v = np.moveaxis(x / np.linalg.norm(x, axis=2, keepdims=True), 1, 0)
    value = np.zeros(dim)
    value[:2] = c, np.sqrt(1 - c * c)
    return np.stack([k[:, 0], k @ value, v[:, 0], v @ value, (k * v).sum(axis=1)], axis=1)


def setting(seed):
    rng = np.random.default_rng([41, seed])
    dim = int(10 ** rng.uniform(0.4, 3.3))
    length = int(10 ** rng.uniform(0.31, 2.5))
    task = at.SingleLocation(dim, length, gamma=10 ** rng.uniform(-0.4, 0.4))
    law = Law.of(task)
    if seed % 4 == 3:  # key and value that are not perpendicular
        law = law._replace(signal=2.0, alignment=0.4)
    return law, float(10 ** rng.uniform(-2, 1)), rng


@pytest.mark.parametrize("seed", range(16))
def test_risk_and_gradient_are_those_of_the_integral(seed):
    law, lam, rng = setting(seed)
    found = profile(lam, law)
    assert found is not None
    points = heads(12, rng, law.alignment)
    got = evaluate(found, points, lam, law)
    for point, row in zip(points, got):
        true = softmax_excess(point, lam, law)
        assert abs(row[0] - true.excess) <= ERROR_PER_TERM * row[1] + true.error
        gradient = softmax_excess_gradient(point, lam, law)[:5]
        # kappa moves the terms by inverse temperature times signal
        scale = row[1] * (1 + lam * law.signal) + np.abs(gradient).max()
        assert np.abs(row[2:] - gradient).max() <= 1e-10 * scale


def test_a_grid_has_the_risks_of_its_points_with_errors_that_hold():
    task = at.SingleLocation(400, 10)
    predictor = at.Softmax(2.0)
    points = heads(softmax_profile.PROFILE_POINTS, np.random.default_rng(5))
    points[:3] = (1, 0, 0, 1, 0), (0.99, 0, 0, 0.999, 0), (-1, 0, 0, -1, 0)
    all_at_once = at.risk(task, predictor, at.Overlaps(*points.T))
    for i in range(0, len(points), 9):
        one = at.risk(task, predictor, at.Overlaps(*(float(x) for x in points[i])))
        error = all_at_once.error[i] + one.error
        assert abs(all_at_once.value[i] - one.value) <= error
    oracle = at.risk(task, predictor, at.Overlaps.oracle())
    # a tiny risk is integrated for itself
    assert all_at_once.excess[0] == pytest.approx(oracle.excess, rel=1e-9)
    assert (all_at_once.error <= 1e-8 * all_at_once.excess).all()


def test_where_it_does_not_pay_or_fit_the_points_are_integrated():
    law = Law.of(at.SingleLocation(400, 10))
    assert many_excesses(np.zeros((3, 5)), 2.0, law) is None
    assert profile(2.0, Law.of(at.SingleLocation(10**6, 10))) is None
    assert profile(0.0, law) is None
    assert profile(1.0, Law.of(at.SingleLocation(10, 1))) is None


def test_training_follows_the_integrals_and_does_not_depend_on_its_pieces():
    task = at.SingleLocation(50, 6)
    predictor = at.Softmax(1.5)
    o = starting_overlaps(task, "sphere", 3, 2)
    swift, plain = (PopulationExact(task, predictor, 0.02) for _ in range(2))
    plain.prepared = True  # as if nothing could be prepared
    lam = np.full(40, 1.5)
    a, b = (e.advance(e.init(o), lam)["overlaps"] for e in (swift, plain))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)
    halves = swift.advance(swift.advance(swift.init(o), lam[:13]), lam[13:])["overlaps"]
    np.testing.assert_array_equal(halves, a)
    alone = swift.advance(swift.init(o[:, 1:2]), lam)["overlaps"]
    np.testing.assert_array_equal(alone[:, 0], a[:, 1])


def test_stationary_points_are_those_of_the_integrals():
    """The flow of the integrals' gradient vanishes at the points that the profile finds."""
    task = at.SingleLocation(50, 6)
    points = at.stationary_points(task, at.Softmax(1.5))
    assert points[0].name == "oracle"
    for point in points:
        o = tuple(float(x) for x in point.overlaps)
        partial = softmax_excess_gradient(o, 1.5, Law.of(task))[:5]
        flow = velocity(np.array(o)[:, None], partial[:, None], 0.0)
        assert np.abs(flow).max() < 1e-8 * (1 + task.signal**2)
