"""The claims on spikes, several tokens, random length and other activations: each check runs once,
and everything is asserted of that result.

False alarms: sampled comparisons allow 5 standard errors (6e-7 each) and the seed is fixed, so a
failure here is a change of the code.
"""

from __future__ import annotations

import pytest
from helpers.claim_contract import ClaimContract, ids

NUMBERS = ("01", "02", "03", "04", "05", "06", "07")


@pytest.mark.parametrize("name", ids("beyond", NUMBERS))
class TestClaim(ClaimContract):
    """Every check runs once, at seed 0."""
