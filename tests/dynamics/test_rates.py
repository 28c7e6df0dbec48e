"""Predicted local rates against measured ones, and against plain linear algebra."""

import numpy as np
import pytest
from helpers.tolerances import INTEGRAL, SIX_DIGITS

from attnscope.dynamics.rates import escape_time, predicted_rate
from attnscope.dynamics.train import train
from attnscope.errors import AttnscopeError
from attnscope.predictors.attention import Erf, LinearAttention
from attnscope.predictors.inverse_temperature import InverseTime
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.landscape import local_geometry, stationary_points
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk

PAPER = SingleLocation(400, 10)


@pytest.mark.parametrize(
    ("start", "limit", "inverse_temperature", "steps"),
    [
        ("manifold", "oracle", 0.1, 300_000),
        ("manifold", "oracle", 0.05, 20_000),
        ("sphere", "oracle", 0.05, 20_000),
        ("sphere", "swapped", 0.05, 20_000),
        ("sphere", "swapped", 0.1, 20_000),
    ],
)
def test_measured_rate_is_the_predicted_one(start, limit, inverse_temperature, steps):
    run = train(
        PAPER, Erf(inverse_temperature), start, runs=30, steps=steps, log_every=steps // 200
    )
    found = run.rate(limit)
    assert len(found.runs) >= 8 and (run.outcome[found.runs] == limit).all()
    assert found.decay == pytest.approx(found.predicted.decay, rel=0.01)  # the bar is 5 %
    assert (
        np.abs(found.decay - found.predicted.decay)
        < found.error + 1e-3 * found.predicted.decay
    ).all()  # an honest error


def test_manifold_rate_differs_where_the_slow_direction_leaves_the_manifold():
    """Just below the critical inverse temperature, 1.508 here, the slow direction is off the
    manifold: a run on it does not see it.
    """
    task, predictor = SingleLocation(20, 2, signal=2.0), Erf(1.493)
    on, off = (predicted_rate(task, predictor, 0.05, manifold=m) for m in (True, False))
    assert off.decay < on.decay / 5
    run = train(
        task, predictor, "manifold", runs=3, steps=20_000, log_every=50, step_size=0.05
    )
    assert run.rate().decay == pytest.approx(on.decay, rel=0.01)


def test_rate_of_another_predictor():
    task, predictor = SingleLocation(20, 4), LinearAttention(0.1)
    run = train(task, predictor, "manifold", runs=4, steps=3000, log_every=20, step_size=0.02)
    found = run.rate()
    assert found.decay == pytest.approx(found.predicted.decay, rel=0.02)


def test_geometry_by_differences_of_the_risk_along_vectors():
    """Gradient norm and the extreme Hessian eigenvalues from the exact risk on the spheres
    alone.
    """
    task, predictor = SingleLocation(6, 3, signal=1.5), Erf(0.4)
    rng = np.random.default_rng(4)
    k, v = (x / np.linalg.norm(x) for x in rng.standard_normal((2, 6)))
    local = local_geometry(task, predictor, Overlaps.of(task, k, v))
    basis = [np.linalg.svd(x[None])[2][1:] for x in (k, v)]

    def at(z):
        a = k + z[:5] @ basis[0]
        b = v + z[5:] @ basis[1]
        return risk(
            task, predictor, Overlaps.of(task, a / np.linalg.norm(a), b / np.linalg.norm(b))
        ).value

    h, e = 1e-4, np.eye(10)
    gradient = np.array([(at(h * x) - at(-h * x)) / (2 * h) for x in e])
    second = lambda x, y: (
        (at(h * (x + y)) - at(h * (x - y)) - at(h * (y - x)) + at(-h * (x + y))) / (4 * h * h)
    )
    hessian = np.array([[second(x, y) for y in e] for x in e])
    values = np.linalg.eigvalsh(hessian)
    assert local.gradient == pytest.approx(np.linalg.norm(gradient), rel=SIX_DIGITS)
    assert local.eigenvalues[[0, -1]] == pytest.approx(values[[0, -1]], abs=SIX_DIGITS)


def test_escape_from_close_to_the_saddle():
    """From tiny overlaps the linear prediction is exact;
    both unstable directions, and a mixture.
    """
    grow = {p.name: p for p in stationary_points(PAPER, Erf(0.1))}["degenerate"].eigenvalues[
        :2
    ]
    starts = 1e-5 * np.array([[1, 0, 0, 1, 0], [0, 1, 0.4, 0, 0], [0.2, 1, 0.1, 0.3, 0.5]]).T
    run = train(PAPER, Erf(0.1), Overlaps(*starts), runs=3, steps=4000, log_every=5)
    found = run.escape(level=1e-3)
    assert found.runs.tolist() == [0, 1, 2]
    assert found.measured == pytest.approx(found.predicted, rel=0.01)
    slow = np.log(100) / np.log1p(4e-3 * -grow.max())
    assert 0.8 * slow < found.predicted.min() and found.predicted.max() < 1.6 * slow


@pytest.mark.parametrize("signal", [1.0, 50.0, 300.0, 3000.0])
def test_escape_time_of_steep_scores(signal):
    # theory/optima/landscape.py: the saddle's Hessian in (kappa, nu) is [[a1, -b], [-b, 0]] in
    # closed form
    lam, gam2 = 0.2, 0.5
    task = SingleLocation(dim=10**6, length=5, gamma=gam2**0.5, signal=signal)
    S2 = 1 + 2 * lam**2 * gam2
    q = (1 + 4 * lam**2 * gam2) ** 0.5
    b = 4 * lam * gam2 * signal / (np.pi * S2) ** 0.5
    a1 = 8 * gam2 * lam**2 * signal**2 / (np.pi * S2 * q)
    growth = 2 * b * b / (a1 + (a1 * a1 + 4 * b * b) ** 0.5)
    steps = np.log(
        0.3 / (1e-4 * b / np.hypot(b, growth + a1) * (growth + a1) / b)
    ) / np.log1p(1e-6 * growth)
    found = escape_time(task, Erf(lam), 1e-6, Overlaps(0.0, 0.0, 0.0, 1e-4, 0.0))
    assert found == pytest.approx(steps, rel=INTEGRAL)


def test_escape_from_random_starts_is_an_estimate():
    run = train(PAPER, Erf(0.1), runs=100, log_every=20)
    found = run.escape()
    ratio = found.measured / found.predicted
    assert (
        len(found.runs) == 100
        and ratio.min() > 0.6
        and ratio.max() < 1.6
        and 0.95 < np.median(ratio) < 1.15
    )
    assert escape_time(PAPER, Erf(0.1), 4e-3, Overlaps.oracle()) == 0


def test_what_has_no_rate_is_refused():
    cases = [
        (
            lambda: predicted_rate(PAPER, Erf(1.0), 1e-3),
            "limit of predicted_rate must be a minimum, got the oracle point, a saddle",
        ),
        (
            lambda: predicted_rate(PAPER, Erf(0.1), 6e-3),
            "step_size of predicted_rate must be below 2 / 424",
        ),
        (
            lambda: predicted_rate(PAPER, Erf(0.1), 4e-3, "best"),
            "limit of predicted_rate must be one of",
        ),
        (
            lambda: predicted_rate(PAPER, Erf(InverseTime(1.0, rate=1e-4)), 4e-3),
            "inverse_temperature of .* must be a number",
        ),
        (
            lambda: predicted_rate(PAPER, Erf(0.1), -1),
            "step_size of predicted_rate must be a finite number > 0",
        ),
        (
            lambda: train(PAPER, Erf(0.1), runs=1, steps=10, log_every=1).rate(),
            "must approach its limit.*try run.extend",
        ),
        (
            lambda: train(PAPER, Erf(0.1), runs=1, steps=9, log_every=1, batch_size=1).rate(),
            "on the population gradient",
        ),
        (
            lambda: escape_time(PAPER, Erf(0.1), 4e-3, Overlaps.oracle(), level=0),
            "level of escape_time must be",
        ),
    ]
    for call, message in cases:
        with pytest.raises(AttnscopeError, match=message):
            call()
