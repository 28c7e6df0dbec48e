"""The claims on the Bayes-optimal learning curve, each checked once at seed 0."""

from __future__ import annotations

import pytest
from helpers.claim_contract import ClaimContract, ids


@pytest.mark.parametrize("name", ids("samples", ("01", "02", "03", "04")))
class TestClaim(ClaimContract):
    """The check runs once, at seed 0."""
