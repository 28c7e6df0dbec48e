"""The best inverse temperature on planted tasks without an exact risk: against the exact one of a
twin, and against other inverse temperatures.
"""

import pytest
from helpers.twins import Twin

import attnscope as at
from attnscope.theory.optima.optimum import sizes_of

SURE = 5  # standard errors: a false alarm of 6e-7 each


@pytest.mark.parametrize(
    ("family", "method"),
    [
        (at.Erf, "moments, bound"),
        # the other test of softmax stands elsewhere than at the oracle
        pytest.param(at.Softmax, "moments, bound", marks=pytest.mark.slow),
    ],
)
def test_the_best_inverse_temperature_on_nodes_is_that_of_the_exact_risk(family, method):
    exact = at.SingleLocation(10, 4, gamma=1.0, signal=2.0)
    best, least = at.optimal_inverse_temperature(exact, family)
    found, risk = at.optimal_inverse_temperature(Twin(10, 4), family)
    assert risk.method == method
    assert abs(risk.value - least.value) <= SURE * risk.error
    # what choosing on nodes costs is of second order in their error
    cost = at.risk(exact, family(found), at.Overlaps.oracle()).value - least.value
    assert -1e-12 <= cost <= max((SURE * risk.error) ** 2, 1e-12)
    assert found == pytest.approx(best, rel=1e-3 if family is at.Erf else 1e-2)


@pytest.mark.slow
def test_overlaps_are_followed():
    o = at.Overlaps(0.8, 0.1, 0.0, 0.7, 0.2)
    exact = at.SingleLocation(10, 4, gamma=1.0, signal=2.0)
    best, least = at.optimal_inverse_temperature(exact, at.Softmax, o)
    found, risk = at.optimal_inverse_temperature(Twin(10, 4), at.Softmax, o)
    assert abs(risk.value - least.value) <= SURE * risk.error
    assert found == pytest.approx(best, rel=1e-2)


def test_a_task_without_signal_has_sizes():
    sizes = sizes_of(Twin(10, 4))
    assert sizes.gamma == 1.0
    # the largest of 8 projections, one of mean 2: between its mean square alone and that of all
    assert 5.0 <= sizes.signal**2 <= 5.0 + 7.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "task",
    [at.MultiDirection(30, 5, 2), at.MultiLocation(30, 5), at.MaxLocation(30, 5)],
    ids=lambda task: type(task).__name__,
)
def test_shipped_tasks_have_a_best_inverse_temperature(task):
    best, least = at.optimal_inverse_temperature(task, at.Softmax)
    for factor in (0.5, 0.8, 1.25, 2.0):
        other = at.risk(task, at.Softmax(factor * best), at.Overlaps.oracle(), seed=1)
        assert other.value >= least.value - SURE * (other.error + least.error)


def test_other_tasks_are_refused():
    topics = at.SparseTokenClassification(30, 5, strength=1.0)
    with pytest.raises(
        at.AttnscopeError, match="task of optimal_inverse_temperature must be a planted"
    ):
        at.optimal_inverse_temperature(topics, at.Erf)
