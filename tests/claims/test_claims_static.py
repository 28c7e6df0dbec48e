"""The single-location claims that need little or no training: each check runs once, and everything
is asserted of that one result.

False alarms: sampled comparisons allow 5 standard errors (6e-7 each) and the seed is fixed, so a
failure here is a change of the code.
"""

from __future__ import annotations

import pytest
from helpers.claim_contract import ClaimContract, ids

from attnscope.claims.compare import sampled, worst

NUMBERS = ("01", "02", "03", "04", "13", "14", "16", "17")


@pytest.mark.parametrize("name", ids("slr", NUMBERS))
class TestClaim(ClaimContract):
    """Every check runs once, at seed 0."""


def test_worst_picks_the_entry_that_strains_its_tolerance_most():
    comparison = worst("x", [1.0, 2.0, 3.0], [1.01, 2.5, 3.0], [0.001, 1.0, 1.0])
    assert (comparison.predicted, comparison.measured, comparison.tolerance) == (
        1.0,
        1.01,
        0.001,
    )
    assert not comparison.holds and worst("x", [1.0, 2.0], [1.5, 2.5], 1.0).holds


def test_sampled_allows_five_standard_errors():
    assert sampled("x", 1.0, 1.049, 0.01).holds and not sampled("x", 1.0, 1.051, 0.01).holds
