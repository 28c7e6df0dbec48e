"""The claims on ridge fits, each checked once at seed 0."""

from __future__ import annotations

import pytest
from helpers.claim_contract import ClaimContract, ids


@pytest.mark.parametrize("name", ids("samples", ("05", "06", "07")))
class TestClaim(ClaimContract):
    """The check runs once, at seed 0."""
