"""The claims on spatial context, decisions, agents and bounds: each check runs once, and everything
is asserted of that one result.

False alarms: comparisons allow 5 standard errors and the seed is fixed, so a failure here is a
change of the code.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.claim_contract import ClaimContract, ids

from attnscope.claims.around import torus_fields

NUMBERS = ("09", "12")


@pytest.mark.parametrize("name", ids("around", NUMBERS))
class TestClaim(ClaimContract):
    """Every check runs once, at seed 0."""


def test_gains_on_the_torus_to_their_printed_digits():
    w = torus_fields.symbol(64, 1)
    printed = {
        "features": [0.0540, 0.0427, 0.0063],
        "scores": [0.0767, 0.1527, 0.1336],
        "residuals": [0.0, 0.2127, 0.2842],
    }
    for made_by, digits in printed.items():
        found = torus_fields.gains(torus_fields.spectra(made_by, 0.6, w), w)
        np.testing.assert_allclose(found, digits, atol=5.01e-5)
    scores = torus_fields.spectra("scores", 0.6, w)
    by_radius = [torus_fields.gains(scores, torus_fields.symbol(64, r))[1] for r in (1, 2, 4)]
    np.testing.assert_allclose(by_radius, [0.1527, 0.1100, 0.0493], atol=5.01e-5)
    white = torus_fields.gains(
        torus_fields.spectra("scores", 0.0, w), torus_fields.symbol(64, 2)
    )
    np.testing.assert_allclose(white[1:], [0.0953, 0.0970], atol=5.01e-5)
    rook = torus_fields.symbol(64, 1, "rook")
    assert torus_fields.least_squares(0.6, rook) == pytest.approx(0.79651, abs=5.01e-6)
