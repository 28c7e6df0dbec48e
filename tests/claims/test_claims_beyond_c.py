"""The claims on sparse tokens, two gradient steps and correlated backgrounds:
each check runs once, at seed 0.
"""

from __future__ import annotations

import pytest
from helpers.claim_contract import ClaimContract, ids


@pytest.mark.parametrize("name", ids("beyond", ("10", "11", "12")))
class TestClaim(ClaimContract):
    """Every check runs once, at seed 0."""
