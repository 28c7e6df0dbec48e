"""The stability limit of the step size against what training does below and above it."""

import math

import numpy as np
import pytest
from helpers.tolerances import FORMULA

import attnscope as at
from attnscope.theory.optima.sphere_hessian import (
    moved,
    overlap_derivatives,
    overlaps_of,
    sphere_hessian,
    tangent_basis,
    vectors_with,
)
from attnscope.theory.optima.stable_step import stable_step


def limit_of(task, predictor):
    return stable_step(at.stationary_points(task, predictor))


def rises(task, predictor, share, start, runs=1, steps=300):
    """How often the exact risk of these runs rises in `steps` steps of share times the limit."""
    step_size = share * limit_of(task, predictor)
    run = at.train(
        task,
        predictor,
        start=start,
        runs=runs,
        steps=steps,
        step_size=step_size,
        log_every=1,
        progress=False,
    )
    return (np.diff(run.excess, axis=1) > 1e-9 * run.excess[:, :-1]).sum(axis=1)


CASES = [
    (d, predictor)
    for d in (2, 20, 400, 10**4, 10**6)
    for predictor in (at.Erf(0.02), at.Erf(0.1), at.LinearAttention(0.02))
]


@pytest.mark.parametrize(("dim", "predictor"), CASES)
def test_at_the_stiffest_minimum_the_risk_falls_below_the_limit_and_rises_above(
    dim, predictor
):
    """From a point beside the minimum along its stiffest direction: the linear map alone decides."""
    task = at.SingleLocation(dim, 10)
    minima = [p for p in at.stationary_points(task, predictor) if p.kind == "minimum"]
    stiffest = max(minima, key=lambda p: p.eigenvalues.max())
    derivatives = overlap_derivatives(task, predictor, float(predictor.inverse_temperature))
    k, v = vectors_with(stiffest.overlaps, min(dim, 4))
    values, vectors = np.linalg.eigh(sphere_hessian(derivatives, k, v))
    assert values[-1] == pytest.approx(stiffest.eigenvalues.max(), rel=1e-6)
    aside = 1e-4 / (1 + task.signal) * (tangent_basis(k, v) @ vectors[:, -1])
    near = at.Overlaps(*(float(x) for x in overlaps_of(*moved(k, v, aside))))
    assert rises(task, predictor, 0.95, near).max() == 0
    assert rises(task, predictor, 1.1, near).max() > 20


@pytest.mark.parametrize("dim", [2, 4, 20, 400, 10**4, 10**6])
@pytest.mark.parametrize(
    "predictor", [at.Erf(0.02), at.Erf(0.1), at.Erf(0.5), at.LinearAttention(0.1)]
)
def test_from_random_starts_half_the_limit_never_raises_the_risk(dim, predictor):
    """The rule of the explorer's step size, along the whole way."""
    task = at.SingleLocation(dim, 10)
    assert rises(task, predictor, 0.5, "sphere", runs=6).max() == 0


def test_the_limit_is_two_over_the_largest_curvature_of_the_minima():
    points = at.stationary_points(at.SingleLocation(400, 10), at.Erf(0.1))
    largest = max(p.eigenvalues.max() for p in points if p.kind == "minimum")
    assert stable_step(points) == pytest.approx(2 / largest, rel=FORMULA)
    saddle = [p for p in points if p.kind == "saddle"]
    assert stable_step(saddle) == pytest.approx(2 / saddle[0].eigenvalues.max(), rel=FORMULA)
    assert stable_step([]) == math.inf
