"""Positional or semantic attention: their stress test, and its reference against what is known
otherwise.
"""

import numpy as np
import pytest
from helpers.families import family_tests

from stress.references import positional_semantic as reference

test_quick, test_long = family_tests("positional_semantic")


def test_the_teacher_as_its_own_student_loses_nothing():
    assert reference.loss(0.0, 1.0, 0.0, 3.0) == (0.0, pytest.approx(1e-13))


def test_the_reference_at_the_ends_by_both_of_its_routes():
    ends, error = reference.end_losses(1.5, 0.6, 0.8)
    for value, (e, m) in zip(ends, [(0.0, 1.0), (1.5, 0.0)]):
        found, off = reference.loss(e, m, 0.6, 0.8)
        assert found == pytest.approx(value, abs=off + error)
        assert off < 1e-7


def test_the_gradient_of_the_reference_by_differences():
    h = 1e-3
    slopes, error = reference.gradient(0.4, 0.6, 0.3, 1.0)
    by_e = (
        reference.loss(0.4 + h, 0.6, 0.3, 1.0)[0] - reference.loss(0.4 - h, 0.6, 0.3, 1.0)[0]
    ) / (2 * h)
    by_m = (
        reference.loss(0.4, 0.6 + h, 0.3, 1.0)[0] - reference.loss(0.4, 0.6 - h, 0.3, 1.0)[0]
    ) / (2 * h)
    assert slopes == pytest.approx([by_e, by_m], abs=1e-6)
    assert (np.asarray(error) < 1e-6).all()
