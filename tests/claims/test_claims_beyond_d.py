"""Claims beyond-13 to 15 on trained blocks: each check runs once, and everything is asserted of
that one result.

False alarms: sampled comparisons allow 5 standard errors, counts are of effects measured at 4
standard errors or more, and the seed is fixed.
"""

from __future__ import annotations

import pytest
from helpers.claim_contract import ClaimContract, claim, evidence, ids

from attnscope_claims.beyond.beyond_14_length_generalisation import (
    LENGTHS,
    STRONG_TASK,
    WEAK_TASK,
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ids("beyond", ("13", "14", "15")))
class TestClaim(ClaimContract):
    """Every check runs once, at seed 0."""


@pytest.mark.slow
def test_exact_and_sampled_curves_are_both_drawn():
    (name,) = ids("beyond", ("14",))
    panel = evidence(name).figure.panels[0]
    assert {type(mark).__name__ for mark in panel.marks} == {"Line", "Points"} and claim(
        name
    ).condition


def test_the_two_signals_are_on_either_side_of_what_can_be_found():
    """log L of the longest test against s^2/2."""
    import math

    assert WEAK_TASK.signal**2 / 2 < math.log(LENGTHS[-1]) < STRONG_TASK.signal**2 / 2
