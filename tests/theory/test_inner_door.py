"""The inner door: unchecked cores give the checked functions' numbers to the bit,
and searches pay for checks once.
"""

import cProfile
import math
import pstats

import numpy as np
import pytest

import attnscope as at
from attnscope.claims.claim import Context
from attnscope.claims.registry import selected_claims
from attnscope.numerics.border import validation
from attnscope.theory.optima.landscape import swapped_overlaps
from attnscope.theory.overlaps import Overlaps, as_arrays
from attnscope.theory.reference_risks import swapped_optimum, swapped_risk
from attnscope.theory.risk import unchecked_gradient, unchecked_risk

TASK = at.SingleLocation(dim=30, length=5)
POINT = Overlaps(0.3, 0.25, 0.2, 0.35, 0.1)
HEADS = (
    at.Erf(0.2),
    at.LinearAttention(0.2, 0.1),
    at.Softmax(0.7),
    at.Componentwise(np.tanh, 0.3),
)
SHARE = 0.10  # of all calls, the bar of the checks' functions


def share(function) -> float:
    profile = cProfile.Profile()
    profile.runcall(function)
    rows = pstats.Stats(profile).stats
    checks = sum(row[1] for (file, _, _), row in rows.items() if file == validation.__file__)
    return checks / sum(row[1] for row in rows.values())


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
def test_cores_are_the_public_functions_to_the_bit(head):
    o = as_arrays(POINT)
    assert unchecked_risk(TASK, head, o, head.inverse_temperature) == at.risk(
        TASK, head, POINT
    )
    assert unchecked_gradient(TASK, head, o, head.inverse_temperature) == at.risk_gradient(
        TASK, head, POINT
    )
    drawn = at.risk(TASK, head, POINT, "monte-carlo", 1000, 3)
    assert (
        unchecked_risk(TASK, head, o, head.inverse_temperature, "monte-carlo", 1000, 3)
        == drawn
    )


@pytest.mark.parametrize("head", HEADS[:3], ids=lambda head: type(head).__name__)
def test_the_core_uses_the_inverse_temperature_it_is_told(head):
    kind = lambda lam: (
        at.LinearAttention(lam, 0.1)
        if isinstance(head, at.LinearAttention)
        else type(head)(lam)
    )
    assert unchecked_risk(TASK, head, as_arrays(POINT), 0.55) == at.risk(
        TASK, kind(0.55), POINT
    )


@pytest.mark.parametrize("dim", [2, 3, 30])
def test_the_swapped_point_has_the_risk_of_its_overlaps(dim):
    task = at.SingleLocation(dim=dim, length=5)
    lam = 0.1 / task.signal  # theta = 1: the point exists in the plane too
    overlaps = swapped_overlaps(task, lam)
    assert overlaps.theta == 1.0
    assert swapped_risk(task, lam) == at.risk(task, at.Erf(lam), overlaps)


def test_the_swapped_point_that_a_plane_cannot_hold_is_refused():
    task = at.SingleLocation(dim=2, length=5)
    with pytest.raises(at.AttnscopeError, match="dimension 2"):
        swapped_risk(task, 5.0)


def test_swapped_optimum_refuses_what_it_is_not_derived_for():
    oblique = at.SingleLocation(dim=2, length=5, key=[1.0, 0.0], value=[0.6, 0.8])
    with pytest.raises(
        at.AttnscopeError, match="swapped_optimum must be one with key perpendicular to value"
    ):
        swapped_optimum(oblique)


def test_a_family_is_refused_wherever_it_stops_being_one():
    tricky = lambda lam: at.Erf(lam) if lam == 0.5 else math.inf
    with pytest.raises(at.AttnscopeError, match="predictor of optimal_inverse_temperature"):
        at.optimal_inverse_temperature(TASK, tricky)


@pytest.mark.parametrize("family", [at.Erf, at.Softmax], ids=lambda kind: kind.__name__)
def test_searches_pay_for_checks_once(family):
    assert share(lambda: at.optimal_inverse_temperature(TASK, family)) <= SHARE / 2
    assert share(lambda: swapped_optimum(TASK)) <= SHARE / 2


@pytest.mark.slow
def test_checks_are_at_most_a_tenth_of_the_calls_of_the_claim_that_searches_most():
    claim = selected_claims(["slr-13*"])[0]
    assert share(lambda: claim.check(Context(0))) <= SHARE
