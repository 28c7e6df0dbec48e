"""Memories of a map that drifts: their stress test, and its references against values known
otherwise.

Sampled settings: those of DriftingMap.bayes_risk with random keys and of least squares, each a
false alarm with probability 5.7e-7.
"""

import math

import numpy as np
import pytest
from helpers.families import family_tests
from helpers.tolerances import FEW_ROUNDINGS, LAST_DIGIT

from stress.references import memory

test_quick, test_long = family_tests("memory", "memory_task")


def test_memory_by_hand():
    """Two tokens at one key: the second value replaces the first in part."""
    key = np.array([[2.0], [2.0]])
    found = memory.read_memory(
        np.ones(1), key, np.array([[3.0], [5.0]]), [0.1] * 2, [0.5] * 2, True
    )
    first = 0.1 * 3 * 2
    second = 0.5 * first + 0.1 * (5 - 0.5 * first * 2) * 2
    assert found[0] == pytest.approx(second, rel=LAST_DIGIT)


def test_best_step_in_one_dimension_is_scalar_kalman():
    """Unit keys in one dimension: r = a^2 r s^2/(r + s^2) + (1 - a^2) lam."""
    step, left = memory.best_step((1.0, 1.0), 2.0, 0.7, 0.9)
    r = (left - 0) * 0.81 + 0.19 * 2.0
    assert left == pytest.approx(r * 0.49 / (r + 0.49), rel=FEW_ROUNDINGS)
    assert step == pytest.approx(r / (r + 0.49), rel=FEW_ROUNDINGS)


def test_one_slot_of_one_token():
    found = memory.slot(2.0, 0.5, 0.9, 0.25, 1)
    assert found == pytest.approx(0.75 * 2 + 0.25 * 2 * 0.25 / 2.25, rel=LAST_DIGIT)


def test_first_filter_of_a_fit_is_whole():
    assert memory.filter_of_fit(3, 0.3, 1) == pytest.approx(1.0, rel=LAST_DIGIT)
    assert memory.filter_of_fit(3, 0.3, 0) == pytest.approx(1.0, rel=LAST_DIGIT)


def test_local_fit_of_a_line():
    keys = np.array([[0.0], [1.0], [3.0]])
    found = memory.local_fit(np.array([2.0]), keys, 1 + 2 * keys, 0.5, 0.0)
    assert found[0] == pytest.approx(5.0, rel=LAST_DIGIT)


def test_least_squares_error_of_one_key():
    """One unit key in one dimension: w^ = v/(1 + ridge), error lam (r/(1+r))^2 + s^2/(1+r)^2."""
    value, _ = memory.sampled_squares(1, 2.0, 0.5, 0.9, True, 1, 0.7, 0.3, 0)
    assert value == pytest.approx((2 * 0.3**2 + 0.25) / 1.3**2, rel=FEW_ROUNDINGS)
    assert math.isfinite(value)
