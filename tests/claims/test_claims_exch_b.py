"""Exchangeability claims 07-11 and 14-17: each check runs once, and everything is asserted of that
one result.

False alarms: comparisons allow 5 standard errors and the seed is fixed, so a failure here is a
change of the code.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.claim_contract import ClaimContract, claim, evidence, ids

from attnscope_claims.sphere_errors import compare_slope, spread_slope

NUMBERS = ("07", "08", "09", "10", "11", "14", "15", "16", "17")


@pytest.mark.parametrize("name", ids("exch", NUMBERS))
class TestClaim(ClaimContract):
    """Every check runs once, at seed 0."""


def test_only_the_absolute_constant_fails():
    (name,) = ids("exch", ("07",))
    broken = [c for c in evidence(name).comparisons if not c.holds]
    assert len(broken) == 2 and all(c.what.startswith("absolute constant") for c in broken)
    assert (
        all(replace(c, measured=c.predicted).holds for c in broken) and claim(name).condition
    )


def test_slopes_of_power_laws():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    assert spread_slope(x, 3 * x**-0.5, 0.03 * x**-0.5)[0] == pytest.approx(-0.5)
    rng = np.random.default_rng(0)
    drawn = [spread_slope(x, x * (1 + 0.01 * rng.standard_normal(4)))[0] for _ in range(4000)]
    assert np.std(drawn) == pytest.approx(
        spread_slope(x, x, 0.01 * x)[1], rel=0.06
    )  # 5 standard errors of a standard deviation
    assert not compare_slope("x", x, x, (x**1.2, 0.01 * x)).holds
