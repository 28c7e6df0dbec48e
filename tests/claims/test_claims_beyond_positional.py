"""Claims beyond-18 to 20 on positional or semantic attention: each check runs once, and everything
is asserted of that one result.

False alarms: drawn tokens allow 5 standard errors, counts of runs are of starts 5 standard
deviations off the border, and the seed is fixed.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.claim_contract import ClaimContract, ids

from attnscope_claims.beyond import positional_integrals as integrals


@pytest.mark.parametrize("name", ids("beyond", ("18", "19", "20")))
class TestClaim(ClaimContract):
    """Every check runs once, at seed 0."""


def test_the_mean_of_the_teacher_is_its_closed_form():
    found = integrals.ends(integrals.trapezoidal(0.1), 1.0)
    assert found.teacher == pytest.approx(1 - 1 / np.sqrt(8), abs=1e-13)


def test_contrasts_and_weights_are_inverse():
    c = np.array([0.0, 0.3, 1.0, 2.0])
    weight = 1 / (1 + np.exp(-2 * c**2))
    assert np.allclose(integrals.contrast_of(weight), c, atol=1e-7)
